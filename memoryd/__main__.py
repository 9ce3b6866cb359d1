"""Run the `memoryd` command by `python -m memoryd`."""

import os
import sys


def main() -> None:
    """Run the command line.

    A hook and `--version` load no libraries, because an agent waits for its hook.
    """
    if sys.argv[1:2] == ["hook"]:
        from memoryd.interfaces import hook

        # The answer is complete, so nothing that ends later may change the exit code.
        os._exit(hook.main(sys.argv[2:]))
    if sys.argv[1:] == ["--version"]:
        from memoryd.version import __version__

        sys.stdout.write(f"memoryd {__version__}\n")
        return
    from memoryd.interfaces.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
