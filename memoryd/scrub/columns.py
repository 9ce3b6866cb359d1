"""Find secrets in CSV, Markdown tables and SQL INSERT by the heading of their column.

Each head is read with the rows below it. These rows end at a row with another number of cells, or at the next head. So
each row belongs to one head, and the work stays linear in the size of the text.
"""

import re
from collections.abc import Iterator

from memoryd.scrub.finding import Find, KeywordPlace, SecretSpan
from memoryd.scrub.named import PASS, PASSWORD, TOKEN, kind_of
from memoryd.scrub.plausible import is_made_up, is_mixed, is_odd_password, is_password, is_token
from memoryd.text.word_lists import list_bytes

RULE = "column-value"
_LINE_MAX = 2048
_COLUMNS_MAX = 32
# The bars of a table that is drawn with lines. Its heads may have other bars than its rows.
_BAR = rb"\xe2(?:\x94[\x82\x83\x86\x87\x8a\x8b]|\x95\x91)"
_BARS = re.compile(_BAR)
_CELL_ENDS = re.compile(rb"[\w \-]{0,24}+[\"'`*]{0,3}+[ \t]{0,40}+(?P<mark>[|,;\t]|\r?\n|" + _BAR + rb")")
_CELL_BEGINS = re.compile(rb"(?P<mark>[|,;\t\n]|" + _BAR + rb")[ \"'`*]{0,8}[\w \-]{0,24}\Z")
_NAME = re.compile(rb"[\w .\-\x80-\xff]{1,40}")
# These bytes make up the line between the head of a table and its rows.
_RULE_MARKS = b" \t\r|+:=-\xe2" + bytes(range(0x80, 0xC0))
_PADDING = b" \t\r\"'`*"
_STATEMENT = re.compile(rb"(?i)\s{1,8}[^\s(]{1,120}\s{0,8}\((?P<names>[^()]{1,2000})\)\s{0,8}values\s{0,8}(?=\()")
_ITEM = re.compile(
    rb"\s{0,8}(?:[NE]?'(?P<single>(?:[^'\\]|''|\\.){0,1024})'|\"(?P<double>(?:[^\"\\]|\\.){0,1024})\"|[^,'\"()]{1,200}"
    rb"(?:\([^()]{0,200}\))?)\s{0,8}(?P<behind>[,)])",
    re.DOTALL,
)
_QUOTED = re.compile(rb' *"(?P<text>(?:[^"]|"")*+)"?')
_NEXT_ROW = re.compile(rb"\s{0,8},\s{0,8}(?=\()")


