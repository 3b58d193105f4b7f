"""Arguments of a wrong type: refused by name before a public call does anything."""

from __future__ import annotations

import datetime as dt
import inspect
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import refladder
from refladder.backends.builtin import Builtin
from refladder.errors import RefladderError, UsageError
from refladder.typed import checked

pd = pytest.importorskip("pandas")
SET = "demo/story"
TEXT = {"context_id": "story-01", "output": "A keeper found a bottle."}
ROW = {**TEXT, "output_id": "o1", "coherence_score": 2.5, "rating": 3}


class Asked(Builtin):
    """A judge that must not be asked."""

    fingerprint = "asked/1"

    def read_labels(self, *_):
        raise AssertionError("a call with an argument of a wrong type reached the judge")


# One value of each type, and the annotations that it is right for.
VALUES = {
    "text": (lambda: "no", {"str"}),
    "whole number": (lambda: 3, {"int", "float"}),
    "number": (lambda: 2.5, {"float"}),
    "bool": (lambda: True, {"bool"}),
    "path": (lambda: Path("no"), {"Path"}),
    "function": (lambda: lambda: None, {"Judge", "Callable"}),
    "list": (lambda: [object()], set()),
    "tuple": (lambda: (b"a", 2.5, None), set()),
    "dict": (lambda: {3: object()}, set()),
    "set": (lambda: {"a", "b"}, set()),
    "generator": (lambda: iter(["a", "b"]), set()),
    "bytes": (lambda: b"no", set()),
    "date": (lambda: dt.date(2024, 1, 1), set()),
    "complex": (lambda: 1j, set()),
    "array": (lambda: np.zeros((2, 2)), set()),
    "array of no axis": (lambda: np.array(5), set()),
    "data frame": (lambda: pd.DataFrame({"a": [1]}), set()),
    "bool of numpy": (lambda: np.True_, set()),
    "class": (lambda: dict, {"Callable"}),
    "object": (object, set()),
}
UNCHECKED = {"Any", "object", "Table"}
# What the calls need, by the name of the parameter; a table in memory where a call takes one.
NEEDED = {
    "table": [ROW],
    "data": SET,
    "ladders": SET,
    "judge": Asked(),
    "first": SET,
    "second": SET,
    "judgments": "j.jsonl",
    "to": "k.jsonl",
    "repository": "ORG/NAME",
    "margin": 1,
    "by": "coherence_score",
    "label": "rating",
    "good": ">=3",
    "precision": 0.8,
    "threshold": "t.json",
    "models": {"a": "builtin", "b": "builtin"},
    "criteria": {"engaging": "Would they come?"},
    "texts": ["A text."],
    "benchmark": refladder.load_benchmark(SET),
    "scores": [],
    "out": "student",
    "baseline": "judge.json",
    "name": SET,
    "folder": Path("set"),
    "method": "m",
    "signature": "s",
    "rows": [],
    "dimensions": [],
    "contexts": [],
    "failures": [],
    "id": "i",
    "task": "t",
    "text": "t",
    "system": "s",
    "description": "d",
}


@pytest.fixture(scope="module")
def public():
    """Every public function, and what makes each public object, by its name."""
    made = {}
    for name in refladder._PUBLIC:
        found = getattr(refladder, name)
        made[name] = found
    scorer = refladder.Scorer(ladders=SET)
    return made | {"Scorer.score": scorer.score, "Scorer.overall": scorer.overall}


def right_kinds(annotation):
    """The names of types in an annotation, without those inside brackets."""
    while "[" in annotation:
        annotation = re.sub(r"\[[^\[\]]*\]", "", annotation)
    return set(annotation.split(" | "))


def needed_by(call):
    """What a call needs beside the argument that is tried."""
    parameters = inspect.signature(call).parameters.values()
    given = {each.name for each in parameters if each.default is each.empty} | {"judge"}
    needed = {
        each.name: NEEDED[each.name] for each in parameters if each.name in given & NEEDED.keys()
    }
    if "benchmark" in needed:
        needed["scores"] = {}
    if "failures" in needed:
        needed["ladders"] = []
    return needed


