"""Run every benchmark of this folder, each in its own process: `python -m bench [--transcripts DIR] [--eval DIR]`.

The usage line in a script's docstring says what the script needs. `bench/NAME.py TRANSCRIPTS_FOLDER …` or
`bench/NAME.py EVAL_FOLDER …` gets this folder as its first argument, and is skipped without this folder. A script with
`--transcripts DIR` gets the folders as options. Any other script runs without arguments. The exit code is the highest
exit code of all scripts.
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
    """Return `transcripts`, `eval` or None: the folder that the script's usage line names."""
    usage = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    match = re.search(rf"bench/{re.escape(script.name)} (TRANSCRIPTS|EVAL)_FOLDER", usage)
    return match[1].lower() if match else None


def list_options(script: Path, folders: dict[str, str]) -> list[str]:
    """Return the folders as options, for a script whose usage line has these options."""
    if f"bench/{script.name} --transcripts DIR" not in script.read_text(encoding="utf-8"):
        return []
    given = folders | {"gold": folders["eval"] and str(Path(folders["eval"]) / "gold" / "transcripts")}
    return [word for name, folder in given.items() if folder for word in (f"--{name}", folder)]


def main() -> int:
    """Run all scripts in the order of their names, and return the highest exit code."""
    parser = argparse.ArgumentParser(prog="bench", description="Run every benchmark of memoryd.")
    parser.add_argument("--transcripts", default="", help="a folder of real transcripts")
    parser.add_argument("--eval", default="", help="a folder with LoCoMo and the scripts that score it")
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
