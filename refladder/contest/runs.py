"""Runs of `compete`, `score` or `evaluate` as data of the review page."""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.backends.metered import spent_before
from refladder.contest.compete import RUN
from refladder.contest.criteria import Criterion
from refladder.contest.review_data import GRADES, PAIRS, ReviewData, ReviewRow, Text, review_data_of
from refladder.contest.standings import Trial
from refladder.errors import DataError, RefladderError, UsageError, plural
from refladder.evaluation.results import RESULTS
from refladder.files.hub import PREFIX
from refladder.files.jsonl import read_lines, within
from refladder.files.ladder_sets import load_ladders, published_names
from refladder.files.outputs import read_record
from refladder.files.scored_folders import is_scored
from refladder.files.tables import parse_number, read_rows, table_files
from refladder.loaders.input_rows import Mapped, items
from refladder.loaders.scored_tables import (
    OVERALL,
    OVERALL_GRADES,
    grade_column,
    mapped_columns,
)
from refladder.parsing import parse_json
from refladder.records import LOSS, RUNG, TIE, WIN
from refladder.scoring.columns import LOW_MASS, anchor_spread_column, column_names
from refladder.scoring.judge_check import check_lines
from refladder.scoring.judgment_file import read_judgments
from refladder.scoring.question import level_of
from refladder.scoring.summary import beyond_lines, cost_words
from refladder.signatures import GRADE, with_earlier_sets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Judgment, Run

    # These are a line of results.jsonl, and all lines by their kind.
    _Line = Mapping[str, Any]
    _Lines = Mapping[str, Sequence[_Line]]

# Fields of a criterion that older and other runs leave out.
_SCALE = ("low", "high", "worst", "best", "weight")
# A note on the judge check begins with this.
CHECK = "judge check, "
# The threshold view offers at most this number of columns as labels.
_MOST_LABELS = 12


def read_run(
    run: Path,
    allowed: Callable[[str], Path] | None = None,
    columns: Mapping[str, str] | None = None,
) -> ReviewData:
    """Read a run: a folder or a table. `allowed` raises UsageError for a file that may not be read; None allows all.

    `columns` maps fields of a table to columns, beside those that `score` used.
    """
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
    return _scored(run, allowed or Path, columns)


def _by_kind(path: Path) -> defaultdict[str, list[_Line]]:
    kinds: defaultdict[str, list[_Line]] = defaultdict(list)
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
        kinds[fields["kind"]].append(fields)
    return kinds


def _review_data(
    folder: Path, kinds: _Lines, texts: Sequence[Text], key: Mapping[str, object]
) -> ReviewData:
    """Make the view of a folder from its rows and criteria."""
    rows = [ReviewRow(row["row"], row["prompt"], row.get("note")) for row in kinds["row"]]
    criteria = []
    for line in kinds["criterion"]:
        scale = {name: line[name] for name in _SCALE if name in line}
        criteria.append(Criterion(name=line["criterion"], description=line["description"], **scale))
    return review_data_of(rows, texts, criteria, key, grades=folder / GRADES, pairs=folder / PAIRS)


def _contest(folder: Path, kinds: _Lines) -> ReviewData:
    """Read a contest of models: texts, trials in both orders, and win rates."""
    row_numbers = {row["row"]: number for number, row in enumerate(kinds["row"])}
    signature = kinds["contest"][0]["signature"] if "contest" in kinds else ""
    # Nothing else of the configuration reaches the page: it may hold a key.
    cost = [cost_words(costs) for costs in spent_before(within(folder / RUN))]
    texts = []
    for line in kinds["text"]:
        row, model = line["row"], line["model"]
        texts.append(Text(row_numbers[row], model, f"{row}/{model}", line["text"], line["note"]))
    key = {"kind": "compete", "signature": signature, "warnings": [], "cost": cost}
    data = _review_data(folder, kinds, texts, key)
    data.key["title"] = " : ".join(data.systems)
    data.key["trials"] = [_trial(data, Trial(**line)) for line in kinds["trial"]]
    rates: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
    for line in kinds["standing"]:
        if line["row"] is not None:
            rates[line["criterion"]][f"{line['row']}/{line['model']}"] = line["rate"]
    columns = []
    for name, number in data.criteria.items():
        stem = column_names(name).score.removesuffix("_score")
        columns.append(_column(f"{stem}_win_rate", number, map(rates[name].get, data.numbers)))
    data.key["columns"] = columns
    return data


def _trial(data: ReviewData, trial: Trial) -> list[object]:
    """Return a trial with the numbers of its criterion and texts."""
    return [
        data.criteria[trial.criterion],
        data.numbers[f"{trial.row}/{trial.one}"],
        data.numbers[f"{trial.row}/{trial.other}"],
        trial.forward,
        trial.backward,
        _outcome(trial),
        trial.mass,
        trial.note,
        trial.explanation,
    ]


