"""What a wrong call says: the parameter, in the words of Python, and what to do."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from json_lines import write_lines

import refladder
from refladder.backends.builtin import Builtin
from refladder.errors import DataError, PromptError, UsageError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
datasets = pytest.importorskip("datasets")

SET = "demo/story"
JUDGED = "scored.jsonl.judgments.jsonl"
STORY = refladder.load_ladders(SET)
GOOD = {"context_id": "story-01", "output": "A keeper found a bottle."}
SCORED = {**GOOD, "output_id": "o1", "coherence_score": 2.5, "coherence_grade": 3.0}
RATED = [{**SCORED, "output_id": f"o{n}", "rating": 1 + n % 5} for n in range(3)]
CLARITY = refladder.Dimension(name="clarity", description="Clear?")
OWN = {"task": "open", "dimensions": [CLARITY]}
QUESTION = [{"context": "Why does it rain?", "output": "Clouds.", "clarity": 3}]
PROMISE = {"label": "rating", "good": ">=3", "by": "coherence_score", "precision": 0.8}
PLACES = [{"id": 1, "place": "a beach"}]
CONTEST = {
    "prompt_text": "Invite guests to {place}.",
    "criteria": {"engaging": "Would they come?"},
    "models": {"warm": "builtin", "curt": "builtin"},
    "judge": "builtin",
}


class Asked(Builtin):
    """A judge that must not be asked."""

    fingerprint = "asked/1"

    def read_labels(self, *_):
        raise AssertionError("a wrong call reached the judge")


# A call, the arguments that are right, and what it says to wrong ones: the message, to its table, the wrong arguments and
# the kind of the error if it is no UsageError.
WRONG = [
    (refladder.score, {"ladders": SET}, {
        "a table in a file is written to another file; give out=PATH": ("in.jsonl", {}),
        "none.jsonl: no such file": ("none.jsonl", {"out": "out.jsonl"}, DataError),
        "rows.txt: unknown file extension; use .jsonl, .csv or .parquet$": ([GOOD], {"out": "rows.txt"}),
        "^row 1: each row must be a dict, such as {'output': TEXT}, found 1": ([1], {}, DataError),
        "^a table must be a path, a list of dicts, a pandas or polars DataFrame, a pyarrow Table or a Dataset of `datasets`"
        r", found a dict; give a list of rows, such as \[row\]$": (GOOD, {}),
        "^row 3: column 'output' holds 7, of type int, and str above it; give the column one type$": (
            pd.DataFrame({"context_id": ["story-01"] * 3, "output": ["a", None, 7]}), {}, DataError
        ),
        "^A text: no such file or folder$": ("A text", {}, DataError),
        r"found polars.*Series; give a frame, such as SERIES.to_frame\('output'\)$": (pl.Series(["a"]), {}),
        "^refladder.score has no argument 'api_key'; set OPENAI_API_KEY, or give judge_options={'api_key_file': PATH}$": (
            [GOOD], {"api_key": "x"}, TypeError
        ),
        r"found polars.LazyFrame; call .collect\(\) first": (pl.LazyFrame({"output": ["a"]}), {}),
        r"found datasets.DatasetDict; take one split, such as table\['train'\]": (datasets.DatasetDict(), {}),
        "^the table: the name of column 0 is not text; rename the column": (pd.DataFrame([["a"]]), {}, DataError),
        r"^row 1: no column 'output' for the output; did you mean columns=\{'output': 'outptu'\}\? Columns there: "
        r"context_id, outptu. Map one with columns=\{'output': 'NAME'\}": (
            pl.DataFrame({"context_id": ["story-01"], "outptu": ["a"]}), {}, DataError
        ),
        "^row 1: column 'output' must be a string, found 3": ([{**GOOD, "output": 3}], {}, DataError),
        "^row 1: a value of type date has no equivalent in JSON": ([{**GOOD, "output": dt.date(2024, 1, 1)}], {}, DataError),
        "^the table: column 'signature' exists already; rename or drop it first": (
            pl.DataFrame([{**GOOD, "signature": "x"}]), {}
        ),
        r"^context_id and columns=\{'context_id': '...'\} both say the context; give one of them": (
            [GOOD], {"columns": {"context_id": "a"}, "context_id": "b"}
        ),
        "^answers=-1: must be 0 or more": ([GOOD], {"answers": -1}),
        "^a table must be a path, .*, found None": (None, {}),
        "^dimensions must be a list of texts, found 'coherence'": ([GOOD], {"dimensions": "coherence"}),
        "^columns must be a dict, found \\['output=reply'\\]": ([GOOD], {"columns": ["output=reply"]}),
        "^a value of columns must be a text, found 3": ([GOOD], {"columns": {"output": 3}}),
        "^a value of weights must be a number, found '2'": ([GOOD], {"weights": {"coherence": "2"}}),
        "^least_mass=2: must be a probability from 0 to 1": ([GOOD], {"least_mass": 2}),
        "did you mean 'demo/story'": ([GOOD], {"ladders": "demo/stori"}),
        "^store=True names no file; give a path, None for the default, or False": ([GOOD], {"store": True}),
        "^name the ladder set with ladders. Shipped sets for such a table: general/document ": ([GOOD], {"ladders": None}),
        "^judge 'distilled:': must be distilled:FOLDER, with a folder of `refladder distil`": (
            [GOOD], {"judge": "distilled:"}
        ),
        "nowhere: no student.json; name a folder that": ([GOOD], {"judge": "distilled:nowhere"}, DataError),
        "^options dtype for a backend that is open already; give them to `connect`": (
            [GOOD], {"judge": Builtin(), "judge_options": {"dtype": "x"}}
        ),
        "^judgments_from asks no model, and answers is for asking one": ([GOOD], {"judgments_from": "x", "answers": 3}),
        "^refladder.score has no argument 'dimension'; did you mean 'dimensions'\\?$": (
            [GOOD], {"dimension": "coherence"}, TypeError
        ),
        "^refladder.score has no argument 'column'; did you mean 'columns'\\?$": ([GOOD], {"column": {}}, TypeError),
        "^refladder.score has no argument 'model'; did you mean 'judge'\\?$": ([GOOD], {"model": "x"}, TypeError),
        "^refladder.score has no argument 'base_url'; give judge_options={'base_url': ...}$": (
            [GOOD], {"base_url": "http://127.0.0.1:1"}, TypeError
        ),
        "^refladder.score has no argument 'zzz'. It has: table, ladders, judge, ": ([GOOD], {"zzz": 1}, TypeError),
    }),
    (refladder.filter, {}, {
        "^top 20: a fraction must be more than 0 and at most 1; give 0.2 for 20 %$": (
            [SCORED], {"top": 20, "by": "coherence_score"}
        ),
        "^min must be a dict, found 3; give min={'COLUMN': 3}$": ([SCORED], {"min": 3}),
        "^nothing to filter by; give min COLUMN=VALUE, max COLUMN=VALUE, top, or best and per": ([SCORED], {}),
        "^row 1: no column 'score'": (pl.DataFrame([SCORED]), {"min": {"score": 1}}, DataError),
        "^row 1: no column 'b' to group by. Columns: context_id, output, output_id, coherence_score, coherence_grade$": (
            [SCORED], {"best": 1, "per": "b"}, DataError
        ),
        "^row 2: the scores in column 'a_score' are on different scales: y here, x in row 1; filter each signature "
        "separately, or compare them as they are with mix": (
            [{"a_score": 1, "signature": name} for name in "xy"], {"min": {"a_score": 0}}, DataError
        ),
        "^out, rejected and a file for unscored rows are for a table in a file; give its path": (
            [SCORED], {"min": {"coherence_score": 1}, "rejected": "x.jsonl"}
        ),
        "^link maps scores for min, max and threshold; leave out mix, top and best": (
            [SCORED], {"best": 1, "per": "context_id", "link": "link.json"}
        ),
        "^threshold cannot be combined with other conditions; leave out min, max, top, best": (
            [SCORED], {"min": {"coherence_score": 1}, "threshold": "threshold.json"}
        ),
        "^threshold must be a text, a path or a Threshold, found 0.5": ([SCORED], {"threshold": 0.5}),
    }),
    (refladder.pairs, {"margin": 1}, {
        "^the table: no column NAME_score; name the column with by COLUMN$": ([GOOD], {}),
        "^row 1: no text of context 'story-01' for the prompt; .* with ladders$": ([SCORED], {}, DataError),
    }),
    (refladder.rescore, {}, {
        r"nowhere\.jsonl: no such file$": ("nowhere.jsonl", {}, DataError),
        "^judgments must be a text or a path, found \\[\\]$": ([], {}),
        "^out='-': a call writes no standard output; give out=PATH$": ("x", {"out": "-"}),
        "^out='s3://b/x.jsonl': a call writes files on this machine only; give out=": ("x", {"out": "s3://b/x.jsonl"}),
        r"unknown rule 'ladder-sums'; did you mean 'ladder-sum'\?": (JUDGED, {"rule": "ladder-sums"}),
        "unknown dimension of weights 'wit'": (JUDGED, {"weights": {"wit": 1}}),
        "^least_mass=2: must be a probability from 0 to 1; give 0.02 for 2 %$": (JUDGED, {"least_mass": 2}),
    }),
    (refladder.link, {"to": "scored.jsonl"}, {
        "^out='-': a call writes no standard output": (SCORED, {"out": "-"}),
        "have the same signature, so their scores are on one scale already$": ("scored.jsonl", {"out": "link.json"}),
        r"nowhere\.jsonl: no such file$": ("nowhere.jsonl", {}, DataError),
        "^a table must be a path, a list of dicts, .* found builtins.set": ({1}, {}),
    }),
    (refladder.calibrate, PROMISE, {
        "^good must be a text, found 3": (RATED, {"good": 3}),
        "^precision must be a number, found '0.5'": (RATED, {"precision": "0.5"}),
        "^labels: the labels have no id: add the column output_id .* of the table. Columns there: rating$": (
            RATED, {"labels": [{"rating": 3}]}, DataError
        ),
        "^labels: 1 of 1 label not used: the table does not score": (
            RATED, {"labels": [{"output_id": "nobody", "rating": 3}]}, DataError
        ),
        "^row 2 of labels: column 'rating' must be a finite number": (
            RATED, {"labels": [{"output_id": "x", "rating": each} for each in (3, "good")]}, DataError
        ),
        "^give what to promise: either precision or recall, such as precision 0.9": (RATED, {"precision": None}),
    }),
    (refladder.plan_labels, {"by": "coherence_score", "precision": 0.8}, {
        "which are good: label=COLUMN, good='>=4'$": (RATED, {"label": "rating"}),
    }),
    (refladder.estimate_precision, {"label": "rating", "good": ">=3"}, {
        "^threshold must be a text, a path or a Threshold, found 0.5": (RATED, {"threshold": 0.5}),
    }),
    (refladder.distil, {"by": "coherence_score", "out": "student"}, {
        r"^row 1: no column 'coherence_scor'; did you mean 'coherence_score'\?": (RATED, {"by": "coherence_scor"}, DataError),
        "^labels needs label COLUMN": (RATED, {"labels": RATED}),
        "^labels: 1 of 1 label not used": (RATED, {"labels": [{"output_id": "x", "people": 1}], "label": "people"}, DataError),
        "^row 1 of labels: column 'people' must be": (
            RATED, {"labels": [{**SCORED, "people": "?"}], "label": "people"}, DataError
        ),
        "^the table: 3 rows have an output and a number in 'coherence_score'": (RATED, {}, DataError),
        "exists and is not empty; name another folder": (RATED, {"out": "full"}),
    }),
    (refladder.show, {"context_id": "story-01"}, {
        "unknown context 'story-001'; did you mean 'story-01'": (SET, {"context_id": "story-001"}),
        "unknown dimension 'clarity'": (SET, {"dimensions": ["clarity"]}),
        "^row 1 of scores: no column 'coherence_score'; needs": (SET, {"scores": [GOOD]}, DataError),
        "^scores are placed on the ladders of one context; give context_id": (
            SET, {"context_id": None, "scores": [SCORED]}
        ),
    }),
    (refladder.compete, CONTEST, {
        "^give the task prompt once: prompt FILE or prompt_text TEXT": (PLACES, {"prompt": "prompt.txt"}),
        r"prompt.txt: variable \{plaec\} is not a column of the table; did you mean": (
            PLACES, {"prompt": "prompt.txt", "prompt_text": None}, PromptError
        ),
        "^a contest needs two models or more, found warm; add one": (PLACES, {"models": {"warm": "builtin"}}),
        "unknown criterion 'engagin'; did you mean 'engaging'": (PLACES, {"weights": {"engagin": 2}}),
    }),
    (refladder.build, {}, {
        r"^a table needs its task and dimensions; give task_file=PATH, or task=NAME with dimensions=\[refladder": (
            QUESTION, {}
        ),
        r"^task=NAME needs dimensions=\[refladder.Dimension": (QUESTION, {"task": "open"}),
        "^task and task_file both name the task; give one of them": (QUESTION, {"task": "open", "task_file": "x"}),
        "^dimension 'clarity' has the name of another dimension or field": (
            QUESTION, {"task": "open", "dimensions": [CLARITY, CLARITY]}
        ),
        r"^row 1: no column 'context'; did you mean 'text'\? It has: text; map the field 'context'": (
            [{"text": "a"}], OWN, DataError
        ),
        "^task, task_file and columns are for a table, not a benchmark; leave them out": (SET, {"columns": {"context": "x"}}),
        "^source and options are for a benchmark by name, not a table; leave them out": (
            QUESTION, {**OWN, "source": "x"}
        ),
        "full.jsonl is a table, and source x is another; give one of them": ("full.jsonl", {"source": "x"}),
        r"^no writer is named for the ladders of your table\. Name a model with writer": (QUESTION, OWN),
    }),
    (refladder.evaluate, {}, {
        "^none.jsonl: no such file$": ("none.jsonl", {}, DataError),
        "^unknown benchmark or file 'demo/stori'; did you mean 'demo/story'": ("demo/stori", {}),
        "^ladders are a set that exists, and writer writes new ones; give one of them": (
            QUESTION, {"ladders": SET, "writer": "builtin"}
        ),
        "^table has no ratings on clarity; add ratings, or choose other dimensions": (
            [{"context": "a", "output": "b"}], OWN
        ),
        "^judgments_from asks no model, and judge is for asking one": (SET, {"judge": Asked(), "judgments_from": "x"}),
    }),
    (refladder.audit, {"judge": Asked()}, {
        "give contexts that number or less, found 99": (SET, {"contexts": 99}),
        "contexts 0: must be 1 or more": (SET, {"contexts": 0}),
        "seed -1: must be 0 or more": (SET, {"contexts": 2, "seed": -1}),
        "least_mass=nan: must be a probability": (SET, {"least_mass": float("nan")}),
        "answers=-1: must be 0 or more": (SET, {"answers": -1}),
        r"the set has no contexts\.jsonl, which a judge needs": (replace(STORY, contexts={}), {}),
        "unknown ladder set": ("nowhere", {}),
        "nowhere": (SET, {"prompts": "nowhere"}, PromptError),
        "in.jsonl:1: ": (SET, {"judgments": "in.jsonl"}, DataError),
        r"\(--out, judgments or --work\), or delete .*audited.jsonl$": (SET, {"contexts": 1, "judgments": "audited.jsonl"}),
    }),
    (refladder.certify, {}, {
        "^least_mass=2: must be a probability": (STORY, {"least_mass": 2}),
        r"the set has no contexts\.jsonl, which a judge needs": (replace(STORY, contexts={}), {}),
    }),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the calls name."""
    folder = tmp_path_factory.mktemp("wrong")
    write_lines(folder / "in.jsonl", [GOOD])
    write_lines(folder / "full.jsonl", QUESTION)
    (folder / "full").mkdir()
    (folder / "full" / "mine").touch()
    (folder / "prompt.txt").write_text("Invite guests to {plaec}.")
    refladder.score([GOOD], ladders=SET, out=folder / "scored.jsonl")
    refladder.audit(SET, contexts=1, judgments=folder / "audited.jsonl")
    return folder


