"""Scores of texts, without a table: the object that a training loop or a service keeps."""

from __future__ import annotations

import itertools
from collections.abc import Sized
from typing import TYPE_CHECKING, Literal

from refladder.display.log import Log
from refladder.errors import UsageError, in_call
from refladder.files.ladder_sets import choose_dimensions
from refladder.files.tables import Row
from refladder.jobs.score import check_judge, open_set
from refladder.loaders.input_rows import Mapped, items
from refladder.records import names_of
from refladder.scoring.columns import Columns
from refladder.scoring.judge_check import missing_line, prove
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.modes import mode_of
from refladder.scoring.scorer import LadderScorer
from refladder.session import Session
from refladder.settings import LEAST_MASS, Scoring, chosen
from refladder.signatures import is_rating
from refladder.typed import checked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Score


class Scorer:
    """A judge with a ladder set, ready to score texts. It keeps the model loaded between calls.

    Args:
        ladders: a shipped name, a folder, or a set from `load_ladders`.
        judge: a backend by name, as `--judge` takes it (`builtin`, `hf:ORG/MODEL`, `openai:MODEL`), an open one, or a
            function.
        judge_options: options of a named judge, as `--judge-option`: `{"base_url": ..., "dtype": "bfloat16"}`.
        dimensions: names of the dimensions to score; empty for all of the set.
        rule: scoring rule (see `refladder list rules`).
        weights: weight of a dimension in `overall`; 1 for those that are not named.
        least_mass: least label mass, a probability; a judgment below it gives no score.
        answers: answers to sample for each question; 0 reads label probabilities. `stated` lets the judge write its
            probabilities for all rungs in one answer, and `stated:K` averages K orders of the rungs.
        both_orders: judge every pair in both orders.
        yes_no: ask three yes/no questions for each comparison.
        prompts: folder of templates that replace the shipped ones.
        anchors: with a shared set, the number of its anchors that score; None for those that it names.
        any_judge: score also with a judge that does not distinguish the best rung from the worst. It is checked before
            the first score, as for a table; the result is remembered for a judge by name.
        text_of: what of a text is judged: its `answer`, which is what follows the marked thoughts that it begins with, or
            the `whole`.
        store: response store, a file that keeps every answer for reuse; None for the default of the command line (a
            file in the user's cache folder for `openai`, else none), False for none.

    Raises:
        UnknownNameError: no such ladder set, judge, option, dimension or rule.
        UsageError, DataError, PromptError: another argument, the ladder set or a template is wrong.
        JudgeRefusedError: an earlier check found that the judge does not distinguish the best rung from the worst; see
            `any_judge`.
        BackendUnavailableError: the judge cannot be opened.
    """

    @checked
    def __init__(
        self,
        *,
        ladders: str | Path | LadderSet,
        judge: str | Backend | Judge = "builtin",
        judge_options: Mapping[str, object] | None = None,
        dimensions: Sequence[str] = (),
        rule: str = "ladder-sum",
        weights: Mapping[str, float] | None = None,
        least_mass: float = LEAST_MASS,
        answers: int | str = 0,
        both_orders: bool = False,
        yes_no: bool = False,
        prompts: str | Path | None = None,
        anchors: int | None = None,
        any_judge: bool = False,
        text_of: Literal["answer", "whole"] = "answer",
        store: str | Path | bool | None = None,
    ) -> None:
        asked = chosen(Scoring, locals())
        opened = open_set(asked)
        self._session = Session(store, events=Log())
        backend = self._session.open(judge, judge_options, writes=mode_of(answers).writes)
        self._scorer = LadderScorer(backend, opened, asked)
        self._words = {name.replace("_", "-"): name for name in Scorer.__init__.__annotations__}
        self._checks = self._session.checks_of(judge)
        with in_call(self._words):
            checks = prove(self._scorer, self._checks, ask=False)
        self._is_checked = not missing_line(self._scorer, checks)
        if self._is_checked:
            Log().checked(checks)
        self._text_of = asked.text_of
        self._columns = Columns(self._scorer.run, self._scorer.scale)

    def close(self) -> None:
        """Close the response store, if one is open; `with Scorer(...) as scorer:` does so at its end."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Return the names of the dimensions that are scored, in order."""
        return tuple(names_of(self._scorer.dimensions))

    @property
    def needs_contexts(self) -> bool:
        """Return whether each text needs a context: not with a shared ladder set."""
        return not self._scorer.ladders.serves_any_context

    @property
    def signature(self) -> str:
        """Return everything that determines a score, in one line; every `Score` has it."""
        return self._scorer.report.signature

    @property
    def by_grade(self) -> bool:
        """Return whether texts are ranked by their grades: those of ratings on a ladder set."""
        return is_rating(self.signature)

    @checked
    def score(
        self,
        texts: Sequence[str | Sequence[Mapping[str, object]] | None],
        *,
        context_id: str | float | Sequence[str | float] | None = None,
        context: str | Sequence[str] | None = None,
        background: str | Sequence[str] = "",
        dimension: str | None = None,
    ) -> list[Score]:
        """Score texts.

        A context is given by its id, by its text (its id is then made from the text, as for a table), or by both: a
        ladder set without the texts of its contexts needs them. With a shared set, texts need no context.

        Args:
            texts: the texts to score; of a chat, a list of messages, the assistant's last one is scored.
            context_id: the context's id: one for all texts, or one for each.
            context: the context's text, likewise.
            background: the context's background, likewise.
            dimension: one of `dimensions`; None for all of them.

        Returns:
            With `dimension`, or where the scorer has a single one: a score for each text, in order. Otherwise a score
            for each text and dimension: all dimensions of the first text, in the order of `dimensions`, then those of
            the next. A text that could not be scored has `value` None and the `reason`, never a number: an empty text
            or None, a context that the set does not have, or an answer of the judge that could not be parsed.

        Raises:
            UsageError: the texts are one string or not text, no context is given, or a list has another length.
            UnknownNameError: no such dimension.
            JudgeRefusedError: the judge does not distinguish the best rung from the worst, or gives no answer that can be
                read.
            BackendError: the judge failed as a whole.
        """
        if dimension is not None:
            choose_dimensions(self._scorer.dimensions, [dimension])
        if context_id is None and context is None and self.needs_contexts:
            raise UsageError("the texts have no context; give context_id=ID or context=TEXT")
        cells: dict[str, Sequence[object]] = {"output": texts}
        for name, value in (
            ("context_id", context_id),
            ("context", context),
            ("background", background),
        ):
            if value is not None:
                cells[name] = _for_each(name, value, len(texts))
        rows = []
        for number, values in enumerate(zip(*cells.values(), strict=True), start=1):
            rows.append(Row(f"text {number}", dict(zip(cells, values, strict=True))))
        mapped = Mapped(columns={}, alone=not self.needs_contexts, text_of=self._text_of)
        read = list(items(rows, mapped, check_ids=False))
        if thoughts := sum(item.thought for item in read):
            self._scorer.report.thoughts += thoughts
            Log().notice(
                "thoughts are in front of texts: what follows them is judged; text_of='whole' judges the whole texts",
                once=True,
            )
        if not self._is_checked and any(texts):
            with in_call(self._words):
                check_judge(self._scorer, self._checks, self._session, Log())
            self._is_checked = True
        with JudgmentLog(None, self._scorer.run) as log:
            scored = self._scorer.score(read, log)
        every = itertools.chain.from_iterable(scored)
        return [score for score in every if dimension in (None, score.dimension)]

    def check_readable(self) -> None:
        """Raise JudgeRefusedError if texts were judged, and no answer could be read so far."""
        self._scorer.check_readable()

    @checked
    def overall(self, scores: Sequence[Score]) -> list[float | None]:
        """Return one number for each text over its dimensions, between 0 and 1: the column `overall_score` of a table.

        Of ratings on a ladder set, it is `overall_grade`.

        Args:
            scores: from `score`, all dimensions.

        Returns:
            One for each text, in order; None where a dimension with a weight has no score or grade.

        Raises:
            UsageError: the scores are not those of all dimensions.
        """
        size = len(self.dimensions)
        rows = [scores[start : start + size] for start in range(0, len(scores), size)]
        given = tuple(score.dimension for score in scores)
        if given != self.dimensions * len(rows):
            raise UsageError(
                f"the overall score needs the scores of {', '.join(self.dimensions)} for each text"
            )
        return self._columns.overall(rows, of_grades=self.by_grade)


def _for_each(
    name: str, value: str | float | Sequence[str | float], count: int
) -> list[str | float]:
    """Return a value for every text: one for all, or those of a list."""
    if isinstance(value, str) or not isinstance(value, Sized):
        return [value] * count
    if len(value) != count:
        raise UsageError(
            f"{name} holds {len(value)} values for {count} texts; give one for each, or one for all"
        )
    return list(value)
