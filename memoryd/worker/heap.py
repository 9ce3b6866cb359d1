"""Keep the memory of the daemon and of its child processes small."""

import contextlib
import ctypes

# Options of mallopt(3): one heap for all threads, and large or free memory returns to the system. On 150 MB of history
# (`bench/history.py`), this reduces the daemon's peak by a fifth and costs no measurable time.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_OTHER_LIBRARY = AttributeError, OSError, TypeError


def keep_small() -> None:
    """Configure glibc to return memory early. With any other C library, do nothing."""
    with contextlib.suppress(*_OTHER_LIBRARY):
        mallopt = ctypes.CDLL(None).mallopt
        for key, value in ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, 64 << 10), (_M_TRIM_THRESHOLD, 128 << 10)):
            mallopt(key, value)


def give_back() -> None:
    """Return free memory to the system. With any C library other than glibc, do nothing."""
    with contextlib.suppress(*_OTHER_LIBRARY):
        ctypes.CDLL(None).malloc_trim(0)
