"""Count the secrets that stay in single lines, and the lines without a secret that lose something.

    python bench/secret_lines.py [--aside] [--list]

`secret_lines/with.tsv` holds lines with their secrets after tabs. `secret_lines/without.txt` holds similar lines that
have no secrets. All lines are made up. A line break inside a text is written as `\\n`. Lines with odd numbers are held
out (`--aside`); the rules are tuned on the others. `--list` prints each line that fails.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from memoryd.scrub.policy import Policy
from memoryd.worker.scanner import SecretScanner

FOLDER = Path(__file__).parent / "secret_lines"


def read_lines(name: str, *, aside: bool) -> list[tuple[str, list[str]]]:
    """Return the texts of one half, each with its secrets."""
    lines = (FOLDER / name).read_text().splitlines()[0 if aside else 1 :: 2]
    return [(text.replace("\\n", "\n"), secrets) for text, *secrets in (line.split("\t") for line in lines)]


def main(arguments: list[str]) -> int:
    aside = "--aside" in arguments
    half = "aside" if aside else "tuning"
    holding, plain = (read_lines(name, aside=aside) for name in ("with.tsv", "without.txt"))
    with tempfile.TemporaryDirectory() as state:
        scanned = SecretScanner(Path(state)).scan([text for text, _ in holding + plain], Policy())
    if scanned is None:
        sys.exit("secret_lines: the lines cannot be scanned")
    texts = [each.text if (each := scanned[1].get(at)) else text for at, (text, _) in enumerate(holding + plain)]
    redacted = texts[: len(holding)]
    leaks = [text for text, (_, secrets) in zip(redacted, holding, strict=True) if any(map(text.__contains__, secrets))]
    lost = [text for text, (given, _) in zip(texts[len(holding) :], plain, strict=True) if text != given]
    print(f"secret lines, {half} half: {len(leaks)} of {len(holding)} leak")
    print(f"secret lines, {half} half: {len(lost)} of {len(plain)} without a secret lose something")
    if "--list" in arguments:
        for kind, failed in (("leak", leaks), ("lost", lost)):
            for text in failed:
                print(f"{kind}: {text!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