def _outcome(trial: Trial) -> int | None:
    """Return 1 if the first model of a trial won, -1 if the other did, 0 for a tie, None if it was unparsed."""
    if trial.tie:
        return 0
    if trial.winner is None:
        return None
    return 1 if trial.winner == trial.one else -1


def _column(
    name: str, criterion: int | None, values: Iterable[float | None], kind: str = "score"
) -> dict[str, object]:
    """Return a number for each text, in the order of the pool; `kind` is score or label."""
    return {"name": name, "criterion": criterion, "kind": kind, "values": list(values)}


def _evaluation(folder: Path, kinds: _Lines) -> ReviewData:
    """Read an evaluation: texts with human ratings, scores of methods, and the tables of the report card."""
    head = kinds["evaluation"][0]
    row_numbers = {row["row"]: number for number, row in enumerate(kinds["row"])}
    texts = []
    for line in kinds["text"]:
        row = row_numbers[line["row"]]
        texts.append(Text(row, line["system"], line["id"], line["text"]))
    key = {
        "kind": "evaluate",
        "title": head["benchmark"],
        "signature": "",
        "facts": [note for note in head["notes"] if note.startswith(CHECK)],
        "warnings": [note for note in head["notes"] if not note.startswith(CHECK)],
        "cost": [],
        "tables": list(map(_table, kinds["table"])),
    }
    data = _review_data(folder, kinds, texts, key)
    people = []
    given: defaultdict[int, defaultdict[int, list[float]]]
    given = defaultdict(lambda: defaultdict(list))
    for line in kinds["rating"]:
        if line["id"] in data.numbers:
            text, criterion = data.numbers[line["id"]], data.criteria[line["criterion"]]
            people.append([text, criterion, line["value"], line["rater"]])
            given[criterion][text].append(line["value"])
    scores: defaultdict[tuple[str, str], dict[str, float | None]] = defaultdict(dict)
    for line in kinds["score"]:
        scores[line["method"], line["criterion"]][line["id"]] = line["value"]
    columns = []
    for (method, name), values in scores.items():
        numbers = map(values.get, data.numbers)
        columns.append(_column(f"{method}: {name}", data.criteria[name], numbers))
    for name, criterion in data.criteria.items():
        if criterion in given:
            means = {text: sum(values) / len(values) for text, values in given[criterion].items()}
            ratings = map(means.get, range(len(data.texts)))
            columns.append(_column(f"mean human rating: {name}", criterion, ratings, "label"))
    data.key.update(people=people, columns=columns)
    return data


def _table(line: _Line) -> dict[str, object]:
    return {name: line[name] for name in ("caption", "heads", "rows", "legend")}


class _Scored(NamedTuple):
    """A text of a scored table, the fields of its row, and what the page calls it."""

    text: Text
    fields: Mapping[str, object]
    name: str


def _texts(path: Path, mapped: Mapped) -> tuple[dict[str, str | None], list[_Scored], int]:
    """Return the contexts of a table with their prompts, its texts as the page orders them, and the number of rows without."""
    contexts: dict[str, str | None] = {}
    row_numbers: dict[str, int] = {}
    shown: list[_Scored] = []
    missing = 0
    for number, item in enumerate(items(read_rows(str(path)), mapped, check_ids=True), start=1):
        if item.output is None:
            missing += 1
            continue
        context, name, fields = item.output.context_id, item.output.id, item.row.fields
        row = row_numbers.setdefault(context, len(row_numbers))
        contexts[context] = contexts.get(context) or item.context_text
        system = str(fields.get(mapped.columns.get("system", "system")) or "")
        has_id = mapped.id_in(item.row, "output_id", needed=False) is not None
        text = Text(row, system, name, item.output.text)
        shown.append(_Scored(text, fields, name if has_id else f"row {number}"))
    shown.sort(key=lambda entry: entry.text.place)
    return contexts, shown, missing


