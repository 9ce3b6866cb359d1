"""Declare keys of the configuration, parse their values from YAML, and refuse values of another type.

A key is a field of a section with its parser and its default.
No parser converts one type into another, and every refusal says what to write instead.
"""

import difflib
import os
import pwd
import re
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeAlias, TypeVar
from zoneinfo import ZoneInfo, available_timezones

from memoryd import allowed
from memoryd.addresses import AddressError, parse_base_url
from memoryd.cron import parse_cron
from memoryd.errors import ConfigError
from memoryd.yaml_reader import MarkedValue

Parser: TypeAlias = Callable[["PathBase", Any], Any]
T = TypeVar("T")

_AGENT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_DURATION = re.compile(r"([0-9]{1,15})(ms|s|m|h|d)")
# The limit keeps every date plus a duration in the range of dates.
_LONGEST = timedelta(days=3650)
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, slots=True)
class PathBase:
    """Hold the folder that paths are relative to, and the source of `$VARS` and `~`."""

    folder: Path
    environ: Mapping[str, str]

    def path(self, text: str) -> Path:
        """Return an absolute path with links resolved, so that one folder always has the same path."""
        return (self.folder / self.expand(text)).resolve()

    def expand(self, text: str, quote: Callable[[str], str] = str) -> str:
        """Return the text with variables and `~` expanded. `quote` changes the inserted text.

        Raises:
            ConfigError: a variable or the home folder is unknown.
        """
        try:
            text = string.Template(text).substitute({name: quote(value) for name, value in self.environ.items()})
        except KeyError as unset:
            hint = "set it, or write $$ for a dollar sign"
            raise ConfigError(f"the variable ${unset.args[0]} is not set", hint=hint) from None
        except ValueError:
            raise ConfigError(f"{show_value(text)} has a $ without a name", hint="write $$ for a dollar sign") from None
        return self._home(text, quote) if text.startswith("~") else text

    def _home(self, text: str, quote: Callable[[str], str]) -> str:
        user, slash, rest = text.partition("/")
        home = self.environ.get("HOME") if user == "~" else None
        home = home or os.path.expanduser(user)  # noqa: PTH111 - Path.expanduser raises where this one returns its input
        if home.startswith("~"):
            raise ConfigError(f"{user} has no home folder", hint="write the whole path")
        return quote(home) + slash + rest


def show_value(value: object) -> str:
    """Return a value as errors show it."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f'"{value[:40]}"'
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return str(value)


def or_null(parse: Parser) -> Parser:
    """Return a parser that accepts null, and parses other values with `parse`."""
    return lambda place, value: None if value is None else parse(place, value)


def parse_text(_: PathBase, value: object) -> str:
    """Return a text that is not blank.

    Raises:
        ConfigError: the value is not such a text, as in all parsers here.
    """
    if not isinstance(value, str):
        raise ConfigError(f"text is needed, not {show_value(value)}", hint="put it in quotes if it is meant as text")
    if not value.strip() or "\0" in value:
        raise ConfigError("text is needed, this is empty")
    return value


def one_of(*names: str) -> Parser:
    """Return a parser of one of a few words."""

    def parse(_: PathBase, value: object) -> str:
        if isinstance(value, str) and value in names:
            return value
        near = difflib.get_close_matches(str(value).lower(), names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(names)}"
        raise ConfigError(f"{show_value(value)} is not known", hint=hint)

    return parse


def make_integer_parser(low: int) -> Parser:
    """Return a parser of a whole number that is at least `low`."""

    def parse(_: PathBase, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            octal = isinstance(value, str) and re.fullmatch(r"0[0-9]+", value)
            hint = "a leading zero can mean octal: leave it out" if octal else "digits only, such as 10"
            raise ConfigError(f"a whole number is needed, not {show_value(value)}", hint=hint)
        if not low <= value < 1 << 62:
            raise ConfigError(f"{value} is out of range", hint=f"{low} or more")
        return value

    return parse


def share(*, zero: bool, one: bool, whole: int = 1) -> Parser:
    """Return a parser of a share from 0 to `whole` (1, or 100 for percent).

    `zero` and `one` say whether the lower and the upper end are allowed.
    """

    def parse(_: PathBase, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            hint = "a part of 1, such as 0.8 for 80 %" if whole == 1 else "percent, such as 25"
            raise ConfigError(f"a number is needed, not {show_value(value)}", hint=hint)
        number = float(value)
        if not (0 < number < whole or (zero and number == 0) or (one and number == whole)):
            low, high = "0 or more" if zero else "above 0", f"{whole} at most" if one else f"below {whole}"
            raise ConfigError(f"{value} is out of range", hint=f"{low}, {high}")
        return number

    return parse


def make_duration_parser(low: timedelta = timedelta(0)) -> Parser:
    """Return a parser of a duration that is at least `low`: a whole number with its unit."""

    def parse(_: PathBase, value: object) -> timedelta:
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise ConfigError(f"{value} has no unit", hint=f"write {value}s, or one of ms s m h d")
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise ConfigError(
                f"{show_value(value)} is not a duration", hint="a whole number and a unit: 200ms 90s 5m 6h 3d"
            )
        count, unit = int(match[1]), timedelta(**{_UNITS[match[2]]: 1})
        if count > _LONGEST // unit:
            raise ConfigError(f"{value} is too long", hint=f"{duration_text(_LONGEST)} at most")
        span = count * unit
        if span < low:
            raise ConfigError(f"{value} is too short", hint=f"{duration_text(low)} or more")
        return span

    return parse


def zone_name(place: PathBase, value: object) -> str:
    """Parse an IANA zone name, or `local`."""
    name = parse_text(place, value)
    parse_zone(name)
    return name


def parse_zone(name: str) -> ZoneInfo:
    """Return the zone of an IANA name, or the system's zone for `local`."""
    try:
        if name == "local":
            from tzlocal import get_localzone  # nothing else here needs it

            return get_localzone()
        return ZoneInfo(name)
    # A folder of the zone database raises an OSError, and a path a ValueError.
    except (KeyError, ValueError, OSError):
        raise ConfigError(f'"{name[:40]}" is not a time zone', hint=_zone_hint(name)) from None


