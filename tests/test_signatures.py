"""Which scores are on one scale, from signatures that are written out here."""

from __future__ import annotations

import pytest

from refladder.signatures import (
    criteria_of,
    differing_parts,
    is_older,
    is_rating,
    is_revised,
    same_run,
    same_scale,
)


def signature(**changed):
    """A signature of ratings on two criteria, by a server on this machine; None leaves a part out."""
    parts = {
        "ladders": "general/reply@" + "a" * 12,
        "certificate": "1" * 12,
        "anchors": "a,b,c",
        "criteria": "helpfulness@11,tone@22",
        "weights": "helpfulness=2,tone=1",
        "backend": "openai:m@localhost prefix:on sample20-shares",
        "prompts": "open/rating-stated@33",
        "sampling": "max300,t0,p1,seed0",
        "refladder": "0.1.0",
        "answers": "rating:stated",
        "place": "beaten",
        "least-mass": "0.05",
    }
    return "|".join(
        f"{name}:{value}" for name, value in {**parts, **changed}.items() if value is not None
    )


SIGNATURE = signature()
# Recorded, and no part of the scale.
RECORDED = [
    {"ladders": "copy/of-it@" + "a" * 12},
    {"ladders": "hub:org/set@" + "f" * 40 + "@" + "a" * 12},
    {"anchors": "c,b,a"},
    {"certificate": None},
    {"refladder": "9.9.9"},
    {"backend": "openai:m@127.0.0.1:8123/v1 prefix:off top20"},
    {"backend": "openai:m@file:1a2b3c4d prefix:unsupported sample20-shares answer40"},
    {"backend": "openai:m@localhost"},
    {"criteria": "tone@22,helpfulness@11"},
    {"least-mass": "0.2"},
]
OTHERS = [
    {"ladders": "general/reply@" + "b" * 12},
    {"anchors": "a,b"},
    {"anchors": None},
    {"criteria": "helpfulness@12,tone@22"},
    {"weights": None},
    {"backend": "openai:n@localhost prefix:on sample20-shares"},
    {"backend": "openai:m@api.example.com/v1 prefix:on sample20-shares"},
    {"backend": "openai:m@localhost thoughts:off(think) prefix:on sample20-shares"},
    {"backend": "openai:m@localhost prefix:on sample20-shares system=44"},
    {"prompts": "open/rating-stated@34"},
    {"sampling": "max300,t1,p1,seed0"},
    {"answers": "rating:together"},
    {"place": None},
]


@pytest.mark.parametrize("changed", RECORDED)
def test_what_is_recorded_is_no_part_of_the_scale(changed):
    other = signature(**changed)
    assert other != SIGNATURE
    for column in ("", "overall_grade", "helpfulness_score"):
        assert same_scale(SIGNATURE, other, column)
    # A run goes on only as it was.
    assert same_run(SIGNATURE, other) == ("certificate" in changed)


@pytest.mark.parametrize("changed", OTHERS)
def test_what_was_asked_of_whom_is_the_scale(changed):
    other = signature(**changed)
    assert not same_scale(SIGNATURE, other)
    assert not same_scale(other, SIGNATURE, "overall_score")
    parts, others = differing_parts(SIGNATURE, other)
    (name,) = changed
    assert parts.startswith(f"{name}:") or others.startswith(f"{name}:")


def test_a_column_of_a_criterion_is_compared_by_this_criterion_alone():
    other = signature(criteria="helpfulness@11,charm@55", weights=None)
    assert same_scale(SIGNATURE, other, "helpfulness_score")
    assert same_scale(SIGNATURE, other, "helpfulness_grade", across_judges=True)
    for column in ("tone_score", "overall_grade", "overall_score", "another_score", ""):
        assert not same_scale(SIGNATURE, other, column)
    # A criterion may be called overall.
    named = [signature(criteria=f"overall@1,tone@{digest}", weights=None) for digest in "23"]
    assert same_scale(*named, "overall_score")
    assert not same_scale(*named, "all_dimensions_score")


