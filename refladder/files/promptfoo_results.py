"""Results of promptfoo (`promptfoo eval -o out.json`, or out.jsonl) as rows: one for each test, prompt and provider."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError
from refladder.parsing import chat_or_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_MARKS = {"promptIdx", "testIdx", "provider", "vars"}


def is_results(fields: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is a file of results, or one of them as a line."""
    if isinstance(whole := fields.get("results"), dict):
        return isinstance(whole.get("results"), list)
    return fields.keys() >= _MARKS and "output" not in fields


def read_results(where: str, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a file or line, with equal columns: sample_id, model, input, score_NAME, metadata_NAME, ..."""
    whole = found if isinstance(found := fields.get("results"), dict) else {"results": [fields]}
    known = "refladder reads those of versions 3 and 4"
    if whole.get("version", 3) not in (3, 4):
        raise DataError(f"{where}: results of promptfoo, version {whole.get('version')!r}; {known}")
    try:
        rows = [_row(where, *each) for each in enumerate(whole["results"], start=1)]
    except (AttributeError, LookupError, TypeError) as error:
        raise DataError(f"{where}: no result of promptfoo ({error!r:.120}); {known}") from error
    columns = dict.fromkeys(name for row in rows for name in row)
    return [{**columns, **row} for row in rows]


def _row(where: str, number: int, result: Mapping[str, Any]) -> dict[str, Any]:
    provider, prompt = result["provider"], result["prompt"]
    output = (result.get("response") or {}).get("output")
    # 1 is an assertion that does not hold, and 2 an error.
    failed = result.get("failureReason") == 2 or output is None
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    row = {"sample_id": result.get("id") or f"{where}/{number}", "id": result["testIdx"]}
    row |= {"model": provider.get("label") or provider["id"], "prompt": prompt.get("label")}
    row |= {"input": chat_or_text(prompt["raw"]), "output": None if failed else text}
    row["error"] = (result.get("error") or "no output") if failed else None
    scores = {"promptfoo": result.get("score"), **(result.get("namedScores") or {})}
    kinds: Counter[str] = Counter()
    for part in (result.get("gradingResult") or {}).get("componentResults") or ():
        kind = (assertion := part.get("assertion") or {}).get("type")
        # What has a metric is in namedScores.
        if kind and not assertion.get("metric"):
            kinds[kind] += 1
            scores[kind if kinds[kind] == 1 else f"{kind}_{kinds[kind]}"] = part.get("score")
    # promptfoo gives 0 to what could not be asked.
    row |= {f"score_{name}": None if failed else score for name, score in scores.items()}
    about = {**((result.get("testCase") or {}).get("metadata") or {}), **result["vars"]}
    return row | {f"metadata_{name}": value for name, value in about.items()}
