"""Find uncommitted files: files that a session's tools edited in its folders and no commit holds yet."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatch

from memoryd.jobs.shell import join_folder


class WorkFolder:
    """Tell which folders and files belong to the work of a session."""

    def __init__(self, folder: str, edited: Iterable[str]) -> None:
        """Prepare for a session in `folder` whose tools edited the files `edited`.

        If all of these files are elsewhere, such as in another work tree, the session works there.
        """
        self._folder = folder
        self._others: set[str] = set()
        places = {self.locate("", path) for path in edited}
        if all(place.startswith("/") for place in places):
            self._others = {place.rpartition("/")[0] for place in places}

    def locate(self, folder: str, path: str) -> str:
        """Return a path relative to the session's folder; a path outside of it stays absolute."""
        place = join_folder(folder, path.replace("\\", "/"))
        if self._folder and (place == self._folder or place.startswith(f"{self._folder}/")):
            return place[len(self._folder) + 1 :]
        return place

    def holds(self, folder: str) -> bool:
        """Return True if `folder` is where the session works, or is above or below it."""
        place = self.locate("", folder) if folder else ""
        if not place.startswith(("/", "..", "~", "$")) or self._folder.startswith(f"{place}/"):
            return True
        return any(f"{one}/".startswith(f"{place}/") or place.startswith(f"{one}/") for one in self._others)

    def names(self, path: str, folder: str, given: Iterable[str]) -> bool:
        """Return True if a command in `folder` names the file `path`: by its path, its folder or a pattern."""
        return any(self._names(path, folder, word) for word in given)

    def _names(self, path: str, folder: str, word: str) -> bool:
        bare, place = join_folder("", word), self.locate(folder, word)
        if not bare or not place or path == place or path.startswith(f"{place}/") or fnmatch(path, place):
            return True
        return f"/{path}".endswith(f"/{bare}") or f"/{bare}/" in f"/{path}"  # the folder of the command may be unknown


class UncommittedFiles:
    """Hold the files that the session's tools edited, from the edit to the commit."""

    def __init__(self, work: WorkFolder) -> None:
        """Begin without a file."""
        self._work = work
        self._edited: set[str] = set()
        self._added: set[str] = set()
        self._order: dict[str, None] = {}

    def edit(self, path: str) -> None:
        """Record an edit; an earlier `git add` of the file no longer covers it."""
        self._edited.add(path)
        self._order.setdefault(path)

    def add(self, folder: str, given: Sequence[str], *, everything: bool) -> None:
        """Record that `git add` puts files into the next commit: those that the words `given` name, or everything."""
        found = {path for path in self._edited if everything or self._work.names(path, folder, given)}
        self._added |= found
        self._edited -= found

    def commit(self, folder: str, given: Sequence[str], *, everything: bool) -> None:
        """Record a commit of the added files and of the files that the words `given` name, or of everything."""
        self.add(folder, given, everything=everything)
        self._added.clear()

    def drop(self, folder: str, given: Sequence[str], *, everything: bool = False) -> None:
        """Record that the files that the words `given` name were removed, or their edits discarded."""
        self._keep({path for path in self._all() if not (everything or self._work.names(path, folder, given))})

    def keep_shown(self, shown: Iterable[str]) -> None:
        """Keep only the files that `git status` shows; a new folder that it shows stands for all its files."""
        names = list(shown)
        self._keep({path for path in self._all() if any(_is_shown(path, name) for name in names)})

    def list_paths(self) -> list[str]:
        """Return the files that no commit holds and that belong to the work, in the order of their first edit."""
        held = self._all()
        return [path for path in self._order if path in held and self._work.holds(path.rpartition("/")[0])]

    def _all(self) -> set[str]:
        return self._edited | self._added

    def _keep(self, kept: set[str]) -> None:
        self._edited &= kept
        self._added &= kept


def _is_shown(path: str, name: str) -> bool:
    """Return True if a name in the output of `git status` means a file; their paths may start at different folders."""
    return f"/{path}".endswith(f"/{name}") or f"/{name}/" in f"/{path}" or f"/{name}".endswith(f"/{path}")