def test_labels_that_are_read_are_read_in_one_way():
    read = {"sampling": None, "answers": None, "place": None, "prompts": "open/compare@1"}
    one, other = (
        signature(backend=f"openai:m@localhost prefix:{prefix} {mode}", **read)
        for prefix, mode in (("on", "top20"), ("off", "sample20-shares"))
    )
    assert not same_scale(one, other)
    assert same_scale(one, one.replace("prefix:on", "prefix:off"))
    local = signature(backend="hf:org/m@rev,float32,template:1,prefix:on", **read)
    assert same_scale(local, local.replace("prefix:on", "prefix:off"))
    assert not same_scale(local, local.replace("float32", "float16"))
    assert not same_scale(one, one.replace("least-mass:0.05", "least-mass:0.2"))


@pytest.mark.parametrize("column", ["helpfulness_grade", "overall_grade"])
def test_grades_by_rungs_are_on_the_scale_of_the_ladders_for_every_judge(column):
    asked = {"prompts": "open/rating-together@1", "answers": "rating:together"}
    other = signature(backend="openai:n@api.example.com/v1", **asked)
    assert not same_scale(SIGNATURE, other, column)
    assert same_scale(SIGNATURE, other, column, across_judges=True)
    score = column.replace("_grade", "_score")
    assert not same_scale(SIGNATURE, other, score, across_judges=True)
    assert differing_parts(SIGNATURE, other, column)[1] == (
        "backend:openai:n@api.example.com/v1|prompts:open/rating-together@1|answers:rating:together"
    )
    read = signature(answers="rating", prompts="open/rating@1", sampling=None)
    assert same_scale(SIGNATURE, read, column, across_judges=True)
    refused = [
        {"ladders": "general/reply@" + "b" * 12},
        {"anchors": "a,b,c,d"},
        {"criteria": "helpfulness@12,tone@22"},
        {"place": None},
        {"place": None, "example": "a", "answers": "anchored:stated"},
        {"place": None, "answers": "stated"},
    ]
    for changed in refused:
        several = signature(**{"backend": "openai:n@api.example.com/v1", **changed})
        assert not same_scale(SIGNATURE, several, column, across_judges=True)
        # Two of a kind are no better.
        if "place" in changed:
            again = signature(**{**changed, "backend": "openai:o@localhost"})
            assert not same_scale(several, again, column, across_judges=True)


def test_a_later_revision_is_the_same_scale():
    later = signature(ladders="mine@" + "b" * 12, earlier="c" * 12 + "," + "a" * 12)
    assert same_scale(SIGNATURE, later)
    assert same_scale(later, SIGNATURE, "tone_grade", across_judges=True)
    assert is_revised(later, SIGNATURE)
    assert not is_revised(SIGNATURE, later)
    assert not same_scale(SIGNATURE, later.replace("a" * 12, "d" * 12))
    assert not same_scale(SIGNATURE, later.replace("openai:m", "openai:n"))


def test_other_signatures_are_compared_as_they_are():
    for value in (None, "a", "judge:1", ["q"], {"a": 1}):
        assert same_scale(value, value)
        assert not same_scale(value, "b")
        assert not same_scale("judge:2", value)
    assert differing_parts("a", None) == ("a", "no signature")
    assert differing_parts("a:1|b:2", "a:1") == ("b:2", "nothing in its place")
    student = "backend:distilled:ngrams@1|learned:x_score@2|refladder:0.1.0"
    assert same_scale(student, student.replace("0.1.0", "0.2.0"))
    assert not same_scale(student, student.replace("ngrams@1", "ngrams@2"))


def test_a_renamed_set_is_the_same_run_and_another_set_of_that_name_is_said():
    today, before = signature(), signature(ladders="general/reply-2@" + "a" * 12)
    assert same_run(before, today)
    assert not same_run(signature(ladders="mine/reply-2@" + "a" * 12), today)
    here, there = differing_parts(signature(ladders="general/story@ca95c4e8f728"), today)
    assert here == (
        "ladders:general/story@ca95c4e8f728 (another set that was called general/story before: "
        "bench/readings/three-anchors/story in the repository)"
    )
    assert there == "ladders:general/reply@" + "a" * 12


def test_what_a_signature_says():
    assert criteria_of(SIGNATURE) == ["helpfulness", "tone"]
    assert criteria_of("judge:1") == criteria_of(None) == []
    assert is_rating(SIGNATURE)
    assert is_rating(signature(place=None, example="a"))
    assert not is_rating(signature(place=None))
    old = signature(criteria=None)
    assert is_older(old, SIGNATURE)
    assert not is_older(old, old)
    assert not is_older("judge:1", SIGNATURE)
    assert not is_older("ladders:criteria:task.toml@1|criteria:a@2", SIGNATURE)
