"""Samples of lm-eval (`lm_eval --log_samples`, samples_*.jsonl) as rows: one for each answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError
from refladder.files.streams import is_url
from refladder.parsing import chat_or_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MARKS = {"doc_id", "doc", "arguments", "filtered_resps"}
# What a sample has beside its metrics, which older ones do not list.
_FIELDS = _MARKS | {"target", "resps", "filter", "doc_hash", "prompt_hash", "target_hash"}


def is_sample(fields: Mapping[str, object]) -> bool:
    """Return whether a JSON line is a sample; with a column `output`, it is a table of the user's own."""
    return fields.keys() >= _MARKS and "output" not in fields


def _request(where: str, arguments: Any) -> tuple[object, object]:
    """Return the prompt of the first request, and what follows it: a dict of options if the model wrote a text."""
    try:
        # A dict with numbered names in newer versions, and a list in older ones.
        first = arguments["gen_args_0"] if isinstance(arguments, dict) else arguments[0]
        prompt, *more = first.values() if isinstance(first, dict) else first
    except (LookupError, TypeError, ValueError) as error:
        known = "a list, or an object with gen_args_0, which refladder reads"
        raise DataError(f"{where}: arguments of lm-eval that are not {known}") from error
    # A chat is a list with one text, of JSON.
    text = prompt[0] if isinstance(prompt, list) and prompt else prompt
    return chat_or_text(text), more[0] if more else None


def read_sample(where: str, sample: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each answer: sample_id, model (the file's folder), id, epoch, score_NAME, metadata_NAME, ..."""
    if not is_sample(sample):
        raise DataError(f"{where}: no sample of lm-eval, as the lines before are; remove the line")
    prompt, options = _request(where, sample["arguments"])
    if not isinstance(options, dict):
        advice = "name samples of a task in which the model writes (generate_until)"
        raise DataError(f"{where}: lm-eval asked how likely given texts are, not for one; {advice}")
    path = Path(where if is_url(where) else Path(where).resolve())
    model = None if where.startswith("<") else path.parent.name
    metrics = sample.get("metrics") or [name for name in sample if name not in _FIELDS]
    scores = {f"score_{name}": sample.get(name) for name in metrics}
    doc = sample["doc"] if isinstance(sample["doc"], dict) else {"doc": sample["doc"]}
    about = {f"metadata_{name}": value for name, value in doc.items()}
    texts = sample["filtered_resps"]
    # Some filters keep all answers of a request.
    texts = texts[0] if isinstance(texts, list) and texts and isinstance(texts[0], list) else texts
    for epoch, text in enumerate((texts if isinstance(texts, list) else [texts]) or [None], 1):
        row = {"sample_id": f"{model}/{path.name}/{epoch}", "model": model, "id": sample["doc_id"]}
        row |= {"epoch": epoch, "input": prompt, "output": text, "target": sample.get("target")}
        row["filter"] = sample.get("filter")
        yield row | scores | about
