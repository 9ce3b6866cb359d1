"""Recognize a file that its owner marked as private, by its name or its front matter.

In doubt, a file counts as private. A withheld file can be opened later, but a text that was sent or indexed cannot be
recalled.
"""

import re

SUFFIX = ".private"
_LONGEST = 1 << 16  # bytes of front matter
# Front matter ends at the next line `---`, or at the end of the file if it is not written completely yet.
_FRONT_MATTER = re.compile(
    rb"(?:\xef\xbb\xbf)?---[ \t]*(?:\r\n?|\n)(.*?)(?:(?<=[\r\n])(?:---|\.\.\.)[ \t]*(?:[\r\n]|\Z)|\Z)", re.DOTALL
)
_MARK = re.compile(rb"(?:\A|[\r\n]|[{,]\s*)[\"']?private[\"']?[ \t]*:[ \t]*[\"']?([^\r\n\"'#},]*)", re.IGNORECASE)
_NO = frozenset({b"", b"false", b"no", b"n", b"off", b"0", b"null", b"~"})


def is_private(name: str, head: bytes = b"") -> bool:
    """Return True if a file must not be read, sent or indexed.

    A file is private if a part of its path ends in `.private`, in any case, or if its front matter says `private:
    true`. `yes`, `on`, `1` and any other value that does not mean no count as true.

    Args:
        name: the name or the path of the file. A folder `x.private` in the path counts too.
        head: the bytes of the file, or its beginning with all of its front matter, up to 64 KiB.
    """
    if SUFFIX in name.lower() and any(part.endswith(SUFFIX) for part in re.split(r"[/\\]", name.lower())):
        return True
    front = _FRONT_MATTER.match(head[:_LONGEST])
    return front is not None and any(found[1].strip().lower() not in _NO for found in _MARK.finditer(front[1]))
