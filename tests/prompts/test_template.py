"""Loading, checking and filling templates, with every message a user can meet."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refladder.errors import PromptError, UnknownNameError
from refladder.prompts import (
    ROLES,
    TASKS,
    TEMPLATES,
    check_folder,
    check_template,
    fill,
    list_templates,
    load_template,
)
from refladder.prompts.template import text_of, with_text

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
BEST = """\
+++
slots = ["dimension", "description", "context"]
+++
Good on {{dimension}}: {{description}}
{{context}}
"""
YESNO = (TEMPLATES / "story" / "compare-yesno.md").read_text()
DIRECT = (TEMPLATES / "story" / "direct-5.md").read_text()
SLOTS = {
    "context": "a walk",
    "background": "",
    "dimension": "clarity",
    "description": "easy to follow",
    "reference": "old words",
    "target": "new words",
}


@pytest.fixture
def write(tmp_path):
    """Write a file of a user's folder of templates, and return the folder."""

    def put(text, name="story/compare.md"):
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path / "mine"

    return put


@pytest.fixture
def read(write):
    """Load what a file of a user's folder holds."""
    return lambda text, role="compare": load_template(
        "story", role, write(text, f"story/{role}.md")
    )


# Loading


def test_a_file_in_the_users_folder_takes_the_place_of_one_shipped_file(write):
    folder = write(COMPARE)
    template = load_template("story", "compare", folder)
    assert template.literals[0] == "About "
    assert template.names == ("context", "dimension", "description", "reference", "target")
    assert template.labels == {"win": "Better", "loss": "Worse", "tie": "Similar"}
    assert template.path == folder / "story" / "compare.md"
    assert template.line == 9  # the head has lines 1 to 8
    assert load_template("story", "best", folder) == load_template("story", "best")
    assert load_template("dialogue", "compare", folder) == load_template("dialogue", "compare")


def test_the_digest_changes_with_any_edit_and_not_with_line_ends_or_a_byte_order_mark(read):
    plain = read(COMPARE)
    assert read(b"\xef\xbb\xbf" + COMPARE.replace("\n", "\r\n").encode()) == plain
    edited = read(COMPARE.replace("Old:", "Old :"))
    assert re.fullmatch(r"story/compare@[0-9a-f]{12}", plain.signature)
    assert edited.digest != plain.digest
    assert edited.signature != plain.signature


def test_blank_lines_and_plus_signs_in_the_text(read):
    assert read(BEST.replace("+++\nGood", "+++\n\n\nGood"), "best").line == 6
    assert "\n+++\nOld: " in read(COMPARE.replace("Old:", "+++\nOld:")).literals


def test_unknown_roles_and_tasks_name_the_near_one_and_the_users_own(write):
    with pytest.raises(UnknownNameError, match="role 'comapre'; did you mean 'compare'"):
        load_template("story", "comapre")
    with pytest.raises(UnknownNameError, match="task 'sumarization'; did you mean 'summarization'"):
        load_template("sumarization", "compare")
    folder = write(COMPARE, "poetry/compare.md")
    with pytest.raises(UnknownNameError, match=r"did you mean 'poetry'\? Known: .*, open, poetry"):
        load_template("poety", "compare", folder)
    assert load_template("poetry", "compare", folder).task == "poetry"
    message = (
        f"{folder}/poetry: no file best.md; a new task needs a file for every role that is used"
    )
    with pytest.raises(PromptError, match=f"^{re.escape(message)}"):
        load_template("poetry", "best", folder)


@pytest.mark.parametrize(
    "task", ["", "..", "../prompts/templates/story", "sto\0ry", "/", "story/", "story|x"]
)
def test_a_task_is_a_name_and_never_a_path(task):
    with pytest.raises(UnknownNameError, match=r"^unknown task "):
        load_template(task, "compare")


# What a file needs


def edited(old, new, text=COMPARE):
    assert old in text
    return text.replace(old, new, 1)


SLOT_LINE = COMPARE.split("\n")[1]
IN_ORDER = "[labels] for win, loss, tie in this order, found"
WORDS = "must be different non-empty strings without surrounding spaces, found"
NO_PREFIX = "answer_prefix must be one line of text without surrounding spaces, found"
COMPARE_HAS = "Role 'compare' has: context, background, dimension, description, reference, target"
UNKNOWN_ANSWER = "so the judge does not know this answer; add it to the text"
NO_HEAD = ":1: a template starts with a TOML head between two lines of +++"
SLOT_NAMES = (
    ": slots in the head must list the slots of the text in the order of their first use: "
    "['context', 'dimension', 'description', 'reference', 'target'], found"
)


def with_slot(text):
    return edited("{{ target }}", text)


def with_label(word):
    return edited('"Worse"', word)


