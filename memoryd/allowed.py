"""Read a value that is not a secret, as a person writes it: the value, or a regular expression between slashes."""

import functools
import re


@functools.lru_cache(maxsize=1024)
def compile_allowed(entry: str) -> re.Pattern[str]:
    """Return the pattern of an allowed value. A finding that matches it as a whole is left as it is.

    Raises:
        ValueError: the text between the slashes is not a regular expression. The message is the reason.
    """
    is_expression = len(entry) > 2 and entry.startswith("/") and entry.endswith("/")
    try:
        return re.compile(entry[1:-1] if is_expression else re.escape(entry), re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error
