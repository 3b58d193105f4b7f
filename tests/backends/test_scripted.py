import json
import math
import re
from pathlib import Path

import pytest

from refladder.backends import Backend, connect
from refladder.backends.scripted import Rule, Scripted, open_scripted
from refladder.errors import BackendUnavailableError, DataError, UsageError
from refladder.records import Completion, LabelReading, Prompt, Sampling


def writing(role="best", **slots):
    names = tuple(slots)
    return Prompt(
        task="news", role=role, literals=("Write: ", *(" ",) * len(names)), names=names, slots=slots
    )


def judging(target, reference="a reference", labels=("Better", "Worse", "Similar")):
    return Prompt(
        task="news",
        role="compare",
        literals=("", " against ", ""),
        names=("target", "reference"),
        slots={"target": target, "reference": reference},
        labels=labels,
        outcomes=("win", "loss", "tie"),
    )


def one(rules, prompt, seed=0):
    return Scripted(rules).write([prompt], Sampling(seed=seed))[0]


def test_it_is_a_backend():
    assert isinstance(Scripted([]), Backend)


def test_the_first_rule_that_matches_answers():
    rules = [
        Rule(role="worst", text="w"),
        Rule(contains="storm", text="s"),
        Rule(text="other"),
        Rule(text="never"),
    ]
    prompts = [
        writing("worst", context="a storm"),
        writing("best", context="a storm"),
        writing("best", context="sun"),
    ]
    assert [done.text for done in Scripted(rules).write(prompts, Sampling())] == ["w", "s", "other"]


def test_contains_by_slot_looks_in_those_slots_only_and_in_all_of_them():
    rules = [Rule(contains={"context": "storm", "lower": "bad"}, text="yes"), Rule(text="no")]
    assert one(rules, writing(context="a storm", lower="a bad text")).text == "yes"
    assert one(rules, writing(context="a storm", lower="a good text")).text == "no"
    assert one(rules, writing(context="a bad storm")).text == "no"  # there is no slot `lower`


def test_contains_as_text_looks_in_the_words_around_the_slots_too():
    assert (
        one([Rule(contains="Write: a storm", text="yes")], writing(context="a storm")).text == "yes"
    )


def test_the_seed_chooses_among_texts_and_begins_again_after_the_last():
    rules = [Rule(texts=("first", "second"))]
    assert [one(rules, writing(), seed).text for seed in (0, 1, 2, 3)] == [
        "first",
        "second",
        "first",
        "second",
    ]


def test_a_text_may_be_cut_and_may_be_empty():
    assert one([Rule(text="Ra", finish="length")], writing()) == Completion(
        text="Ra", finish="length"
    )
    assert one([Rule(finish="length")], writing()) == Completion(text="", finish="length")
    assert one([Rule(text="")], writing()) == Completion(text="", finish="stop")


def test_an_error_answers_both_kinds_of_prompts():
    backend = Scripted([Rule(error="HTTP 503")])
    assert backend.write([writing()], Sampling()) == [
        Completion(text="", finish="error", note="HTTP 503")
    ]
    assert backend.read_labels([judging("x")], ["Better"]) == [
        LabelReading(logprobs=None, mass=None, reason="HTTP 503")
    ]


def test_no_rule_is_a_failure_that_says_so():
    backend = Scripted([Rule(role="worst", text="w"), Rule(role="pairwise", answer={"win": -1})])
    assert backend.write([writing("best")], Sampling()) == [
        Completion(text="", finish="error", note="no rule matches this 'best' prompt")
    ]
    assert backend.read_labels([judging("x")], ["Better"]) == [
        LabelReading(logprobs=None, mass=None, reason="no rule matches this 'compare' prompt")
    ]


