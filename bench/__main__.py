"""Run every benchmark of this folder, each in its own process: `python -m bench [--transcripts DIR] [--eval DIR]`.

What a benchmark needs is read from the usage line in its docstring: `bench/NAME.py TRANSCRIPTS_FOLDER …` or
`bench/NAME.py EVAL_FOLDER …` gets that folder as its first argument and is skipped where it is not given; one with
`--transcripts DIR` gets those that are given as options; any other is run without arguments. The exit status is that of
the worst.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def needed_folder(script: Path) -> str | None:
    """`transcripts`, `eval`, or None: what the script's usage line asks for."""
    usage = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    match = re.search(rf"bench/{re.escape(script.name)} (TRANSCRIPTS|EVAL)_FOLDER", usage)
    return match[1].lower() if match else None


def list_options(script: Path, folders: dict[str, str]) -> list[str]:
    """The folders as options, for a script whose usage line has them."""
    if f"bench/{script.name} --transcripts DIR" not in script.read_text(encoding="utf-8"):
        return []
    given = folders | {"gold": folders["eval"] and str(Path(folders["eval"]) / "gold" / "transcripts")}
    return [word for name, folder in given.items() if folder for word in (f"--{name}", folder)]


def main() -> int:
    """Run them in the order of their names."""
    parser = argparse.ArgumentParser(prog="bench", description="memoryd's benchmarks")
    parser.add_argument("--transcripts", default="", help="folder of transcripts to read")
    parser.add_argument("--eval", default="", help="folder of the evaluation set")
    folders = vars(parser.parse_args())
    worst = 0
    for script in sorted(HERE.glob("[a-z]*.py")):
        needed = needed_folder(script)
        print(f"== {script.stem}", flush=True)
        if needed and not folders[needed]:
            print(f"skipped: needs {needed.upper()}=FOLDER")
            continue
        arguments = [folders[needed]] if needed else list_options(script, folders)
        worst = max(worst, abs(subprocess.run([sys.executable, script, *arguments], check=False).returncode))
    return worst


if __name__ == "__main__":
    sys.exit(main())
