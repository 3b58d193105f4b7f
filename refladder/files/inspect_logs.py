"""Logs of Inspect (`.eval`) as tables: a row for each sample. Needs `pip install inspect-ai pandas pyarrow`."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from refladder.errors import DataError, UsageError, plural
from refladder.files.streams import is_url

# Columns of Inspect's own data frames.
_COLUMNS = "id", "epoch", "score_*", "metadata_*"


def _input(sample: Any) -> str:
    """Return the input of a sample; of a chat, all messages, each after its role."""
    if isinstance(sample.input, str):
        return sample.input
    return "\n\n".join(f"{message.role}: {message.text}" for message in sample.input)


def _output(sample: Any) -> str | None:
    """Return the text of the model; None for a sample that ended with an error."""
    return None if sample.error else sample.output.completion


def _check_bytes(path: str) -> None:
    """Compare each part of a log with its checksum, which Inspect does not."""
    with ZipFile(path) as archive:
        if damaged := archive.testzip():
            raise BadZipFile(f"{damaged} is damaged")


def read_samples(path: str) -> list[dict[str, Any]]:
    """Return the samples of a log: sample_id, model, id, epoch, score_NAME, metadata_NAME, input and output."""
    try:
        import pyarrow as pa
        from inspect_ai.analysis import EvalColumn, SampleColumn, SampleSummary, samples_df
        from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries
    except ImportError as error:
        raise UsageError(
            f"{path}: a log of Inspect needs another package ({error}); pip install inspect-ai pandas pyarrow"
        ) from error
    if not (is_url(path) or Path(path).exists()):
        raise DataError(f"{path}: no such file")
    columns = [
        *(column for column in SampleSummary if column.name in _COLUMNS),
        SampleColumn("input", path=_input, full=True),
        SampleColumn("output", path=_output, full=True),
        EvalColumn("model", path="eval.model"),
    ]
    try:
        log = read_eval_log(path, header_only=True)
        if not is_url(path):
            _check_bytes(path)
        listed = len(read_eval_log_sample_summaries(path))
        frame = samples_df(path, columns, quiet=True)
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except Exception as error:
        # A damaged log raises errors of any kind: of zip, zstd, JSON, pydantic, pandas, ...
        words = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{path}: cannot be read as a log of Inspect ({words:.200}); name a file .eval of Inspect"
        ) from error
    if log.status != "success":
        raise DataError(
            f"{path}: a log with the status {log.status!r}, so samples may be missing; run `inspect eval-retry {path}`, and "
            "name the new log"
        )
    listed = max(listed, log.results.total_samples if log.results else 0)
    if len(frame) != listed or not listed:
        raise DataError(
            f"{path}: {plural(len(frame), 'sample')} in this log, and {listed:,} in its run; name a whole log, of a run that "
            "kept its samples"
        )
    rows: list[dict[str, Any]] = table.drop_columns(["eval_id", "log"]).to_pylist()
    return rows