def test_texts_do_not_answer_a_judging_prompt_nor_answers_a_writing_one():
    backend = Scripted([Rule(text="a text"), Rule(answer={"win": -1, "loss": -2, "tie": -3})])
    assert backend.read_labels([judging("x")], ["Better"])[0].logprobs == (-1.0,)
    assert (
        Scripted([Rule(answer={"win": -1}), Rule(text="a text")])
        .write([writing()], Sampling())[0]
        .text
        == "a text"
    )


def test_an_answer_by_outcome_is_read_in_the_order_of_the_labels_asked_for():
    backend = Scripted([Rule(role="compare", answer={"win": -0.5, "loss": -2, "tie": -3})])
    reading = backend.read_labels([judging("x")], ["Similar", "Better", "Worse"])[0]
    assert reading.logprobs == (-3.0, -0.5, -2.0)
    # exp(-3) + exp(-0.5) + exp(-2) = 0.049787 + 0.606531 + 0.135335
    assert math.isclose(reading.mass, 0.791653, abs_tol=1e-6)
    assert reading.note is None


def test_the_outcome_is_found_through_the_words_of_the_prompt():
    backend = Scripted([Rule(answer={"win": -0.5, "loss": -2, "tie": -3})])
    assert backend.read_labels([judging("x", labels=("A", "B", "C"))], ["B"])[0].logprobs == (-2.0,)


def test_an_answer_without_an_outcome_that_is_asked_for_is_unreadable():
    backend = Scripted([Rule(answer={"win": -0.5})])
    assert backend.read_labels([judging("x")], ["Better", "Worse"]) == [
        LabelReading(logprobs=None, mass=None, reason="the rule's answer has no 'loss'")
    ]


def test_the_fingerprint_changes_with_the_rules_and_only_with_them():
    first = Scripted([Rule(text="a"), Rule(text="b")])
    assert first.fingerprint == Scripted([Rule(text="a"), Rule(text="b")]).fingerprint
    others = [Scripted([]), Scripted([Rule(text="b"), Rule(text="a")]), Scripted([Rule(text="a")])]
    assert len({first.fingerprint, *(other.fingerprint for other in others)}) == 4
    assert re.fullmatch("scripted@[0-9a-f]{12}", first.fingerprint)


def test_connect_reads_a_file_of_rules(tmp_path):
    path = tmp_path / "rules.jsonl"
    path.write_text(
        '{"role": "best", "contains": {"context": "storm"}, "texts": ["a", "b"], "finish": "length"}\n'
        '{"role": "compare", "contains": "x", "answer": {"win": -0.5, "loss": -2, "tie": -3}}\n'
        '{"error": "out of rules"}\n',
        encoding="utf-8",
    )
    backend = connect(f"scripted:{path}")
    in_process = Scripted(
        [
            Rule(role="best", contains={"context": "storm"}, texts=("a", "b"), finish="length"),
            Rule(role="compare", contains="x", answer={"win": -0.5, "loss": -2, "tie": -3}),
            Rule(error="out of rules"),
        ]
    )
    prompt = writing(context="a storm")
    assert backend.write([prompt], Sampling(seed=1)) == [Completion(text="b", finish="length")]
    assert backend.read_labels([judging("x"), judging("y")], ["Better"]) == in_process.read_labels(
        [judging("x"), judging("y")], ["Better"]
    )


def test_every_rule_of_the_module_docstring_is_a_rule(tmp_path):
    import refladder.backends.scripted as module

    lines = [line.strip() for line in module.__doc__.splitlines() if line.startswith("    {")]
    assert len(lines) == 5
    (tmp_path / "rules.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert (
        open_scripted(str(tmp_path / "rules.jsonl")).write([writing("worst")], Sampling())[0].text
        == "Rain."
    )


@pytest.mark.parametrize(
    ("path", "problem"),
    [("", "no file was named"), ("missing.jsonl", "no file 'missing.jsonl'"), (".", "no file '.'")],
)
def test_a_missing_file_is_said_with_what_to_pass(path, problem):
    message = f"backend 'scripted': {problem}; pass scripted:PATH, a file of JSON rules"
    with pytest.raises(BackendUnavailableError, match=f"^{re.escape(message)}$"):
        connect(f"scripted:{path}")


