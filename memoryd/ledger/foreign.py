"""Find foreign tokens: commands, packages, hosts, URLs, accounts and addresses that only outside text contains.

An instruction that an attacker plants in a page needs such a token, in any wording. So this module checks where a token
first occurs in the session. A token is inside if the person typed it anywhere, or if the assistant named it first. All
other tokens are foreign: they are never stored in memory and never reach another session.

The search begins with the few candidates in the claim. It looks them up in the folded turns by their letters and
digits. An ordinary word is foreign only if an outside text asks for it, for example after "install" or in a manifest.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import PurePosixPath
from typing import NamedTuple

from memoryd.ledger.disguise import fold, fold_with_places, squeeze
from memoryd.text import prose, voice
from memoryd.text.word_lists import list_words
from memoryd.transcripts.turn import Origin, StoredTurn, TurnKind

# ── the repository of a session, as the assistant's own calls show it ────────────────────────────────────────────────


_TEXTS = re.compile(
    r"\$\(cat <<.*?\n\s*\)|<<-?\s*\\*['\"]?(\w+)\b.*?\n\s*\1\b|\$?'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL
)
_PARTS = re.compile(r"&&|\|\||[;|\n]")
# Commands whose output has no text of other people. Any other program in the same call could print such text.
_PLAIN = re.compile(
    r"(?:(?:cd|rm|mkdir|sleep|true)\b|(?:head|tail|sort)(?:\s+-\w+)*(?:\s+\d?>\S+)*$|git(?:\s+-C\s+\S+)?\s+(?:remote|push"
    r"|fetch|pull|clone|add|commit|status|branch|checkout|switch|rev-parse|submodule|log\s+--oneline)\b"
    r"|gh\s+pr\s+create\b|\d?>|$)"
)
_LAST = re.compile(r"(?:\A|&&|[;\n])\s*gh\s+pr\s+create\b(?:[^&|;\n>]|>&)*(?:\|\s*tail[-\s\w]*)?\Z")
_TASK = re.compile(r"\b(?:remote|push|fetch|pull|create)\b")
_SHOWN = re.compile(
    r"^(?:(?![0-9a-f]{7,})[\w./-]+\s+(\S+)\s+\((?:fetch|push)\)|(?:To|From)\s+(\S+[:/]\S+/\S+)"
    r"|(?:remote:\s+)?(https://[\w.-]+(?:/[\w.-]+){2})/pull/(?:\d+|new/\S+)/?|(?:remote:\s+)?((?:https?://|git@|ssh://)\S+))\s*$",
    re.MULTILINE,
)
_REMOTES_COMMAND = re.compile(
    r"\"(?:command|cmd|script)\"\s*:\s*(?:\[(?:\s*\"[^\"]*\",)*\s*)?\"((?:[^\"\\]|\\.)*)\"", re.DOTALL
)
_CREATES = re.compile(r"\"(?:command|cmd)\"\s*:\s*\"(?:cd [\w./~-]+ && )?gh pr create\b")

# The commands that print only what Go says of the session's module, and the lines that name it.
_GO = re.compile(r"go\s+(?:test|vet|build)\b(?!.*\s--?\w*(?:exec|tool))(?:[^&`<(]|>&)*$|cat\s+go\.mod$")
_MODULE = re.compile(r"^((?:ok|fail|\?)[ \t]+|module )([\w-]+(?:\.[\w-]+)+(?:/[\w.-]+){1,2})", re.MULTILINE)


def find_remotes(call: str, output: str) -> set[str]:
    """Return the git remotes in the output of `call`, as `host/account/name`.

    The set is empty if the output may contain text of other people.
    """
    given = _REMOTES_COMMAND.search(call) if "git " in call or "gh " in call else None
    if given is not None:
        bare = _strip_texts(given[1])
        is_plain = _TASK.search(bare) is not None and all(_PLAIN.match(part.strip()) for part in _PARTS.split(bare))
        if not is_plain and _LAST.search(bare.rstrip()):  # of its output, the last line is surely its own
            output, is_plain = output.strip().rpartition("\n")[2], True
    else:  # The call may have been shortened, so only an output of one line is trusted.
        is_plain = "\n" not in output.strip() and _CREATES.search(call) is not None
    return {_place(next(filter(None, one))) for one in (_SHOWN.findall(output.strip()) if is_plain else [])}


def find_modules(call: str, output: str, project: str) -> set[str]:
    """Return the Go modules in the output of `call`, as `host/account/name`, that have a name like the project's.

    The set is empty if the call may run another program. `project` has only letters and digits.
    """
    given = _REMOTES_COMMAND.search(call) if "go" in call else None
    parts = [part.strip() for part in _PARTS.split(_strip_texts(given[1]))] if given else []
    is_own = any(map(_GO.match, parts)) and all(_GO.match(part) or _PLAIN.match(part) for part in parts)
    found = _MODULE.findall(output.lower() if is_own else "")
    own = [(one, map(squeeze, one.split("/")[1:])) for word, one in found if word != "module " or "go.mod" in call]
    return {one for one, names in own if any(len(name) >= _LEAST and name in project for name in names)}


def _strip_texts(command: str) -> str:
    return _TEXTS.sub(" ", command.replace("\\n", "\n").replace('\\"', '"'))


def _place(remote: str) -> str:
    return re.sub(r"^[\w.+-]+://(?:[^@/]*@)?|^[\w.-]+@", "", remote).replace(":", "/", 1).removesuffix(".git").lower()


ONLY_A_PAGE = "(named only by a page)"  # replaces a foreign token
# Text that makes no sense without its token: the code or link around it, the rest of the word, a pipe to a shell.
_FRAME = re.compile(r"(`{1,3})(?!`)[^`\n]{1,600}\1|!?\[[^\]\n]{0,300}\]\([^)\n]{0,600}\)|<[^<>\s]{1,600}>")
_SIGN = r"A-Za-z0-9_\u00c0-\u024f\u0400-\u052f@%&#=+~^$/\\"
_BEHIND = re.compile(rf"(?:[{_SIGN}:.?-]*[{_SIGN}])?(?:\s*\|\s*(?:sudo\s+)?\w*sh\b)?")
_JOINED = re.compile(r"[\s,;&|+·-]*(?:and|und|et|y|e|и|和|と)?[\s,;&|+·-]*")  # text between two adjacent tokens
# Paths in the assistant's calls belong to the work, except fetched files.
_PATHS = re.compile(
    r"(?<![\w:/.@-])(?:\.{0,2}|~|[A-Za-z]:)[/\\][\w@.-]+(?:[/\\]+[\w@.-]+)*|\"(?:file_)?path\"\s*:\s*\"([^\"\n]+)"
)
_FETCHED = re.compile(r"node_modules|site-packages|vendor|/\.|[/\\]tmp\b|@")

_L = r"a-z0-9\u0400-\u052f"  # letters that names may have
_REST = r"[^\s<>\"'`|\\^{}\[\]()\u2e80-\uffef]"  # characters that may follow in a URL
_ZONES = "|".join(list_words("zones"))
_ADDRESS = re.compile(
    rf"(?<![a-z0-9])(?!file:|vscode:|about:|jar:)[a-z][a-z0-9+-]{{1,12}}://(?P<url>{_REST}{{1,2000}})"
    rf"|(?<![{_L}_.@/+-])(?P<mail>[{_L}_][{_L}_.+%-]{{0,63}}@(?!v?\d+\b|latest|next|beta|main\b)"
    rf"[{_L}_-]{{1,63}}(?:\.[{_L}_-]{{1,63}}){{0,8}}(?:[:/]{_REST}{{1,200}})?)"
    rf"|(?<![{_L}_@/.\\$-])(?P<host>(?:[{_L}][{_L}-]{{0,62}}\.){{1,8}}"
    rf"(?:(?:{_ZONES})(?![{_L}_(=\[-]|\.[a-z])|[a-z]{{2}}(?=/[a-z\d]))(?::\d{{1,5}})?(?:[/?#]{_REST}{{0,2000}})?)"
    r"|(?<![\w.-])(?P<number>(?:\d{1,3}\.){3}\d{1,3}(?![\w.-]*\w)(?::\d{1,5})?(?:/[\w./?=&%-]{0,200})?"
    r"|(?<!:)(?=[0-9a-f:]*::)(?:[0-9a-f]{1,4}:){1,7}(?::|:?[0-9a-f]{1,4})(?::[0-9a-f]{1,4}){0,6}(?![\w:]|\.\d))"
    rf"|(?<![{_L}_])(?P<script>(?:javascript|vbscript):[^\s`]{{1,2000}})"
    rf"|(?<![{_L}_@/.`\"'+-])(?P<account>@[{_L}][{_L}_.-]{{1,38}}(?<![.-]))(?![{_L}_(/=-])"
)
_LOCAL = re.compile(r"localhost|127\.\d|0\.0\.0\.0|host\.docker\.internal|\[?::1?\b|[\w.-]+\.localhost")
_SECOND = re.compile(r"(?:co|com|org|net|ac|gov|edu|gob)\.[a-z]{2}")
_PEOPLE = re.compile(r"\b(?:ask|by|cc|contact|follow|from|invite|mention|ping|thanks?|to|user|with)[ \t,]+@$")

_TOOLS = "|".join(list_words("tools"))
# Programs that build or test. Their flags and the project's files do not count as names, but other arguments do.
_BUILDING = re.compile(r"bun|cargo|deno|git|go|make|node|npm|pip3?|pnpm|poetry|python3?|ruby|uv|yarn")
_OWN_ARGUMENT = re.compile(
    r"-.*|\.{1,3}|\.venv|\./[\w./-]*|[\w-]+(?:/[\w.-]+)+|v?\d[\d.]*\+?|.*\{\{?.*"
    r"|[\w./-]+\.(?:txt|py|rs|go|[jt]sx?|toml|json|ya?ml|cfg|ini|mk)(?:::.*)?"
)
_FLAG = re.compile(r"--?[a-z][\w-]*")
_LIKE_CODE = r"(?=[^\s]*[/.:=@~$\d_-][^\s])[^\s|;&`<>()\u2e80-\uffef]+(?<![,;:!?])"
_COMMAND = re.compile(
    rf"(?<![{_L}_./@-])(?:sudo[ \t]+)?(?P<tool>{_TOOLS})(?:[ \t]+[a-z]+(?!\S)){{0,3}}?"
    rf"(?:[ \t]+{_LIKE_CODE}(?:[ \t]+[a-z]+(?=[ \t]+{_LIKE_CODE}))?){{1,8}}"
)

_WORD = re.compile(rf"(?<![{_L}_-])@?[{_L}_](?:[{_L}_.@/-]*[{_L}_])?")
_LEAST = 4  # the least letters of a name
_FILE = re.compile(
    r"\.(?:py|rs|sh|md|go|[jt]sx?|[mc]js|json|ya?ml|toml|txt|html?|css|c|h|cc|cpp|java|kt|rb|php|lock|cfg|ini|sql|log"
    r"|png|jpe?g|svg|gif|pdf|csv|xml|swift|mod|sum|env|jsonl|diff|patch|tar|gz|zip|whl)$"
)
# Ordinary English compounds with a hyphen.
_COMPOUND = re.compile(
    r"[a-z]+-(?:to|of|and|in|on|by|for|the|or|up|date)(?:-[a-z]+)*|[a-z]+-(?:only|run|level|\w+ed|\w+ing|\w+[ai]ble|\w*time)"
    r"|(?:per|post|pre|non|re|multi|sub|self|auto|cross|single|command|user|high|low|full|real|well|built)-[a-z]+"
)
# Signs that an outside text asks for a name: a verb such as "install" before it, a noun after it, or a manifest line.
_VERBS = fold("|".join(list_words("verbs before packages")))
_NOUNS = fold("|".join(list_words("nouns before packages")))
_SMALL = r"(?:the|a|an|das|die|den|le|la|el|il|package|paket|paquete?|tool|[`\"'*]*[\w.-]+-[\w.-]+|-\S+)"
_ASKS = re.compile(
    rf"(?:(?:\b(?:{_VERBS})(?:[ \t]+{_SMALL}){{0,3}}|\b(?:{_NOUNS}):?)\s+"
    r"|(?:安装|使用|运行|添加|依赖|换成|必ず)\s*)[`\"'*“«„]*$"
)
_ASKED = re.compile(
    rf"[`\"'*]*(?:[ \t]+(?:{_NOUNS}|est requis|zu (?:verwenden|nutzen|installieren))\b|[を]?(?:インスト|使))"
    r"|[\"']?\s*[=:]\s*[\"'][~^=v]*\d"
)
_IN_CODE = re.compile(r"::|\(|\.\w")
# A plain word is a name only if it is the whole object of such a verb.
_NAMED = re.compile(
    r"(?:install(?:iere|er|ez|a)?|instala|depends? on|require|npm i)[ \t]+"
    r"(?:-\S+[ \t]+(?:(?!-)[^\s:/]*[:/]\S*[ \t]+)?){0,4}(?:the[ \t]+)?"
    rf"[`\"']?([{_L}]{{4,30}})"
    r"(?=[`\"'.,;!]*(?:[ \t]*$|[ \t]+(?:before|first|from|via|globally|in|avan|&)\b))",
    re.MULTILINE,
)
_ORDINARY = frozenset(list_words("no names of packages"))
_LETTER = re.compile(rf"[{_L}]")
_TRAILING = ".,:;!?*_~…\"'"
_CLAUSE = re.compile(r"[:：;；\n\"“”„«»「」『』()。！？]+|(?<=[.!?])\s+")  # noqa: RUF001
_FEWEST_ECHOED = 20  # letters; a shorter clause may occur twice by chance
_FEWEST_WIDE = 8
_CLAUSE_WORDS = 3


def _is_wide(text: str) -> bool:
    return any(map(prose.is_wide, text))


class _Candidate(NamedTuple):
    start: int
    end: int
    keys: tuple[str, ...]  # the forms of the name as written, the most specific first
    kind: str  # address, account, command, dotted, word or plain


class Foreign:
    """Find the foreign tokens of texts in one session."""

    def __init__(self, turns: Sequence[StoredTurn], folder: str | None = None, addresses: Iterable[str] = ()) -> None:
        """Take the turns of one session, in order; they are processed only when a text has a candidate.

        Args:
            turns: all turns of the session.
            folder: the folder in which the session works; its name is not foreign.
            addresses: repositories of the project, as `host/account/name`; they are not foreign.
        """
        self._stored = turns
        name = squeeze(fold(PurePosixPath(folder).name)) if folder else ""
        self._project = name if len(name) >= _LEAST else ""
        self._addresses = frozenset(addresses)
        self._known: dict[tuple[str, str], bool] = {}
        self._own: dict[int, str] = {}  # the person's words, by index of the turn

    def find_tokens(self, text: str) -> tuple[str, ...]:
        """Return the foreign tokens in `text`, each once, as written there."""
        return tuple(dict.fromkeys(text[start:end] for start, end in self._spans(text)))

    def find_outside(self, text: str, *, is_typed: bool = False) -> tuple[str, ...]:
        """Return the foreign tokens of `text`; if it has none but repeats outside text, return the whole text."""
        return self.find_tokens(text) or ((text,) if self.echoes(text, is_typed=is_typed) else ())

    def echoes(self, text: str, *, is_typed: bool = False) -> bool:
        """Return True if outside text contains a clause of `text` word for word, and the person did not type it.

        Otherwise an assistant that reads out an outside order would seem to be its author. A clause has at least three
        words, so that paths and names are not compared. If the person typed the text (`is_typed`), a clause that first
        occurs in a message of the person is no echo. Otherwise words in quotes would count as an echo of themselves.
        """
        parts = [part for part in (text, *_CLAUSE.split(text)) if len(part.split()) >= _CLAUSE_WORDS or _is_wide(part)]
        return any(self._is_echo(squeeze(fold(part)), is_typed=is_typed) for part in parts)

    def _is_echo(self, key: str, *, is_typed: bool) -> bool:
        least = _FEWEST_WIDE if _is_wide(key) else _FEWEST_ECHOED
        flat, starts = self._flat_text
        at = flat.find(key) if len(key) >= least else -1
        if at < 0:
            return False
        place = bisect_right(starts, at) - 1
        turn = self._stored[place]
        is_own = is_typed and turn.kind is TurnKind.MESSAGE and _is_of(turn, Origin.USER)
        is_inside = self._turns[place][1] or is_own
        return not is_inside and not any(key in said for said in self._own_words)

    def remove_tokens(self, text: str) -> str:
        """Return `text` with a mark in place of each foreign token and of the code or link around it."""
        while spans := self._spans(text):
            for start, end in reversed(_widen_spans(text, spans)):
                text = text[:start] + ONLY_A_PAGE + text[end:]
        return text

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Return the (start, end) offsets of foreign tokens in `text`, in order and without overlaps.

        Tokens that were already replaced are skipped.
        """
        found: list[tuple[int, int]] = []
        start = 0
        for mark in (*re.finditer(re.escape(ONLY_A_PAGE), text), None):
            end = len(text) if mark is None else mark.start()
            plain, at = fold_with_places(text[start:end])
            last = 0
            for one in sorted(_candidates(plain), key=lambda one: (one.start, -one.end)):
                if at[one.start] >= last and self._is_foreign(one):
                    last = at[one.start] + len(text[start + at[one.start] : start + at[one.end]].rstrip())
                    found.append((start + at[one.start], start + last))
            start = end if mark is None else mark.end()
        return found

    def _is_foreign(self, one: _Candidate) -> bool:
        if one.kind == "plain" and one.keys[0] not in self._requested_words:
            return False
        for name in one.keys:
            if (name, one.kind) not in self._known:
                self._known[name, one.kind] = self._first_outside(name, squeeze(name), one.kind)
        is_outside = any(self._known[name, one.kind] for name in one.keys)
        return is_outside and not any(_is_within(one.keys[0], own) for own in self._remotes)

    def _first_outside(self, name: str, key: str, kind: str) -> bool:
        """Return True if a name first occurs in outside text and the person did not type it.

        For an ordinary word, only places that ask for the word count.
        """
        flat, starts = self._flat_text
        at = flat.find(key) if key else -1
        while at >= 0:
            place = bisect_right(starts, at) - 1
            said, is_inside = self._turns[place]
            for start, end in _occurrences(said, name, key, spaced=kind not in ("word", "plain")):
                if is_inside:
                    return False
                if _counts(said, start, end, kind):
                    return not self._is_typed(name, key)
            at = flat.find(key, starts[place + 1])
        return False

    @cached_property
    def _turns(self) -> list[tuple[str, bool]]:
        """Return the folded text of each turn, and True if the assistant wrote it.

        `_is_typed` looks up words of the person separately.
        """
        own = (_is_of(one, Origin.ASSISTANT) and one.kind is not TurnKind.SUMMARY for one in self._stored)
        return [(fold(one.text), is_inside) for one, is_inside in zip(self._stored, own, strict=True)]

    @cached_property
    def _flat_text(self) -> tuple[str, list[int]]:
        """Return the letters and digits of all turns as one text, and the offset of each turn in it."""
        flat = [squeeze(text) for text, _ in self._turns]
        return "\n".join(flat), [0, *accumulate(len(one) + 1 for one in flat)]

    @cached_property
    def _own_words(self) -> list[str]:
        """Return the person's own words in each turn, without white space and punctuation."""
        return [squeeze(fold(voice.keep_own_words(one.text))) for one in self._stored if _is_of(one, Origin.USER)]

    @cached_property
    def _paths(self) -> set[str]:
        """Return the names in the paths of the assistant's calls, squeezed; the session works on these files."""
        calls = (one.text for one in self._stored if one.kind is TurnKind.TOOL_CALL and _is_of(one, Origin.ASSISTANT))
        paths = {found[1] or found[0] for call in calls for found in _PATHS.finditer(call)}
        parts = (part for path in paths if not _FETCHED.search(path) for part in re.split(r"[/\\]", path))
        return {squeeze(fold(part)) for part in parts}

    def _is_typed(self, name: str, key: str) -> bool:
        """Return True if the person typed a name, or if the assistant works on a file or project of this name."""
        for place, turn in enumerate(self._stored):
            if _is_of(turn, Origin.USER) and key in squeeze(self._turns[place][0]):
                if place not in self._own:
                    self._own[place] = fold(voice.keep_own_words(turn.text))
                if any(_occurrences(self._own[place], name, key, spaced=True)):
                    return True
        return key in self._paths or (len(key) >= _LEAST and self._project.startswith(key))

    @cached_property
    def _requested_words(self) -> set[str]:
        """Return the ordinary words that outside texts ask for as names."""
        return {one for text, is_inside in self._turns if not is_inside for one in _NAMED.findall(text)} - _ORDINARY

    @cached_property
    def _remotes(self) -> frozenset[str]:
        calls = {one.tool_call_id: one.text for one in self._stored if one.kind is TurnKind.TOOL_CALL}
        of_tools = (one for one in self._stored if one.kind is TurnKind.TOOL_RESULT and one.origin is Origin.TOOL)
        shown = ((calls.get(one.tool_call_id, ""), one.text) for one in of_tools)
        return self._addresses.union(*(find_remotes(*one) | find_modules(*one, self._project) for one in shown))


