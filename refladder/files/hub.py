"""Ladder sets on a Hub: find the commit of an address, read its files from the usual cache, and upload new ones.

`hub:ORG/NAME@REVISION` names a set, where the revision is a commit, a tag or a branch. The token is the one that
huggingface_hub finds (`HF_TOKEN`, or `hf auth login`); it is never read here.
"""

from __future__ import annotations

import functools
import logging
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UsageError
from refladder.files.release import MANIFEST, Manifest, Shard, read_manifest, verify
from refladder.files.streams import quiet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

PREFIX = "hub:"
CARD = "README.md"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
# A warning is printed on standard error unless the program decides otherwise.
_log = logging.getLogger("refladder.hub")


class StaleParentError(Exception):
    """Another commit came first; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Address:
    """A repository of data sets, and a commit, tag or branch of it; None is its main branch."""

    repository: str
    revision: str | None

    def __str__(self) -> str:
        return f"{PREFIX}{self.repository}" + (f"@{self.revision}" if self.revision else "")


def check_repository(name: str) -> str:
    """Check the name of a repository and return it."""
    if not _NAME.fullmatch(name) or "--" in name or ".." in name:
        raise UsageError(
            f"repository {name!r} must be ORG/NAME in letters, digits, '-', '_' and '.'"
        )
    return name


def parse_address(text: str) -> Address:
    """Parse `hub:ORG/NAME` or `hub:ORG/NAME@REVISION`."""
    repository, at, revision = text.removeprefix(PREFIX).partition("@")
    if at and not _REVISION.fullmatch(revision):
        raise UsageError(
            f"{text!r}: after @ must be a commit, a tag or a branch, found {revision!r}"
        )
    if not _NAME.fullmatch(repository):
        raise UsageError(f"{text!r} must be hub:ORG/NAME or hub:ORG/NAME@REVISION")
    return Address(check_repository(repository), revision or None)


def _library() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError as error:
        raise UsageError(
            "the Hub needs the package huggingface_hub; pip install huggingface_hub pyarrow"
        ) from error
    return huggingface_hub


@contextmanager
def _explained(what: str, endpoint: str | None = None) -> Iterator[None]:
    """Turn errors of the client into sentences that never quote a request, since it may hold the token."""
    hub = _library()
    try:
        with quiet(hub):
            yield
    except (
        hub.errors.HTTPError,
        OSError,
        RuntimeError,
    ) as error:
        # The upload of one file raises a RuntimeError.
        raise _translated(
            what, _shown(endpoint or hub.constants.ENDPOINT), hub.errors, error
        ) from error


def _shown(endpoint: str) -> str:
    """Return an address without user name and password."""
    return re.sub(r"//[^/@]*@", "//", endpoint)


def _translated(what: str, server: str, errors: Any, error: Exception) -> Exception:
    sentences = {
        errors.GatedRepoError: f"access to it must be requested on its page at {server}; then try again",
        errors.RepositoryNotFoundError: (
            f"no such data set on {server}, or it is private and the token may not read it; check the name, or log in "
            "with `hf auth login` (or set HF_TOKEN)"
        ),
        errors.RevisionNotFoundError: f"no such commit, tag or branch; see the history of the data set on {server}",
        errors.LocalEntryNotFoundError: (
            f"{server} cannot be reached, and this revision is not complete in the cache; check the network, or name a "
            "revision that was used before"
        ),
        errors.EntryNotFoundError: (
            f"no {MANIFEST}, or a file of it is missing; it is not a ladder set of `refladder publish`"
        ),
    }
    of_status = {
        401: "there is no token, or it is not valid (status 401); log in with `hf auth login` (or set HF_TOKEN)",
        403: (
            "the token may not write there (status 403); make a token with the right to write and log in with "
            "`hf auth login` (or set HF_TOKEN)"
        ),
        429: f"{server} has had too many requests from you (status 429); try again in an hour",
    }
    for kind, sentence in sentences.items():
        if isinstance(error, kind):
            return DataError(f"{what}: {sentence}")
    cause = error.__cause__ if isinstance(error, RuntimeError) else error
    name = type(cause or error).__name__
    # An error of the package hf_xet holds the address of the missing service.
    if "xet-" in str(error):
        words = (
            f"{server} has no Xet service, and nothing was sent; set the environment variable HF_HUB_DISABLE_XET=1 and "
            "run the same command again"
        )
    elif isinstance(cause, errors.HfHubHTTPError):
        status = cause.response.status_code
        if status == 412:
            return StaleParentError()
        words = of_status.get(status, f"{server} refused the request (status {status}); try again")
    elif isinstance(error, RuntimeError):
        words = f"the upload to {server} broke off ({name}), and nothing was changed; run the same command again"
    else:
        words = f"{server} cannot be reached ({name}); check the network and the address"
    return DataError(f"{what}: {words}")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a commit in the cache."""

    # The revision is the commit.
    address: Address
    folder: Path
    manifest: Manifest


