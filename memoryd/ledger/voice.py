"""Voice: what of a person's message is said in their own voice, and what they only hand on.

People paste: pages, mails, logs of chats, code. All of it is typed by the person as far as the envelope knows, and none
of it is their wish. Told by its form alone: fences, tags, comments, `>` lines, longer quotations, lines of a chat with
a speaker's name before them, and what follows a line that announces a text of somebody else.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict

from memoryd.text import prose

_FEWEST_QUOTED = 4  # words from which on a quotation is a statement, not a name or a phrase
_FEWEST_WIDE = 8  # characters of a script without spaces
_TAG = re.compile(r"<([a-z][\w-]{0,40})\b[^<>]{0,300}>", re.IGNORECASE)
_CLOSING_TAG = re.compile(r"</([a-z][\w-]{0,40})\s*>", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_QUOTE = re.compile(
    r"\"([^\"\n]{2,600})\"|[“„”]([^“”„\n]{2,600})[”“]|«([^«»\n]{2,600})»|「([^「」\n]{2,600})」|『([^『』\n]{2,600})』"
    r"|‘([^‘’\n]{2,600})’(?!\w)|›([^‹›\n]{2,600})‹|‚([^‚‘\n]{2,600})‘"  # noqa: RUF001
)
# An apostrophe within does not end it, so a pattern would look for the end of each anew: it would be slow.
_QUOTE_OPENS, _QUOTE_ENDS = re.compile(r"(?<!\w)'"), re.compile(r"'(?!\w)")
_LONGEST_QUOTED = 600
_PASTED = re.compile(r"^[ \t]*[>|].*$", re.MULTILINE)
# Labels that people put before their own words; any other short beginning with a colon is somebody's name.
_OWN_LABEL_LIST = """
note also ps p\\.s\\. reminder remember btw fyi edit update rules? important correction hint todo me user preferences?
and but so ok okay yes no please wichtig hinweis nachtrag regel übrigens bitte nein ja ich remarque rappel règle moi
nota ojo importante regla yo recuerda attenzione regola lembrete regra важно кстати 注意 备注 提醒 重要 メモ 補足
"""
_OWN_LABELS = rf"(?:{'|'.join(_OWN_LABEL_LIST.split())}|(?:about|my|our|mein\w*) \w+)[ \t]*:"
_WHEN = re.compile(r"^[ \t]*(?:\[[^\]\n]{1,40}\][ \t]*|\(?\d\d?[:.]\d\d\)?[ \t]*)?")
_SPEAKER = re.compile(
    rf"{_WHEN.pattern}(?!{_OWN_LABELS})"
    r"(?:[^\W\d_][\w.'-]{0,30}+[ \t]?+){1,3}+(?:\([^)\n]{1,40}\))?[ \t]*:[ \t]+\S",
    re.IGNORECASE,
)
_FOREIGN_LIST = """
e-?mails? mails? pages? websites? articles? readme\\w* docs? documentation tickets? issues? comments? logs? output
posts? tweets? blogs? reviews? transcripts? texts? messages? letters? chats? conversations? pastes? prompts?
instructions files? snippets? quotes? newsletters? advert\\w* says said wrote writes seite artikel nachricht brief
anweisung\\w* schreibt schrieb sagt sagte lettre texte écrit dit correo página artículo mensaje carta texto dice
dijo escribe pagina articolo messaggio lettera testo scrive mensagem artigo diz bericht письмо страница статья текст
сообщение
"""
_FOREIGN = "|".join(_FOREIGN_LIST.split())
_ANNOUNCES = re.compile(
    rf"(?:\b(?:{_FOREIGN})\b[^:\n]{{0,60}}|(?:邮件|郵件|网页|網頁|文章|内容|原文|メール|ページ|記事|文章|本文)[^：:\n]{{0,20}})"  # noqa: RUF001
    r"[：:][ \t]*$",  # noqa: RUF001
    re.IGNORECASE,
)


def own(text: str) -> str:
    """Return `text` without what is not said in the voice of who sent it; what is left keeps its lines."""
    text = _COMMENT.sub(" ", text)
    text = prose.without_code(text)
    text = _without_tagged(text)
    text = _PASTED.sub("", text)
    text = _QUOTE.sub(_short_quote, text)
    lines = [_without_single_quoted(line) for line in text.splitlines()]
    end = next((at for at, line in enumerate(lines) if _ANNOUNCES.search(line)), len(lines))
    speakers = [_speaker(line) for line in lines[: end + 1]]
    # One name at the very beginning is what a bridge from another chat puts before all that its user says.
    is_bridged = bool(speakers) and set(speakers[1:]) <= {None, speakers[0]}
    kept = [line for line, name in zip(lines, speakers, strict=False) if name is None or is_bridged]
    return "\n".join(kept)


def handed_on(text: str) -> str:
    """Return the lines of `text` in which something is not said in the voice of who sent it."""
    mine = {line.strip() for line in own(text).splitlines()}
    return "\n".join(line for line in text.splitlines() if line.strip() not in mine)


def _without_tagged(text: str) -> str:
    """Return `text` without what stands between tags; of a tag that nothing closes, behind a word, that alone goes.

    One at the beginning of a line opens a block: without its end, all that follows may be in it.
    """
    ends: dict[str, list[int]] = defaultdict(list)
    for closing in _CLOSING_TAG.finditer(text):
        ends[closing[1].casefold()].append(closing.end())
    kept = []
    done, is_line_bare = 0, True
    for tag in _TAG.finditer(text):
        if tag.start() < done:
            continue
        before = text[done : tag.start()]
        rest = before.rpartition("\n")[2]
        is_line_bare = (is_line_bare or rest != before) and not any(map(str.isalnum, rest))
        kept.append(before)
        same = ends[tag[1].casefold()]
        at = bisect_right(same, tag.end())
        done = same[at] if at < len(same) else len(text) if is_line_bare else tag.end()
        is_line_bare |= "\n" in text[tag.start() : done]
    return " ".join([*kept, text[done:]])


def _without_single_quoted(line: str) -> str:
    """Return a line without its longer quotations in straight single quotes."""
    ends = [end.start() for end in _QUOTE_ENDS.finditer(line)]
    kept = []
    done = 0
    for opening in _QUOTE_OPENS.finditer(line) if ends else ():
        first = opening.end()
        at = bisect_left(ends, first + 2)
        if opening.start() < done or at == len(ends) or ends[at] - first > _LONGEST_QUOTED:
            continue
        end = ends[at] + 1
        kept.append(f"{line[done : opening.start()]} " if _is_statement(line[first : end - 1]) else line[done:end])
        done = end
    return "".join([*kept, line[done:]])


def _short_quote(found: re.Match[str]) -> str:
    inside = next(group for group in found.groups() if group is not None)
    return " " if _is_statement(inside) else found[0]


def _is_statement(quoted: str) -> bool:
    wide = sum(1 for char in quoted if prose.is_wide(char))
    return len(quoted.split()) >= _FEWEST_QUOTED or wide >= _FEWEST_WIDE


def _speaker(line: str) -> str | None:
    """Return who speaks in a line of a chat: a name of up to three words, each with a capital, before a colon."""
    found = _SPEAKER.match(line)
    if found is None:
        return None
    names = re.sub(r"\([^)]*\)", "", _WHEN.sub("", found[0], count=1).partition(":")[0]).split()
    return " ".join(names) if names and all(name[0].isupper() or not name[0].isascii() for name in names) else None
