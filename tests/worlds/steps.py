"""Every name that a write to a file calls its `step` with, in order, so that a test can stop at each of them."""

_FILL = ("before:write", "after:write", "before:fsync", "after:fsync")
_FOLDER = ("before:fsync-folder", "after:fsync-folder")
_TEMP = ("before:create", "after:create", *_FILL)
APPEND_STEPS = ("before:append", "after:append", "before:fsync-append", "after:fsync-append")
PLACE_STEPS = (*_TEMP, "before:place", "after:place", *_FOLDER)
REPLACE_STEPS = (
    *(*_TEMP, "before:mark", "after:mark", "before:swap", "after:swap", *_FOLDER),
    *("before:unlink", "after:unlink"),
)
