"""What `compete`, `score` or `evaluate` wrote, as a sheet for the review page."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.arena.compete import spent_before
from refladder.arena.sheet import GRADES, PAIRS, Sheet, Text, sheet_of
from refladder.errors import DataError, RefladderError, UsageError, plural
from refladder.files.jsonl import read_bytes, read_lines, within
from refladder.files.ladder_sets import load_ladders, published_names
from refladder.files.scored_folders import is_scored
from refladder.files.table_files import table_files
from refladder.files.tables import parse_number, read_rows
from refladder.jobs.evaluation_results import RESULTS
from refladder.jobs.score import Mapped, items
from refladder.jobs.scored_tables import mapped_columns
from refladder.parsing import parse_as, parse_json
from refladder.records import LOSS, TIE, WIN, Dimension, JudgeCheck
from refladder.report.summary import beyond_lines, cost_words
from refladder.scoring.columns import LOW_MASS, OVERALL, anchor_spread_column, column_names
from refladder.scoring.judge_check import check_lines
from refladder.scoring.judgment_file import read_judgments
from refladder.scoring.question import RUNG, level_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Judgment, Run

_ENDS = ("above_top", "below_bottom")  # keys of the record of `score`
_MOST_LABELS = 12  # columns with numbers that the threshold view offers as labels


def read_run(run: Path, allowed: Callable[[str], Path] | None = None) -> Sheet:
    """Read a run: a folder or a table. `allowed` raises UsageError for a file that may not be read; None allows all."""
    if run.is_dir():
        if is_scored(str(run)):
            raise DataError(
                f"{run}: a folder of scored files; give one of its tables, such as {table_files(str(run))[0]}"
            )
        if not (run / RESULTS).is_file():
            raise DataError(
                f"{run}: no {RESULTS} in this folder; give the folder of `compete --out` or `evaluate --work`, or the "
                "table of `score --out`"
            )
        kinds = _by_kind(within(run / RESULTS))
        try:
            return _evaluation(run, kinds) if "evaluation" in kinds else _contest(run, kinds)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"{run / RESULTS}: not complete (a line, or run.json, lacks {error} or has it in another form); run "
                "the command again"
            ) from error
    if not run.is_file():
        raise DataError(
            f"{run}: no such run; give a folder of `compete` or `evaluate --work`, or a table of `score`"
        )
    return _scored(run, allowed or Path)


def _by_kind(path: Path) -> dict[str, list[dict[str, Any]]]:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for number, line in read_lines(path):
        fields = parse_json(line, f"{path}:{number}")
        if not isinstance(fields, dict) or not isinstance(fields.get("kind"), str):
            raise DataError(
                f"{path}:{number}: not a line of a run, which has a kind; run the command again"
            )
        try:
            json.dumps(fields, allow_nan=False)
        except ValueError as error:
            raise DataError(
                f"{path}:{number}: a number that is not finite; run the command again"
            ) from error
        kinds.setdefault(fields["kind"], []).append(fields)
    return kinds


def _sheet(
    folder: Path,
    kinds: Mapping[str, list[dict[str, Any]]],
    texts: Iterable[Text],
    key: Mapping[str, Any],
) -> Sheet:
    """The sheet of a folder with rows and criteria."""
    return sheet_of(
        [
            {"id": row["row"], "prompt": row["prompt"], "note": row.get("note")}
            for row in kinds.get("row", [])
        ],
        list(texts),
        [_criterion(line) for line in kinds.get("criterion", [])],
        key,
        grades=folder / GRADES,
        pairs=folder / PAIRS,
    )


def _contest(folder: Path, kinds: Mapping[str, list[dict[str, Any]]]) -> Sheet:
    """A contest of models: texts, trials in both orders, and win rates."""
    places = {row["row"]: number for number, row in enumerate(kinds.get("row", []))}
    signature = kinds["contest"][0]["signature"] if "contest" in kinds else ""
    # Nothing else of the configuration reaches the page: it may hold a key.
    cost = [f"{usage['backend']}: {cost_words(usage)}" for usage in spent_before(folder)]
    sheet = _sheet(
        folder,
        kinds,
        (
            Text(
                places[line["row"]],
                line["model"],
                f"{line['row']}/{line['model']}",
                line["text"],
                line["note"],
            )
            for line in kinds.get("text", [])
        ),
        {"kind": "compete", "signature": signature, "warnings": [], "cost": cost},
    )
    sheet.key["title"] = " : ".join(sheet.key["systems"])
    sheet.key["trials"] = [
        [
            sheet.criteria[line["criterion"]],
            sheet.numbers[f"{line['row']}/{line['one']}"],
            sheet.numbers[f"{line['row']}/{line['other']}"],
            line["forward"],
            line["backward"],
            0
            if line["tie"]
            else None
            if line["winner"] is None
            else 1
            if line["winner"] == line["one"]
            else -1,
            line.get("mass"),
            line["note"],
            line["explanation"],
        ]
        for line in kinds.get("trial", [])
    ]
    rates: dict[str, dict[str, float | None]] = {name: {} for name in sheet.criteria}
    for line in kinds.get("standing", []):
        if line["row"] is not None and line["criterion"] in rates:
            rates[line["criterion"]][f"{line['row']}/{line['model']}"] = line["rate"]
    sheet.key["columns"] = [
        _column(
            f"{column_names(name).score.removesuffix('_score')}_win_rate",
            number,
            map(rates[name].get, sheet.numbers),
        )
        for name, number in sheet.criteria.items()
    ]
    return sheet


def _criterion(fields: Mapping[str, Any]) -> dict[str, Any]:
    usual = {"low": 1.0, "high": 5.0, "worst": "", "best": "", "weight": 1.0}
    return {
        "name": fields["criterion"],
        "description": fields["description"],
        **{name: fields.get(name, value) for name, value in usual.items()},
    }


def _column(
    name: str, criterion: int | None, values: Iterable[float | None], kind: str = "score"
) -> dict[str, Any]:
    """A number for each text, in the order of the pool; `kind` is score or label."""
    return {"name": name, "criterion": criterion, "kind": kind, "values": list(values)}


def _evaluation(folder: Path, kinds: Mapping[str, list[dict[str, Any]]]) -> Sheet:
    """An evaluation: texts with human ratings, scores of methods, and the tables of the report card."""
    head = kinds["evaluation"][0]
    places = {row["row"]: number for number, row in enumerate(kinds.get("row", []))}
    tables = [
        {name: line[name] for name in ("caption", "heads", "rows", "legend")}
        for line in kinds["table"]
    ]
    sheet = _sheet(
        folder,
        kinds,
        (
            Text(places[line["row"]], line["system"], line["id"], line["text"])
            for line in kinds.get("text", [])
        ),
        {
            "kind": "evaluate",
            "title": head["benchmark"],
            "signature": "",
            "warnings": head["notes"],
            "cost": [],
            "tables": tables,
        },
    )
    sheet.key["people"] = [
        [sheet.numbers[line["id"]], sheet.criteria[line["criterion"]], line["value"], line["rater"]]
        for line in kinds.get("rating", [])
        if line["id"] in sheet.numbers
    ]
    scores: dict[tuple[str, str], dict[str, float | None]] = {}
    for line in kinds.get("score", []):
        scores.setdefault((line["method"], line["criterion"]), {})[line["id"]] = line["value"]
    sheet.key["columns"] = [
        _column(f"{method}: {criterion}", sheet.criteria[criterion], map(values.get, sheet.numbers))
        for (method, criterion), values in scores.items()
    ]
    sheet.key["columns"] += _mean_ratings(sheet)
    return sheet


def _mean_ratings(sheet: Sheet) -> list[dict[str, Any]]:
    given: dict[int, dict[int, list[float]]] = {}
    for text, criterion, value, _ in sheet.key["people"]:
        given.setdefault(criterion, {}).setdefault(text, []).append(value)
    names = list(sheet.criteria)
    columns = []
    for criterion, by_text in sorted(given.items()):
        means = {text: sum(values) / len(values) for text, values in by_text.items()}
        values = map(means.get, range(len(sheet.texts)))
        columns.append(
            _column(f"mean human rating: {names[criterion]}", criterion, values, "label")
        )
    return columns


def _scored(path: Path, allowed: Callable[[str], Path]) -> Sheet:
    """A scored table: texts with scores, and where the files beside it say so, their verdicts against each rung."""
    config = within(path.with_name(f"{path.name}.run.json"))
    recorded = _recorded(config) if config.is_file() else {"options": {}}
    options = recorded["options"]
    columns = mapped_columns(str(path))
    mapped = Mapped(columns=columns, context=options.get("context_id"))
    contexts: dict[str, str | None] = {}
    places: dict[str, int] = {}
    texts: dict[str, Text] = {}
    fields: dict[str, Mapping[str, Any]] = {}
    without = 0
    for item in items(read_rows(str(path)), mapped, check_ids=True):
        if item.output is None:
            without += 1
            continue
        context = item.output.context_id
        place = places.setdefault(context, len(places))
        contexts[context] = contexts.get(context) or item.context_text
        system = str(item.row.fields.get(columns.get("system", "system")) or "")
        texts.setdefault(item.output.id, Text(place, system, item.output.id, item.output.text))
        fields.setdefault(item.output.id, item.row.fields)
    warned = [f"{plural(without, 'row')} without a text: not shown."] if without else []
    warned += _check_of_judge(recorded.get("judge_check") or [], config)
    warned += [f"{line}." for line in beyond_lines(*(recorded.get(name, {}) for name in _ENDS))]
    judgments = Path(options.get("judgments") or f"{path}.judgments.jsonl")
    run, read = _judgments(judgments, allowed, warned)
    ladders = _ladders(options.get("ladders"), run, allowed, warned)
    if ladders is not None:
        for context in places:
            known = ladders.contexts.get(context)
            contexts[context] = contexts[context] or (None if known is None else known.text)
    sheet = sheet_of(
        [{"id": context, "prompt": contexts[context], "note": None} for context in places],
        list(texts.values()),
        _criteria(run, fields),
        {"kind": "score", "title": path.name, "warnings": warned, "cost": [], "table": path.name},
        grades=path.with_name(f"{path.name}.{GRADES}"),
        pairs=path.with_name(f"{path.name}.{PAIRS}"),
    )
    _add_scores(sheet, [fields[text.id] for text in sheet.texts])
    if run is not None:
        sheet.key["climbs"] = _climbs(sheet, read, run.rungs)
    if ladders is not None:
        sheet.key["rungs"] = [
            [_rungs(ladders, row, name) for row in sheet.rows] for name in sheet.criteria
        ]
    return sheet


def _check_of_judge(checks: Any, config: Path) -> list[str]:
    """What the run's record says about its judge."""
    again = "score the table again"
    read = parse_as(
        list[JudgeCheck], json.dumps(checks), str(config), "not the check of a judge", again
    )
    shown, warnings = check_lines(read)
    return [*(f"{line}." for line in shown), *warnings]


