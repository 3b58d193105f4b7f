"""The card of a published ladder set: YAML for the Hub, and a page. Only our part of an existing page is replaced."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from refladder.errors import DataError, UsageError
from refladder.statistics.certificate import PASS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from refladder.files.hub import Head
    from refladder.files.release import Check, Manifest
    from refladder.ladders.release import Release
    from refladder.records import Recipe

T = TypeVar("T")

BEGIN = "<!-- refladder: begin. `refladder publish` writes this part again; your own words belong above or below it -->"
END = "<!-- refladder: end -->"
TAGS = ("refladder", "synthetic")
# The card shows at most this number of checks of a certificate; the config has all.
_CHECKS = 20
_BLOCK = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n(.*?)(?:\r?\n)?^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_TEMPLATE = Path(__file__).with_name("templates") / "dataset_card.md"
_BASELINE = (
    "**This set is a baseline.** Fixed rules of refladder wrote its texts, not a language model. It shows what scores "
    "without a model are worth; do not use it to judge quality.\n\n"
)
_OURS = re.compile(rf"{re.escape(BEGIN[:21])}.*?{re.escape(END)}", re.DOTALL)


def merged_card(
    release: Release, repository: str, tag: str | None, licence: str | None, head: Head | None
) -> str:
    """Write the card of a set in ORG/NAME: a new one, or the card of its newest commit with our part replaced."""
    existing = None if head is None else head.card
    data, text = _parsed(existing or "", repository)
    if licence is not None:
        data["license"] = licence
    previous = {shard.config for shard in head.shards} if head else set()
    merged = _metadata(release.manifest, repository, data, previous)
    address = f"hub:{repository}@{tag or 'REVISION'}"
    stated = ", ".join(_entries(data.get("license"), str))
    part = f"{BEGIN}\n{_page(release, repository, address, stated)}\n{END}"
    if existing is None or not text.strip():
        text = f"# {release.manifest.name.rpartition('/')[2]}\n\n{part}\n"
    elif _OURS.search(text):
        text = _OURS.sub(lambda _: part, text, count=1)
    else:
        text = f"{text.rstrip()}\n\n{part}\n"
    return f"---\n{_yaml().safe_dump(merged, sort_keys=False, allow_unicode=True, width=1000)}---\n{text}"


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise UsageError("a card needs the package PyYAML; pip install PyYAML") from error
    return yaml


def _parsed(card: str, repository: str) -> tuple[dict[str, object], str]:
    match = _BLOCK.match(card)
    if match is None:
        return {}, card
    yaml = _yaml()
    try:
        data = yaml.safe_load(match[1]) or {}
    except yaml.YAMLError as error:
        raise DataError(
            f"{repository}: the YAML at the top of README.md cannot be read; correct it on the Hub"
        ) from error
    if not isinstance(data, dict):
        raise DataError(
            f"{repository}: the YAML at the top of README.md must be `key: value` lines; correct it on the Hub"
        )
    return data, card[match.end() :]


def _metadata(
    manifest: Manifest, repository: str, data: Mapping[str, object], previous: set[str]
) -> dict[str, object]:
    ours = list(dict.fromkeys(shard.config for shard in manifest.files))
    configs = _entries(data.get("configs"), dict)
    names = [config.get("config_name", "default") for config in configs]
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                f"{repository}: README.md has two configs named {name!r}; rename or remove one on the Hub"
            )
    for name, config in zip(names, configs, strict=True):
        foreign = name in ours and name not in previous
        if foreign and config != _config(name, default=bool(config.get("default"))):
            raise UsageError(
                f"{repository}: README.md has a config named {name!r} with other files already; rename it on "
                "the Hub, or publish to another repository"
            )
    replaced = previous | set(ours)
    others = [config for config in configs if config.get("config_name") not in replaced]
    taken = any(config.get("default") for config in others)
    infos = _entries(data.get("dataset_info"), dict)
    infos = [info for info in infos if info.get("config_name") not in replaced]
    merged: dict[str, object] = {"license": data["license"]} if data.get("license") else {}
    ours_too = ("license", "configs", "dataset_info", "tags")
    merged |= {key: value for key, value in data.items() if key not in ours_too}
    merged.setdefault("pretty_name", manifest.name.rpartition("/")[2])
    merged["tags"] = list(dict.fromkeys([*_entries(data.get("tags"), str), *TAGS]))
    if infos:
        merged["dataset_info"] = infos
    of_ours = [_config(name, default=not taken and name == "ladders") for name in ours]
    return {**merged, "configs": [*of_ours, *others]}


def _config(name: str, *, default: bool) -> dict[str, object]:
    config: dict[str, object] = {"config_name": name, "data_files": f"data/{name}/*.parquet"}
    return {**config, "default": True} if default else config


def _entries(value: object, kind: type[T]) -> list[T]:
    """Return the entries of a kind, of a list or of a single value."""
    entries = value if isinstance(value, list) else [value]
    return [entry for entry in entries if isinstance(entry, kind)]


def _page(release: Release, repository: str, address: str, licence: str) -> str:
    manifest = release.manifest
    texts = "not included: they may not be distributed"
    if manifest.contexts is not None:
        texts = f"{manifest.contexts:,}"
    compared = "An output gets its score by comparison with the texts of its context's ladder."
    if manifest.shared is not None:
        compared = (
            "The set is shared: every output is compared with the ladders of all anchors "
            f"({len(manifest.shared.anchors)}), whatever its context. The score is the mean over them."
        )
    dimensions = [
        [f"`{each.name}`", f"{each.low:g} to {each.high:g}", each.description]
        for each in manifest.dimensions
    ]
    recipes = []
    for recipe, count in release.recipes.items():
        prompts = ", ".join(f"`{prompt}`" for prompt in recipe.prompts)
        writer, sampling = f"`{recipe.backend}`", _sampling(recipe)
        recipes.append([writer, prompts, sampling, recipe.version, f"{count:,}"])
    lengths = [
        [str(level), f"{low:,}", f"{median:,g}", f"{high:,}"]
        for level, (low, median, high) in enumerate(release.lengths, start=1)
    ]
    return (
        _TEMPLATE.read_text(encoding="utf-8")
        .rstrip()
        .format(
            manifest=manifest,
            repository=repository,
            address=address,
            compared=compared,
            baseline=(_BASELINE if release.baseline else "") + _standing(release.certificate),
            texts=texts,
            licence=_cell(licence or "not stated by the publisher"),
            dimensions=_table("dimension", "human scale", "description", rows=dimensions),
            recipes=_table("writer", "prompts", "sampling", "refladder", "ladders", rows=recipes),
            lengths=_table("rung", "shortest", "median", "longest", rows=lengths),
            by_length=length_line(release.by_length),
            certificate=_certificate(release.certificate[:_CHECKS]),
        )
    )


def length_line(counts: Mapping[str, tuple[int, int]]) -> str:
    """Say on how many ladders of each dimension a rule of length alone is right, of how many."""
    shown = ", ".join(f"{name} {right:,} of {of:,}" for name, (right, of) in counts.items())
    return (
        f"A rule of length alone (characters) distinguishes the best rung from the worst on: {shown}. Where it is right on "
        "nearly all, the judge check does not show that a judge reads more than length."
    )


def _standing(checks: Sequence[Check]) -> str:
    """Say that a set is not certified if its verdict is not `pass`; the first row is that of the whole."""
    if not checks or checks[0].verdict == PASS:
        return ""
    return f"**Not certified: the verdict is {checks[0].verdict}**, see Certificate.\n\n"


def _certificate(checks: Sequence[Check]) -> str:
    if not checks:
        return ""
    rows = [[check.name, f"**{check.verdict}**", check.details] for check in checks]
    return f"\n\n## Certificate\n\n{_table('check', 'verdict', 'details', rows=rows)}"


def _sampling(recipe: Recipe) -> str:
    drawn = recipe.sampling
    if drawn is None:
        return "none"
    return f"temperature {drawn.temperature:g}, top-p {drawn.top_p:g}, {drawn.max_tokens} tokens, seed {drawn.seed}"


def _table(*header: str, rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<!--", "&lt;!--")