def cases(call):
    """Every parameter of a call with each value, and whether the value has a wrong type for it."""
    parameters = inspect.signature(call).parameters
    needed = needed_by(call)
    for name, each in parameters.items():
        kinds = right_kinds(each.annotation)
        # An option of a benchmark or a backend has a name of its own.
        given = "o" if each.kind is each.VAR_KEYWORD else name
        for make, right in VALUES.values():
            yield given, {**needed, given: make()}, kinds & UNCHECKED, kinds & right


def test_each_argument_of_a_wrong_type_is_refused_by_its_name(public, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    taken, tried = [], 0
    for call_name, call in public.items():
        for name, arguments, unchecked, right in cases(call):
            if right and not unchecked:
                continue
            tried += 1
            where = f"{call_name}({name}={arguments[name]!r:.40})"
            try:
                call(**arguments)
            except RefladderError as error:
                named = re.match(
                    rf"(item \d+ of |a value of |a key of )*{name} must be ", str(error)
                )
                if not unchecked and not (isinstance(error, UsageError) and named):
                    taken.append(f"{where}: {error}")
            except Exception as error:  # noqa: BLE001  any other error is what the test looks for
                taken.append(f"{where}: {type(error).__name__}: {error}")
            else:
                if not unchecked:
                    taken.append(f"{where} is taken")
    assert taken == []
    assert tried > 3000
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "wrong", "message"),
    [
        ("score", {"any_judge": "no"}, "any_judge must be True or False, found 'no'"),
        ("score", {"both_orders": "no"}, "both_orders must be True or False, found 'no'"),
        ("filter", {"mix": "no"}, "mix must be True or False, found 'no'"),
        ("score", {"answers": 2.5}, "answers must be a whole number or a text, found 2.5"),
        ("score", {"prompts": 3}, "prompts must be a text or a path, found 3"),
        ("score", {"judgments": True}, "judgments must be a text or a path, found True"),
        ("certify", {"answers": 2.0}, "answers must be a whole number or a text, found 2.0"),
        ("load_benchmark", {"name": 3}, "name must be a text, found 3"),
        ("evaluate", {"methods": 3}, "methods must be a text or a list of texts, found 3"),
        ("build", {"rungs": 2.5}, "rungs must be a whole number, found 2.5"),
        ("build", {"dimensions": [3]}, "item 1 of dimensions must be a text or a Dimension, found 3"),
        ("calibrate", {"unit": "rows"}, "unit must be 'row' or 'context', found 'rows'"),
        ("evaluate_method", {"benchmark": 3}, "benchmark must be a Benchmark, found 3"),
        (
            "evaluate_method",
            {"scores": {"a": 1}},
            "a key of scores must be a tuple of 2, found 'a'",
        ),
        (
            "Scorer.score",
            {"texts": iter(["a"])},
            "texts must be a list of texts or lists, found an object of type list_iterator",
        ),
        (
            "Scorer.score",
            {"context_id": {"story-01"}},
            "context_id must be a text, a number or a list of texts or numbers, found {'story-01'}",
        ),
    ],
)  # fmt: skip
def test_a_message_names_parameter_type_and_value(public, call, wrong, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        public[call](**{**needed_by(public[call]), **wrong})


@checked
def numbers(whole: int, number: float = 0, several: Sequence[float] = ()):  # noqa: F821
    return whole, number, several


def test_numbers_of_other_types_become_numbers_of_python():
    assert numbers(np.int64(3), Fraction(1, 2), np.array([1, 2])) == (3, 0.5, [1, 2])
    assert type(numbers(np.int64(3))[0]) is int
    assert numbers(3, 4) == (3, 4, ())
    with pytest.raises(UsageError, match=r"^number must be a number, found 1000000000"):
        numbers(3, 10**400)
    with pytest.raises(TypeError, match=r"^numbers has no argument 'other'$"):
        numbers(3, other=1)


def test_texts_of_a_data_frame_are_scored(public):
    frame = pd.DataFrame([TEXT, TEXT])
    scored = public["Scorer.score"](frame["output"], context_id=frame["context_id"])
    assert scored == public["Scorer.score"]([TEXT["output"]] * 2, context_id="story-01")
