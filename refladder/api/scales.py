"""rescore and link as calls on stored judgments; the same jobs, defaults and results as the commands."""

from __future__ import annotations

import logging
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from refladder.api.frames import checked, in_words_of_python, output_path, record_or_path
from refladder.api.judges import check_asking
from refladder.errors import UsageError
from refladder.files.tables import read_rows
from refladder.jobs import link as linking
from refladder.jobs import rescore as rescoring
from refladder.report.link_table import link_warnings
from refladder.report.progress import progress
from refladder.report.summary import summary_lines, warning_lines
from refladder.scoring.columns import Scale
from refladder.scoring.judging import LEAST_MASS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from refladder.records import Link

_LOG = logging.getLogger("refladder")


@overload
def rescore(
    judgments: str | Path,
    *,
    rule: str = "ladder-sum",
    weights: Mapping[str, float] | None = None,
    least_mass: float = LEAST_MASS,
    link: str | Path | Link | None = None,
    out: None = None,
) -> list[dict[str, Any]]: ...


@overload
def rescore(
    judgments: str | Path,
    *,
    rule: str = "ladder-sum",
    weights: Mapping[str, float] | None = None,
    least_mass: float = LEAST_MASS,
    link: str | Path | Link | None = None,
    out: str | Path,
) -> Path: ...


@checked
def rescore(
    judgments: str | Path,
    *,
    rule: str = "ladder-sum",
    weights: Mapping[str, float] | None = None,
    least_mass: float = LEAST_MASS,
    link: str | Path | Link | None = None,
    out: str | Path | None = None,
) -> list[dict[str, Any]] | Path:
    """Compute scores again from stored judgments, without a judge, as `refladder rescore`.

    Args:
        judgments: a judgments file of `score`, a folder of scored shards, or `hub:ORG/NAME@REVISION` of a set that was
            published with judgments.
        rule: scoring rule (see `refladder list rules`).
        weights: weight of a dimension in the overall score; 1 for those that are not named.
        least_mass: least label mass, a probability; a judgment below it gives no score.
        link: a link from `link`, or its file. It adds COLUMN_linked, COLUMN_linked_low and COLUMN_linked_high for each
            score and grade that it maps.
        out: file for the rows (JSON lines, CSV or Parquet); None returns them.

    Returns:
        A dict for each output, in the order of judging: output_id, context_id and the columns of `score`. With `out`,
        its path; then rows are streamed and never held in memory together. A score that is missing is None, and its
        note says why; a warning of the logger `refladder` counts them.

    Raises:
        UnknownNameError, UsageError: an argument is wrong, or the judgments are not of whole ladders.
        DataError: the judgments or the link cannot be read, with path:line, or `out` cannot be written; or the link is
            of other scores.
    """
    given = list(locals())
    with ExitStack() as stack:
        stack.enter_context(in_words_of_python(given))
        _check_paths(judgments=judgments)
        check_asking(least_mass=least_mass)
        if out is None:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="refladder-"))) / "rows.jsonl"
        else:
            path = output_path(out)
        with progress("rescoring") as update:
            report = rescoring.rescore(
                judgments,
                str(path),
                Scale(rule=rule, weights=dict(weights or {}), least_mass=least_mass),
                link=record_or_path(link),
                progress=update,
            )
        for line in warning_lines(report) if report.complete else summary_lines(report):
            _LOG.warning("%s", line)
        return [row.fields for row in read_rows(str(path))] if out is None else path


@checked
def link(
    judgments: str | Path,
    *,
    to: str | Path,
    rule: str = "ladder-sum",
    least_mass: float = LEAST_MASS,
    out: str | Path | None = None,
) -> Link:
    """Map scores and grades of one judge to the scale of another, as `refladder link`.

    Both judges must have judged rows of the same table on the same ladders.

    Args:
        judgments: judgments file of the scores that are to be mapped, or a folder of scored shards.
        to: likewise, of the scores on the target scale.
        rule: scoring rule: ladder-sum, mean-difference or expected-grade.
        least_mass: least label mass, a probability; a judgment below it is unparsed.
        out: file for the link, for `refladder filter --link`; None writes none.

    Returns:
        The link, which `filter` and `rescore` take as `link`. Its `columns` hold the errors on contexts that were held
        out. A warning of the logger `refladder` names columns that are no better linked than unlinked.

    Raises:
        UnknownNameError, UsageError: an argument is wrong, or both files are of the same judge.
        DataError: a file cannot be read or written, with path:line; or too few rows are in both files.
    """
    given = list(locals())
    with in_words_of_python(given):
        _check_paths(judgments=judgments, to=to)
        check_asking(least_mass=least_mass)
        scale = Scale(rule=rule, weights={}, least_mass=least_mass)
        record = linking.link(Path(judgments), Path(to), scale, None if out is None else Path(out))
    for line in link_warnings(record):
        _LOG.warning("%s", line)
    return record


def _check_paths(**judgments: object) -> None:
    """Check that judgments are named by their path, not given as rows."""
    for name, value in judgments.items():
        if not isinstance(value, str | Path):
            raise UsageError(f"{name} must be the path of a judgments file of `score`, found {type(value).__name__}")
