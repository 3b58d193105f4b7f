"""The card of a published ladder set: YAML for the Hub, and a page that a person can read.

Our part of the page is between two comments. Everything else of an existing card is kept: its prose, the other keys and
the other configs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from refladder.files.release import Manifest
    from refladder.records import Recipe

BEGIN = "<!-- refladder: begin. `refladder publish` writes this part again; your own words belong above or below it -->"
END = "<!-- refladder: end -->"
TAGS = ("refladder", "synthetic")
_CHECKS = 20  # most checks of a certificate that the card shows; the config has all
_BLOCK = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)(?:\r?\n)?^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_OURS = re.compile(rf"{re.escape(BEGIN[:21])}.*?{re.escape(END)}", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a card says.

    Attributes:
        repository: ORG/NAME.
        revision: a tag, or None.
        manifest: of the set.
        recipes: how many ladders each recipe made.
        lengths: shortest, median and longest rung of each level, in characters.
        licence: as the publisher stated it, or None.
        baseline: whether the ladders are of the built-in writer.
        certificate: name, verdict and details of each check.
    """

    repository: str
    revision: str | None
    manifest: Manifest
    recipes: Mapping[Recipe, int]
    lengths: Sequence[tuple[int, float, int]]
    licence: str | None
    baseline: bool
    certificate: Sequence[Mapping[str, str]]


def merged_card(facts: Facts, existing: str | None, previous: Iterable[str]) -> str:
    """The card of a set: a new one, or an existing one with our part put in."""
    data, text = _parsed(existing or "", facts.repository)
    if facts.licence is not None:
        data["license"] = facts.licence
    merged = _metadata(facts, data, set(previous))
    part = f"{BEGIN}\n{_page(facts, ', '.join(_texts(data.get('license'))))}\n{END}"
    if existing is None or not text.strip():
        text = f"# {facts.manifest.name.rpartition('/')[2]}\n\n{part}\n"
    elif _OURS.search(text):
        text = _OURS.sub(lambda _: part, text, count=1)
    else:
        text = f"{text.rstrip()}\n\n{part}\n"
    return f"---\n{_yaml().safe_dump(merged, sort_keys=False, allow_unicode=True, width=1000)}---\n{text}"


def _yaml() -> Any:  # noqa: ANN401  the module
    try:
        import yaml  # noqa: PLC0415  comes with huggingface_hub
    except ImportError as error:
        raise UsageError("a card needs the package PyYAML; pip install PyYAML") from error
    return yaml


def _parsed(card: str, repository: str) -> tuple[dict[str, Any], str]:
    match = _BLOCK.match(card)
    if match is None:
        return {}, card
    yaml = _yaml()
    try:
        data = yaml.safe_load(match[1]) or {}
    except yaml.YAMLError as error:
        raise DataError(f"{repository}: the YAML at the top of README.md cannot be read; mend it on the Hub") from error
    if not isinstance(data, dict):
        raise DataError(
            f"{repository}: the YAML at the top of README.md must be `key: value` lines; mend it on the Hub"
        )
    return data, card[match.end() :]


def _metadata(facts: Facts, data: dict[str, Any], previous: set[str]) -> dict[str, Any]:
    ours = list(dict.fromkeys(shard.config for shard in facts.manifest.files))
    configs = _listed(data.get("configs"))
    names = [config.get("config_name", "default") for config in configs]
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                f"{facts.repository}: README.md has two configs named {name!r}; rename or remove one on the Hub"
            )
    for config in configs:
        name = config.get("config_name", "default")
        if name in ours and name not in previous and config != _config(name, default=bool(config.get("default"))):
            raise UsageError(
                f"{facts.repository}: README.md has a config named {name!r} with other files already; rename it on "
                "the Hub, or publish to another repository"
            )
    others = [config for config in configs if config.get("config_name") not in previous | set(ours)]
    taken = any(config.get("default") for config in others)
    infos = [info for info in _listed(data.get("dataset_info")) if info.get("config_name") not in previous | set(ours)]
    merged: dict[str, Any] = {"license": data["license"]} if data.get("license") else {}
    merged |= {key: value for key, value in data.items() if key not in ("license", "configs", "dataset_info", "tags")}
    merged.setdefault("pretty_name", facts.manifest.name.rpartition("/")[2])
    merged["tags"] = list(dict.fromkeys([*_texts(data.get("tags")), *TAGS]))
    if infos:
        merged["dataset_info"] = infos
    merged["configs"] = [*(_config(name, default=not taken and name == "ladders") for name in ours), *others]
    return merged


