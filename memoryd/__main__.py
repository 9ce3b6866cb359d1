"""Run the `memoryd` command by `python -m memoryd`."""

import os
import sys


def _fill_closed() -> None:
    """Give closed standard streams (`>&-`) a place. Otherwise the next file that is opened would get their number."""
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:  # the number after the standard streams
        os.set_inheritable(number, True)  # noqa: FBT003 - the function takes no names
    given = enumerate((sys.stdin, sys.stdout, sys.stderr))
    sys.stdin, sys.stdout, sys.stderr = (one or os.fdopen(number, "w" if number else "r") for number, one in given)


def main() -> None:
    """Run the command line.

    A hook and `--version` load no libraries, because an agent waits for its hook.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _fill_closed()
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
