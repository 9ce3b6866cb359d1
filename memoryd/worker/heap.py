"""Keep the memory of the daemon and of its child processes small."""

import ctypes

# Of mallopt(3): one heap for all threads, and large or free memory goes back to the system. Measured on 150 MB of
# history (`bench/history.py`), this takes a fifth off the daemon's peak and costs no time that shows.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def keep_small() -> None:
    """Tell the C library to give memory back early; do nothing where it is not glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    for key, value in ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, 64 << 10), (_M_TRIM_THRESHOLD, 128 << 10)):
        mallopt(key, value)


def give_back() -> None:
    """Return free memory to the system; do nothing where it is not glibc."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return
