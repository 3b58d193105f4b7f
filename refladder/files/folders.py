"""A folder on this machine or at a URL, with the few operations that a run over many files needs."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.errors import DataError
from refladder.files.jsonl import atomic, open_bytes, throw_away, writing
from refladder.files.locks import cannot_write, locked, locked_folder, make_folder
from refladder.files.streams import filesystem, is_url, reaching
from refladder.records import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

# Subfolder for files that are being written.
WORK = ".work"
# Bytes of a file that are read at a time.
_PART = 1 << 20


def cache_folder() -> Path:
    """Return the folder of refladder among the caches of the user, where the system has them."""
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        home = Path.home() / "Library" / "Caches"
    else:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "refladder"


def open_folder(address: str) -> Folder:
    """Return a folder by its path or URL without creating it."""
    return RemoteFolder(address) if is_url(address) else Folder(address)


class Folder:
    """A folder on a disk of this machine, or one that several machines share; a name is a path in it, with `/`."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/") or address

    def path_of(self, name: str) -> str:
        """Return the path or URL of a file."""
        return f"{self.address}/{name}"

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        try:
            return Path(self.address, name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise DataError(f"{self.path_of(name)}: cannot be read ({error.strerror})") from error

    def write(self, name: str, data: bytes) -> None:
        """Write a file that appears complete or not at all."""
        with atomic(Path(self.address, name)) as stream:
            stream.write(data)

    def sizes(self, under: str = "") -> dict[str, int]:
        """Return the bytes of each file in the folder and in folders inside it, by name, without hidden ones."""
        root = Path(self.address)
        sizes = {}
        for path in sorted((root / under).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_file() and not _is_hidden(name):
                sizes[name] = path.stat().st_size
        return sizes

    def digest(self, name: str) -> str | None:
        """Return a digest of a file; None at a URL, where it would be downloaded and the store checks its files."""
        path = Path(self.address, name)
        return file_digest(path, path.stat().st_mtime_ns)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        throw_away(Path(self.address, name))

    def fetched(self, name: str) -> Path:
        """Return where a process appends to a file, with the content that the folder has for it, if any."""
        return self._made(Path(self.address, name))

    def forget(self, name: str) -> bool:
        """Remove the copy of a file on this machine, unless that is the file itself; return whether it was removed."""
        return False

    def work_file(self, name: str) -> Path:
        """Return where a process writes a file aside, before `publish`."""
        return Path(self.address, WORK, name)

    def publish(self, file: Path, name: str) -> None:
        """Move a complete file of this machine to its final name."""
        target = self._made(Path(self.address, name))
        if file != target:
            with writing(target):
                file.replace(target)
            # Remove the folders that are empty now.
            with suppress(OSError):
                for folder in list(file.parents)[: name.count("/") + 1]:
                    folder.rmdir()

    def _made(self, path: Path) -> Path:
        try:
            make_folder(path.parent)
        except OSError as error:
            raise cannot_write(path, error) from error
        return path

    @contextmanager
    def claimed(self, name: str | None) -> Iterator[None]:
        """Refuse other processes of this run, or of its part `name`, while the block runs."""
        if name is None:
            lock = locked_folder(Path(self.address))
        else:
            lock = locked(Path(self.address, WORK, name))
        with lock:
            yield


@lru_cache
def file_digest(path: Path, _changed: int) -> str:
    """Return the digest of a file; a command that reads a folder several times computes it once."""
    digest = hashlib.blake2b(digest_size=16)
    with open_bytes(path) as stream:
        while part := stream.read(_PART):
            digest.update(part)
    return digest.hexdigest()


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or "/." in name


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


class RemoteFolder(Folder):
    """A folder at a URL. Files are written on this machine first, then uploaded whole."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._system, self._root = filesystem(self.address)
        digest = digest_of(self.address)
        self._work = Path(tempfile.gettempdir()) / f"refladder-{_user()}" / digest

    @contextmanager
    def _at(self, name: str, *, write: bool = False) -> Iterator[str]:
        """Give the path of a file in the file system; errors name its URL, and writing makes its folder."""
        with reaching(self.path_of(name)):
            path = f"{self._root.rstrip('/')}/{name}".rstrip("/")
            # A cached listing may be older than the files of another process.
            self._system.invalidate_cache()
            if write:
                self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
            yield path

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        with self._at(name) as path, suppress(FileNotFoundError):
            return bytes(self._system.cat_file(path))
        return None

    def write(self, name: str, data: bytes) -> None:
        """Upload a file; object stores show it when it is complete."""
        with self._at(name, write=True) as path:
            self._system.pipe_file(path, data)

    def sizes(self, under: str = "") -> dict[str, int]:
        """Return the bytes of each file in the folder and in folders inside it, by name, without hidden ones."""
        root = f"{self._root.rstrip('/')}/"
        with self._at(under) as path, suppress(FileNotFoundError):
            sizes = {}
            for path_of_file, entry in self._system.find(path, detail=True).items():
                name = path_of_file.removeprefix(root)
                if not _is_hidden(name):
                    sizes[name] = int(entry["size"] or 0)
            return dict(sorted(sizes.items()))
        return {}

    def digest(self, name: str) -> None:
        """Return None, see `Folder.digest`."""

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        with self._at(name) as path, suppress(FileNotFoundError):
            # Some stores have errors of their own for a missing file.
            if self._system.exists(path):
                self._system.rm_file(path)

    def work_file(self, name: str) -> Path:
        """Return a private file in the temporary folder; a later run on this machine continues from it."""
        path, ours = self._work / name, self._work.parent
        try:
            ours.mkdir(parents=True, exist_ok=True, mode=0o700)
            if ours.lstat().st_uid != _user():
                raise DataError(f"{ours}: belongs to another user; set TMPDIR to a folder of yours")
            ours.chmod(0o700)
            make_folder(path.parent)
        except OSError as error:
            raise cannot_write(path, error) from error
        return path

    def forget(self, name: str) -> bool:
        """Remove the work file, which an earlier run on this machine may have left."""
        path = self._work / name
        existed = path.exists()
        throw_away(path)
        return existed

    def fetched(self, name: str) -> Path:
        """Return the work file, downloaded if this machine does not have it."""
        path = self.work_file(name)
        if not path.exists():
            with self._at(name) as uploaded:
                if self._system.exists(uploaded):
                    self._system.get_file(uploaded, str(path))
        return path

    def publish(self, file: Path, name: str) -> None:
        """Upload a file of this machine, and remove it here."""
        with self._at(name, write=True) as uploaded:
            self._system.put_file(str(file), uploaded)
        throw_away(file)

    @contextmanager
    def claimed(self, name: str | None) -> Iterator[None]:
        """Claim nothing: object stores have no locks, and two runs would write the same files."""
        yield
