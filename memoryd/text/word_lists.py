r"""Read lists of words of many languages from `word_lists.txt`, and regular expressions from a text file of a module.

Wordings of many languages are easier to read and extend there than as Python strings. A file of regular expressions has
one alternative per line. An example:

    # A comment, which is only above an entry.
    list month:
     january|february|march

    later: a time that is months away
     \b(?:by|in|until) (?:{month})
     \bend of (?:the )?(?:year
         |month|quarter)\b

A blank line ends an entry. The text after the colon of its name is only for readers. A line that begins with five
spaces continues the line above. `{month}` is replaced by the pattern of an earlier entry, and a `list` exists only for
this use. White space at the ends of a line is ignored, so a space there is written as `[ ]`.
"""

import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType


def list_words(name: str) -> tuple[str, ...]:
    """Return the entries of a list."""
    return _read_lists()[name]


def list_bytes(name: str) -> tuple[bytes, ...]:
    """Return the entries of a list, in UTF-8."""
    return tuple(word.encode() for word in _read_lists()[name])


@cache
def _read_lists() -> dict[str, tuple[str, ...]]:
    text = (pkgutil.get_data(__name__, "word_lists.txt") or b"").decode()
    parts = re.split(r"^\[(.+)\]$", text, flags=re.MULTILINE)[1:]
    return {
        name: tuple(re.split(r"[|\n]+", body.strip()) if "|" in body else body.split())
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def compile_patterns(
    module: str, file: str, flags: Mapping[str, int] = MappingProxyType({}), **lists: str
) -> dict[str, re.Pattern[str]]:
    """Return the compiled patterns of a file by name, in order; case does not matter, unless `flags` names a pattern.

    The other arguments are those of `read_patterns`.
    """
    found = read_patterns(module, file, **lists)
    return {name: re.compile(pattern, flags.get(name, re.IGNORECASE)) for name, pattern in found.items()}


def read_patterns(module: str, file: str, **lists: str) -> dict[str, str]:
    """Return the patterns of a file by name, in order. Entries called `list` are left out.

    Args:
        module: the name of a module in the folder of the file.
        file: the name of the file.
        lists: further patterns that the file may use, as if they were lists of its own.
    """
    text = (pkgutil.get_data(module, file) or b"").decode()
    found: dict[str, str] = {}
    for part in re.split(r"\n{2,}", re.sub(r"\n {5}|^#.*", "", text, flags=re.MULTILINE).strip()):
        head, *lines = part.splitlines()
        name = head.partition(":")[0]
        pattern = re.sub(r"\{([a-z ]+)\}", lambda use: lists[use[1]], "|".join(line.strip() for line in lines))
        lists[name.removeprefix("list ")] = pattern
        if not name.startswith("list "):
            found[name] = pattern
    return found
