"""Locks on output files, so that two runs never write to the same file.

The lock of a file is a small file `.NAME.lock` in the same folder; the lock of a folder is `.lock` in it. The operating
system releases the lock when the process ends, even after `kill -9`. The lock file names the process and is removed at
the end of the run.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.errors import DataError, InUseError, UsageError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator

# Attempts to open a lock file that other processes remove at the same moment.
_ATTEMPTS = 100
# Seconds between two attempts, while another process signs the file that it made.
_PAUSE = 0.02
# Bytes; a record is much shorter.
_RECORD = 4096
# Windows locks bytes against reading too: one that the record does not reach.
_LOCKED_BYTE = 1 << 30

# Process, host, since when (UTC).
Holder = tuple[int, str, str]


@dataclass(slots=True)
class _Lock:
    thread: int
    descriptor: int
    file: Path
    new_folders: list[Path]
    uses: int = 1


# Locks of this process, by the path of the lock file.
_locks: dict[str, _Lock] = {}
_guard = threading.Lock()


def has_ended(process: int) -> bool:
    """Return whether a process of this machine has certainly ended; False if unknown."""
    # On other systems, signal 0 is not a harmless test.
    if os.name != "posix":
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        # The process is another user's, or the number is not that of a process.
        return False
    # Linux: a process that has ended, but whose parent has not asked how, is in state Z.
    try:
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[:1] == [b"Z"]
    except OSError:
        return False


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file without waiting, until it is closed; False: another process has it; None: no locks here."""
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True


def refuse_folder(path: Path) -> None:
    """Check that a file to write is not a folder."""
    if path.is_dir():
        raise UsageError(f"{path}: a folder; name a file in it")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file against other processes and threads, but not its own, while the block runs; devices need no lock."""
    refuse_folder(path)
    if path.exists() and not path.is_file():
        yield
        return
    real = Path(os.path.realpath(path))
    with _holding(real.with_name(f".{real.name}.lock"), path):
        yield


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock a whole folder as `locked` locks a file; create it if necessary, and remove it if it is empty at the end."""
    with _holding(Path(os.path.realpath(folder)) / ".lock", folder):
        yield


@contextmanager
def _holding(file: Path, path: Path) -> Iterator[None]:
    key, thread = str(file), threading.get_ident()
    with _guard:
        lock = _locks.get(key)
        if lock is None:
            lock = _locks[key] = _acquire(file, path)
        elif lock.thread == thread:
            lock.uses += 1
        else:
            raise in_use(path, _holder(lock.descriptor))
    try:
        yield
    finally:
        with _guard:
            lock.uses -= 1
            if not lock.uses:
                del _locks[key]
                _release(lock)


def cannot_write(path: str | Path, error: OSError) -> DataError:
    """Return the error for a failed write, with the file and the reason."""
    if isinstance(error, FileExistsError):
        reason = f"{error.filename} is a file, not a folder); choose"
    else:
        reason = f"{error.strerror or error}); free space or choose"
    return DataError(f"{path}: cannot be written ({reason} another path")


