"""Compute from recorded readings how far scores move between judges of different temperament; no model is asked.

python bench/stays.py ../shared/data     # a folder with the public releases; writes bench/results/stays.md

The plan of the study is bench/stays/plan.md, and the readings are bench/readings/stays-*.jsonl.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import spearmanr

import refladder
from refladder.comparison.column_maps import best_of, held_out, mapped
from refladder.comparison.decisions import best_cutoff, changed_share, deciding_cutoffs
from refladder.scoring.rung_scale import rungs_beaten

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

HERE = Path(__file__).parent
sys.path.append(str(HERE / "stays"))
import samples  # noqa: E402  a script of that folder

READINGS = HERE / "readings"
# Sample, dimension, file of its release; the texts of the replies, and their labels, are beside the readings.
SAMPLES = (
    ("topicalchat", "engagingness", "topicalchat_usr/tc_usr_data.json"),
    ("summeval", "coherence", "summeval/model_annotations.aligned.paired.jsonl.gz"),
    ("replies", "helpfulness", ""),
)
WAYS = {
    "stated": "ladder",
    "rating": "rating",
    "placed": "placed",
    "anchored": "anchored",
    "trial": "trial",
}
TITLES = {
    "topicalchat": "TopicalChat engagingness",
    "summeval": "SummEval coherence",
    "replies": "replies, helpfulness",
}
EDITS = ("padding", "authority", "bullets", "praise", "plea")
JUDGES = ("neutral1", "neutral2", "strict", "lenient", "crowd")
# Pairs of judges in the table; the first is the zero line.
PAIRS = (
    ("neutral1", "neutral2"),
    ("strict", "lenient"),
    ("neutral1", "strict"),
    ("neutral1", "lenient"),
    ("neutral1", "crowd"),
)
RESAMPLES = 10_000
# A bootstrap sample of one text, drawn several times, has no spread but for rounding.
LEAST_SPREAD = 1e-9
# Texts that two judges share for a map between their ratings, and draws of them.
SHARED, MAPPED_DRAWS = 20, 400
# Labels and precision of the cut-off that is carried over.
LABELS, PRECISION = 40, 0.8


class Cell(NamedTuple):
    """The scores of one way and judge, in the order of the texts, and the mean ratings of the rungs if it has any."""

    scores: Floats
    rungs: tuple[float, ...] = ()


def lines_of(name: str) -> list[dict[str, Any]]:
    """Read the readings of a cell."""
    return [json.loads(line) for line in (READINGS / f"{name}.jsonl").read_text().splitlines()]


def ladder_score(percent: list[float]) -> float:
    """Return the ladder score: the sum over levels of level * (p(win) - p(loss)), from p(win) in percent."""
    return sum(level * (2 * share / 100 - 1) for level, share in enumerate(percent, start=1))


def trial_score(row: dict[str, Any]) -> float:
    """Return the ladder score of the trial's format: percent of better, worse and similar for each level."""
    return sum(
        level * (better - worse) / (better + worse + similar)
        for level, (better, worse, similar) in enumerate(
            zip(row["better"], row["worse"], row["similar"], strict=True), start=1
        )
    )


def score_of(row: dict[str, Any], way: str) -> float:
    """Return the score of a line of readings."""
    if way == "trial":
        return trial_score(row)
    return ladder_score(row["percent"]) if way == "stated" else expected_rating(row["percent"])


def scores_of(rows: list[dict[str, Any]], way: str) -> dict[str, float]:
    """Return the score of each text: the mean over the anchors that it was compared with."""
    lists: dict[str, list[float]] = {}
    for row in rows:
        if "level" not in row:
            lists.setdefault(row["output_id"], []).append(score_of(row, way))
    return {text: float(np.mean(scores)) for text, scores in lists.items()}


def expected_rating(percent: list[float]) -> float:
    """Return the mean of a rating from its percentages."""
    return float(np.average([1, 2, 3, 4, 5], weights=percent))