def fetch(text: str, configs: Sequence[str]) -> Snapshot:
    """Download a published ladder set into the Hub cache, or find it there; a moving revision is reported once."""
    address = parse_address(text)
    hub = _library()
    with _explained(str(address)):
        path = Path(_download(hub, address, MANIFEST))
    folder, commit = path.parent, path.parent.name
    pinned = Address(address.repository, commit)
    if address.revision != commit:
        _report_moving(address, pinned)
    manifest = read_manifest(path, str(pinned))
    shards = [shard for config in configs for shard in manifest.of(config)]
    with _explained(str(pinned)):
        for shard in shards:
            _download(hub, pinned, shard.path)
    verify(folder, shards, str(pinned))
    return Snapshot(pinned, folder, manifest)


def _download(hub: Any, address: Address, path: str) -> str:
    options = {"repo_type": "dataset", "revision": address.revision}
    try:
        return str(hub.hf_hub_download(address.repository, path, **options))
    except (hub.errors.HfHubHTTPError, hub.errors.EntryNotFoundError):
        raise
    except (hub.errors.HTTPError, OSError):
        # The connection broke off.
        return str(hub.hf_hub_download(address.repository, path, local_files_only=True, **options))


@functools.cache
def _report_moving(address: Address, pinned: Address) -> None:
    """Report once which commit a branch is at; leave a tag or a shortened commit as it is."""
    with _explained(str(address)):
        try:
            refs = _library().HfApi().list_repo_refs(address.repository, repo_type="dataset")
        except (OSError, _library().errors.HTTPError):
            _log.warning(
                "%s: the Hub cannot be reached; %s is used, from the cache", address, pinned
            )
            return
    if address.revision is None or address.revision in {branch.name for branch in refs.branches}:
        _log.warning("%s names a branch, which can move; it is now at %s", address, pinned)


@dataclass(frozen=True, slots=True)
class Head:
    """The newest commit of a repository: its paths, its card and manifest (None without one), and its tags."""

    commit: str
    paths: frozenset[str]
    card: str | None
    manifest: Manifest | None
    private: bool
    tags: Mapping[str, str]

    @property
    def shards(self) -> tuple[Shard, ...]:
        """Return the files of the manifest."""
        return () if self.manifest is None else self.manifest.files


class Publisher:
    """A repository that can be written."""

    def __init__(self, repository: str, endpoint: str | None = None) -> None:
        self.repository = check_repository(repository)
        self._hub = _library()
        self.endpoint = (endpoint or self._hub.constants.ENDPOINT).rstrip("/")
        self._api = self._hub.HfApi(endpoint=self.endpoint)

    @property
    def page(self) -> str:
        """Return the address of the repository's page."""
        return f"{_shown(self.endpoint)}/datasets/{self.repository}"

    def create(self, *, private: bool) -> None:
        """Create the repository unless it exists."""
        with _explained(self.repository, self.endpoint):
            self._api.create_repo(
                self.repository, repo_type="dataset", private=private or None, exist_ok=True
            )

    def head(self) -> Head:
        """Return the newest commit."""
        with _explained(self.repository, self.endpoint):
            info = self._api.dataset_info(self.repository)
            paths = frozenset(sibling.rfilename for sibling in info.siblings or ())
            refs = self._api.list_repo_refs(self.repository, repo_type="dataset")
            local = {path: self._read(path, info.sha) for path in (CARD, MANIFEST) if path in paths}
        card = manifest = None
        if CARD in local:
            card = Path(local[CARD]).read_bytes().decode("utf-8", "replace")
        if MANIFEST in local:
            manifest = read_manifest(Path(local[MANIFEST]), self.repository)
        return Head(
            commit=info.sha,
            paths=paths,
            card=card,
            manifest=manifest,
            private=bool(info.private),
            tags={tag.name: tag.target_commit for tag in refs.tags},
        )

    def _read(self, path: str, commit: str) -> str:
        return str(
            self._api.hf_hub_download(self.repository, path, repo_type="dataset", revision=commit)
        )

    def commit(
        self, parent: str, files: Mapping[str, Path | bytes], removed: Iterable[str], message: str
    ) -> str:
        """Add and remove files in one commit on a known parent, and return the commit."""
        operations = []
        for path, content in files.items():
            sent = content if isinstance(content, bytes) else str(content)
            operations.append(self._hub.CommitOperationAdd(path, sent))
        operations += map(self._hub.CommitOperationDelete, removed)
        with _explained(self.repository, self.endpoint):
            done = self._api.create_commit(
                self.repository,
                operations,
                commit_message=message,
                repo_type="dataset",
                parent_commit=parent,
            )
        return str(done.oid)

    def tag(self, name: str, commit: str) -> None:
        """Give a commit a tag."""
        with _explained(self.repository, self.endpoint):
            self._api.create_tag(
                self.repository, tag=name, revision=commit, repo_type="dataset", exist_ok=True
            )