def _scored(
    path: Path, allowed: Callable[[str], Path], given: Mapping[str, str] | None = None
) -> ReviewData:
    """Read a scored table: texts with scores and, if the files beside it have them, their verdicts against each rung."""
    config = within(path.with_name(f"{path.name}.run.json"))
    record = read_record(config)
    columns = mapped_columns(str(path), given)
    mapped = Mapped(columns=columns, context=record.context_id)
    contexts, shown, missing = _texts(path, mapped)
    warned = [f"{plural(missing, 'row')} without a text: not shown."] if missing else []
    if copies := len(shown) - len({entry.text.id for entry in shown}):
        warned.append(
            f"{plural(copies, 'row')} with the text and context of an earlier row: shown, and rated with it."
        )
    facts, doubts = check_lines(record.judge_check or [])
    warned += doubts
    warned += [f"{line}." for line in beyond_lines(record.above_top, record.below_bottom)]
    folder = _folder_of_run(path, record.options.out)
    judgments = folder / (record.options.judgments or f"{path.absolute()}.judgments.jsonl")
    run, read = _judgments(judgments, allowed, warned)
    name = record.options.ladders
    if name is not None and (folder / name).is_dir():
        name = str(folder / name)
    ladders = _ladders(name, run, allowed, warned)
    if run is not None and name is None:
        warned.append(f"The rungs are not shown: no ladder set is named in {config.name}.")
    if ladders is not None:
        for context, prompt in contexts.items():
            if not prompt and context in ladders.contexts:
                contexts[context] = ladders.contexts[context].text
    first = shown[0].fields if shown else {}
    criteria = _criteria(run, first)
    if first and not criteria:
        raise DataError(
            f"{path}: no columns NAME_score and NAME_grade; the page shows scores, so run `refladder score` first and "
            "give its output"
        )
    has_ids = columns.get("context_id", "context_id") in first
    data = review_data_of(
        _review_rows(contexts, [] if has_ids else shown),
        [entry.text for entry in shown],
        criteria,
        {
            "kind": "score",
            "title": path.name,
            "facts": [f"{line}." for line in facts],
            "warnings": warned,
            "cost": [],
            "table": path.name,
        },
        grades=path.with_name(f"{path.name}.{GRADES}"),
        pairs=path.with_name(f"{path.name}.{PAIRS}"),
    )
    data.key["names"] = [entry.name for entry in shown]
    data.key["without_text"] = missing
    _add_scores(data, [entry.fields for entry in shown], warned)
    if run is not None:
        data.key["climbs"] = _climbs(data, read, run.rungs, run.anchors)
    if ladders is not None and run is not None:
        data.key["anchors"] = [ladders.contexts[anchor].text for anchor in run.anchors]
        # All rows have the rungs of a shared set.
        anchors_of = [run.anchors] if run.anchors else [[context] for context in data.rows]
        data.key["rungs"] = [_rungs(ladders, name, anchors_of) for name in data.criteria]
    return data


def _review_rows(
    contexts: Mapping[str, str | None], without_ids: Iterable[_Scored]
) -> list[ReviewRow]:
    """Return the rows of a page. One whose context has no id in the table is named by its only text, or by its number."""
    names: defaultdict[int, list[str]] = defaultdict(list)
    for text, _, name in without_ids:
        names[text.row].append(name)
    rows = []
    for number, (context, prompt) in enumerate(contexts.items()):
        of_row = names[number]
        called = f"context {number + 1}" if len(of_row) > 1 else next(iter(of_row), None)
        rows.append(ReviewRow(context, prompt if context else "", name=called))
    return rows


def _rungs(
    ladders: LadderSet, dimension: str, anchors_of: Iterable[Sequence[str]]
) -> list[list[str] | None]:
    """Return the texts of the rungs that each row is compared with, one anchor after the other; None without any."""
    rungs = []
    for anchors in anchors_of:
        texts: list[str] = []
        for anchor in anchors:
            ladder = ladders.ladders.get((anchor, dimension))
            if ladder is not None:
                texts += [rung.text for rung in ladder.rungs]
        rungs.append(texts or None)
    return rungs


def _folder_of_run(path: Path, out: str | None) -> Path:
    """Return the folder that the paths of a run are relative to: where `score` ran, as its output `out` says."""
    whole = path.absolute()
    parts = Path(out or "").parts
    if parts and not Path(*parts).is_absolute() and whole.parts[-len(parts) :] == parts:
        return Path(*whole.parts[: -len(parts)])
    return whole.parent


def _judgments(
    path: Path, allowed: Callable[[str], Path], warned: list[str]
) -> tuple[Run | None, Iterable[tuple[str, Judgment]]]:
    """Read the judgments of a table, if there are any that may be read; otherwise add a warning with the reason."""
    try:
        allowed(str(path.absolute()))
    except UsageError as error:
        warned.append(f"The verdicts are not shown: {error}")
        return None, []
    if path.is_file():
        return read_judgments(path)
    warned.append(f"The verdicts and the rungs are not shown: no judgments in {path.name}.")
    return None, []


def _ladders(
    name: str | None, run: Run | None, allowed: Callable[[str], Path], warned: list[str]
) -> LadderSet | None:
    """Load the ladders that a table was scored with, if they are unchanged; otherwise add a warning with the reason."""
    if name is None or run is None:
        return None
    if name.startswith(PREFIX):
        # The run names the commit that scored the table; the branch may have moved on.
        name = run.ladders.partition("|")[0].rpartition("@")[0]
    folder = Path(name)
    try:
        if folder.exists() and name not in published_names():
            for path in (folder, *folder.rglob("*")):
                allowed(str(path.absolute()))
        ladders = load_ladders(name)
    except RefladderError as error:
        warned.append(f"The rungs are not shown: {error}")
        return None
    judged = run.ladders.partition("|")[0]
    if not judged.endswith(f"@{ladders.digest}"):
        warned.append(
            f"The rungs are not shown: the table was scored with {with_earlier_sets(judged)}, and {name} has other ladders "
            "now."
        )
        return None
    return ladders


