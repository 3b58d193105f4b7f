"""Does a certificate help? Agreement with people on degraded ladders, without and with a certificate.

`python bench/certificate.py` reads ../shared/data and writes bench/results/certificate.md. Ladders are written by
builtin for the first contexts of each benchmark. In half of them, drawn at random, two rungs are swapped, a rung is
replaced by a copy of another, or a rung is corrupted (half of its words, shuffled). `build --certify` then treats the
set: rungs out of order are written anew, and ladders that stay out of order fail.

Judges: builtin, and two simulated ones. A simulated judge knows the mean human rating of an output, and the quality
(level - 1/2) / N of a rung as it was written; it adds noise to each text (`sharp`) or to each comparison (`noisy`). A
rung written anew has the middle of the qualities of its neighbours (the ends: those of an end), which assumes a writer
that does what it is asked.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from refladder.backends import Backend, connect
from refladder.comparison.audit_statistics import mean_over_contexts
from refladder.files.ladder_sets import ladder_set
from refladder.ladders.repair import Repair
from refladder.loaders import load_benchmark
from refladder.methods.ladder import score_benchmark
from refladder.records import LabelReading, Sampling
from refladder.scoring.scorer import LadderScorer
from refladder.settings import BuildSpec, Scoring
from refladder.statistics.agreement import human_means
from refladder.statistics.correlation import correlate
from refladder.synth import build_ladders

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.records import Benchmark, Completion, Dimension, Ladder, Prompt

    Pairs = defaultdict[
        tuple[str, str], list[tuple[float, float]]
    ]  # (score, rating) by context and dimension

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "bench" / "results" / "certificate.md"
SOURCES = {
    "summeval": DATA / "summeval",
    "topicalchat": DATA / "topicalchat_usr",
    "hanna": DATA / "hanna",
    "newsroom": DATA / "newsroom",
    "webnlg": DATA / "webnlg2017",
}
CONTEXTS, DIMENSIONS, RUNGS, SEED = 40, 2, 5, 1
KINDS = ("swapped", "duplicated", "corrupted")
# Log-odds of a unit of quality, noise of a text in quality, noise of a comparison in log-odds.
JUDGES = {"builtin": None, "sharp": (8.0, 0.05, 0.0), "noisy": (8.0, 0.0, 2.0)}


class Qualities(dict[tuple[str, str, str], float]):
    """Quality of a text of a context on a dimension, between 0 and 1."""

    @staticmethod
    def key(context: str, dimension: str, text: str) -> tuple[str, str, str]:
        """The key of a text, whatever its white space."""
        return context, dimension, " ".join(text.split())


def normal(*texts: str) -> float:
    """A draw from the standard normal distribution that depends on texts only."""
    digest = hashlib.blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=8).digest()
    return float(np.random.default_rng(int.from_bytes(digest, "big")).standard_normal())


class Simulated(Backend):
    """A judge that knows the quality of every text, up to noise that belongs to the text or to the comparison."""

    def __init__(
        self, name: str, qualities: Qualities, settings: tuple[float, float, float]
    ) -> None:
        self.name, self.qualities = name, qualities
        self.sharpness, self.noise, self.pair_noise = settings

    @property
    def fingerprint(self) -> str:
        """The name of the judge."""
        return f"simulated/{self.name}"

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """A judge writes nothing."""
        raise NotImplementedError

    def _worth(self, slots: Mapping[str, str], text: str) -> float:
        key = Qualities.key(slots["context"], slots["dimension"], text)
        return self.qualities[key] + self.noise * normal(*key)

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Davidson's model over the known qualities."""
        readings = []
        for prompt in prompts:
            slots = prompt.slots
            target, reference = slots["target"], slots["reference"]
            gap = self.sharpness * (self._worth(slots, target) - self._worth(slots, reference))
            half = (
                gap
                + self.pair_noise * normal(slots["context"], slots["dimension"], target, reference)
            ) / 2
            weights = {"win": math.exp(half), "loss": math.exp(-half), "tie": 1.0}
            outcomes = [weights[prompt.outcomes[prompt.labels.index(label)]] for label in labels]
            readings.append(
                LabelReading(
                    logprobs=tuple(math.log(one / sum(outcomes)) for one in outcomes), mass=1.0
                )
            )
        return readings