def with_prefix(prefix):
    return edited("[labels]", f"answer_prefix = {prefix}\n[labels]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (COMPARE.encode().replace(b"Old", b"\xff"), ":12: not UTF-8; save the template as UTF-8"),
        ("", NO_HEAD),
        ("+++\nslots = []\n", NO_HEAD),
        ("\n" + COMPARE, NO_HEAD),
        ("+++\n+++", NO_HEAD),
        (with_label("Worse"), ":6: the head is not TOML ("),
        (
            edited("[labels]", "[label]"),
            ": unknown key 'label' in the head; known: slots, labels, claims, answer_prefix",
        ),
        (edited('"context", "dim', '"dim'), f"{SLOT_NAMES} ['dimension', 'description', 'ref"),
        (edited(SLOT_LINE, "slots = 3"), f"{SLOT_NAMES} 3"),
        (edited(SLOT_LINE, ""), f"{SLOT_NAMES} None"),
        (
            with_slot("{{targt}}"),
            f":13: unknown slot {{{{targt}}}}; did you mean {{{{target}}}}? {COMPARE_HAS}",
        ),
        (with_slot("{{xyz}}"), f":13: unknown slot {{{{xyz}}}}. {COMPARE_HAS}"),
        (
            edited("{{reference}}", "something"),
            ": slot {{reference}} is not in the text; role 'compare' needs it",
        ),
        (with_slot("{{tar-get}}"), ":13: '{{tar-get}}' is not a slot; a slot is written {{name}}"),
        (with_slot("{{ target | upper }}"), ":13: '{{ target | upper }}' is not a slot"),
        (with_slot("{{target}"), ":13: '{{target}' is not a slot"),
        (with_slot("{{target}} }}"), ":13: '}}' is not a slot"),
        (with_slot("{{}}"), ":13: '{{}}' is not a slot"),
        (with_slot("{{target\n}}"), ":13: '{{target' is not a slot"),
        (edited('tie = "Similar"\n', ""), f": role 'compare' needs {IN_ORDER}"),
        (
            edited('win = "Better"\nloss = "Worse"', 'loss = "Worse"\nwin = "Better"'),
            f": role 'compare' needs {IN_ORDER} {{'loss': 'Worse', 'win': 'Better', ",
        ),
        (re.sub(r"\[labels\][^+]*", "labels = 3\n", COMPARE), f": role 'compare' needs {IN_ORDER}"),
        *[
            (with_label(word), f": the labels {WORDS} ['Better', ")
            for word in ('"Better"', '""', '" "', '"Worse "', "1", '["Worse"]', "{ a = 1 }", "true")
        ],
        *[
            (with_prefix(prefix), f": {NO_PREFIX} ")
            for prefix in ('"Answer: "', '" Answer:"', "3", '"a\\nb"', '["a"]')
        ],
        (
            edited('"Similar"', '"Equal"'),
            f":9: the text does not name the label 'Equal', {UNKNOWN_ANSWER}",
        ),
        (
            edited("[labels]", '[claims]\nwin = "x"\n[labels]'),
            ": role 'compare' has no [claims], found {'win': 'x'}",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(write, text, message):
    folder = write(text)
    with pytest.raises(PromptError) as caught:
        load_template("story", "compare", folder)
    assert str(caught.value).startswith(f"{folder}/story/compare.md{message}")


@pytest.mark.parametrize(
    ("role", "text", "message"),
    [
        (
            "best",
            edited("+++\nGood", '[labels]\nwin = "A"\n+++\nGood', BEST),
            ": role 'best' has no [labels], found {'win': 'A'}",
        ),
        (
            "best",
            edited("+++\nGood", 'answer_prefix = "Text:"\n+++\nGood', BEST),
            ": answer_prefix is for roles with labels, found 'Text:'; correct or delete it",
        ),
        (
            "compare-yesno",
            edited('tie = "about as good as"\n', "", YESNO),
            ": role 'compare-yesno' needs [claims] for win, loss, tie in this order, found {'win'",
        ),
        (
            "compare-yesno",
            edited('"worse than"', '"better than"', YESNO),
            f": the claims {WORDS} ['better than', 'better than', 'about as good as']",
        ),
        # Of a scale the text names the ends.
        ("direct-5", edited('5 = "5"', '5 = "five"', DIRECT), "does not name the label 'five'"),
        ("reward", '+++\nslots = ["output"]\n+++\nRate: {{output}}\n', "unknown slot {{output}}"),
    ],
)
def test_a_wrong_file_of_another_role(read, role, text, message):
    with pytest.raises(PromptError, match=re.escape(message)):
        read(text, role)


def test_a_file_that_cannot_be_read(write, monkeypatch):
    def deny(_path):
        raise PermissionError(13, "Permission denied")

    folder = write(COMPARE)
    monkeypatch.setattr(Path, "read_bytes", deny)
    with pytest.raises(PromptError, match=r"compare\.md: cannot be read: Permission denied$"):
        load_template("story", "compare", folder)


def test_an_answer_prefix_is_part_of_the_digest(read):
    plain, template = read(COMPARE), read(with_prefix("'Verdict: \"'"))
    assert (plain.prefix, template.prefix) == ("", 'Verdict: "')
    assert template.digest != plain.digest
    shown = fill(template, dict.fromkeys(template.names, "x"))
    assert (shown.prefix, "Verdict" in shown.text) == ('Verdict: "', False)
    changed = with_text(template, text_of(template) + "\nAnswer.")
    without = with_text(dataclasses.replace(template, prefix=""), text_of(changed))
    assert without.digest != changed.digest


def test_check_template_is_a_contract_for_templates_made_elsewhere():
    template = load_template("story", "compare")
    check_template(template)
    with pytest.raises(PromptError, match=r"compare\.md: role 'compare' needs \[labels\] for win"):
        check_template(dataclasses.replace(template, labels={}))
    with pytest.raises(UnknownNameError, match="role 'compares'; did you mean 'compare'"):
        check_template(dataclasses.replace(template, role="compares"))


# A user's folder


def test_check_folder_reads_every_file_and_list_templates_merges_them(write):
    for name in ("README.md", "story/README.md", ".git/config", "story/.compare.md.swp"):
        write("# mine", name)
    write(BEST, "story-2/best.md")
    folder = write(COMPARE)
    mine = check_folder(folder)
    names = [(template.task, template.role) for template in mine]
    assert names == [("story", "compare"), ("story-2", "best")]
    merged = list_templates(folder)
    # The role subject is of task document only, and story-2 is new.
    assert len(merged) == len(TASKS) * (len(ROLES) - 1) + 1 + 1
    assert all(template in merged for template in mine)
    assert load_template("story", "compare") not in merged


NEW = "A new task needs a less similar name"
NOT_NAMED = ": not named TASK/ROLE.md, so no prompt would use it; move or rename it"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("story/comapre.md", "comapre.md: unknown prompt role 'comapre'; did you mean 'compare'?"),
        ("compare.md", f"/compare.md{NOT_NAMED}"),
        ("story/compare.txt", f"/story/compare.txt{NOT_NAMED}"),
        ("story/compare.md~", f"/story/compare.md~{NOT_NAMED}"),
        ("story/old/compare.md", f"/story/old/compare.md{NOT_NAMED}"),
        (
            "summarisation/compare.md",
            f"unknown task 'summarisation'; did you mean 'summarization'? {NEW}",
        ),
        ("dialog/compare.md", f"dialog: unknown task 'dialog'; did you mean 'dialogue'? {NEW}"),
        ("Story/compare.md", "/Story: unknown task 'Story'; did you mean 'story'?"),
        ("data_to_text/best.md", "unknown task 'data_to_text'; did you mean 'data-to-text'?"),
        (
            "my+task/compare.md",
            "my+task: a task name consists of letters, digits, - _ and ., found 'my+task'",
        ),
    ],
)
def test_check_folder_refuses_files_that_no_prompt_would_use(write, name, message):
    folder = write(COMPARE, name)
    with pytest.raises(PromptError) as caught:
        check_folder(folder)
    assert str(caught.value).startswith(f"{folder}/")
    assert message in str(caught.value)


