"""Settings of a run: what is asked, and how answers are counted. Each is declared here, once.

Options of a command, parameters of a call, the task of a worker and the signature of a score are made of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from refladder.errors import UsageError, meant_share, option
from refladder.records import Sampling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.files.ladder_sets import LadderSet
    from refladder.files.outputs import RunConfig
    from refladder.records import Context, Dimension, JudgeCheck, Judgment

# Default. A judge that gives its labels less probability than this would have answered something else.
LEAST_MASS = 0.05
Settings = TypeVar("Settings")
# The arguments of a call by name, or the options of a command under the same names; a job makes its settings of them.
Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """A table that is read, and one that is written: paths, URLs or `-`; a format of None follows the file's ending.

    `escape_formulas` puts `'` before text in CSV that a spreadsheet would run as a formula.
    """

    source: str = "-"
    out: str = "-"
    given: str | None = None
    out_format: str | None = None
    escape_formulas: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How verdicts become numbers: the rule, weights in the overall score, and the least label mass that is parsed."""

    rule: str = "ladder-sum"
    weights: Mapping[str, float] = field(default_factory=dict)
    least_mass: float = LEAST_MASS

    def __post_init__(self) -> None:
        check_least_mass(self.least_mass)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How a judge of rungs is asked: `judgments` is the file that stores what it says.

    `answers` names a mode, see `scoring.modes`; `prompts` is a folder of
    templates.
    """

    judgments: Path | None = None
    answers: int | str = 0
    least_mass: float = LEAST_MASS
    prompts: Path | None = None

    def __post_init__(self) -> None:
        check_least_mass(self.least_mass)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparing:
    """How systems are compared by column `by`; `systems` names some of them, in order.

    `fail_if_worse` is the system of the gate, which looks at rows without a score too unless `unscored` is `skip`.
    `columns` maps fields to columns. `mix` and `across_judges` are those of `Filtering`.
    """

    by: str | None = None
    systems: Sequence[str] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    mix: bool = False
    across_judges: bool = False
    seed: int = 0
    fail_if_worse: str | None = None
    unscored: str = "worst"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """Settings that determine the scores, apart from the judge. If `dimensions` is empty, all of the set are scored.

    `answers` names a mode, see `scoring.modes`.
    `anchors` is the number of anchors of a shared set that score. `any_judge` keeps a judge that fails. `text_of` says
    what of an output is judged: its answer behind marked thoughts, or the whole.
    """

    ladders: str | Path | LadderSet = ""
    dimensions: Sequence[str] = ()
    rule: str = "ladder-sum"
    weights: Mapping[str, float] = field(default_factory=dict)
    least_mass: float = LEAST_MASS
    answers: int | str = 0
    both_orders: bool = False
    yes_no: bool = False
    prompts: Path | None = None
    anchors: int | None = None
    any_judge: bool = False
    text_of: Literal["answer", "whole"] = "answer"

    def __post_init__(self) -> None:
        check_least_mass(self.least_mass)

    @property
    def scale(self) -> Scale:
        """Return rule, weights and least label mass."""
        return Scale(rule=self.rule, weights=dict(self.weights), least_mass=self.least_mass)

    @property
    def orders(self) -> int:
        """Return the number of orders in which a pair is asked."""
        return 2 if self.both_orders else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSpec:
    """A table to score: what determines its scores, the judge, the tables, and where judgments are kept.

    `judge` is the name of a backend, an open one or a function. Judgments of the files `judgments_from` stand in its
    place. `columns` names the column of a field, and `context_id` is that of every row. `judgments` is the file that
    stores the judgments, None for none. `config` is written beside the output, with the signature of the scores. With
    `is_part`, the table is one file of many: no row needs a ladder, `judge_check` is the check of the judge, and its
    ratings of the rungs are `rung_judgments`.
    """

    asked: Scoring
    tables: Tables
    judge: str | Backend | Judge = "builtin"
    judge_options: Mapping[str, object] = field(default_factory=dict)
    judgments_from: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    context_id: str | None = None
    judgments: Path | None = None
    config: RunConfig | None = None
    is_part: bool = False
    judge_check: Sequence[JudgeCheck] = ()
    rung_judgments: Sequence[Judgment] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSpec:
    """The ladders to write into `folder`, and who writes them.

    `writer` and `judge` are names of backends or open ones; the options are for names.
    `human` are rungs written by people: (context id, dimension) to level to text. With `shared`, the contexts are
    anchors, see `draw_anchors` of ladders/build.py, and one with a failed rung is left out. With `certify`, the judge
    certifies the ladders before they are written. `adds` is the set in the folder, from `open_to_add`, that gets
    ladders for those of the contexts that have none there. `config` is written to run.json.
    """

    folder: Path
    contexts: Sequence[Context] = ()
    dimensions: Sequence[Dimension] = ()
    writer: str | Backend = "builtin"
    writer_options: Mapping[str, object] | None = None
    rungs: int = 5
    sampling: Sampling = field(default_factory=Sampling)
    attempts: int = 3
    prompts: Path | None = None
    human: Mapping[tuple[str, str], Mapping[int, str]] | None = None
    shared: bool = False
    certify: bool = False
    judge: str | Backend | Judge = "builtin"
    judge_options: Mapping[str, object] | None = None
    adds: LadderSet | None = None
    config: RunConfig | None = None

    @property
    def how(self) -> dict[str, Any]:
        """Return how texts are drawn, as `refladder.synth` takes it."""
        return {"sampling": self.sampling, "attempts": self.attempts, "prompts": self.prompts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Publishing:
    """A ladder set to publish as the data set `repository` (ORG/NAME) of a Hub, in one commit.

    With `dry_run`, nothing is sent or written. `out` is a new folder that gets the files; then nothing is sent either.
    `licence` None keeps that of the card. `baseline` allows ladders of the built-in writer.
    """

    ladders: str
    repository: str
    private: bool = False
    tag: str | None = None
    message: str | None = None
    without_contexts: bool = False
    licence: str | None = None
    baseline: bool = False
    dry_run: bool = False
    out: Path | None = None
    endpoint: str | None = None


def check_least_mass(least_mass: float) -> None:
    """Check the least label mass that is trusted, before a judge is opened."""
    if not 0 <= least_mass <= 1:
        raise UsageError(
            f"{option('least-mass')}={least_mass:g}: must be a probability from 0 to 1{meant_share(least_mass)}"
        )


def chosen(kind: type[Settings], given: Given) -> Settings:
    """Return settings from what is given; None means the default, and a path may be text."""
    values = {}
    for each in fields(kind):  # type: ignore[arg-type]
        value = given.get(each.name)
        if value is not None:
            if str(each.type).startswith("Path") and isinstance(value, str):
                value = Path(value)
            elif each.type in {"str", "str | None"}:
                value = str(value)
            values[each.name] = value
    return kind(**values)
