"""Answers from rules: which rule answers, what it answers, and rules that cannot be."""

import json
import math
import re

import pytest

import refladder.backends.scripted as module
from refladder.backends import Backend, connect
from refladder.backends.scripted import Rule, Scripted, open_scripted
from refladder.errors import BackendUnavailableError, DataError, UsageError
from refladder.records import Completion, LabelReading, Prompt, Sampling


def writing(role="best", **slots):
    literals = ("Write: ", *(" ",) * len(slots))
    return Prompt(task="news", role=role, literals=literals, names=tuple(slots), slots=slots)


def judging(target, labels=("Better", "Worse", "Similar")):
    return Prompt(
        task="news",
        role="compare",
        literals=("", " against a reference"),
        names=("target",),
        slots={"target": target},
        labels=labels,
        outcomes=("win", "loss", "tie"),
    )


def written(rules, prompt=None, seed=0):
    return Scripted(rules).write([prompt or writing()], Sampling(seed=seed))[0]


def read(rules, labels=("Better",), prompt=None):
    return Scripted(rules).read_labels([prompt or judging("x")], labels)[0]


@pytest.fixture
def rules_file(tmp_path):
    """Write a file of rules; a rule is a dict or a text."""

    def write(*rules):
        path = tmp_path / "rules.jsonl"
        lines = [rule if isinstance(rule, str) else json.dumps(rule) for rule in rules]
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    return write


STORM = {"contains": {"context": "storm", "lower": "bad"}}


@pytest.mark.parametrize(
    ("rule", "prompt", "answers"),
    [
        ({}, writing(), True),
        ({"role": "worst"}, writing("worst"), True),
        ({"role": "worst"}, writing("best"), False),
        # a text is looked for in the words around the slots too, and a text by slot in that slot alone
        ({"contains": "Write: a storm"}, writing(context="a storm"), True),
        ({"contains": "Write: a storm"}, writing(context="sun"), False),
        (STORM, writing(context="a storm", lower="a bad text"), True),
        (STORM, writing(context="a storm", lower="a good text"), False),
        (STORM, writing(context="a bad storm"), False),  # there is no slot `lower`
    ],
)
def test_the_first_rule_that_matches_answers(rule, prompt, answers):
    rules = [Rule(**rule, text="mine"), Rule(text="other"), Rule(text="never")]
    assert written(rules, prompt).text == ("mine" if answers else "other")


def test_the_seed_chooses_among_texts_and_begins_again_after_the_last():
    rules = [Rule(texts=("first", "second"))]
    texts = [written(rules, seed=seed).text for seed in range(4)]
    assert texts == ["first", "second", "first", "second"]


def test_a_text_may_be_cut_and_may_be_empty():
    cut = Completion(text="Ra", finish="length")
    assert written([Rule(text="Ra", finish="length")]) == cut
    assert written([Rule(finish="length")]) == Completion(text="", finish="length")
    assert written([Rule(text="")]) == Completion(text="", finish="stop")


@pytest.mark.parametrize(
    ("rules", "text", "reading"),
    [
        ([Rule(error="HTTP 503")], "HTTP 503", "HTTP 503"),
        (
            [Rule(role="worst", text="w"), Rule(role="pairwise", answer={"win": -1})],
            "no rule matches this 'best' prompt",
            "no rule matches this 'compare' prompt",
        ),
    ],
)
def test_failures_say_so(rules, text, reading):
    assert written(rules) == Completion(text="", finish="error", note=text)
    assert read(rules) == LabelReading(logprobs=None, mass=None, reason=reading)


def test_texts_do_not_answer_a_judging_prompt_nor_answers_a_writing_one():
    text, answer = Rule(text="a text"), Rule(answer={"win": -1, "loss": -2, "tie": -3})
    assert read([text, answer]).logprobs == (-1.0,)
    assert written([answer, text]).text == "a text"


def test_an_answer_by_outcome_is_read_in_the_order_of_the_labels_asked_for():
    rules = [Rule(role="compare", answer={"win": -0.5, "loss": -2, "tie": -3})]
    reading = read(rules, ["Similar", "Better", "Worse"])
    assert reading.logprobs == (-3.0, -0.5, -2.0)
    # exp(-3) + exp(-0.5) + exp(-2) = 0.049787 + 0.606531 + 0.135335
    assert math.isclose(reading.mass, 0.791653, abs_tol=1e-6)
    assert reading.note is None
    # the outcome is found through the words of the prompt
    assert read(rules, ["B"], judging("x", ("A", "B", "C"))).logprobs == (-2.0,)


def test_an_answer_without_an_outcome_that_is_asked_for_is_unreadable():
    reading = read([Rule(answer={"win": -0.5})], ["Better", "Worse"])
    assert (reading.logprobs, reading.reason) == (None, "the rule's answer has no 'loss'")