def _rungs(ladders: LadderSet, context_id: str, dimension: str) -> list[str] | None:
    """The texts of each level that a row is compared with, those of all anchors of a shared set; None without any."""
    made = [ladders.ladders.get((anchor, dimension)) for anchor in ladders.anchors or (context_id,)]
    levels = zip(*(ladder.rungs for ladder in made if ladder is not None), strict=True)
    return ["\n\n".join(rung.text for rung in level) for level in levels] or None


def _recorded(config: Path) -> dict[str, Any]:
    """The options that a table was scored with, and how many texts lie beyond the ladders."""
    parsed = parse_json(read_bytes(config), str(config), whole_file=True)
    fields: dict[str, Any] = parsed if isinstance(parsed, dict) else {}
    options, *ends = fields.get("options"), *(fields.get(name, {}) for name in _ENDS)
    counted = all(
        isinstance(end, dict) and all(type(count) is int for count in end.values()) for end in ends
    )
    if isinstance(options, dict) and counted:
        columns = options.get("column") or []
        texts = [options.get(name) for name in ("context_id", "ladders", "judgments")]
        pairs = isinstance(columns, list) and all(
            isinstance(column, str) and "=" in column for column in columns
        )
        if pairs and all(isinstance(text, str | None) for text in texts):
            return fields
    raise DataError(
        f"{config}: damaged; score the table again, or delete this file if the columns have default names"
    )


