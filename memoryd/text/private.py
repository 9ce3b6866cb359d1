"""Recognize a file that its owner marked as private, by its name or its front matter: one test for all readers.

In doubt a file counts as private: a withheld file can be opened again, but sent or indexed text cannot be called back.
"""

import re

SUFFIX = ".private"
_LONGEST = 1 << 16  # bytes of front matter
# Front matter goes up to the next line of `---`, in a file that is still being written to its end.
_FRONT_MATTER = re.compile(
    rb"(?:\xef\xbb\xbf)?---[ \t]*(?:\r\n?|\n)(.*?)(?:(?<=[\r\n])(?:---|\.\.\.)[ \t]*(?:[\r\n]|\Z)|\Z)", re.DOTALL
)
_MARK = re.compile(rb"(?:\A|[\r\n]|[{,]\s*)[\"']?private[\"']?[ \t]*:[ \t]*[\"']?([^\r\n\"'#},]*)", re.IGNORECASE)
_NO = frozenset({b"", b"false", b"no", b"n", b"off", b"0", b"null", b"~"})


def is_private(name: str, head: bytes = b"") -> bool:
    """Return True if a file may not be read, sent or indexed.

    Args:
        name: the file's name, or its path; a folder `x.private` on that path counts as well.
        head: the file's bytes, or its first ones: all of its front matter, as far as 64 KiB.

    Returns:
        True if a name ends in `.private`, in any case, or the front matter says `private: true` (or `yes`, `on`, `1`,
        and anything else that is no plain `false`).
    """
    if SUFFIX in name.lower() and any(part.endswith(SUFFIX) for part in re.split(r"[/\\]", name.lower())):
        return True
    front = _FRONT_MATTER.match(head[:_LONGEST])
    return front is not None and any(found[1].strip().lower() not in _NO for found in _MARK.finditer(front[1]))