def cells_of(sample: str) -> tuple[list[str], dict[tuple[str, str], Cell]]:
    """Return the ids of the texts of a sample, and the cell of each way and judge that was read."""
    cells = {}
    texts: list[str] = []
    for way in ("stated", "rating", "anchored", "trial"):
        for judge in JUDGES:
            if not (READINGS / f"stays-{sample}-{way}-{judge}.jsonl").exists():
                continue
            rows = lines_of(f"stays-{sample}-{way}-{judge}")
            of_texts = scores_of(rows, way)
            texts = texts or sorted(of_texts)
            scores = np.array([of_texts[text] for text in texts])
            cells[way, judge] = Cell(scores)
            if way == "rating":
                rated = [row for row in rows if "level" in row]
                levels = [row["level"] for row in rated]
                rungs = np.array([expected_rating(row["percent"]) for row in rated])
                means = [float(rungs[np.equal(levels, level)].mean()) for level in range(1, 6)]
                placed = rungs_beaten(scores, rungs, levels, (1.0, 5.0))
                cells["placed", judge] = Cell(placed, tuple(means))
    return texts, cells


def shift(first: Floats, second: Floats) -> float:
    """Return the difference of the means over the root mean of the two variances."""
    spread = np.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)
    return float((second.mean() - first.mean()) / spread)


def changed(first: Floats, second: Floats, cuts: Floats) -> float:
    """Return the mean share of texts that are on the other side of a cut-off."""
    share = changed_share(first, second, cuts)
    if share is None:
        raise ValueError("no cut-off decides anything")
    return share


def changed_at_best(first: Floats, second: Floats, cuts: Floats) -> float:
    """Return the same share if each cut-off of the second judge is the one that changes the fewest decisions."""
    wanted = [first >= cut for cut in cuts]
    return float(
        np.mean([np.mean(each != (second >= best_cutoff(second, each))) for each in wanted])
    )


def agreement(scores: Floats, people: Floats, contexts: Floats) -> tuple[float, float]:
    """Return Spearman's correlation with people: the mean within contexts with different ratings, and pooled."""
    within = [
        spearmanr(scores[contexts == context], people[contexts == context]).statistic
        for context in np.unique(contexts)
        if len(set(people[contexts == context])) > 1 and len(set(scores[contexts == context])) > 1
    ]
    return float(np.mean(within)), float(spearmanr(scores, people).statistic)


def carried(cells: dict[tuple[str, str], Cell], way: str, good: NDArray[np.bool_]) -> list[str]:
    """Return precision and share kept of each judge at the lowest cut-off of the first that is precise on its labels."""
    first = cells[way, "neutral1"].scores
    labelled = np.random.default_rng(0).permutation(len(first))[: min(LABELS, len(first))]
    candidates = np.unique(first[first <= first[labelled].max()])
    passing = [
        cut for cut in candidates if good[labelled][first[labelled] >= cut].mean() >= PRECISION
    ]
    if not passing:
        return ["none"] * len(JUDGES)
    shown = []
    for judge in JUDGES:
        if (way, judge) not in cells:
            shown.append("not read")
            continue
        kept = cells[way, judge].scores >= passing[0]
        precision = f"{good[kept].mean():.2f}" if kept.any() else "-"
        shown.append(f"{precision} ({kept.mean():.2f})")
    return shown


def redrawn(groups: Floats, random: np.random.Generator) -> Floats:
    """Return how often each member counts if its groups are drawn again."""
    names, places = np.unique(groups, return_inverse=True)
    counts = np.bincount(random.integers(len(names), size=len(names)), minlength=len(names))
    return counts[places]


def of_contexts(contexts: Floats, draws: int) -> Floats:
    """Return how often each text counts in bootstrap samples of contexts, seed 0, shape (draws, texts)."""
    random = np.random.default_rng(0)
    return np.array([redrawn(contexts, random) for _ in range(draws)])