NOTHING_FOREIGN = Foreign(())  # for material that belongs to no session, such as the entries of a dream


def _occurrences(text: str, name: str, key: str, *, spaced: bool) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) offsets of a name in a folded text.

    If the name does not occur as written, places with other characters between its letters count.
    """
    at = text.find(name)
    if at < 0:
        for found in re.finditer(r"[\W_]{0,4}".join(key), text):
            if (spaced or max(map(len, found[0].split())) in (1, len(found[0]))) and _stands_alone(text, *found.span()):
                yield found.span()
    while at >= 0:
        if _stands_alone(text, at, at + len(name)):
            yield at, at + len(name)
        at = text.find(name, at + 1)


def _stands_alone(text: str, start: int, end: int) -> bool:
    return not _LETTER.match(text[start - 1 : start]) and not _LETTER.match(text, end)


def _is_of(turn: StoredTurn, origin: Origin) -> bool:
    return turn.origin is origin and not turn.sidechain


def _counts(text: str, start: int, end: int, kind: str) -> bool:
    """Return True if an outside text uses a name at this place in the way of its kind.

    For example, the name of an account follows an `@`.
    """
    before, after = text[max(0, start - 60) : start], text[end : end + 40]
    if kind == "dotted":
        return re.search(r"(?:://|@|www\.)[^\s/]*$", before) is not None
    if kind == "account":
        return before.endswith("@") and (not text[start:end].isalpha() or _PEOPLE.search(before) is not None)
    if kind != "word":
        return True
    return not _IN_CODE.match(after) and (_ASKS.search(before) is not None or _ASKED.match(after) is not None)


def _candidates(text: str) -> Iterator[_Candidate]:
    """Yield the possible names in a folded text."""
    last = 0
    for found in _ADDRESS.finditer(text):
        whole, name = found[0].rstrip(_TRAILING), found[found.lastgroup or 0].rstrip(_TRAILING)
        if found["account"]:
            yield _Candidate(found.start(), found.start() + len(whole), (name[1:],), "account")
        elif found["script"]:
            yield _Candidate(found.start(), found.start() + len(whole), (name,), "address")
        elif not _LOCAL.match(name.rpartition("@")[2]):
            yield _Candidate(found.start(), found.start() + len(whole), tuple(_places(name)), "address")
        yield from _words(text, last, found.start())
        last = found.start() + len(whole)
    yield from _words(text, last, len(text))
    for found in _COMMAND.finditer(text):
        words = found[0].rstrip(_TRAILING).split()
        arguments = words[words.index(found["tool"]) + 1 :]
        passed = _OWN_ARGUMENT if _BUILDING.fullmatch(found["tool"]) else _FLAG
        own = [not (word.isalpha() or passed.fullmatch(word.strip("\"'"))) for word in arguments]
        if any(own):
            least = len(words) - len(arguments) + own.index(True) + 1
            keys = [" ".join(words[:most]) for most in range(least, len(words) + 1)]
            yield _Candidate(found.start(), found.start() + len(found[0].rstrip(_TRAILING)), tuple(keys), "command")


def _words(text: str, start: int, end: int) -> Iterator[_Candidate]:
    """Yield the words between two offsets that may be names, without files, paths and ordinary compounds."""
    for found in _WORD.finditer(text, start, end):
        name = found[0][0] + found[0][1:].partition("@")[0]
        is_path = "/" in name and name[0] != "@" and ("." in name or name.count("/") > 1)
        if is_path or len(name) < _LEAST or _FILE.search(name) or _COMPOUND.fullmatch(name):
            continue
        kind = "plain" if name.isalpha() else "dotted" if "." in name else "word"
        if kind == "plain" or "-" in name or name[0] == "@" or (kind == "dotted" and not name[0].isdigit()):
            yield _Candidate(found.start(), found.start() + len(name), (name,), kind)


def _places(address: str) -> Iterator[str]:
    """Yield an address, its host, and the registered domain of the host."""
    address = address.removeprefix("www.").rstrip("/")
    yield address
    host = re.split(r"[/:?#]", address.rpartition("@")[2], maxsplit=1)[0]
    labels = host.split(".")
    if (len(labels) > 1 or "-" in host) and not labels[-1].isdigit():
        yield host
        yield ".".join(labels[-(3 if _SECOND.fullmatch(".".join(labels[-2:])) else 2) :])


def _is_within(name: str, remote: str) -> bool:
    """Return True if an address belongs to the repository `host/account/name`, or is its host or account."""
    host, account, rest = [*remote.split("/", 2), "", ""][:3]
    plain = name.rpartition("@")[2].replace(":", "/", 1).removesuffix(".git")
    parts = {host, account, rest, f"{host}/{account}", f"{account}/{rest}"}
    return plain in parts or re.match(rf"{re.escape(remote)}(?![\w-])", plain) is not None


def _widen_spans(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans, extended over text that makes no sense without them; spans that touch are joined."""
    frames = [one.span() for one in _FRAME.finditer(text)]
    wide: list[tuple[int, int]] = []
    for first, last in spans:
        start = first - len(re.findall(rf"[{_SIGN}:.?-]*+$", text[:first])[0])
        end = found.end() if (found := _BEHIND.match(text, last)) else last
        for begin, stop in frames:
            if begin < end and start < stop:
                start, end = min(start, begin), max(end, stop)
        if wide and (start <= wide[-1][1] or _JOINED.fullmatch(text, wide[-1][1], start)):
            wide[-1] = (wide[-1][0], max(end, wide[-1][1]))
        else:
            wide.append((start, end))
    return wide