def _find_below(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    behind = _CELL_ENDS.match(place.buffer, place.last, place.end)
    if behind is None:
        return
    before = _CELL_BEGINS.search(place.buffer[max(0, place.first - 36) : place.first])
    end = place.buffer.find(b"\n", place.last, min(place.end, place.last + _LINE_MAX))
    if before is None or end < 0:
        return
    least = max(place.begin, place.first - _LINE_MAX)
    begin = max(least, place.buffer.rfind(b"\n", least, place.first) + 1)
    head = _unify_bars(place.buffer[begin:end])
    mark = _BARS.sub(b"|", behind["mark"].strip(b"\r\n") or before["mark"])
    if mark not in {b"|", b",", b";", b"\t"} or head.count(mark) >= _COLUMNS_MAX:
        return
    names = _cells(head, mark)
    # Lists of arguments in code have commas, too. They hold expressions, are indented, or end with a comma.
    is_head = mark not in b",;" or (not head[:1].isspace() and all(map(_NAME.fullmatch, names)))
    kinds = [_kind_of_head(name) for name in names] if is_head and sum(map(bool, names)) > 1 else []
    column = head[: place.first - begin].count(mark)
    # The first column with such a head judges the values of all columns.
    if any(kinds[column : column + 1]) and not any(kinds[:column]):
        yield from _rows(place, end + 1, mark, kinds)


def _rows(place: KeywordPlace, at: int, mark: bytes, kinds: list[str | None]) -> Iterator[SecretSpan]:
    while at < place.end:
        end = place.buffer.find(b"\n", at, min(place.end, at + _LINE_MAX))
        end = min(place.end, at + _LINE_MAX) if end < 0 else end
        line = _unify_bars(place.buffer[at:end])
        if mark == b"|" and (b"--" in line or b"\xe2" in line) and not line.strip(_RULE_MARKS):
            at = end + 1
            continue
        cells = _cells(line, mark)
        if len(cells) != len(kinds):
            return
        if any(kind and _kind_of_head(cell) == kind for cell, kind in zip(cells, kinds, strict=True)):
            return
        for cell, kind, (first, last) in zip(cells, kinds, _bounds(line, mark), strict=True):
            if _is_secret(cell, kind):
                inside = line.find(cell, first, last)
                # A cell with doubled quotes differs from its value, so the whole cell is redacted, with its quotes.
                begin, behind = (first, last) if inside < 0 else (inside, inside + len(cell))
                yield SecretSpan(at + begin, at + behind, RULE)
        at = end + 1


def _unify_bars(line: bytes) -> bytes:
    """Return a line of the same length with `|` for each drawn bar, and with another sign for each escaped bar."""
    return _BARS.sub(b"|  ", line).replace(b"\\|", b"\\!")


def _cells(line: bytes, mark: bytes) -> list[bytes]:
    if mark == b"|":  # in a table with bars, a quotation mark is part of the cell
        return [cell.strip(_PADDING) for cell in line.split(mark)]
    return [_value(line[first:last]) for first, last in _bounds(line, mark)]


def _bounds(line: bytes, mark: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each cell of a line, without the marks between cells.

    The last cell ends with the line.
    """
    at = 0
    while at <= len(line):
        quoted = None if mark == b"|" else _QUOTED.match(line, at)
        end = line.find(mark, at if quoted is None else quoted.end())
        end = len(line) if end < 0 else end
        yield at, end
        at = end + 1


def _value(cell: bytes) -> bytes:
    """Return the text of a cell, without its quotes.

    A doubled quote in a quoted cell means one quote (RFC 4180).
    """
    quoted = _QUOTED.match(cell)
    if quoted is not None:
        cell = quoted["text"].replace(b'""', b'"') + cell[quoted.end() :]
    return cell.strip(_PADDING)


def _kind_of_head(name: bytes) -> str | None:
    # A name with digits may also be a value. If it counted as a head, each row would be the head of the next.
    kind = None if is_mixed(name) else kind_of(name.replace(b" ", b"_"))
    return kind if kind in {PASSWORD, TOKEN} or name.lower() == b"pw" else None


def _is_secret(value: bytes, kind: str | None) -> bool:
    # Below such a head, a plain word may describe the column, or say whether a password exists.
    if b" " in value:
        return False
    if kind == PASSWORD:
        return is_odd_password(value, quoted=True) or (is_mixed(value) and is_password(value, quoted=True))
    if kind == PASS:
        return is_made_up(value) and not re.fullmatch(rb"[A-Z0-9._/-]+", value)  # not a part or a week: `KW48-2024`
    return kind == TOKEN and is_mixed(value) and is_token(value, quoted=True)


def _find_inserted(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    statement = _STATEMENT.match(place.buffer, place.last, place.end)
    if statement is None:
        return
    kinds = [kind_of(name.strip(b" \t\r\n\"'`[]")) for name in statement["names"].split(b",")]
    if not {PASSWORD, TOKEN} & set(kinds):
        return
    at: int | None = statement.end()
    while at is not None:
        at += 1
        for kind in kinds:
            item = _ITEM.match(place.buffer, at, place.end)
            if item is None:
                return
            group = "single" if item["single"] is not None else "double"
            value = item[group]
            if value and (is_password(value, quoted=True) if kind == PASSWORD else _is_secret(value, kind)):
                yield SecretSpan(item.start(group), item.end(group), RULE)
            at = item.end()
        following = _NEXT_ROW.match(place.buffer, at, place.end)
        at = following.end() if following else None


FINDS: dict[bytes, Find] = {
    # These words begin or end the name of a column. Other words for secrets are not used as heads, or mean too much
    # else.
    **dict.fromkeys(b"passwd passphrase pwd pw token secret apikey key".split(), _find_below),
    **dict.fromkeys((b"mot de passe", *list_bytes("names of passwords")), _find_below),
    b"insert into": _find_inserted,
}