def test_the_fingerprint_changes_with_the_rules_and_only_with_them():
    a, b = Rule(text="a"), Rule(text="b")
    first = Scripted([a, b]).fingerprint
    assert first == Scripted([Rule(text="a"), Rule(text="b")]).fingerprint
    others = [Scripted(rules).fingerprint for rules in ([], [b, a], [a])]
    assert len({first, *others}) == 4
    assert re.fullmatch("scripted@[0-9a-f]{12}", first)


def test_connect_reads_a_file_of_rules(rules_file):
    best = {"role": "best", "contains": {"context": "storm"}, "finish": "length"}
    compare = {"role": "compare", "contains": "x", "answer": {"win": -0.5, "loss": -2, "tie": -3}}
    # what JSON escapes
    between = {"role": "between", "contains": {"lower": '" {{b}}'}, "text": "a\u2028b\nc"}
    path = rules_file({**best, "texts": ["a", "b"]}, compare, between, {"error": "out of rules"})
    backend = connect(f"scripted:{path}")
    assert isinstance(backend, Backend)
    prompts = [writing(context="a storm"), writing("between", lower='a " {{b}} c')]
    found = backend.write(prompts, Sampling(seed=1))
    assert found == [Completion(text="b", finish="length"), Completion(text="a\u2028b\nc")]
    first, second = backend.read_labels([judging("x"), judging("y")], ["Better"])
    assert (first.logprobs, second.reason) == ((-0.5,), "out of rules")


def test_every_rule_of_the_module_docstring_is_a_rule(rules_file):
    lines = [line.strip() for line in module.__doc__.splitlines() if line.startswith("    {")]
    assert len(lines) == 5
    backend = open_scripted(str(rules_file(*lines)))
    assert backend.write([writing("worst")], Sampling())[0].text == "Rain."


@pytest.mark.parametrize(
    ("path", "problem"),
    [("", "no file was named"), ("missing.jsonl", "no file 'missing.jsonl'"), (".", "no file '.'")],
)
def test_a_missing_file_is_said_with_what_to_pass(path, problem):
    message = f"backend 'scripted': {problem}; pass scripted:PATH, a file of JSON rules"
    with pytest.raises(BackendUnavailableError, match=f"^{re.escape(message)}$"):
        connect(f"scripted:{path}")


ONE_OF = "a rule has exactly one of text, texts, answer and error, found"
PROBABILITIES = (
    "an answer gives outcomes their natural-log probabilities, finite, at most 0 and together at most probability 1, "
    "found"
)
OF_TEXTS = "finish belongs to a text, and this rule has error"
WORD, NUMBER = "Input should be a valid string", "Input should be a valid number, found '-1'"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "not JSON (EOF while parsing"),
        ("{", "not JSON (EOF while parsing"),
        ("[]", "rule: Input should be an object, found []"),
        ('{"rôle": "best", "text": "a"}', "rule field 'rôle': Unexpected keyword argument"),
        ('{"role": 1, "text": "a"}', f"rule field 'role': {WORD}"),
        ('{"text": "a", "finish": "x"}', "field 'finish': Input should be 'stop' or 'length'"),
        ('{"answer": {"win": "-1"}}', f"rule field 'answer.win': {NUMBER}"),
        ('{"answer": {"win": NaN}}', "field 'answer.win': Input should be a finite number"),
        ('{"role": "best"}', f"{ONE_OF} none"),
        ('{"finish": "stop"}', f"{ONE_OF} none"),
        ('{"text": "a", "error": "b"}', f"{ONE_OF} text and error"),
        ('{"error": "a", "finish": "length"}', OF_TEXTS),
        ('{"texts": []}', "texts holds at least one text, found none"),
        ('{"answer": {}}', f"{PROBABILITIES} {{}}"),
        ('{"answer": {"win": 0.5}}', f"{PROBABILITIES} {{'win': 0.5}}"),
        ('{"answer": {"win": -0.1, "loss": -0.1}}', PROBABILITIES),
    ],
)
def test_a_wrong_line_is_refused_with_its_place(line, message, rules_file):
    path = rules_file({"text": "fine"}, line)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        open_scripted(str(path))
    assert str(caught.value).startswith((f"{path}:2: rule", f"{path}:2: not JSON ("))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "jsonl:1: no rules in this file; write one JSON object a line"),
        (b'{"text": "fine"}\n{"text": "\xff"}\n', "jsonl:2: not UTF-8"),
    ],
)
def test_a_file_that_holds_no_rules_is_refused(content, message, rules_file):
    path = rules_file()
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        open_scripted(str(path))


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1000.0])
def test_an_answer_in_process_is_held_to_the_same(value):
    with pytest.raises(UsageError, match=PROBABILITIES):
        Rule(answer={"win": value})


def test_digits_that_add_to_a_little_more_than_one_are_probabilities_with_mass_one():
    rounded = {"win": -0.6931471, "loss": -0.6931471}  # log(1/2) rounded up: 1.00000016 together
    assert read([Rule(answer=rounded)], ["Better", "Worse"]).mass == 1.0