def _zone_hint(name: str) -> str:
    if name == "local":
        return "the system does not say which zone it is in: name one, such as Europe/Berlin or UTC"
    folded = {known.lower(): known for known in available_timezones()}
    near = difflib.get_close_matches(name.lower(), folded, n=1)
    return f"did you mean {folded[near[0]]}?" if near else "an IANA name such as Europe/Berlin, UTC, or local"


def cron_line(place: PathBase, value: object) -> str:
    """Check a cron line and return its text."""
    line = parse_text(place, value)
    parse_cron(line)
    return line


def duration_text(span: timedelta) -> str:
    """Return a duration in its largest whole unit: `90s`, `5m`, `200ms`."""
    milliseconds = span // timedelta(milliseconds=1)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms" if milliseconds else "0s"


def parse_user(place: PathBase, value: object) -> int:
    """Return the number of a user of this machine from a name or number."""
    name = str(value) if isinstance(value, int) else parse_text(place, value)
    if name.isdecimal():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise ConfigError(f"{show_value(name)} is not a user of this machine", hint="a name or number of id") from None


def make_list_parser(parse: Parser) -> Parser:
    """Return a parser of a list whose entries are parsed with `parse`."""

    def parse_all(place: PathBase, value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise ConfigError(f"a list is needed, not {show_value(value)}", hint="in brackets, or each entry after a -")
        return tuple(parse(place, entry.value if isinstance(entry, MarkedValue) else entry) for entry in value)

    return parse_all


def allowed_value(place: PathBase, value: object) -> str:
    """Parse a value that is not a secret, or a regular expression between slashes."""
    entry = parse_text(place, value)
    try:
        allowed.compile_allowed(entry)
    except ValueError:
        hint = "write it as Python's re reads it, or leave the slashes out if it is a value"
        raise ConfigError(f"{show_value(entry)} is not a regular expression", hint=hint) from None
    return entry


def base_url(place: PathBase, value: object) -> str:
    """Parse the URL of a model's server, and refuse one that may not be asked."""
    url = parse_text(place, value).rstrip("/")
    try:
        parse_base_url(url)
    except AddressError as error:
        # People put keys before the @ and after the question mark, so the error must not show these.
        safe = re.sub(r"//[^/]*@", "//…@", url).partition("?")[0]
        raise ConfigError(f"{show_value(safe)} {error.what}", hint=error.hint) from None
    return url


def listen_address(place: PathBase, value: object) -> str:
    """Parse the address and port that the admin page listens on."""
    address = parse_text(place, value)
    host, _colon, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{show_value(address)} is not an address with a port", hint="127.0.0.1:8765")
    return address


def is_loopback(address: str) -> bool:
    """Return True if only this machine can reach the address."""
    return address.rpartition(":")[0] in {"127.0.0.1", "localhost", "[::1]"}


def passphrase_hash(place: PathBase, value: object) -> str:
    """Parse the argon2 hash of a passphrase, and refuse the passphrase itself."""
    text = parse_text(place, value)
    if not text.startswith("$argon2id$"):
        hint = "memoryd admin --hash asks for the passphrase and prints its hash"
        raise ConfigError("this is not the argon2id hash of a passphrase", hint=hint)
    return text


def variable_name(place: PathBase, value: object) -> str:
    """Parse the name of an environment variable, and refuse what looks like the key itself."""
    name = parse_text(place, value)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", name) or re.match(r"sk[-_]", name):
        raise ConfigError("this is not the name of a variable", hint="set the key in a variable, and name that here")
    return name


def parse_boolean(_: PathBase, value: object) -> bool:
    """Parse `true` or `false`."""
    if not isinstance(value, bool):
        raise ConfigError(f"true or false is needed, not {show_value(value)}", hint="true or false, without quotes")
    return value


def agent_id(place: PathBase, value: object) -> str:
    """Parse a name that is safe in a path, a log line and a command."""
    name = parse_text(place, value)
    if not _AGENT_ID.fullmatch(name):
        hint = "a-z 0-9 _ -, beginning with a letter or digit, 64 at most"
        raise ConfigError(f"{show_value(name)} cannot be an id", hint=hint)
    return name


def parse_folder(place: PathBase, value: object) -> Path:
    """Parse the path of a folder. It may be missing, but may not be another kind of file."""
    path = place.path(parse_text(place, value))
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{path} is not a folder")
    return path


def any_path(place: PathBase, value: object) -> Path:
    """Parse any path and make it absolute."""
    return place.path(parse_text(place, value))


def expand_pattern(place: PathBase, value: object) -> str:
    """Parse a glob, with `~` and variables expanded. Wildcards in the text of a variable count as plain characters."""
    text = place.expand(parse_text(place, value), quote=lambda given: re.sub(r"([*?\[])", r"[\1]", given))
    parts = text.split("/")
    wild = [number for number, part in enumerate(parts) if _literal(part) is None]
    if any("**" in part and part != "**" for part in parts):
        raise ConfigError(
            f"{show_value(text)}: ** must stand alone between slashes", hint="such as sessions/**/*.jsonl"
        )
    if wild and ".." in parts[wild[0] :]:
        raise ConfigError(f"{show_value(text)}: .. after a wildcard", hint="say where the files are without ..")
    if re.search(r"\[(?!!?\]?[^\]]*\])", text) or re.search(r"\{[^}]*,[^}]*\}", _ESCAPED.sub("", text)):
        hint = "* ? [abc] and ** are read; for {a,b} write two entries; [[] is a bracket itself"
        raise ConfigError(f"{show_value(text)} is not a pattern that can be read", hint=hint)
    if parts[-1] in {"", "**", ".", ".."}:
        raise ConfigError(f"{show_value(text)} names a folder", hint="add the files to read, such as *.jsonl")
    return text


_ESCAPED = re.compile(r"\[([*?\[{}])\]")


def _literal(part: str) -> str | None:
    """Return a part of a path as plain text, or None if it has wildcards."""
    return None if re.search(r"[*?\[]", _ESCAPED.sub("", part)) else _ESCAPED.sub(r"\1", part)


def split_pattern(pattern: str, workspace: Path) -> tuple[Path, str]:
    """Split a checked pattern into its fixed folder and the glob below that folder."""
    parts = PurePosixPath(pattern).parts
    fixed: list[str] = []
    for part in parts[:-1]:
        literal = _literal(part)
        if literal is None:
            break
        fixed.append(literal)
    return workspace.joinpath(*fixed).resolve(), "/".join(parts[len(fixed) :])


# --- the declaration of a key -----------------------------------------------------------------------------------------


def make_key(parse: Parser, default: T) -> T:
    """Declare a key with its parser, and its value if the file leaves it out."""
    made: T = field(default=default, metadata={"parse": parse})
    return made


def make_required_key(parse: Parser, absent: str | None = None) -> Any:
    """Declare a key without a default. A text `absent` is parsed if the file leaves the key out.

    Without `absent`, the file must have the key.
    """
    return field(metadata={"parse": parse, "absent": absent})


def make_section(default: T) -> T:
    """Declare a section of keys. `default` is used if the file leaves the section out."""
    made: T = field(default=default, metadata={"section": type(default)})
    return made


def make_list(model: type, default: Any = MISSING) -> Any:
    """Declare a list of sections, each of the class `model`. Without a default, the file must have the list."""
    return field(default=default, metadata={"list": model})


def keys_of(model: type) -> dict[str, Field[Any]]:
    """Return the keys of a section of the configuration by name, in the order of their declaration."""
    return {key.name: key for key in fields(model) if key.metadata}


class KeyLine(NamedTuple):
    """Hold one line of a configuration as YAML: its text up to the colon, and the key that it sets."""

    lead: str
    path: str = ""  # such as `agents[0].id`; empty in the head of a section
    value: Any = None


def walk_keys(section: Any, at: str = "", indent: str = "") -> Iterator[KeyLine]:
    """Yield all lines of a section, in the order of its keys."""
    for name in keys_of(type(section)):
        value, path = getattr(section, name), f"{at}.{name}" if at else name
        if is_section(value):
            yield KeyLine(f"{indent}{name}")
            yield from walk_keys(value, path, indent + "  ")
        elif isinstance(value, tuple) and value and is_section(value[0]):
            yield KeyLine(f"{indent}{name}")
            for number, entry in enumerate(value):
                first, *others = walk_keys(entry, f"{path}[{number}]", indent + "    ")
                yield from (first._replace(lead=f"{indent}  - {first.lead.lstrip()}"), *others)
        else:
            yield KeyLine(f"{indent}{name}", path, value)


def is_section(value: object) -> bool:
    """Return True if a value holds keys."""
    return bool(getattr(value, "__dataclass_fields__", None))