@pytest.mark.parametrize(
    ("call", "right", "wrong"), [pytest.param(*case, id=case[0].__name__) for case in WRONG]
)
def test_wrong_calls_say_what_is_wrong_and_what_to_do(call, right, wrong, folder, monkeypatch):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    for message, (table, arguments, *kind) in wrong.items():
        with pytest.raises(*(kind or [UsageError]), match=message):
            call(table, **{**right, **arguments})
    assert sorted(folder.iterdir()) == before


def test_a_call_says_which_argument_is_missing_and_which_are_named():
    with pytest.raises(
        TypeError, match=r"^refladder\.calibrate: missing a required argument: 'by'$"
    ):
        refladder.calibrate(RATED, label="rating", good=">=3")
    with pytest.raises(
        TypeError,
        match=r"^refladder\.score: too many positional arguments; name those after table, such as ladders=...$",
    ):
        refladder.score([GOOD], SET)
    with pytest.raises(
        TypeError, match=r"^Scorer has no argument 'dimension'; did you mean 'dimensions'\?$"
    ):
        refladder.Scorer(ladders=SET, dimension="coherence")
    with pytest.raises(TypeError, match=r"^Dimension has no argument 'title'$"):
        refladder.Dimension(name="clarity", title="x")
    with pytest.raises(
        UsageError, match=r"option of backend 'openai' 'url'; did you mean 'base_url'\?"
    ):
        refladder.connect("openai:m", url="http://127.0.0.1:1/v1")
    with pytest.raises(AttributeError, match=r"'evalute'; did you mean 'evaluate'\? It has: "):
        _ = refladder.evalute
