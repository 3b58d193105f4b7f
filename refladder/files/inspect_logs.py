"""Logs of Inspect (`.eval`) as tables: a row for each sample. Needs `pip install inspect-ai pandas pyarrow`."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from refladder.errors import DataError, UsageError
from refladder.files.streams import is_url

# Columns of Inspect's own data frames.
_COLUMNS = "id", "epoch", "score_*", "metadata_*"


def _input(sample: Any) -> str:
    """Return the input of a sample; of a chat, all messages, each after its role."""
    if isinstance(sample.input, str):
        return sample.input
    return "\n\n".join(f"{message.role}: {message.text}" for message in sample.input)


def read_samples(path: str) -> list[dict[str, Any]]:
    """Return the samples of a log: sample_id, model, id, epoch, score_NAME, metadata_NAME, input and output."""
    try:
        import pyarrow as pa
        from inspect_ai.analysis import EvalColumn, SampleColumn, SampleSummary, samples_df
    except ImportError as error:
        raise UsageError(
            f"{path}: a log of Inspect needs another package ({error}); pip install inspect-ai pandas pyarrow"
        ) from error
    if not (is_url(path) or Path(path).exists()):
        raise DataError(f"{path}: no such file")
    columns = [
        *(column for column in SampleSummary if column.name in _COLUMNS),
        SampleColumn("input", path=_input, full=True),
        SampleColumn("output", path=lambda sample: sample.output.completion, full=True),
        EvalColumn("model", path="eval.model"),
    ]
    try:
        frame = samples_df(path, columns, quiet=True)
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (BadZipFile, ValueError, KeyError, OSError, pa.ArrowException) as error:
        words = " ".join(str(error).split())
        raise DataError(
            f"{path}: cannot be read as a log of Inspect ({words:.200}); name a file .eval of Inspect"
        ) from error
    rows: list[dict[str, Any]] = table.drop_columns(["eval_id", "log"]).to_pylist()
    return rows