@pytest.mark.parametrize("task", ["history", "dialogue-2", "poetry", "summarization.de"])
def test_check_folder_takes_a_task_of_the_users_own(write, task):
    folder = write(COMPARE, f"{task}/compare.md")
    assert [template.task for template in check_folder(folder)] == [task]


def test_check_folder_refuses_a_broken_template_and_an_empty_folder(write):
    folder = write(edited("{{reference}}", "nothing"))
    with pytest.raises(PromptError, match=r"compare\.md: slot \{\{reference\}\} is not in the"):
        check_folder(folder)
    (folder / "story" / "compare.md").unlink()
    message = f"^{folder}: contains no template; a template is a file TASK/ROLE.md, e.g. story/comp"
    with pytest.raises(PromptError, match=message):
        check_folder(folder)


@pytest.mark.parametrize(
    "use", [check_folder, list_templates, lambda folder: load_template("story", "best", folder)]
)
def test_a_folder_that_is_not_there(tmp_path, use):
    folder = tmp_path / "nowhere"
    message = "the folder of prompt templates does not exist; give a folder with files TASK/ROLE.md"
    with pytest.raises(PromptError, match=f"^{folder}: {message}$"):
        use(folder)
    folder.write_text("")
    with pytest.raises(PromptError, match=": the folder of prompt templates is a file; give a"):
        use(folder)


