"""publish: a staged ladder set and its card -> one commit on a Hub."""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.errors import DataError, UsageError, option, plural
from refladder.files import hub
from refladder.files.jsonl import atomic
from refladder.files.release import MANIFEST, manifest_bytes
from refladder.ladders.dataset_card import merged_card
from refladder.ladders.diff import compare_sets
from refladder.ladders.release import stage
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from refladder.events import Events
    from refladder.files.release import Manifest
    from refladder.ladders.release import Release
    from refladder.settings import Publishing

# The name of the config that has the certificate of the set.
_CERTIFICATE = "certificate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What was published, or would be.

    Attributes:
        repository: ORG/NAME.
        commit: the commit; None where nothing was sent.
        url: address of the data set's page; None where nothing was sent.
        files: path to size in bytes.
        removed: paths of the last publication that are no longer there.
        card: README.md.
        notices: what the publisher should know.
        changes: of a dry run, what differs from the published revision, as lines.
    """

    repository: str
    commit: str | None
    url: str | None
    files: Mapping[str, int]
    removed: tuple[str, ...]
    card: str
    notices: tuple[str, ...]
    changes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return what was sent and where."""
        what = f"{plural(len(self.files), 'file')}, {sum(self.files.values()):,} bytes"
        return f"{self.repository}: {what}; {self.address or 'nothing was sent'}"

    @property
    def address(self) -> str | None:
        """Return hub:ORG/NAME@COMMIT, for `--ladders`; None if nothing was sent."""
        return None if self.commit is None else f"hub:{self.repository}@{self.commit}"


def run(asked: Publishing, events: Events) -> Publication:
    """Publish a ladder set to a Hub in one commit; a commit of somebody else that comes first is merged."""
    _check(asked)
    with tempfile.TemporaryDirectory(prefix="refladder-") as scratch:
        with events.progress("preparing") as progress:
            staged = stage(Path(scratch), asked, progress)
        if not asked.dry_run and asked.out is None:
            return _send(hub.Publisher(asked.repository, asked.endpoint), staged, asked)
        card = merged_card(staged, asked.repository, asked.tag, asked.licence, None)
        if asked.out is not None:
            _write(asked.out, _files(staged, card))
            return _planned(asked.repository, staged, card)
        return replace(
            _planned(asked.repository, staged, card), changes=tuple(_changes(asked, staged))
        )


def _changes(asked: Publishing, staged: Release) -> list[str]:
    """Compare the set with the published revision; without one, return the reason."""
    try:
        head = hub.Publisher(asked.repository, asked.endpoint).head()
        if head.manifest is None:
            return [f"{asked.repository} holds no ladder set yet"]
        if head.manifest.digest == staged.manifest.digest:
            return [f"the ladders are those of hub:{asked.repository}@{head.commit}"]
        published = f"hub:{asked.repository}@{head.commit}"
        if asked.endpoint is not None:
            return [f"the ladders are not those of {published}"]
        return compare_sets(published, asked.ladders).lines()
    except UsageError as error:
        return [f"not compared with a published revision: {error}"]
    except DataError:
        return [
            f"not compared with a published revision, as {asked.repository} cannot be read; check the network and the name"
        ]


def _check(asked: Publishing) -> None:
    """Check everything that can be wrong before the set is read."""
    hub.check_repository(asked.repository)
    out, offline = asked.out, asked.dry_run or asked.out is not None
    needed = {"huggingface_hub": "huggingface_hub", "pyarrow": "pyarrow", "yaml": "PyYAML"}
    missing = [needed[name] for name in list(needed)[offline:] if find_spec(name) is None]
    if missing:
        raise UsageError(f"publish needs {' and '.join(missing)}; pip install '.[hub]'")
    if asked.dry_run and out is not None:
        dry = option("dry-run")
        raise UsageError(
            f"{option('out')} writes the release, and {dry} writes nothing; give one of them"
        )
    if out is not None and out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"{option('out')} {out}: exists already; name a new or empty folder")
    if asked.ladders.startswith(hub.PREFIX):
        raise UsageError(
            f"{asked.ladders}: it is published already; name a folder of `refladder build`"
        )
    if asked.tag is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", asked.tag):
        raise UsageError(f"{option('tag')} {asked.tag!r} must be letters, digits, '.', '_' and '-'")


