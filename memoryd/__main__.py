"""Run the `memoryd` command by `python -m memoryd`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; run a hook without loading the libraries, because an agent waits for it."""
    if sys.argv[1:2] == ["hook"]:
        from memoryd.interfaces import hook

        os._exit(hook.main(sys.argv[2:]))  # all is said: nothing that ends later may say otherwise
    from memoryd.interfaces.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
