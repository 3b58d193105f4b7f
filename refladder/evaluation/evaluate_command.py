"""refladder evaluate: the command and the call."""

from __future__ import annotations

import typing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, cast, overload

from refladder.cli import console, spending
from refladder.cli.calling import Call
from refladder.cli.data import DataOptions
from refladder.cli.options import given_arguments, given_options, subcommand
from refladder.display.log import Log, log_lines
from refladder.errors import ExitCode, redacted
from refladder.loaders.data import data_of
from refladder.options import OF_BACKENDS, OF_COST, OF_DATA, like
from refladder.settings import chosen
from refladder.statistics import LEVELS, STATISTICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.display.rendering import PlainTable
    from refladder.evaluation.evaluate import Protocol
    from refladder.evaluation.results import Evaluation, Evaluations
    from refladder.files.ladder_sets import LadderSet
    from refladder.methods.contract import MethodSettings
    from refladder.records import Benchmark, Dimension
    from refladder.settings import Given


P = ParamSpec("P")


class _Evaluate(typing.Protocol[P]):
    """For type checkers: a list of benchmarks has `Evaluations`, one benchmark or table an `Evaluation`."""

    @overload
    def __call__(  # type: ignore[overload-overlap] # a name is a sequence of texts too
        self, data: str, *args: P.args, **options: P.kwargs
    ) -> Evaluation: ...

    @overload
    def __call__(
        self, data: Sequence[str | Benchmark], *args: P.args, **options: P.kwargs
    ) -> Evaluations: ...

    @overload
    def __call__(self, data: Any, *args: P.args, **options: P.kwargs) -> Evaluation: ...