def _criteria(run: Run | None, first: Mapping[str, object]) -> list[Criterion]:
    """Return the dimensions of the judgments, or without judgments those that the columns are named by."""
    if run is not None:
        return [Criterion(**asdict(dimension)) for dimension in run.dimensions]
    stems = [name.removesuffix("_grade") for name in first if name.endswith("_grade")]
    return [Criterion(name=stem, description="") for stem in stems if f"{stem}_score" in first]


def _add_scores(data: ReviewData, rows: Sequence[Mapping[str, object]], warned: list[str]) -> None:
    """Add the columns of scores, of notes, and the user's numbers, which may be labels."""

    def numbers(name: str) -> list[float | None]:
        return [_number(row.get(name)) for row in rows]

    first = rows[0] if rows else {}
    added = {"signature"}
    columns, notes, masses = [], [], []
    for number, name in enumerate(data.criteria):
        names = column_names(name)
        added |= {*names, anchor_spread_column(name)}
        columns.append(_column(names.score, number, numbers(names.score)))
        columns.append(_column(names.grade, number, numbers(names.grade)))
        masses.append(numbers(names.mass))
        notes.append([row.get(names.note) or None for row in rows])
    for column in (*OVERALL, *OVERALL_GRADES):
        if len(data.criteria) > 1 and column in first and column not in added:
            added.add(column)
            columns.append(_column(column, None, numbers(column)))
    if default := grade_column(list(map(str, first)), first.get("signature")):
        # The page shows the first column of a criterion, and the first of all.
        columns.sort(
            key=lambda each: (each["name"] != default, not str(each["name"]).endswith(GRADE))
        )
    low = sum(mass is not None and mass < LOW_MASS for mass in itertools.chain(*masses))
    if low:
        warned.append(f"{plural(low, 'score')} with low label mass in a judgment; see the notes.")
    labels = []
    for column in first:
        values = numbers(column)
        if column not in added and values.count(None) < len(values):
            labels.append(_column(str(column), None, values, "label"))
    data.key.update(
        signature=str(first.get("signature") or ""),
        columns=columns + labels[:_MOST_LABELS],
        notes=notes,
        masses=masses,
    )


def _number(value: object) -> float | None:
    """Return a cell as a number; None for anything else."""
    if isinstance(value, str):
        value = parse_number(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _climbs(
    data: ReviewData,
    judgments: Iterable[tuple[str, Judgment]],
    rungs: int,
    anchors: Sequence[str],
) -> list[dict[int, list[float | None]]]:
    """Average over both orders, for each criterion and text, the probability that it beats each rung, worst first.

    With a shared set, the rungs of the first anchor come first, and so on.
    """
    starts = {anchor: number * rungs for number, anchor in enumerate(anchors)} or {"": 0}
    # A cell holds, for each rung, what a text won on a criterion.
    cells: dict[tuple[str, str], list[list[float]]] = {}
    for where, judgment in judgments:
        if judgment.dimension not in data.criteria:
            raise DataError(
                f"{where}: dimension {judgment.dimension!r} is not among the run's: {list(data.criteria)}"
            )
        against = judgment.against or ""
        text, rung = judgment.subject, against
        if text.startswith(RUNG):
            text, rung = rung, text
        level, start = level_of(rung), starts.get(rung.partition("@")[2])
        if level is None or level > rungs or start is None:
            continue
        if text not in data.numbers or judgment.logprobs is None:
            continue
        weights = dict(zip(judgment.outcomes, map(math.exp, judgment.logprobs), strict=True))
        total = sum(weights.values())
        if not total:
            continue
        win = WIN if text == judgment.subject else LOSS
        won = weights.get(win, 0.0) + weights.get(TIE, 0.0) / 2
        by_rung = cells.setdefault(
            (judgment.dimension, text), [[] for _ in range(rungs * len(starts))]
        )
        by_rung[start + level - 1].append(won / total)
    climbs: list[dict[int, list[float | None]]] = []
    for criterion in data.criteria:
        by_text = {}
        for number, shown in enumerate(data.texts):
            if (criterion, shown.id) in cells:
                by_text[number] = list(map(_mean, cells[criterion, shown.id]))
        climbs.append(by_text)
    return climbs


def _mean(shares: Sequence[float]) -> float | None:
    return round(sum(shares) / len(shares), 4) if shares else None