def _files(staged: Release, card: str) -> dict[str, Path | bytes]:
    """Return the files to upload: those of the release that the Hub does not have yet, its manifest and card."""
    manifest = staged.manifest
    shards = {shard.path: staged.folder / shard.path for shard in manifest.files}
    ours = {path: file for path, file in shards.items() if file.is_file()}
    return {**ours, MANIFEST: manifest_bytes(manifest), hub.CARD: card.encode()}


def _write(folder: Path, files: Mapping[str, Path | bytes]) -> None:
    for path, content in files.items():
        source = content.open("rb") if isinstance(content, Path) else io.BytesIO(content)
        with source, atomic(folder / path) as stream:
            shutil.copyfileobj(source, stream)


def _planned(repository: str, staged: Release, card: str) -> Publication:
    """Return a publication before anything is sent."""
    manifest, notices = staged.manifest, staged.notices
    if not card.startswith("---\nlicense:"):
        notices += (
            f"no licence is stated, so others may not know what they may do; add {option('licence')} ID",
        )
    sizes = {hub.CARD: len(card.encode()), MANIFEST: len(manifest_bytes(manifest))}
    return Publication(
        repository=repository,
        commit=None,
        url=None,
        files=sizes | {shard.path: shard.bytes for shard in manifest.files},
        removed=(),
        card=card,
        notices=notices,
    )


def _send(publisher: hub.Publisher, staged: Release, asked: Publishing) -> Publication:
    private, tag = asked.private, asked.tag
    message = asked.message or f"Publish {staged.manifest.name} with refladder {__version__}"
    publisher.create(private=private)
    for attempt in (1, 2):
        head = publisher.head()
        if private and not head.private:
            raise UsageError(
                f"{publisher.repository}: it exists already and is public; make it private on its page first, or leave "
                f"out {option('private')}"
            )
        current = _carried(staged, head)
        card = merged_card(current, publisher.repository, tag, asked.licence, head)
        if tag is not None and tag in head.tags:
            before, now = head.manifest, current.manifest
            if (head.tags[tag], head.card) == (head.commit, card) and before == now:
                # The same command again: nothing is left to publish.
                commit, removed = head.commit, []
                break
            raise UsageError(
                f"{publisher.repository}: tag {tag!r} exists already, for commit {head.tags[tag][:12]}; choose another"
            )
        removed = _superseded(publisher.repository, current.manifest, head)
        try:
            commit = publisher.commit(head.commit, _files(current, card), removed, message)
        except hub.StaleParentError:
            if attempt == 1:
                continue
            raise DataError(
                f"{publisher.repository}: it was changed twice while it was published, so nothing was sent; run the "
                "same command again"
            ) from None
        break
    if tag is not None:
        try:
            publisher.tag(tag, commit)
        except DataError as error:
            raise DataError(
                f"{publisher.repository}: commit {commit} is published, but without the tag {tag!r}; run the same "
                f"command again ({error})"
            ) from error
    planned = _planned(publisher.repository, current, card)
    return replace(planned, commit=commit, url=publisher.page, removed=tuple(removed))


def _carried(staged: Release, head: hub.Head) -> Release:
    """Return the release with the published certificate of the same ladders; remove that of other ladders."""
    manifest, before = staged.manifest, head.manifest
    shards = [shard for shard in head.shards if shard.config == _CERTIFICATE]
    if before is None or not shards or manifest.of(_CERTIFICATE):
        return staged
    if before.digest != manifest.digest:
        notice = "certificate of the earlier ladders removed; certify the new ladders, and publish them again"
    else:
        notice = "certificate of the last publication kept"
        manifest = replace(manifest, files=(*manifest.files, *shards))
    return replace(staged, manifest=manifest, notices=(*staged.notices, notice))


def _superseded(repository: str, manifest: Manifest, head: hub.Head) -> list[str]:
    """Return paths of the last publication that are not in this one; refuse somebody else's file in a folder of ours."""
    before = {shard.path for shard in head.shards}
    now = {shard.path for shard in manifest.files}
    for config in sorted({shard.config for shard in manifest.files}):
        for path in sorted(head.paths - before - now):
            if not path.startswith(f"data/{config}/"):
                continue
            raise UsageError(
                f"{repository}: {path} is not a file of refladder and would be read as part of the config "
                f"{config!r}; move it on the Hub, or publish to another repository"
            )
    return sorted((before - now) & head.paths)