class Writer(Backend):
    """The builtin writer, which enters the quality of what it writes."""

    fingerprint = "builtin/1"

    def __init__(self, qualities: Qualities) -> None:
        self.inner, self.qualities = connect("builtin"), qualities

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """The texts of the builtin writer."""
        completions = self.inner.write(prompts, sampling)
        for prompt, completion in zip(prompts, completions, strict=True):
            slots = prompt.slots
            known = {"worst": 0.5 / RUNGS, "best": 1 - 0.5 / RUNGS}
            if prompt.role == "between":
                keys = [
                    Qualities.key(slots["context"], slots["dimension"], slots[end])
                    for end in ("lower", "higher")
                ]
                quality = sum(self.qualities[key] for key in keys) / 2
            else:
                quality = known[prompt.role]
            self.qualities.setdefault(
                Qualities.key(slots["context"], slots["dimension"], completion.text), quality
            )
        return completions

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """A writer judges nothing."""
        raise NotImplementedError


def degraded(
    ladder: Ladder, kind: str, random: np.random.Generator, qualities: Qualities, context: str
) -> Ladder:
    """A ladder with one fault."""
    first, second = random.choice(RUNGS, 2, replace=False).tolist()
    texts = [rung.text for rung in ladder.rungs]
    if kind == "swapped":
        texts[first], texts[second] = texts[second], texts[first]
    elif kind == "duplicated":
        texts[first] = texts[second]
    else:
        words = texts[first].split()
        texts[first] = " ".join(random.permutation(words)[: max(1, len(words) // 2)].tolist())
        qualities[Qualities.key(context, ladder.dimension, texts[first])] = 0.0
    rungs = tuple(replace(rung, text=text) for rung, text in zip(ladder.rungs, texts, strict=True))
    return replace(ladder, rungs=rungs)


def scored_pairs(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    ladders: Sequence[Ladder],
    judge: Backend,
    human: Mapping[tuple[str, str], float],
) -> Pairs:
    """(score, rating) of every scored output, by (context, dimension)."""
    opened = ladder_set("x", dimensions, benchmark.contexts, ladders)
    method, _ = score_benchmark(LadderScorer(judge, opened, Scoring()), benchmark)
    rows: Pairs = defaultdict(list)
    for output in benchmark.outputs:
        for dimension in dimensions:
            score, rating = (
                method.scores[output.id, dimension.name],
                human.get((output.id, dimension.name)),
            )
            if score is not None and rating is not None:
                rows[output.context_id, dimension.name].append((score, rating))
    return rows


def within(rows: Pairs) -> dict[tuple[str, str], float]:
    """Spearman of scores and ratings of each ladder's outputs; those without one are left out."""
    values = {key: correlate(*np.array(pairs).T) for key, pairs in rows.items()}
    return {key: value for key, value in values.items() if not math.isnan(value)}


def pooled(rows: Pairs, keys: Pairs | None = None) -> float:
    """Mean over dimensions of the Spearman correlation over all outputs (of these ladders)."""
    by_dimension: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for key, pairs in rows.items():
        if keys is None or key in keys:
            by_dimension[key[1]] += pairs
    return float(np.mean([correlate(*np.array(pairs).T) for pairs in by_dimension.values()]))


def study(name: str) -> list[tuple[str, ...]]:
    """The rows of one benchmark."""
    benchmark = load_benchmark(name, SOURCES[name])
    contexts = benchmark.contexts[:CONTEXTS]
    ids = {context.id for context in contexts}
    outputs = tuple(output for output in benchmark.outputs if output.context_id in ids)
    benchmark = replace(benchmark, contexts=contexts, outputs=outputs)
    dimensions = benchmark.dimensions[:DIMENSIONS]
    text_of = {context.id: context.text for context in contexts}
    human = human_means(benchmark.ratings)
    qualities = Qualities()
    writer = Writer(qualities)
    intact, _ = build_ladders(writer, contexts, dimensions, rungs=RUNGS)
    for ladder in intact:
        for rung in ladder.rungs:
            key = Qualities.key(text_of[ladder.context_id], ladder.dimension, rung.text)
            qualities[key] = (rung.level - 0.5) / RUNGS
    for output in outputs:
        for dimension in dimensions:
            rating = human.get((output.id, dimension.name), dimension.low)
            quality = (rating - dimension.low) / (dimension.high - dimension.low)
            qualities[Qualities.key(text_of[output.context_id], dimension.name, output.text)] = (
                quality
            )
    rows = []
    for judge_name, settings in JUDGES.items():
        judge = (
            connect("builtin") if settings is None else Simulated(judge_name, qualities, settings)
        )
        intact_rows = scored_pairs(benchmark, dimensions, intact, judge, human)
        for kind in KINDS:
            random = np.random.default_rng(SEED)
            hit = {
                (ladder.context_id, ladder.dimension) for ladder in intact if random.random() < 0.5
            }
            worse = [
                degraded(ladder, kind, random, qualities, text_of[ladder.context_id])
                if (ladder.context_id, ladder.dimension) in hit
                else ladder
                for ladder in intact
            ]
            before_rows = scored_pairs(benchmark, dimensions, worse, judge, human)
            with tempfile.TemporaryDirectory() as folder:
                spec = BuildSpec(contexts=contexts, dimensions=dimensions, folder=Path(folder))
                mender = Repair(spec=spec, contexts=contexts, writer=writer, judge=judge)
                mended, _, certificate = mender(worse, [])
            after_rows = scored_pairs(benchmark, dimensions, mended, judge, human)
            whole, before, after = within(intact_rows), within(before_rows), within(after_rows)
            texts = {
                (ladder.context_id, ladder.dimension): [rung.text for rung in ladder.rungs]
                for ladder in mended
            }
            changed = {
                key
                for ladder in worse
                if texts.get(key := (ladder.context_id, ladder.dimension))
                != [rung.text for rung in ladder.rungs]
            }
            common = [key for key in after if key in before]
            gains = np.array([after[key] - before[key] for key in common])
            gain = mean_over_contexts(gains, [key[0] for key in common])
            rows.append(
                (
                    name, judge_name, kind,
                    f"{len(changed & hit)}/{len(hit)}", f"{len(changed - hit)}/{len(intact) - len(hit)}",
                    str(certificate.built.rewritten), str(certificate.built.failed),
                    f"{np.mean(list(whole.values())):.3f}", f"{np.mean(list(before.values())):.3f}",
                    f"{np.mean(list(after.values())):.3f}",
                    "—" if gain.low is None else f"{gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]",
                    f"{pooled(intact_rows):.3f}", f"{pooled(before_rows):.3f}",
                    f"{pooled(before_rows, after_rows):.3f}", f"{pooled(after_rows):.3f}",
                )
            )  # fmt: skip
            print(*rows[-1], sep=" | ", flush=True)
    return rows


HEADS = (
    "benchmark", "judge", "fault", "degraded ladders treated", "intact ladders treated", "rungs rewritten",
    "ladders failed", "within: intact", "within: degraded", "within: certified", "certified - degraded",
    "pooled: intact", "pooled: degraded", "pooled: degraded, ladders that are left", "pooled: certified",
)  # fmt: skip


# Columns of HEADS before those of correlations.
TREATED = 7

MEANS = (
    "within: intact", "within: degraded", "within: certified", "pooled: intact",
    "pooled: degraded, ladders that are left", "pooled: certified",
)  # fmt: skip


def main() -> None:
    """Run the study and write the page."""
    rows = [row for name in SOURCES for row in study(name)]
    columns = [HEADS.index(head) for head in MEANS]
    means = [
        (
            judge,
            kind,
            *(
                f"{np.mean([float(row[column]) for row in rows if row[1:3] == (judge, kind)]):.3f}"
                for column in columns
            ),
        )
        for judge in JUDGES
        for kind in KINDS
    ]
    head, mark, _ = RESULTS.read_text("utf-8").partition("<!-- tables -->\n")
    tables = ["## Means over the benchmarks", "", *table(("judge", "fault", *MEANS), means, 2), ""]
    # Two tables, as one of fifteen columns is wider than a page.
    tables += [
        "## Treated ladders",
        "",
        *table(HEADS[:TREATED], [row[:TREATED] for row in rows], 3),
        "",
    ]
    heads, kept = HEADS[:3] + HEADS[TREATED:], [row[:3] + row[TREATED:] for row in rows]
    tables += ["## Every benchmark", "", *table(heads, kept, 3)]
    RESULTS.write_text(head + mark + "\n" + "\n".join(tables) + "\n", "utf-8")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> list[str]:
    """The lines of a pipe table whose first columns are words."""
    rule = ["---"] * words + ["---:"] * (len(heads) - words)
    return ["| " + " | ".join(row) + " |" for row in (heads, rule, *rows)]


if __name__ == "__main__":
    main()
