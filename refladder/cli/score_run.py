"""A run of `score` with a judge: the options, checked, and the texts, table or shards that they score."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.cli import console, spending
from refladder.cli.recorded import open_recorded
from refladder.cli.sharding import judge_options, score_in_shards
from refladder.errors import UsageError
from refladder.files.tables import STANDARD

if TYPE_CHECKING:
    from collections.abc import Sequence

    import click

    from refladder.backends import Backend
    from refladder.cli.first_pass import CascadeOptions
    from refladder.cli.groups import JudgingOptions, TableOptions
    from refladder.cli.sharding import ShardOptions
    from refladder.files.ladder_sets import LadderSet
    from refladder.jobs.check_drift import DriftReport
    from refladder.jobs.score import Mapped
    from refladder.records import HumanScale, Score
    from refladder.scoring.columns import ScoreReport
    from refladder.scoring.recorded import Recorded
    from refladder.scoring.scorer import LadderScorer
    from refladder.students.student import Student

SAMPLED = (
    "sampled answers: each decision is that of the whole ladder with the same answers; others may decide otherwise"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderOptions:
    """The ladders, and where on them asking stops."""

    ladders: str | None
    dimension: tuple[str, ...]
    weight: tuple[str, ...]
    prompts: Path | None
    stop_at: tuple[str, ...]
    threshold: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """Files of a run beside its tables, and what is done with those of an earlier run."""

    judgments: Path | None
    judgments_from: str | None
    check_drift: bool
    drift_file: Path | None
    calibration: Path | None
    restart: bool


class ScoreRun:
    """The options of one run, read and checked; it scores texts, a table, or a table shard by shard.

    Each method returns the exit code of the command.

    Raises:
        UsageError, DataError: an option is wrong. No model was asked.
    """

    def __init__(
        self,
        context: click.Context,
        *,
        judging: JudgingOptions,
        against: LadderOptions,
        files: FileOptions,
        money: spending.SpendingOptions,
        first: CascadeOptions,
        student: Student | None,
        as_json: bool,
    ) -> None:
        from refladder.files.ladder_sets import choose_dimensions, load_ladders  # noqa: PLC0415  --help stays quick
        from refladder.jobs.stop_at import stop_thresholds  # noqa: PLC0415
        from refladder.scoring.columns import OVERALL, Scale, overall_column, weights_for  # noqa: PLC0415

        self.context, self.judging, self.against, self.files = context, judging, against, files
        self.money, self.first, self.student, self.as_json = money, first, student, as_json
        _check_names(judging.rule, against.prompts)
        self.calibration = _human_scale(files.calibration)
        self.ladders = load_ladders(against.ladders or "")
        self.dimensions = choose_dimensions(self.ladders.dimensions, against.dimension)
        weights = console.numbers(against.weight, "--weight")
        self.scale = Scale(rule=judging.rule, weights=weights, least_mass=judging.least_mass)
        weights_for(self.dimensions, self.scale.weights)
        if len(self.dimensions) > 1 and overall_column(self.dimensions) != OVERALL[0]:
            column = f"the weighted score is {overall_column(self.dimensions)}"
            console.say(f"{OVERALL[0]} is the score on the dimension 'overall'; {column}", err=True)
        self.stop_at = console.numbers(against.stop_at, "--stop-at")
        self.thresholds, self.made_for = stop_thresholds(
            self.stop_at, against.threshold, self.ladders, self.dimensions, self.scale
        )
        if self.thresholds and judging.answers:
            console.say(SAMPLED, err=True)
        self.budgeted = spending.Spending(money)
        self.judge = (judging.judge or "builtin", judging.judge_option)

    def scorer(self, backend: Backend) -> LadderScorer:
        """The scorer with a judge.

        Raises:
            DataError: the threshold file was made for scores with another signature.
        """
        from refladder.scoring.scorer import LadderScorer  # noqa: PLC0415  --help stays quick

        scorer = LadderScorer(
            backend,
            self.ladders,
            self.dimensions,
            self.scale,
            role="compare-yesno" if self.judging.yes_no else "compare",
            orders=self.judging.orders,
            prompts=self.against.prompts,
            answers=self.judging.answers,
            stop_at=self.thresholds,
        )
        return self.made_for(scorer)

    def score_texts(self, texts: tuple[str, ...], context_id: str | None) -> int:
        """Score the texts of --text, and print the scores."""
        from refladder.jobs.score import score_texts  # noqa: PLC0415  --help stays quick

        def run() -> tuple[LadderScorer, list[tuple[Score, ...]]]:
            scorer = self.scorer(self.budgeted.open(*self.judge))
            return scorer, score_texts(scorer, texts, context_id)

        if not self.budgeted.continues(lambda: run()[0].report.reused, as_json=self.as_json):
            return 0
        return _print_scores(*run(), texts, context_id, as_json=self.as_json)

    def score_in_shards(self, source: str, table: TableOptions, mapped: Mapped, sharding: ShardOptions) -> int:
        """Score a table shard by shard."""
        from refladder.fleet.shard_worker import Task  # noqa: PLC0415  --help stays quick

        judge, budget, judgments = self.judge[0], self.money.budget, self.files.judgments
        options = judge_options(self.context, sharding, *self.judge, budget=budget, judgments=judgments)
        price = self.budgeted.price_of(judge)
        store = self.budgeted.store_path(judge, costs=price is not None)
        task = Task(
            ladders=self.against.ladders or "",
            version=self.ladders.signature,
            dimensions=[dimension.name for dimension in self.dimensions],
            rule=self.scale.rule,
            weights=dict(self.scale.weights),
            least_mass=self.scale.least_mass,
            stop_at=dict(self.stop_at),
            threshold=_text(self.against.threshold),
            role="compare-yesno" if self.judging.yes_no else "compare",
            orders=self.judging.orders,
            answers=self.judging.answers,
            prompts=_text(self.against.prompts),
            columns=dict(mapped.columns),
            context_id=mapped.context,
            judge=judge,
            judge_options=options,
            store=_text(store),
            price=None if price is None else asdict(price),
            budget=None if price is None else budget,
            judgments=judgments is None,
            student=None if self.student is None else str(self.first.folder),
            between=None if self.first.between is None else list(self.first.between),
            check_share=self.first.check_share,
            calibration=_text(self.files.calibration),
        )
        if not self._continues(source, table, mapped):
            return 0
        return score_in_shards(
            self.context,
            sharding,
            source,
            task,
            mapped=mapped,
            table=table,
            gpus=task.judge.startswith("hf:"),
            restart=self.files.restart,
            as_json=self.as_json,
        )

    def score_table(self, source: str, table: TableOptions, mapped: Mapped) -> int:
        """Score a table into one table."""
        from refladder.files.locks import locked  # noqa: PLC0415  --help stays quick
        from refladder.jobs.score import check_input  # noqa: PLC0415

        checked = check_input(source, table.given, mapped, self.ladders, lambda text: console.say(text, err=True))
        recorded = _recorded(self.context, self.files, source, self.ladders)
        judgments = self.files.judgments
        if recorded is None:
            judgments = judgments or _default_judgments(table.out)
        if not self._continues(source, table, mapped, judgments=judgments, recorded=recorded):
            return 0
        # Before a model is loaded or a server is asked:
        self.context.with_resource(nullcontext() if table.out == STANDARD else locked(Path(table.out)))
        self.context.with_resource(nullcontext() if judgments is None else locked(judgments))
        report, drift = self._run(
            source, table, mapped, judgments=judgments, recorded=recorded, out=table.out, checked=checked
        )
        to_stderr = table.out == STANDARD
        return console.tell(report, as_json=self.as_json, to_stderr=to_stderr, spent=self.budgeted.spent(), drift=drift)

    def _continues(
        self,
        source: str,
        table: TableOptions,
        mapped: Mapped,
        *,
        judgments: Path | None = None,
        recorded: Recorded | None = None,
    ) -> bool:
        """Whether the run follows its estimate, for which the rows are read once more."""

        def rehearse() -> int:
            return self._run(source, table, mapped, judgments=judgments, recorded=recorded)[0].reused

        return self.budgeted.continues(rehearse, as_json=self.as_json)

    def _run(
        self,
        source: str,
        table: TableOptions,
        mapped: Mapped,
        *,
        judgments: Path | None,
        recorded: Recorded | None,
        out: str | None = None,
        checked: int | None = None,
    ) -> tuple[ScoreReport, DriftReport | None]:
        """Look at the judge and score the table, or rehearse both with `out` None."""
        from refladder.jobs.score import score_rows  # noqa: PLC0415  --help stays quick

        scorer = self.scorer(recorded or self.budgeted.open(*self.judge))
        drift = self._drift(scorer, dry_run=out is None) if self.files.check_drift else None
        with self.budgeted.progress("scoring") as progress:
            report = score_rows(
                scorer,
                source,
                out,
                mapped=mapped,
                given=table.given,
                out_given=table.out_format,
                escape_formulas=table.escape_formulas,
                judgments=judgments,
                restart=self.files.restart,
                calibration=self.calibration,
                first_pass=self.first.before(scorer, self.student),
                config=console.resolved(self.context),
                checked=checked,
                progress=progress,
            )
        return report, drift

    def _drift(self, scorer: LadderScorer, *, dry_run: bool) -> DriftReport:
        """Take a look at the judge; in a dry run, print how many calls it takes."""
        from refladder.jobs.check_drift import check_drift, drift_line  # noqa: PLC0415
        from refladder.scoring.asker import calls_of  # noqa: PLC0415

        path = _drift_file(scorer, self.judge, self.files.drift_file)
        report = check_drift(scorer, self.budgeted.without_store_of(*self.judge), path)
        if dry_run:
            calls = report.asked * calls_of(scorer.template, scorer.run.answers)
            console.say(f"--check-drift asks {calls:,} of the calls", err=True)
        elif not self.as_json:
            console.say(drift_line(report), err=True)
        return report


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _human_scale(path: Path | None) -> HumanScale | None:
    from refladder.files.jsonl import read_record  # noqa: PLC0415  --help stays quick
    from refladder.records import HumanScale  # noqa: PLC0415  --help stays quick

    return None if path is None else read_record(HumanScale, path)


def _check_names(rule: str, prompts: Path | None) -> None:
    """Refuse a rule that does not exist, and a folder of prompts that does not."""
    from refladder.scoring.rules import rule_named  # noqa: PLC0415  --help stays quick

    rule_named(rule)
    console.check_prompts(prompts)


def _default_judgments(out: str) -> Path | None:
    from refladder.files.jsonl import is_device  # noqa: PLC0415  --help stays quick

    return None if out == STANDARD or is_device(Path(out)) else Path(f"{out}.judgments.jsonl")


def _recorded(context: click.Context, files: FileOptions, source: str, ladders: LadderSet) -> Recorded | None:
    """The judgments of --judgments-from, in the place of the judge."""
    recorded = open_recorded(context, files.judgments_from, source=source, ladders=ladders)
    if recorded is not None and files.check_drift:
        raise UsageError("--check-drift asks the judge again, and recorded judgments have none; leave it out")
    return recorded


def _drift_file(scorer: LadderScorer, judge: tuple[str, tuple[str, ...]], path: Path | None) -> Path:
    """The default is one file for each ladder set and each judge as the user names it."""
    from refladder.api.judges import default_store  # noqa: PLC0415

    name = re.sub(r"[^\w.-]+", "-", f"{scorer.ladders.name}-{scorer.ladders.digest}-{judge[0]}")
    return path or default_store().parent / "drift" / f"{name}.json"


def _print_scores(
    scorer: LadderScorer,
    scores: list[tuple[Score, ...]],
    texts: tuple[str, ...],
    context_id: str | None,
    *,
    as_json: bool,
) -> int:
    from refladder.report.summary import warning_lines  # noqa: PLC0415
    from refladder.scoring.columns import Columns  # noqa: PLC0415

    table = Columns(scorer.dimensions, scorer.run.rungs, scorer.scale)
    console.say_lines(warning_lines(scorer.report))
    if as_json:
        for text, values in zip(texts, table.rows(scores), strict=True):
            row = {"context_id": context_id, "output": text, **values}
            console.say_json(row)
    else:
        _print_texts(scorer, texts, table.rows(scores))
    return 0 if scorer.report.complete else console.UNSCORED


def _print_texts(scorer: LadderScorer, texts: Sequence[str], columns: list[dict[str, Any]]) -> None:
    from refladder.report.ladder_tables import score_table  # noqa: PLC0415
    from refladder.scoring.columns import bounds_text  # noqa: PLC0415

    console.say_tables([score_table(texts, columns, scorer.dimensions)])
    console.say(bounds_text(scorer.run, scorer.scale.rule))
    console.say(f"signature: {scorer.report.signature}")
