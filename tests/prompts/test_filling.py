"""Filling templates: values go in verbatim, once, and are never read for slots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refladder.errors import PromptError, UnknownNameError
from refladder.prompts import ROLES, TASKS, fill, load_template

COMPARE = """\
+++
slots = ["context", "dimension", "description", "reference", "target"]

[labels]
win = "Better"
loss = "Worse"
tie = "Similar"
+++
About {{context}}.

{{dimension}}: {{description}}
Old: {{reference}}
New: {{ target }}
Is the new one Better, Worse or Similar?
"""
SLOTS = {
    "context": "a walk",
    "background": "",
    "dimension": "clarity",
    "description": "easy to follow",
    "reference": "old words",
    "target": "new words",
}


def test_fill_puts_hostile_values_in_once(tmp_path):
    (tmp_path / "story").mkdir()
    (tmp_path / "story" / "compare.md").write_text(COMPARE)
    template = load_template("story", "compare", tmp_path)
    prompt = fill(
        template,
        SLOTS
        | {
            "context": r"{{target}} \g<0> {0} %s",
            "target": "{{context}} {{{{ +++\n\x00 \\1",
            "reference": "+++",
        },
    )
    # Written by hand from COMPARE.
    assert prompt.text == (
        "About {{target}} \\g<0> {0} %s.\n\nclarity: easy to follow\nOld: +++\n"
        "New: {{context}} {{{{ +++\n\x00 \\1\nIs the new one Better, Worse or Similar?"
    )
    assert prompt.labels == ("Better", "Worse", "Similar")
    assert prompt.outcomes == ("win", "loss", "tie")
    assert prompt.claim is None
    assert prompt.messages == [{"role": "user", "content": prompt.text}]
    assert prompt.slots["background"] == ""


@given(
    pair=st.sampled_from(
        sorted((task, role) for task in TASKS for role in ROLES if role != "subject")
    ),
    data=st.data(),
    claim=st.sampled_from(["win", "loss", "tie"]),
)
def test_filled_text_is_literals_and_values_and_nothing_else(pair, data, claim):
    template = load_template(*pair)
    offered = [name for name in ROLES[pair[1]] if name != "claim"]
    awkward = st.sampled_from(
        [
            "{{target}}",
            "{{ context }}",
            "{{",
            "}}",
            "{0}",
            "\\1",
            "\\g<0>",
            "+++\n",
            "\0",
            "%s",
            "$x",
        ]
    )
    value = st.lists(
        awkward | st.text(st.characters(exclude_categories=["Co"]), max_size=8), max_size=4
    ).map("".join)
    # Values hold no private-use characters, so a mark of two of them makes every value countable.
    slots = {name: f"\ue000{place}\ue001" + data.draw(value) for place, name in enumerate(offered)}
    prompt = fill(template, slots, claim if pair[1] == "compare-yesno" else None)
    # The output of role reward, which is the turn of the assistant, follows the text of the template.
    names = (*template.names, "output") if pair[1] == "reward" else template.names
    literals = (*template.literals, "") if pair[1] == "reward" else template.literals
    for place, name in enumerate(offered):
        assert prompt.text.count(f"\ue000{place}\ue001") == names.count(name)
        assert prompt.text.count(slots[name]) == names.count(name)
    values = slots | ({"claim": template.claims[claim]} if pair[1] == "compare-yesno" else {})
    rest = prompt.text
    for literal, name in zip(literals[:-1], names, strict=True):
        assert rest.startswith(literal + values[name])
        rest = rest[len(literal) + len(values[name]) :]
    assert rest == literals[-1]


def test_a_reward_prompt_has_a_turn_of_the_user_and_one_of_the_assistant(tmp_path):
    (tmp_path / "story").mkdir()
    (tmp_path / "story" / "reward.md").write_text(
        '+++\nslots = ["context"]\n+++\nTell a story: {{context}}\n'
    )
    slots = {"context": "a fox", "background": "", "dimension": "d", "description": "e"}
    for output in ("", "{{context}} a fox", "Tell a story: a fox"):
        prompt = fill(load_template("story", "reward", tmp_path), {**slots, "output": output})
        asked = {"role": "user", "content": "Tell a story: a fox"}
        assert prompt.messages == [asked, {"role": "assistant", "content": output}]
    with pytest.raises(
        PromptError, match=r"^story/reward@[0-9a-f]{12}: slot \{\{output\}\} has no value$"
    ):
        fill(load_template("story", "reward", tmp_path), slots)
    (tmp_path / "story" / "reward.md").write_text(
        '+++\nslots = ["output"]\n+++\nRate: {{output}}\n'
    )
    with pytest.raises(PromptError, match=r"unknown slot \{\{output\}\}"):
        load_template("story", "reward", tmp_path)


def test_fill_names_the_slot_left_unfilled():
    template = load_template("story", "compare")
    slots = {name: value for name, value in SLOTS.items() if name != "target"}
    with pytest.raises(
        PromptError, match=r"^story/compare@[0-9a-f]{12}: slot \{\{target\}\} has no value$"
    ):
        fill(template, slots)


def test_fill_needs_no_value_for_a_background_the_template_leaves_out():
    slots = {name: value for name, value in SLOTS.items() if name != "background"}
    assert "a walk" in fill(load_template("story", "compare"), slots).text
    with pytest.raises(PromptError, match=r"slot \{\{background\}\} has no value$"):
        fill(load_template("dialogue", "compare"), slots)


def test_fill_refuses_a_slot_that_the_role_does_not_have():
    template = load_template("story", "compare")
    with pytest.raises(
        UnknownNameError,
        match=r"^unknown slot of story/compare@\w+ 'targt'; did you mean 'target'\? Known: background, context, ",
    ):
        fill(template, SLOTS | {"targt": "x"})
    with pytest.raises(
        UnknownNameError,
        match=r"^unknown slot of story/compare-yesno@\w+ 'claim'; Known: background",
    ):
        fill(load_template("story", "compare-yesno"), SLOTS | {"claim": "better than"}, "win")


@pytest.mark.parametrize(("value", "shown"), [(None, "None"), (3, "3"), (b"x", "b'x'")])
def test_fill_takes_texts_only(value, shown):
    with pytest.raises(
        PromptError, match=rf"^story/compare@\w+: slot 'target' needs text, found {shown}$"
    ):
        fill(load_template("story", "compare"), SLOTS | {"target": value})


def test_claims_are_given_where_they_are_asked_for_and_only_there():
    yesno, compare = load_template("story", "compare-yesno"), load_template("story", "compare")
    prompt = fill(yesno, SLOTS, "tie")
    assert prompt.claim == "tie"
    assert prompt.slots["claim"] == "about as good as"
    assert (prompt.labels, prompt.outcomes) == (("Yes", "No"), ("yes", "no"))
    with pytest.raises(
        PromptError, match=r"^story/compare-yesno@\w+: needs a claim, one of: win, loss, tie$"
    ):
        fill(yesno, SLOTS)
    with pytest.raises(
        UnknownNameError,
        match=r"^unknown claim 'wins'; did you mean 'win'\? Known: loss, tie, win$",
    ):
        fill(yesno, SLOTS, "wins")
    with pytest.raises(
        PromptError, match=r"^story/compare@\w+: role 'compare' has no claims, found 'win'$"
    ):
        fill(compare, SLOTS, "win")
