"""Find passwords that are given to a program, on a command line, in SQL or in a client's file.

Each rule begins at the name of the program and reads only the rest of its command. That ends with the line, unless a
backslash continues it, where the same name appears again, or after a fixed number of bytes.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from memoryd.scrub.finding import Find, KeywordPlace, SecretSpan
from memoryd.scrub.named import PLAUSIBLE, kind_of, trim
from memoryd.scrub.plausible import is_coined, is_drawn, is_given, is_made_up, is_password, is_token, looks_random
from memoryd.text.word_lists import list_bytes, list_words

# A rule reads this many bytes of a command, or this many before a program that reads a pipe.
_REACH = 300
# A password after a user's name, up to the quotation mark that closes both.
_REST = rb"|(?<=[%,:])(?P<rest>[^\s'\"\x00][^'\"\n\x00]{3,255})(?=['\"](?:\s|\Z))|"
_SECRET = rb"(?:'(?P<single>[^'\n]{4,256})'|\"(?P<double>[^\"\n]{4,256})\"" + _REST + rb"(?P<bare>[^\s'\"\x00]{4,256}))"
# A command that prints a password for the program behind the pipe. `sudo -s` runs what it reads, `sudo -S` does not.
_PRINTED = rb"(?:echo|printf|yes)[ \t]{1,4}(?:-[neE]{1,3}[ \t]{1,4})?"
_FROM_ECHO = re.compile(_PRINTED + _SECRET + rb"[ \t]{0,4}\|[^\n|]{0,80}(?<!-s)\Z")
_USERS_FROM_ECHO = re.compile(
    _PRINTED + rb"[\"']?[\w.\-]{1,32}:(?P<bare>[^\s\"'|]{4,256})[\"']?[ \t]{0,4}\|[ \t]*(?:sudo[ \t]{1,4})?chpasswd\Z"
)


class _Rule(NamedTuple):
    # The passage must hold these bytes, because a search for them is faster than the pattern.
    needs: bytes
    pattern: re.Pattern[bytes]
    judge: Callable[[bytes], bool] = is_given
    within: int = _REACH
    matches: bool = False  # the pattern begins directly after the keyword
    lines: bool = False  # the pattern may cross line ends


_is_sql_password = partial(is_password, quoted=True)
_is_chosen = partial(is_made_up, quoted=True)


def _is_glued(value: bytes) -> bool:
    # `-p3306:3306` maps ports, and `-parallel` is another flag.
    return is_given(value) and not value.isalpha() and not re.fullmatch(rb"[\d:./]+", value)


def _is_drawn(value: bytes) -> bool:
    return is_given(value) and (looks_random(value) or not value.isalnum() or is_coined(value))


_SIGNED = re.compile(rb"(?!.*\d\.\d).*[!#$%^&?*+]")


def _is_unlike_name(value: bytes) -> bool:
    # Projects, packages and databases also have names such as `Shop2Web`, with versions such as `shop#1.2`.
    return is_coined(value, quoted=True) and bool(is_drawn(value, fewest=10) or _SIGNED.match(value))


_VARIABLE = re.compile(rb"[ \t]{0,4}(?P<name>[A-Za-z_]\w{1,60})[ \t]{1,4}" + _SECRET)
_LINE_END = re.compile(rb"\n(?<!\\\n)")
# A sign inside a quotation, as in an address, has no blanks around it; a line may go on after its last sign.
_COMMAND_END = re.compile(rb"(?<![\\`])\n|[ \t](?:[|;]|&&|\|\|)[ \t]")
_USER_FLAG = re.compile(rb" (?:--?u(?:ser(?:name)?)?|-U|/r?u(?:ser)?)[ =:][\"']?[\w.]")
_FLAG = rb"(?:[ \t]{1,4}(?:-[a-zA-Z]{1,6}|\d\d?))"
_WITH = _FLAG + rb"{0,4}?[ \t]{1,4}-[a-zA-Z]{0,5}"
# Of the flags, `b` means that the password is an argument, and `n` that no file is named.
_HASHED = re.compile(
    rb"(?=" + _WITH + rb"b)(?:(?=" + _WITH + rb"(?P<shown>n))|)" + _FLAG + rb"{1,5}"
    rb"(?(shown)|[ \t]{1,4}[^\s\x00]{1,200})[ \t]{1,4}[^\s\x00]{1,100}[ \t]{1,4}" + _SECRET
)  # fmt: skip
_IDENTIFIED = _Rule(
    b"", re.compile(rb"(?i)\s{1,8}(?:with\s{1,8}[\w']{1,40}\s{1,8})?(?:by|as)\s{1,8}(?=['\"])" + _SECRET),
    _is_sql_password, within=400, matches=True, lines=True,
)  # fmt: skip
_KEY = _Rule(b"", re.compile(rb"[ \t]{0,40}" + _SECRET), partial(is_token, quoted=True), matches=True)
_SET = re.compile(rb"(?:[07] )?" + _SECRET + rb"(?=[ \t]*(?:[\r\n]|\Z|RO|RW|address |default\b|\d))")
# A plain word counts as a community's name only if the setting is a whole line.
_COMMUNITY = re.compile(
    rb"(?:(?<=\nr[ow]community )|(?<=\s[ \t]r[ow]community )|(?=\S*\d)) {0,9}(?!public\b|private\b)" + _SET.pattern
)
_SASL = re.compile(rb"[ \t]{0,20}[^\s:]{1,64}:(?P<bare>[^\s:\"']{6,128})(?=[\s\"']|\Z)")
_SHARE = re.compile(rb"[^\s\x00]{1,8}[ \t]{1,4}\\\\[^\s\x00]{1,128}[ \t]{1,4}(?:/user:\S{1,60}[ \t]{1,4})?+" + _SECRET)


# In the list of flags, `~` is the separator of flag and password. `@` is a user's name before the password.
_APART, _USER = r"(?:[\s=]{1,4}|[\"'],\s?)", r"[\s=]{0,4}['\"]?[\w.\\/@-]{1,64}[%,:]"


def _list_flags() -> Iterator[tuple[bytes, _Rule]]:
    """Yield a rule for each program that takes a password after a flag.

    The rules also find the flag in a list of strings.
    """
    flags: dict[str, list[str]] = {}
    for entry in list_words("password flags"):
        flag, programs = entry.split(": ")
        for program in programs.split(", "):
            flags.setdefault(program, []).extend(flag.replace("~", _APART).replace("@", _USER).split())
    for program, own in flags.items():
        rule = _Rule(
            b"-" if all(flag.startswith("-") for flag in own) else b"",
            re.compile(rb"(?<=[\s\"'])(?:" + "|".join(own).encode() + rb")" + _SECRET),
            is_given if any(_APART in one for one in own) else _is_glued,
        )
        yield from ((program.encode() + end, rule) for end in (b" ", b'"', b"'"))


_ESCAPED = rb"(?P<bare>(?:\\[^\s\"'`nrt]|[^\s:\\\"'`]){4,128})(?=\s|\Z)"
_RULES: dict[bytes, _Rule] = {
    **dict(_list_flags()),
    b"nmcli": _Rule(b"", re.compile(rb"(?<=\s)(?:password|wifi-sec\.psk)[ \t]{1,4}" + _SECRET), _is_glued),
    **{word + b" ": _Rule(b"", _SET, _is_chosen, matches=True) for word in list_bytes("settings of passwords")},
    **dict.fromkeys((b"radius-server ", b"tacacs-server ", b"neighbor ", b"standby ", b"ip ospf "), _Rule(
        b" ", re.compile(rb"(?:[^\n]{0,160} )?(?:key\S{0,9}|password|md5) " + _SET.pattern), _is_chosen, matches=True)),
    **dict.fromkeys((b"rocommunity ", b"rwcommunity "), _Rule(b"", _COMMUNITY, matches=True)),
    **{word + end: _KEY for word in list_bytes("settings of tokens") for end in (b" ", b"\t")},
    b"-auth ": _Rule(b":", re.compile(rb"[\w.@-]{1,64}:" + _SECRET), _is_glued, matches=True),
    b"net use ": _Rule(b"/user", _SHARE, _is_glued, matches=True),
    # This rule finds `-u` among other letters. `carried` finds it alone.
    b"curl": _Rule(b":", re.compile(rb"(?<=\s)-[a-zA-Z]{1,8}u[ \t]{1,4}['\"]?[\w.@-]{1,64}:" + _SECRET)),
    # Terminals print a question with its answer, and browser agents print a field with its content.
    **dict.fromkeys((b"passphrase for key ", b"password for "), _Rule(
        b"':", re.compile(rb"'[^'\n]{1,200}':[ \t]{1,4}" + _SECRET), matches=True)),
    b"wifi:": _Rule(b"P:", re.compile(rb"(?:[A-OQ-Z]:[^;\n]{0,64};){0,3}P:(?P<bare>[^;\s]{4,64});"), matches=True),
    **dict.fromkeys((b"htpasswd", b"mosquitto_passwd"), _Rule(b" -", _HASHED, matches=True)),
    **dict.fromkeys((b"sqlplus", b"expdp ", b"impdp ", b"sqlldr ", b"rman target"), _Rule(
        b"/", re.compile(rb"(?<=\s)[\w$#]{1,64}/(?P<bare>[^\s@\"'/]{4,128})(?=@|\s|\Z)"), _is_drawn)),
    b"jdbc:oracle:": _Rule(b"/", re.compile(rb"(?:thin|oci8?):[\w$#]{1,64}/(?P<bare>[^\s@\"']{4,128})@"), matches=True),
    b"identified": _IDENTIFIED,
    b"-securestring ": _Rule(b"", re.compile(rb"(?:-String[ \t]{1,4})?" + _SECRET), _is_sql_password, matches=True),
    **dict.fromkeys(b"sudo -s |kinit |cryptsetup |chpasswd |password-stdin |pw-stdin |on-stdin ".split(b"|"), _Rule(
        b"<<<", re.compile(rb"(?<!-s )[^\n|;<]{0,80}<<<[ \t]{0,4}" + _SECRET), matches=True)),
    # A line of Postfix is [host]:port user:password.
    **dict.fromkeys((b"]:25 ", b"]:465 ", b"]:587 ", b"]:submission "), _Rule(b":", _SASL, is_made_up, matches=True)),
    # A line of a pgpass file is host:port:database:user:password.
    b":5432:": _Rule(b":", re.compile(rb"[^\s:]{1,64}:[^\s:]{1,64}:" + _ESCAPED), matches=True),
    b"*:*:": _Rule(b":", re.compile(rb"(?:\*:)?[^\s:]{1,64}:" + _ESCAPED), matches=True),
    # A netrc(5) file may spread an entry over several lines.
    b"login ": _Rule(
        b"assword", re.compile(rb"(?i)[^\s\x00]{1,256}\s{0,4}\n[ \t]{0,16}password[ \t]{1,8}(?P<bare>[^\s\x00]{4,256})"
        rb"(?=[ \t]*(?:\n|\Z))"), within=600, matches=True, lines=True),
}  # fmt: skip
_IN_ADDRESS = re.compile(rb"(?=[0-9]{0,255}[A-Za-z%+_~-])(?=[A-Za-z%+_~-]{0,255}[0-9])[A-Za-z0-9%+_~-]{10,256}={0,2}")


def _end(place: KeywordPlace, within: int, *, lines: bool = False) -> int:
    """Return the end of the command, or the start of the next one with the same name.

    The name may stand once inside a word, such as a password. So no byte is read many times.
    """
    name = place.buffer[place.first : place.last]
    rest = place.buffer[place.last : min(place.end, place.last + within)].partition(b" " + name)[0]
    end = place.last + len(name.join(rest.split(name, 2)[:2]))
    line = None if lines else _LINE_END.search(place.buffer, place.last, end)
    return line.start() if line else end


def _by_rule(place: KeywordPlace, keyword: bytes) -> Iterator[SecretSpan]:
    rule = _RULES[keyword]
    end = _end(place, rule.within, lines=rule.lines)
    if rule.needs and place.buffer.find(rule.needs, place.last, end) < 0:
        return
    first = rule.pattern.match(place.buffer, place.last, end) if rule.matches else None
    for found in filter(None, [first]) if rule.matches else rule.pattern.finditer(place.buffer, place.last, end):
        yield from _judge_match(found, rule.judge)


def _judge_match(found: re.Match[bytes], judge: Callable[[bytes], bool]) -> Iterator[SecretSpan]:
    group = next(name for name in ("rest", "bare", "single", "double") if found.groupdict().get(name) is not None)
    value = found[group] if group != "bare" else trim(found[group])
    if value and judge(value):
        yield SecretSpan(found.start(group), found.start(group) + len(value), "command-password")


def _find_piped(place: KeywordPlace, keyword: bytes) -> Iterator[SecretSpan]:
    line = place.buffer[max(place.begin, place.first - _REACH) : place.last].rpartition(b"\n")[2]
    found = (_USERS_FROM_ECHO if keyword == b"chpasswd" else _FROM_ECHO).search(line)
    for span in _judge_match(found, is_made_up if keyword == b"| su -" else is_given) if found else ():
        first = place.last - len(line) + span.first
        yield SecretSpan(first, first + span.last - span.first, span.rule)


def _find_with_user(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    """Yield what `-p` gives to a program that also gets a user's name."""
    before = place.buffer[max(place.begin, place.first - _REACH) : place.first]
    found = _KEY.pattern.match(place.buffer, place.last, min(place.end, place.last + _REACH))
    if found is None or before[-1:] not in {b" ", b"\t"} or before.endswith((b"mkdir ", b"cp ")):
        return
    command = before + b"\0" + place.buffer[found.end() : min(place.end, place.last + _REACH)]
    if _USER_FLAG.search(next(part for part in _COMMAND_END.split(command) if b"\0" in part)):
        yield from _judge_match(found, _is_unlike_name)