# Filling: values go in verbatim, once, and are never read for slots


def test_fill_puts_hostile_values_in_once(read):
    hostile = {
        "context": r"{{target}} \g<0> {0} %s",
        "target": "{{context}} {{{{ +++\n\x00 \\1",
        "reference": "+++",
    }
    prompt = fill(read(COMPARE), SLOTS | hostile)
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


PAIRS = sorted((task, role) for task in TASKS for role in ROLES if role != "subject")
AWKWARD = ["{{target}}", "{{ context }}", "{{", "}}", "{0}", "\\1", "\\g<0>", "+++\n", "\0", "%s"]
# Values hold no private-use characters, so a mark of two of them makes every value countable.
VALUES = st.lists(
    st.sampled_from(AWKWARD) | st.text(st.characters(exclude_categories=["Co"]), max_size=8),
    max_size=4,
).map("".join)


@given(pair=st.sampled_from(PAIRS), data=st.data(), claim=st.sampled_from(["win", "loss", "tie"]))
def test_filled_text_is_literals_and_values_and_nothing_else(pair, data, claim):
    template, role = load_template(*pair), pair[1]
    offered = [name for name in ROLES[role] if name != "claim"]
    slots = {name: f"\ue000{place}\ue001" + data.draw(VALUES) for place, name in enumerate(offered)}
    prompt = fill(template, slots, claim if role == "compare-yesno" else None)
    # The output of role reward, which is the turn of the assistant, follows the text of the template.
    names = (*template.names, "output") if role == "reward" else template.names
    literals = (*template.literals, "") if role == "reward" else template.literals
    for place, name in enumerate(offered):
        assert prompt.text.count(f"\ue000{place}\ue001") == names.count(name)
        assert prompt.text.count(slots[name]) == names.count(name)
    values = slots | ({"claim": template.claims[claim]} if role == "compare-yesno" else {})
    rest = prompt.text
    for literal, name in zip(literals[:-1], names, strict=True):
        assert rest.startswith(literal + values[name])
        rest = rest[len(literal) + len(values[name]) :]
    assert rest == literals[-1]


def test_a_reward_prompt_has_a_turn_of_the_user_and_one_of_the_assistant(read):
    template = read('+++\nslots = ["context"]\n+++\nTell a story: {{context}}\n', "reward")
    slots = {"context": "a fox", "background": "", "dimension": "d", "description": "e"}
    for output in ("", "{{context}} a fox", "Tell a story: a fox"):
        asked = {"role": "user", "content": "Tell a story: a fox"}
        messages = [asked, {"role": "assistant", "content": output}]
        assert fill(template, {**slots, "output": output}).messages == messages
    with pytest.raises(PromptError, match=r"^story/reward@\w{12}: slot \{\{output\}\} has no"):
        fill(template, slots)


def test_fill_needs_a_text_for_each_slot_of_the_template():
    compare = load_template("story", "compare")
    slots = {name: value for name, value in SLOTS.items() if name != "background"}
    assert "a walk" in fill(compare, slots).text
    with pytest.raises(PromptError, match=r"^dialogue/.*: slot \{\{background\}\} has no value$"):
        fill(load_template("dialogue", "compare"), slots)
    for value, shown in ((None, "None"), (3, "3"), (b"x", "b'x'")):
        with pytest.raises(PromptError, match=rf": slot 'target' needs text, found {shown}$"):
            fill(compare, SLOTS | {"target": value})
    message = (
        r"^unknown slot of story/compare@\w+ 'targt'; did you mean 'target'\? Known: background"
    )
    with pytest.raises(UnknownNameError, match=message):
        fill(compare, SLOTS | {"targt": "x"})
    with pytest.raises(UnknownNameError, match=r"^unknown slot of .* 'claim'. Known: background"):
        fill(load_template("story", "compare-yesno"), SLOTS | {"claim": "better than"}, "win")


def test_claims_are_given_where_they_are_asked_for_and_only_there():
    yesno, compare = load_template("story", "compare-yesno"), load_template("story", "compare")
    prompt = fill(yesno, SLOTS, "tie")
    assert prompt.claim == "tie"
    assert prompt.slots["claim"] == "about as good as"
    assert (prompt.labels, prompt.outcomes) == (("Yes", "No"), ("yes", "no"))
    with pytest.raises(PromptError, match=r"@\w+: needs a claim, one of: win, loss, tie$"):
        fill(yesno, SLOTS)
    with pytest.raises(UnknownNameError, match="claim 'wins'; did you mean 'win'"):
        fill(yesno, SLOTS, "wins")
    with pytest.raises(PromptError, match=r"@\w+: role 'compare' has no claims, found 'win'$"):
        fill(compare, SLOTS, "win")