def moved(first: Floats, second: Floats, cuts: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return shift and share of decisions that change in each bootstrap sample; NaN where there is none.

    Numbers have the shape (texts,) or (draws, texts), weights (draws, texts).
    """
    total = weights.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        means, variances = [], []
        for each in (first, second):
            means.append((weights * each).sum(axis=1) / total)
            apart = (each - means[-1][:, np.newaxis]) ** 2
            variances.append((weights * apart).sum(axis=1) / (total - 1))
        spread = np.sqrt((variances[0] + variances[1]) / 2)
        turned = ((first[..., np.newaxis] >= cuts) != (second[..., np.newaxis] >= cuts)).mean(-1)
        known = (total > 1) & (spread > LEAST_SPREAD)
        found = (means[1] - means[0]) / spread, (weights * turned).sum(axis=1) / total
    return tuple(np.where(known, each, np.nan) for each in found)


def interval(values: Floats, digits: int = 2) -> str:
    """Write a 95 % percentile interval of the values that are known."""
    low, high = np.nanquantile(values, [0.025, 0.975])
    return f"[{low:.{digits}f}, {high:.{digits}f}]"


def people_of(
    sample: str, dimension: str, data: Path
) -> tuple[dict[str, str], dict[str, list[float]]]:
    """Return the context of each text, and its ratings by people or, for the replies, the label of its writer."""
    ratings: dict[str, list[float]] = {}
    if sample == "replies":
        rows = lines_of("stays-replies")
        owner = {row["output_id"]: row["context_id"] for row in rows}
        return owner, {row["output_id"]: [float(row["label"])] for row in rows}
    benchmark = refladder.load_benchmark(sample, str(data))
    for rating in benchmark.ratings:
        if rating.dimension == dimension:
            ratings.setdefault(rating.output_id, []).append(rating.value)
    return {output.id: output.context_id for output in benchmark.outputs}, ratings


def with_people(
    cells: dict[tuple[str, str], Cell], judged: list[str], people: Floats, contexts: Floats
) -> list[str]:
    """Return the table of agreement with people, and of a cut-off carried over, as lines."""
    good = people > np.median(people)
    lines = [
        "",
        (
            "Spearman with people (within contexts, pooled), and a cut-off carried over: the lowest with precision of "
            f"{PRECISION:g} on the labels of {min(LABELS, len(people))} texts under the first neutral judge; a text is good "
            "above the median of the sample. Precision, and in brackets the share of texts kept."
        ),
        "",
        "| way | measure | " + " | ".join(JUDGES) + " |",
        "|---|---|" + "--:|" * len(JUDGES),
    ]
    for way in judged:
        found = [
            agreement(cells[way, judge].scores, people, contexts) if (way, judge) in cells else None
            for judge in JUDGES
        ]
        shown = " | ".join(
            f"{each[0]:.2f}, {each[1]:.2f}" if each else "not read" for each in found
        )
        lines.append(f"| {WAYS[way]} | Spearman | {shown} |")
        lines.append(
            f"| {WAYS[way]} | carried cut-off | " + " | ".join(carried(cells, way, good)) + " |"
        )
    return lines


def section(sample: str, dimension: str, data: Path, draws: int) -> list[str]:
    """Return the tables of a sample as lines."""
    texts, cells = cells_of(sample)
    owner, ratings = people_of(sample, dimension, data)
    people = np.array([round(float(np.mean(ratings[text])), 9) for text in texts])
    contexts = np.array([owner[text] for text in texts])
    weights = of_contexts(contexts, draws)
    needed = ("neutral1", "strict", "lenient")
    judged = [way for way in WAYS if all((way, judge) in cells for judge in needed)]
    lines = [
        f"## {sample}, {dimension}",
        "",
        f"{len(texts)} texts of {len(np.unique(contexts))} contexts.",
        "",
        "| way | judges | shift | 95 % interval | decisions that change | beyond the best cut-off |",
        "|---|---|--:|---|--:|--:|",
    ]
    for way in judged:
        cuts = deciding_cutoffs(cells[way, "neutral1"].scores)
        for one, other in PAIRS:
            if (way, one) not in cells or (way, other) not in cells:
                continue
            first, second = cells[way, one].scores, cells[way, other].scores
            over, _ = moved(first, second, cuts, weights)
            lines.append(
                f"| {WAYS[way]} | {one}, {other} | {shift(first, second):.2f} | {interval(over)} | "
                f"{changed(first, second, cuts):.3f} | {changed_at_best(first, second, cuts):.3f} |"
            )
    lines += [
        "",
        (
            "Strict against lenient, the ladder beside another way: how much less the score shifts, and how many fewer "
            "decisions change."
        ),
        "",
        "| other way | shift of it - shift of the ladder | 95 % interval | changed decisions, difference | 95 % interval |",
        "|---|--:|---|--:|---|",
    ]
    read = {}
    for way in judged:
        pair = [cells[way, judge].scores for judge in ("strict", "lenient")]
        cuts = deciding_cutoffs(cells[way, "neutral1"].scores)
        shifts, shares = moved(*pair, cuts, weights)
        read[way] = abs(shift(*pair)), changed(*pair, cuts), abs(shifts), shares
    for way in judged[1:]:
        less = [other - one for other, one in zip(read[way], read["stated"], strict=True)]
        lines.append(
            f"| {WAYS[way]} | {less[0]:.2f} | {interval(less[2])} | {less[1]:.3f} | {interval(less[3])} |"
        )
    lines += with_people(cells, judged, people, contexts)
    if "placed" in judged:
        lines += ["", "Mean ratings of the rungs, levels 1 to 5:", ""]
        for judge in JUDGES:
            if ("placed", judge) not in cells:
                continue
            means = ", ".join(f"{mean:.2f}" for mean in cells["placed", judge].rungs)
            lines.append(f"- {judge}: {means}")
    return [*lines, ""]


def linked(draws: int) -> list[str]:
    """Return the table of ratings that are mapped by 20 shared texts, as `link` maps columns, on the other texts."""
    lines = [
        "## Ratings linked by 20 shared texts",
        "",
        (
            f"Strict ratings are mapped to lenient ones by {SHARED} texts that both rated, with the map of `link` that has "
            f"the least error on held-out texts, and judged on the other texts: means over {draws} draws of the texts (seed "
            "0). Cut-offs are at the deciles of the lenient ratings. In brackets the same without a map."
        ),
        "",
        "| sample | shift that is left | decisions that change |",
        "|---|--:|--:|",
    ]
    random = np.random.default_rng(0)
    for sample, _, _ in SAMPLES:
        _, cells = cells_of(sample)
        first, second = (cells["rating", judge].scores for judge in ("strict", "lenient"))
        cuts = deciding_cutoffs(second)
        left, turned, before = [], [], []
        for _ in range(draws):
            order = random.permutation(len(first))
            shared, rest = order[:SHARED], order[SHARED:]
            errors = {
                name: np.abs(values - second[shared])
                for name, values in held_out(first[shared], second[shared]).items()
            }
            values = mapped(best_of(errors), first[rest], first[shared], second[shared])
            left.append(abs(shift(values, second[rest])))
            turned.append(changed(values, second[rest], cuts))
            before.append(
                (abs(shift(first[rest], second[rest])), changed(first[rest], second[rest], cuts))
            )
        shift_before, turned_before = np.mean(before, axis=0)
        lines.append(
            f"| {sample} | {np.mean(left):.2f} ({shift_before:.2f}) | {np.mean(turned):.3f} ({turned_before:.3f}) |"
        )
    return [*lines, ""]


def distractors(draws: int) -> list[str]:
    """Return the table of edits that make a reply no better: shift, and texts that pass the median only through them."""
    lines = [
        "## Distractors",
        "",
        (
            "40 replies by the neutral judge, as they are and with an edit that makes them no better. Each reader saw each "
            "reply once, in one of its six forms. The ladder is that of the first scoring anchor. Shift in standard "
            "deviations; then texts that pass the median of the unedited replies only with the edit, and only without it."
        ),
        "",
        "| way | edit | shift | 95 % interval | pass only with the edit | pass only without it |",
        "|---|---|--:|---|--:|--:|",
    ]
    for way in ("stated", "rating", "anchored"):
        scores = scores_of(lines_of(f"stays-distractors-{way}"), way)
        texts = sorted(name.removesuffix("/none") for name in scores if name.endswith("/none"))
        before = np.array([scores[f"{text}/none"] for text in texts])
        cut = np.median(before)
        for edit in EDITS:
            after = np.array([scores[f"{text}/{edit}"] for text in texts])
            over, _ = moved(before, after, np.array([cut]), of_contexts(np.array(texts), draws))
            gained, lost = (before < cut) & (after >= cut), (before >= cut) & (after < cut)
            lines.append(
                f"| {WAYS[way]} | {edit} | {shift(before, after):.2f} | {interval(over)} | "
                f"{gained.sum()} of {len(texts)} | {lost.sum()} of {len(texts)} |"
            )
    return [*lines, ""]


def tokens(data: Path) -> list[str]:
    """Return the table of prompt tokens a text: four characters are one, without what is asked once a run."""
    lines = [
        "## Prompt tokens a text",
        "",
        (
            "Counted by dry runs as characters of the prompts divided by four, without the judge check and without the "
            "rungs that `rating:stated` rates once a run. bench/results/modes.md has the tokens of answers."
        ),
        "",
        "| sample | `stated` | `rating:stated` | `anchored:stated` |",
        "|---|--:|--:|--:|",
    ]
    own = {str(sample[0]): sample for sample in samples.SAMPLES}
    for sample, dimension, _ in SAMPLES:
        rows = (
            lines_of("stays-replies") if sample == "replies" else samples.rows_of(data, own[sample])
        )
        ladders = "general/reply" if sample == "replies" else str(READINGS / str(own[sample][2]))
        cells = []
        for answers in ("stated", "rating:stated", "anchored:stated"):
            # The difference is of texts alone.
            # Every context stays, so that the judge check and the rungs are the same in both.
            fewer = rows[::2]
            characters = [
                refladder.score(
                    part,
                    ladders=ladders,
                    dimensions=[dimension],
                    judge="openai:large-language-model",
                    judge_options={"base_url": "file:absent"},
                    answers=answers,
                    any_judge=True,
                    dry_run=True,
                )["backends"][0]["characters"]
                for part in (rows, fewer)
            ]
            cells.append(f"{(characters[0] - characters[1]) / (len(rows) - len(fewer)) / 4:,.0f}")
        lines.append(f"| {sample} | {' | '.join(cells)} |")
    return [*lines, ""]


def small_judges() -> list[str]:
    """Return the table of two judges that run on a CPU, as they are: shift by instruction, and agreement."""
    lines = [
        "## Small judges",
        "",
        (
            "SmolLM2-135M-Instruct under the instructions, by label probabilities, and `builtin`, which reads no "
            "instruction (`python bench/stays/small_judges.py SAMPLES`). Replies: the first scoring anchor. Spearman with "
            "the neutral reading of the large model in the same way."
        ),
        "",
        "| sample | way | judge | shift, strict to lenient | decisions that change | Spearman with the large model |",
        "|---|---|---|--:|--:|--:|",
    ]
    for sample, _, _ in SAMPLES:
        texts, cells = cells_of(sample)
        rows = lines_of(f"stays-{sample}-small")
        for way, name in (("stated", "ladder"), ("rating", "rating")):
            large = cells[way, "neutral1"].scores
            by_judge = {
                judge: np.array([scores[text] for text in texts])
                for judge in ("builtin", "neutral", "strict", "lenient")
                if (
                    scores := {
                        row["output_id"]: row["score"]
                        for row in rows
                        if (row["judge"], row["way"]) == (judge, name)
                    }
                )
            }
            for judge in ("neutral", "builtin"):
                if judge not in by_judge:
                    continue
                rho = float(spearmanr(by_judge[judge], large).statistic)
                moved, turned = "none", "none"
                if judge == "neutral":
                    cuts = deciding_cutoffs(by_judge[judge])
                    moved = f"{shift(by_judge['strict'], by_judge['lenient']):.2f}"
                    turned = f"{changed(by_judge['strict'], by_judge['lenient'], cuts):.3f}"
                label = "SmolLM2" if judge == "neutral" else "builtin"
                lines.append(f"| {sample} | {name} | {label} | {moved} | {turned} | {rho:.2f} |")
    return [*lines, ""]


def main() -> None:
    """Write the page of figures."""
    parser = argparse.ArgumentParser(description=__doc__.split(";")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--resamples", type=int, default=RESAMPLES)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "stays.md")
    given = parser.parse_args()
    lines = [
        "# Scores under judges of different temperament",
        "",
        (
            "`python bench/stays.py ../shared/data`, from the recorded readings `bench/readings/stays-*`. The plan is "
            "`bench/stays/plan.md`. Shifts are in standard deviations. Decisions that change are a mean over the cut-offs at "
            "the nine deciles of the first neutral reading, each in the middle between two scores."
        ),
        "",
    ]
    for sample, dimension, file in SAMPLES:
        lines += section(sample, dimension, given.data / file, given.resamples)
    lines += (
        linked(MAPPED_DRAWS) + distractors(given.resamples) + small_judges() + tokens(given.data)
    )
    given.out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