def _by_data(call: Callable[Concatenate[Any, P], Evaluation | Evaluations]) -> _Evaluate[P]:
    return cast("_Evaluate[P]", call)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is printed and drawn."""

    methods: str | None
    seed: int
    figures: Path | None
    page: Path | None
    form: str
    intervals: str
    as_json: bool

    @property
    def printed(self) -> str:
        """Return the format of what is printed; `--json` wins over `--format`."""
        return "json" if self.as_json else self.form


@subcommand(
    "Measure the agreement of scores with human ratings.",
    like("benchmark", metavar="BENCHMARK...", multiple=True, required=True),
    like(
        "benchmark_source",
        help="File or folder with the data of BENCHMARK. Default: download from the public source. "
        "Repeatable: one for each benchmark, in the same order.",
        metavar="PATH",
        multiple=True,
    ),
    *OF_DATA,
    "methods",
    "comparisons",
    "selection",
    "answers",
    "method_options",
    like(
        "judge", default=None, help="Judge model (see `refladder list backends`). Default: builtin."
    ),
    "judge_option",
    "judgments_from",
    like("writer", help="Model that writes the ladders. Default: the judge."),
    *OF_BACKENDS,
    like(
        "ladders",
        help="Existing ladder set (a shipped name, a folder or hub:ORG/NAME@REVISION) to use "
        "instead of generating one. Repeatable: one for all benchmarks, or one for each in "
        "the same order.",
        multiple=True,
    ),
    like(
        "scores",
        help="File with the scores of another program: one row per output, with output_id and a "
        "column per dimension. Repeatable.",
        multiple=True,
    ),
    "score_column",
    "rungs",
    "seed",
    "rule",
    "least_mass",
    "both_orders",
    "yes_no",
    "anchors",
    "levels",
    "statistics",
    "constant",
    "resamples",
    "reference",
    "baselines",
    "figures",
    like("page", help="Output file for tables and figures as a single HTML page."),
    "work",
    *OF_COST,
    "prompts",
    "form",
    "intervals",
    "as_json",
    data=DataOptions,
    shown=Options,
    given=dict,
    money=spending.SpendingOptions,
)
def command(
    *,
    data: DataOptions,
    shown: Options,
    given: Given,
    money: spending.SpendingOptions,
) -> ExitCode:
    """Score the outputs of BENCHMARK with one or more methods, and measure their agreement with its human ratings.

    Several benchmarks are columns of the same tables, with a mean over them.
    The tables include the best surface measure, a baseline without a judge (except for partial correlations).
    Exit code 3: some outputs have no score; they are excluded and counted.

    Examples:
        refladder evaluate summeval --judge hf:ORG/MODEL --work work
        refladder evaluate answers.csv --task-file task.toml --methods ladder,win-ratio --judge openai:MODEL --dry-run
    """
    from refladder.evaluation.evaluate import rehearse, run, spec_of

    session, events = spending.Spending(money), console.Console()
    spec = spec_of(
        given,
        given_options(),
        data.each(),
        events,
        settings=_settings(given),
        protocol=_protocol(given, shown.printed),
        config=console.resolved(),
    )
    if not session.approves(lambda dry: rehearse(spec, dry, events), as_json=shown.as_json):
        return ExitCode.DONE
    evaluations = run(spec, session, events)
    _print(evaluations, shown)
    console.tell_spent(session.spent())
    return ExitCode.of(complete=evaluations.complete)


def _settings(given: Given) -> MethodSettings:
    """Return the settings of all methods from the options of the command."""
    from refladder.methods.contract import MethodSettings

    shared = ("seed", "rungs", "rule", "least_mass", "yes_no", "selection", "answers", "anchors")
    return MethodSettings(
        **{name: given[name] for name in (*shared, "prompts", "work")},
        orders=2 if given["both_orders"] else 1,
        budget=given["comparisons"],
        options=given["method_options"],
    )


def _protocol(given: Given, printed: str) -> Protocol:
    """Return how agreement is computed; a program gets all levels and statistics, if none is named."""
    from refladder.evaluation.evaluate import Protocol

    count = None if printed in {"json", "csv"} else 1
    found = {
        "levels": given["levels"] or LEVELS[:count],
        "statistics": given["statistics"] or STATISTICS[:count],
        "against_best": printed == "latex",
    }
    return chosen(Protocol, {**given, **found})


def _print(evaluations: Evaluations, shown: Options) -> None:
    """Print the tables and notes, and draw figures and page."""
    from refladder.evaluation.page import draw_evaluations

    # The report card is printed for methods that were named: `ladder` alone, the default, has the summary of its run.
    _print_tables(evaluations, shown, with_cards=shown.methods is not None)
    if shown.figures is not None or shown.page is not None:
        console.say_lines(
            draw_evaluations(evaluations, figures=shown.figures, page=shown.page, seed=shown.seed)
        )
    _print_notes(evaluations, with_summaries=shown.printed == "text")


def _print_tables(evaluations: Evaluations, shown: Options, *, with_cards: bool) -> None:
    from refladder.display.rendering import csv_text, latex, markdown

    if shown.printed == "json":
        _print_json(evaluations, with_cards=with_cards)
        return
    if shown.printed == "csv":
        # A secret is hidden in its cell: in the finished line, it would reach into the next one.
        console.say(csv_text(redacted(evaluations.records())), nl=False, hide=False)
        return
    tables = evaluations.tables(marked=shown.printed == "latex")
    cards: list[PlainTable] = []
    for evaluation in evaluations if with_cards else ():
        cards += evaluation.card_tables()
    if shown.printed == "latex":
        parts = filter(None, (latex(tables, shown.intervals), latex(cards)))
        console.say("\n".join(parts), nl=False)
    elif shown.printed == "text":
        console.say_tables([*tables, *cards])
    else:
        console.say(markdown([*tables, *cards]), nl=False)


def _print_json(evaluations: Evaluations, *, with_cards: bool) -> None:
    from refladder.display.rendering import json_lines, printable_json

    if len(evaluations) > 1:
        listed = []
        for each in evaluations:
            values = {
                "benchmark": each.rows[0].benchmark,
                "rows": list(map(asdict, each.rows)),
                "cards": list(map(asdict, each.cards if with_cards else ())),
                "judge_check": list(map(asdict, each.checks)) or None,
            }
            listed.append(values)
        console.say_json({"evaluations": listed})
        return
    [evaluation] = evaluations
    console.say(printable_json(json_lines(evaluation.rows)), nl=False)
    if with_cards:
        console.say(printable_json(json_lines(evaluation.cards)), nl=False)
        for check in evaluation.checks:
            console.say_json({"kind": "judge_check", "method": "ladder", **asdict(check)})


def _print_notes(evaluations: Evaluations, *, with_summaries: bool) -> None:
    """Print on standard error what the tables cannot show, and the summaries of the runs."""
    from refladder.scoring.judge_check import check_lines

    for evaluation in evaluations:
        console.say_lines((*evaluation.limits, *evaluation.notes))
        shown, warnings = check_lines(evaluation.checks)
        for run in evaluation.runs:
            if run.result.report is not None and with_summaries:
                if len(evaluations) > 1:
                    console.say(f"{evaluation.benchmark.name}:", err=True)
                console.tell(run.result.report, as_json=False, to_stderr=True)
                console.say_lines(shown)
        console.say_lines(warnings)


@_by_data
@command.call
def evaluate(
    data: Any,
    *,
    ladders: str | Path | LadderSet | Sequence[str | Path | LadderSet] | None = None,
    judge: str | Backend | Judge | None = None,
    judge_options: Mapping[str, object] | None = None,
    methods: str | Sequence[str] | None = None,
    task: str | None = None,
    task_file: str | Path | None = None,
    dimensions: Sequence[str | Dimension] = (),
    columns: Mapping[str, str] | None = None,
    source: str | Path | Sequence[str | Path | None] | None = None,
    options: Mapping[str, object] | None = None,
    writer: str | Backend | None = None,
    judgments_from: str | Path | Sequence[str | Path] | None = None,
    scores: Sequence[str | Path] = (),
    settings: MethodSettings | None = None,
    protocol: Protocol | None = None,
    work: str | Path | None = None,
    store: str | Path | bool | None = None,
) -> Evaluation | Evaluations:
    """Score outputs with methods, and measure the agreement of the scores with human ratings, as `refladder evaluate`.

    Args:
        data: a name of a benchmark, a `Benchmark`, or a table (see `build`) with the columns `context`, `output` and
            one of ratings for each dimension. Several benchmarks are a list of names or `Benchmark` objects.
        ladders: a shipped name, a folder, or a set from `load_ladders`; None generates ladders. For a table without
            `task`, the task and the dimensions are those of the ladders. For several benchmarks, one set for all, or a
            list with one for each.
        judge: a backend by name (`builtin`, `hf:ORG/MODEL`, `openai:MODEL`), an open one, or a function; None for
            `builtin`.
        judge_options: options of a named judge.
        methods: names of the methods to run, as a list or joined by commas (see `refladder list methods`); None for
            `ladder`, or none where only `scores` are to be compared.
        task: for a table, see `build`.
        task_file: for a table, see `build`.
        dimensions: `Dimension` objects with `task`; otherwise names of those to evaluate, empty for all.
        columns: for a table, field or dimension to the name of its column.
        source: for a benchmark by name, its file or folder; None downloads it. For several benchmarks, a list with one
            for each.
        options: for a benchmark by name, its options.
        writer: the backend that writes ladders; None for the judge. A writer with options is one from
            `refladder.connect`.
        judgments_from: table of judgments that another program made, or a judgments file, instead of a judge; several
            count as one. No model is asked; a comparison that is not in it is unparsed. `methods` None then means
            `ladder` or `win-ratio`, by what was compared.
        scores: files with the scores of other programs, each shown as a method.
        settings: how the methods score; `ladders` and `work` here replace those there.
        protocol: levels, statistics and tests; None for the default of the command line.
        work: folder for ladders and judgments; an interrupted call continues there when it is made again. Several
            benchmarks have a folder each in it.
        store: response store; None for the default of the command line, False for none.

    Returns:
        Agreement in `rows`, report cards, and what the methods cost. For a list of benchmarks a tuple of these, in the
        same order, with the `rows` and `records()` of all.

    Raises:
        UsageError, UnknownNameError, PromptError: an argument is wrong; the judge was not asked.
        DataError: the data are wrong, with path:line or the number of the row.
        BackendError: the judge failed; its judgments so far are stored, if `work` is given.
    """
    from refladder.evaluation.evaluate import Protocol, run, spec_of
    from refladder.methods.contract import MethodSettings

    with Call(evaluate, locals(), table="", without=("data",)) as call:
        several = _are_benchmarks(data)
        asked, events = settings or MethodSettings(), Log()
        if work is not None:
            asked = replace(asked, work=Path(work))
        spec = spec_of(
            call.given,
            given_arguments(command, call.given),
            data_of(call.given, data if several else [data]),
            events,
            settings=asked,
            protocol=protocol or Protocol(seed=asked.seed),
            config=call.config(),
        )
        evaluations = run(spec, call.session(), events)
        for evaluation in evaluations:
            log_lines((*evaluation.limits, *evaluation.notes))
            events.checked(evaluation.checks)
        return evaluations if several else evaluations[0]


def _are_benchmarks(data: object) -> bool:
    """Return whether data are a list of benchmarks, by name or as records, not the rows of a table."""
    from refladder.records import Benchmark

    return (
        isinstance(data, list | tuple)
        and bool(data)
        and all(isinstance(each, str | Benchmark) for each in data)
    )
