"""Import the packages of the extra `fleet` in one place, or say how to install them."""

from memoryd.errors import RefusedError

try:
    import procrastinate
    import psycopg
    import psycopg_pool
    from cryptography import fernet
except ImportError:
    raise RefusedError(
        "the packages of a fleet are not installed", "fleet.database", "in the clone of memoryd: pip install '.[fleet]'"
    ) from None

__all__ = ["fernet", "procrastinate", "psycopg", "psycopg_pool"]