def _config(name: str, *, default: bool) -> dict[str, Any]:
    config: dict[str, Any] = {"config_name": name, "data_files": f"data/{name}/*.parquet"}
    return {**config, "default": True} if default else config


def _listed(value: object) -> list[dict[str, Any]]:
    values = value if isinstance(value, list) else [value]
    return [entry for entry in values if isinstance(entry, dict)]


def _texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [entry for entry in values if isinstance(entry, str)]


def _page(facts: Facts, licence: str) -> str:
    manifest = facts.manifest
    address = f"hub:{facts.repository}@{facts.revision or 'REVISION'}"
    texts = "not included: they may not be distributed" if manifest.contexts is None else f"{manifest.contexts:,}"
    about = (
        f"Reference texts of rising quality (*ladders*) for absolute scores of generated text, task "
        f"`{manifest.task}`. A ladder has {manifest.rungs} texts for one context and one dimension, the worst first. "
        "An output gets its score by comparison with the texts of its context's ladder."
    )
    commands = (
        "    pip install huggingface_hub pyarrow  # beside refladder\n"
        f"    refladder show {address}\n"
        f"    refladder score outputs.jsonl --ladders {address} --judge BACKEND --out scored.jsonl"
    )
    rows = (
        f'`datasets.load_dataset("{facts.repository}", "ladders")` gives the same rows. Scores are comparable only '
        "between runs with the same commit: another revision of a ladder is another scale."
    )
    parts = [about]
    if facts.baseline:
        parts.append(
            "**This set is a baseline.** Fixed rules of refladder wrote its texts, not a language model. It shows what "
            "scores without a model are worth; do not use it to judge quality."
        )
    parts += [
        "## Use",
        commands,
        rows,
        "## Contents",
        _table(
            ["", ""],
            [
                ["ladders", f"{manifest.ladders:,}"],
                ["rungs of each ladder", str(manifest.rungs)],
                ["context texts", texts],
                ["ladders that failed", f"{manifest.failures:,}"],
                ["digest of the ladders", f"`{manifest.digest}`"],
                ["licence", licence or "not stated by the publisher"],
            ],
        ),
        _table(
            ["dimension", "human scale", "description"],
            [[f"`{each.name}`", f"{each.low:g} to {each.high:g}", each.description] for each in manifest.dimensions],
        ),
        "## Recipe",
        _table(
            ["writer", "prompts", "sampling", "refladder", "ladders"],
            [
                [
                    f"`{each.backend}`",
                    ", ".join(f"`{prompt}`" for prompt in each.prompts),
                    _sampling(each),
                    each.version,
                    f"{count:,}",
                ]
                for each, count in facts.recipes.items()
            ],
        ),
        "A prompt is its task, its role and the digest of its text.",
        "Lengths of the texts in characters:",
        _table(
            ["rung", "shortest", "median", "longest"],
            [
                [str(level), f"{low:,}", f"{median:,g}", f"{high:,}"]
                for level, (low, median, high) in enumerate(facts.lengths, start=1)
            ],
        ),
    ]
    parts += _judgments(facts, address)
    if facts.certificate:
        parts += [
            "## Certificate",
            _table(
                ["check", "verdict", "details"],
                [[each["name"], f"**{each['verdict']}**", each["details"]] for each in facts.certificate[:_CHECKS]],
            ),
        ]
    return "\n\n".join(parts)


def _judgments(facts: Facts, address: str) -> list[str]:
    run = facts.manifest.run
    if run is None:
        return []
    rows = {config: sum(shard.rows for shard in facts.manifest.of(config)) for config in ("judgments", "scores")}
    asked = "label probabilities" if not run.answers else f"{run.answers} sampled answers per question"
    return [
        "## Judgments",
        _table(
            ["", ""],
            [
                ["judge", f"`{run.recipe.backend}`"],
                ["prompt", ", ".join(f"`{prompt}`" for prompt in run.recipe.prompts)],
                ["reading", f"{asked}, {'both orders' if run.orders > 1 else 'one order'}"],
                ["ladders", f"`{run.ladders}`"],
                ["judgments, scored rows", f"{rows['judgments']:,}, {rows['scores']:,}"],
            ],
        ),
        f"`refladder rescore {address}` computes the scores again, without a model.",
    ]


def _sampling(recipe: Recipe) -> str:
    drawn = recipe.sampling
    if drawn is None:
        return "none"
    return f"temperature {drawn.temperature:g}, top-p {drawn.top_p:g}, {drawn.max_tokens} tokens, seed {drawn.seed}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<!--", "&lt;!--")