def _in_statement(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    before = place.buffer[max(place.begin, place.first - 200) : place.first].lower()
    is_statement = any(word in before for word in (b"with ", b"role ", b"user ", b"alter ", b"set "))
    close = place.buffer.find(b"'", place.last, min(place.end, place.last + 256))
    if is_statement and close > 0 and _is_sql_password(place.buffer[place.last : close]):
        yield SecretSpan(place.last, close, "command-password")


def _find_in_address(place: KeywordPlace, keyword: bytes) -> Iterator[SecretSpan]:
    """Yield a secret in an address that gives everybody access: a signature, a code or a webhook's path."""
    is_field = not keyword.endswith(b"=") or place.buffer[place.first - 1 : place.first] in {b"?", b"&", b";"}
    found = _IN_ADDRESS.match(place.buffer, place.last, place.end)
    if is_field and found and is_token(found[0], quoted=True):
        yield SecretSpan(found.start(), found.end(), "address-secret")


def _variable(place: KeywordPlace, _keyword: bytes) -> Iterator[SecretSpan]:
    found = _VARIABLE.match(place.buffer, place.last, min(place.end, place.last + 400))
    if found and (kind := kind_of(found["name"])):
        yield from _judge_match(found, partial(PLAUSIBLE[kind], quoted=True))


FINDS: dict[bytes, Find] = {
    **dict.fromkeys(_RULES, _by_rule),
    **dict.fromkeys((b"setx ", b"setenv ", b"env ", b"set -gx ", b"set -ux ", b"set -x ", b"set -xg "), _variable),
    **dict.fromkeys((b"chpasswd", b"password-stdin", b"passwd --stdin", b"sudo -s"), _find_piped),
    **{b"| " + program: _find_piped for program in list_bytes("programs behind a pipe")},
    **dict.fromkeys((b"-p ", b"-pw ", b"/p ", b"/rp "), _find_with_user),
    b"password '": _in_statement,
    **dict.fromkeys(list_bytes("secret addresses"), _find_in_address),
}
