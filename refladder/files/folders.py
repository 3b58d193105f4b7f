"""A folder on this machine or at a URL, with the few operations that a run of many shards needs of it."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from refladder.errors import DataError
from refladder.files.jsonl import atomic, cannot_write, throw_away
from refladder.files.locks import holder_in, holder_record, in_use, locked, locked_folder, may_be_running
from refladder.files.remote import filesystem, is_url, reaching

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 1 << 20


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
    """A folder by its path or URL; nothing is created yet."""
    return RemoteFolder(address) if is_url(address) else Folder(address)


class Folder:
    """A folder on a disk of this machine, or one that several machines share; a name is a path in it, with `/`."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/") or address

    def path_of(self, name: str) -> str:
        """The path or URL of a file."""
        return f"{self.address}/{name}"

    def open(self, name: str) -> IO[bytes] | None:
        """Open a file for reading; None if it does not exist."""
        try:
            return Path(self.address, name).open("rb")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise DataError(f"{self.path_of(name)}: cannot be read ({error.strerror})") from error

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        stream = self.open(name)
        if stream is None:
            return None
        with stream:
            return stream.read()

    def digest(self, name: str) -> str | None:
        """BLAKE2b (16 bytes, hexadecimal) of a file; None if it does not exist."""
        stream = self.open(name)
        if stream is None:
            return None
        digest = hashlib.blake2b(digest_size=16)
        with stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
        return digest.hexdigest()

    def write(self, name: str, data: bytes) -> None:
        """Write a file that appears complete or not at all."""
        with atomic(Path(self.address, name)) as stream:
            stream.write(data)

    def names(self, under: str = "") -> list[str]:
        """Names of the files directly in the folder, or in a folder inside it, sorted."""
        folder = Path(self.address, under)
        return sorted(path.name for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        throw_away(Path(self.address, name))

    def work_file(self, name: str) -> Path:
        """Where a process writes a file before `publish`: here the file itself, as writers write aside or append."""
        path = Path(self.address, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(path, error) from error
        return path

    def fetched(self, name: str) -> Path:
        """The work file of a name, with the content that the folder has for it, if any."""
        return self.work_file(name)

    def forget(self, name: str) -> bool:
        """Remove the work file of a name, unless that is the file of the folder itself; whether it was removed."""
        del name
        return False

    def publish(self, name: str) -> None:
        """Put a complete `work_file` in its position."""

    @contextmanager
    def claimed(self, name: str | None) -> Iterator[None]:
        """Refuse other processes that claim the same name, or the whole folder (None), while the block runs."""
        with locked_folder(Path(self.address)) if name is None else locked(Path(self.address, name)):
            yield


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


class RemoteFolder(Folder):
    """A folder at a URL. Files are written on this machine first, then uploaded whole."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._system, self._root = filesystem(self.address)
        digest = hashlib.blake2b(self.address.encode(), digest_size=8).hexdigest()
        self._work = Path(tempfile.gettempdir()) / f"refladder-{_user()}" / digest

    @contextmanager
    def _at(self, name: str, *, write: bool = False) -> Iterator[str]:
        """The path of a file in the file system, whose errors name its URL; to write it, its folder is made."""
        with reaching(self.path_of(name)):
            path = f"{self._root.rstrip('/')}/{name}".rstrip("/")
            self._system.invalidate_cache()  # a listing may be of before another process wrote
            if write:
                self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
            yield path

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        with self._at(name) as path, suppress(FileNotFoundError):
            return bytes(self._system.cat_file(path))
        return None

    def open(self, name: str) -> IO[bytes] | None:
        """Open a file for reading; None if it does not exist."""
        with self._at(name) as path, suppress(FileNotFoundError):
            stream: IO[bytes] = self._system.open(path, "rb")
            return stream
        return None

    def write(self, name: str, data: bytes) -> None:
        """Upload a file; object stores show it when it is complete."""
        with self._at(name, write=True) as path:
            self._system.pipe_file(path, data)

    def names(self, under: str = "") -> list[str]:
        """Names of the files directly in a folder."""
        with self._at(under) as path, suppress(FileNotFoundError):
            entries = self._system.ls(path, detail=True)
            return sorted(entry["name"].rpartition("/")[2] for entry in entries if entry["type"] == "file")
        return []

    def remove(self, name: str) -> None:
        """Remove a file, if it exists, and its work file."""
        self.forget(name)
        with self._at(name) as path, suppress(FileNotFoundError):
            if self._system.exists(path):  # some stores have errors of their own for a missing file
                self._system.rm_file(path)

    def work_file(self, name: str) -> Path:
        """A file in the temporary folder that no other user may read; a later run on this machine continues from it."""
        path, ours = self._work / name, self._work.parent
        try:
            ours.mkdir(parents=True, exist_ok=True, mode=0o700)
            if ours.lstat().st_uid != _user():
                raise DataError(f"{ours}: belongs to another user; set TMPDIR to a folder of yours")
            ours.chmod(0o700)
            path.parent.mkdir(parents=True, exist_ok=True)
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
        """The work file, downloaded if this machine does not have it."""
        path = self.work_file(name)
        if not path.exists():
            with self._at(name) as uploaded:
                if self._system.exists(uploaded):
                    self._system.get_file(uploaded, str(path))
        return path

    def publish(self, name: str) -> None:
        """Upload the work file and remove it here."""
        path = self.work_file(name)
        with self._at(name, write=True) as uploaded:
            self._system.put_file(str(path), uploaded)
        throw_away(path)

    @contextmanager
    def claimed(self, name: str | None) -> Iterator[None]:
        """A small object with process and host, put only if absent; of another machine, it must be removed by hand."""
        claim = f"{name or '.refladder/folder'}.claim"
        record, holding = holder_record(), self.read(claim)
        if holding is None:
            with self._at(claim, write=True) as path, suppress(FileExistsError):  # another process was quicker
                self._system.pipe_file(path, record, mode="create")
        elif not may_be_running(holder_in(holding)):
            self.write(claim, record)
        if (holding := self.read(claim) or b"") != record:
            raise in_use(self.address, holder_in(holding), self.path_of(claim))
        try:
            yield
        finally:
            if self.read(claim) == record:
                self.remove(claim)