def _judgments(
    path: Path, allowed: Callable[[str], Path], warned: list[str]
) -> tuple[Run | None, Iterable[tuple[str, Judgment]]]:
    """The judgments of a table, where there are any that may be read; else a warning says why not."""
    try:
        allowed(str(path.absolute()))
    except UsageError as error:
        warned.append(f"The verdicts are not shown: {error}")
        return None, []
    return read_judgments(path) if path.is_file() else (None, [])


def _ladders(
    name: str | None, run: Run | None, allowed: Callable[[str], Path], warned: list[str]
) -> LadderSet | None:
    """The ladders that a table was scored with, where they are still the same; else a warning says why not."""
    if name is None or run is None:
        return None
    try:
        if (folder := Path(name)).exists() and name not in published_names():
            for path in (folder, *folder.rglob("*")):
                allowed(str(path.absolute()))
        ladders = load_ladders(name)
    except RefladderError as error:
        warned.append(f"The rungs are not shown: {error}")
        return None
    if not run.ladders.partition("|")[0].endswith(f"@{ladders.digest}"):
        warned.append(
            f"The rungs are not shown: the ladder set {name} has changed since the table was scored."
        )
        return None
    return ladders


def _criteria(run: Run | None, fields: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The dimensions of the judgments, or where there are none, those that the columns are named by."""
    if run is not None:
        dimensions: Sequence[Dimension] = run.dimensions
    else:
        first = next(iter(fields.values()), {})
        stems = [name.removesuffix("_grade") for name in first if name.endswith("_grade")]
        dimensions = [
            Dimension(name=stem, description="") for stem in stems if f"{stem}_score" in first
        ]
    return [
        _criterion(
            {
                "criterion": each.name,
                "description": each.description,
                "low": each.low,
                "high": each.high,
            }
        )
        for each in dimensions
    ]


def _add_scores(sheet: Sheet, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add the columns of scores, of notes, and the user's numbers, which may be labels."""

    def numbers(name: str) -> list[float | None]:
        return [_number(row.get(name)) for row in rows]

    added = {"signature"}
    sheet.key["signature"] = str(rows[0].get("signature") or "") if rows else ""
    sheet.key["columns"], sheet.key["notes"], sheet.key["masses"] = [], [], []
    for number, name in enumerate(sheet.criteria):
        names = column_names(name)
        added |= {*names, anchor_spread_column(name)}
        for column in (names.score, names.grade):
            sheet.key["columns"].append(_column(column, number, numbers(column)))
        sheet.key["masses"].append(numbers(names.mass))
        sheet.key["notes"].append([row.get(names.note) or None for row in rows])
    first = rows[0] if rows else {}
    for column in OVERALL:
        if len(sheet.criteria) > 1 and column in first and column not in added:
            added.add(column)
            sheet.key["columns"].append(_column(column, None, numbers(column)))
    low = sum(
        mass is not None and mass < LOW_MASS for masses in sheet.key["masses"] for mass in masses
    )
    if low:
        sheet.key["warnings"].append(
            f"{plural(low, 'score')} with low label mass in a judgment; see the notes."
        )
    others = [
        _column(str(column), None, numbers(column), "label")
        for column in first
        if column not in added
    ]
    others = [each for each in others if any(value is not None for value in each["values"])]
    sheet.key["columns"] += others[:_MOST_LABELS]


def _number(value: object) -> float | None:
    """A cell as a number; None for all else."""
    if isinstance(value, str):
        value = parse_number(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _climbs(
    sheet: Sheet, judgments: Iterable[tuple[str, Judgment]], rungs: int
) -> list[dict[int, list[float | None]]]:
    """For each criterion and text, the probability that it beats each rung, worst first; the mean of both orders."""
    cells: dict[
        tuple[str, str], list[list[float]]
    ] = {}  # of a criterion and a text: for each rung what it won
    for where, judgment in judgments:
        if judgment.dimension not in sheet.criteria:
            raise DataError(
                f"{where}: dimension {judgment.dimension!r} is not among the run's: {list(sheet.criteria)}"
            )
        against = judgment.against or ""
        text, rung = (
            (against, judgment.subject)
            if judgment.subject.startswith(RUNG)
            else (judgment.subject, against)
        )
        level = level_of(rung)
        if level is None or level > rungs or text not in sheet.numbers or judgment.logprobs is None:
            continue
        weights = dict(zip(judgment.outcomes, map(math.exp, judgment.logprobs), strict=True))
        if not (total := sum(weights.values())):
            continue
        won = (
            weights.get(WIN if text == judgment.subject else LOSS, 0.0) + weights.get(TIE, 0.0) / 2
        )
        by_rung = cells.setdefault((judgment.dimension, text), [[] for _ in range(rungs)])
        by_rung[level - 1].append(won / total)
    return [
        {
            number: [
                round(sum(won) / len(won), 4) if won else None for won in cells[criterion, text]
            ]
            for text, number in sheet.numbers.items()
            if (criterion, text) in cells
        }
        for criterion in sheet.criteria
    ]
