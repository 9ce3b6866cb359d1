"""Find the configuration file, and the one that ships with memoryd."""

from collections.abc import Mapping
from pathlib import Path

from memoryd.errors import ConfigError

FILE = "memoryd.yaml"
_SYSTEM_FILE = Path("/etc/memoryd") / FILE


def find(explicit: Path | None, environ: Mapping[str, str], cwd: Path | None, user_config_dir: Path) -> Path:
    """Return the path of the configuration file.

    It is the one named by the option or `$MEMORYD_CONFIG`. Otherwise, it is the first that exists in the folder `cwd`,
    the user's folder or the system's. Without a `cwd`, that folder is left out.

    Raises:
        ConfigError: a named file does not exist, or there is no file at all.
    """
    named = explicit or (Path(environ["MEMORYD_CONFIG"]).expanduser() if environ.get("MEMORYD_CONFIG") else None)
    if named is not None:
        path: Path = (cwd or Path.cwd()) / named
        if not path.is_file():
            told = "named by --config" if explicit else "named by $MEMORYD_CONFIG"
            if path.is_dir():
                hint = f"name the file in it, such as {path / FILE}"
                raise ConfigError(f"is a folder, {told}", str(path), hint)
            raise ConfigError(f"no such file, {told}", str(path), "correct the path")
        return path
    usual = (*(() if cwd is None else (cwd / "config" / FILE,)), user_config_dir / FILE, _SYSTEM_FILE)
    for path in usual:
        if path.is_file():
            return path
    looked = ", ".join(map(str, usual))
    hint = "memoryd init finds the agents on this machine and writes one; memoryd config default shows every key"
    raise ConfigError(f"there is no configuration: looked at {looked}", hint=hint)


def default_text() -> str:
    """Return the text of the configuration file that memoryd ships: every key, its default and its reason."""
    from importlib.resources import files  # only `config default` needs it

    packaged = files("memoryd") / FILE
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parent.parent / "config" / FILE).read_text(encoding="utf-8")
