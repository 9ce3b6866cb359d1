"""`python -m memoryd` is the `memoryd` command."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; a hook, which an agent waits for, without loading any of its libraries."""
    if sys.argv[1:2] == ["hook"]:
        from memoryd.interfaces import hook

        os._exit(hook.main(sys.argv[2:]))  # all is said: nothing that ends later may say otherwise
    from memoryd.interfaces.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