ONE_OF = "a rule has exactly one of text, texts, answer and error, found "
PROBABILITIES = (
    "an answer gives outcomes their natural-log probabilities, finite, at most 0 and together at most probability 1, "
    "found "
)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "not JSON (EOF while parsing"),
        ("{", "not JSON (EOF while parsing"),
        ("[]", "rule: Input should be an object, found []"),
        ('{"rôle": "best", "text": "a"}', "rule field 'rôle': Unexpected keyword argument"),
        ('{"role": 1, "text": "a"}', "rule field 'role': Input should be a valid string"),
        (
            '{"text": "a", "finish": "error"}',
            "rule field 'finish': Input should be 'stop' or 'length'",
        ),
        (
            '{"answer": {"win": "-1"}}',
            "rule field 'answer.win': Input should be a valid number, found '-1'",
        ),
        (
            '{"answer": {"win": NaN}}',
            "rule field 'answer.win': Input should be a finite number, found nan",
        ),
        ('{"role": "best"}', ONE_OF + "none"),
        ('{"finish": "stop"}', ONE_OF + "none"),
        ('{"text": "a", "error": "b"}', ONE_OF + "text and error"),
        ('{"error": "a", "finish": "length"}', "finish belongs to a text, and this rule has error"),
        ('{"texts": []}', "texts holds at least one text, found none"),
        ('{"answer": {}}', PROBABILITIES + "{}"),
        ('{"answer": {"win": 0.5}}', PROBABILITIES + "{'win': 0.5}"),
        ('{"answer": {"win": -0.1, "loss": -0.1}}', PROBABILITIES + "{'win': -0.1, 'loss': -0.1}"),
    ],
)
def test_a_wrong_line_is_refused_with_its_place(line, message, tmp_path):
    path = tmp_path / "rules.jsonl"
    path.write_text(f'{{"text": "fine"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        open_scripted(str(path))
    assert str(caught.value).startswith((f"{path}:2: rule", f"{path}:2: not JSON ("))


def test_a_file_without_rules_is_refused(tmp_path):
    path = tmp_path / "rules.jsonl"
    path.touch()
    with pytest.raises(
        DataError, match=r"rules\.jsonl:1: no rules in this file; write one JSON object a line"
    ):
        open_scripted(str(path))


def test_a_file_that_is_not_utf8_is_refused_with_its_line(tmp_path):
    path = tmp_path / "rules.jsonl"
    path.write_bytes(b'{"text": "fine"}\n{"text": "\xff"}\n')
    with pytest.raises(DataError, match=r"rules\.jsonl:2: not UTF-8"):
        open_scripted(str(path))


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1000.0])
def test_an_answer_in_process_is_held_to_the_same(value):
    with pytest.raises(
        UsageError, match="an answer gives outcomes their natural-log probabilities"
    ):
        Rule(answer={"win": value})


def test_digits_that_add_to_a_little_more_than_one_are_probabilities_with_mass_one():
    rounded = {"win": -0.6931471, "loss": -0.6931471}  # log(1/2) rounded up: 1.00000016 together
    reading = Scripted([Rule(answer=rounded)]).read_labels([judging("x")], ["Better", "Worse"])[0]
    assert reading.mass == 1.0


def test_rules_travel_through_json(tmp_path):
    rule = {
        "role": "between",
        "contains": {"lower": 'quotes " and {{braces}}'},
        "text": "line\u2028one\nline two",
    }
    path = Path(tmp_path / "rules.jsonl")
    path.write_text(json.dumps(rule), encoding="utf-8")
    prompt = writing("between", lower='with quotes " and {{braces}} in it')
    assert open_scripted(str(path)).write([prompt], Sampling())[0].text == "line\u2028one\nline two"