def make_folder(folder: Path) -> None:
    """Make a folder and those above it where they are missing, also while other processes make and remove them."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            # This is several steps, and fails if the folder exists at one and is gone at the next.
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, FileNotFoundError) as error:
            stays = os.path.lexists(error.filename) and not Path(error.filename).is_dir()
            if stays or attempt == _ATTEMPTS:
                raise
        else:
            return


def _acquire(file: Path, path: Path) -> _Lock:
    flags = os.O_RDWR | getattr(os, "O_BINARY", 0)
    for attempt in range(1, _ATTEMPTS + 1):
        new_folders = [folder for folder in file.parents if not folder.exists()]
        try:
            make_folder(file.parent)
            # Only one of several processes makes the file.
            try:
                descriptor = os.open(file, flags | os.O_CREAT | os.O_EXCL, 0o666)
                made = True
            except FileExistsError:
                descriptor = os.open(file, flags)
                made = False
        except FileNotFoundError:
            # Another process removed the folder or the file.
            continue
        except OSError as error:
            raise cannot_write(path, error) from error
        locked = try_lock(descriptor)
        taken = locked
        # This file system has no locks: the process that makes the file has the lock.
        if locked is None:
            taken = made or _remove_ended(file, descriptor, wait=attempt < _ATTEMPTS)
        if taken is False:
            refusal = in_use(path, _holder(descriptor), file if locked is None else None)
            os.close(descriptor)
            raise refusal
        # The last holder may have removed the file after it was opened here.
        if taken and _is_same(descriptor, file):
            _sign(descriptor)
            return _Lock(threading.get_ident(), descriptor, file, new_folders)
        os.close(descriptor)
    raise DataError(
        f"{path}: its lock {file} cannot be acquired, because other processes keep removing it; run the command again"
    )


def _remove_ended(file: Path, descriptor: int, *, wait: bool) -> bool | None:
    """Remove a lock file whose process has ended, where no locks exist.

    False: the process may be running; None: try again.
    """
    holder = _holder(descriptor)
    # The process that made it is about to sign it.
    if holder is None and wait:
        time.sleep(_PAUSE)
        return None
    if holder is None or may_be_running(holder):
        return False
    # Only one process at a time removes, and only this record.
    guard = file.with_name(f"{file.name}.ended")
    try:
        os.close(os.open(guard, os.O_CREAT | os.O_EXCL))
    except OSError:
        time.sleep(_PAUSE)
        return None
    with suppress(OSError):
        if _is_same(descriptor, file):
            file.unlink()
    guard.unlink()
    return None


def _release(lock: _Lock) -> None:
    """Remove the lock file and the empty folders created for it, then release the lock."""
    with suppress(OSError):
        if _is_same(lock.descriptor, lock.file):
            # While it is locked, no other process can have taken it.
            lock.file.unlink()
    os.close(lock.descriptor)
    with suppress(OSError):
        # An open file cannot be removed, by this process or by the next holder.
        if os.name != "posix":
            lock.file.unlink()
        for folder in lock.new_folders:
            folder.rmdir()


def _is_same(descriptor: int, file: Path) -> bool:
    """Return whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def _sign(descriptor: int) -> None:
    # On a full disk the lock works without a name.
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, holder_record())


def holder_record() -> bytes:
    """Return this process as a lock names it: its number, its host and the time (UTC), as JSON."""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    return json.dumps(
        {"process": os.getpid(), "host": socket.gethostname(), "since": since}
    ).encode()


def _holder(descriptor: int) -> Holder | None:
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        return holder_in(os.read(descriptor, _RECORD))
    except OSError:
        return None


def holder_in(record: bytes) -> Holder | None:
    """Return the process that a `holder_record` names, its host, and since when; None if the record is damaged."""
    try:
        fields = json.loads(record)
        return int(fields["process"]), str(fields["host"]), str(fields["since"])
    except (ValueError, OverflowError, KeyError, TypeError, RecursionError):
        return None


def may_be_running(holder: Holder | None) -> bool:
    """Return whether the holder of a lock may still run, if only its record shows that; a damaged record holds nothing."""
    if holder is None:
        return False
    process, host, _ = holder
    return host != socket.gethostname() or not (process == os.getpid() or has_ended(process))


def in_use(path: str | Path, holder: Holder | None, remove: str | Path | None = None) -> InUseError:
    """Return the error for a path that another process is writing; `remove` is a lock that nothing else removes."""
    writer, since = "another process", ""
    if holder is not None:
        process, host, time_of_start = holder
        writer, since = f"process {process} on host {host}", f" since {time_of_start} UTC"
    unless = "" if remove is None else f"; if that process has ended, delete {remove}"
    return InUseError(
        f"{path}: {writer} has been writing it{since}; wait for it to finish, or choose another path{unless}"
    )
