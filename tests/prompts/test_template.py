"""Loading and checking templates, with every message a user can meet."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from refladder.errors import PromptError, UnknownNameError
from refladder.prompts import (
    ROLES,
    TASKS,
    TEMPLATES,
    check_folder,
    check_template,
    list_templates,
    load_template,
)
from refladder.prompts.template import fill, text_of, with_text

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


@pytest.fixture
def write(tmp_path):
    def put(text, name="story/compare.md"):
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return put


def refused(path, role="compare", task="story"):
    with pytest.raises(PromptError) as caught:
        load_template(task, role, path.parents[1])
    assert str(caught.value).startswith(str(path))
    return str(caught.value)[len(str(path)) :]


# Loading


def test_a_file_in_the_users_folder_takes_the_place_of_one_shipped_file(write):
    folder = write(COMPARE).parents[1]
    template = load_template("story", "compare", folder)
    assert template.literals[0] == "About "
    assert template.names == ("context", "dimension", "description", "reference", "target")
    assert template.labels == {"win": "Better", "loss": "Worse", "tie": "Similar"}
    assert template.path == folder / "story" / "compare.md"
    assert template.line == 9  # the head has lines 1 to 8
    assert load_template("story", "best", folder) == load_template("story", "best")
    assert load_template("dialogue", "compare", folder) == load_template("dialogue", "compare")


def test_the_digest_changes_with_any_edit_and_not_with_line_ends_or_a_byte_order_mark(write):
    plain = load_template("story", "compare", write(COMPARE).parents[1])
    windows = write(b"\xef\xbb\xbf" + COMPARE.replace("\n", "\r\n").encode())
    assert load_template("story", "compare", windows.parents[1]) == plain
    edited = load_template("story", "compare", write(COMPARE.replace("Old:", "Old :")).parents[1])
    assert edited.digest != plain.digest
    assert re.fullmatch(r"story/compare@[0-9a-f]{12}", plain.signature)
    assert edited.signature != plain.signature


def test_the_line_counts_blank_lines_before_the_text(write):
    path = write(BEST.replace("+++\nGood", "+++\n\n\nGood"), "story/best.md")
    assert load_template("story", "best", path.parents[1]).line == 6


def test_a_line_of_plus_signs_may_stand_in_the_text(write):
    text = COMPARE.replace("Old:", "+++\nOld:")
    assert "\n+++\nOld: " in load_template("story", "compare", write(text).parents[1]).literals


def test_unknown_role():
    with pytest.raises(
        UnknownNameError,
        match=r"^unknown prompt role 'comapre'; did you mean 'compare'\? Known: best, ",
    ):
        load_template("story", "comapre")


@pytest.mark.parametrize(
    "task", ["", "..", "../prompts/templates/story", "sto\0ry", "/", "story/", "story|x"]
)
def test_a_task_is_a_name_and_never_a_path(task):
    with pytest.raises(UnknownNameError, match=r"^unknown task "):
        load_template(task, "compare")


def test_unknown_task_names_the_near_one_and_the_users_own(write):
    with pytest.raises(
        UnknownNameError,
        match=r"^unknown task 'sumarization'; did you mean 'summarization'\? Known: d",
    ):
        load_template("sumarization", "compare")
    folder = write(COMPARE, "poetry/compare.md").parents[1]
    with pytest.raises(
        UnknownNameError,
        match=r"^unknown task 'poety'; did you mean 'poetry'\? Known: "
        r"data-to-text, dialogue, document, open, poetry, story, summarization$",
    ):
        load_template("poety", "compare", folder)


def test_a_task_of_the_users_own(write):
    folder = write(COMPARE, "poetry/compare.md").parents[1]
    assert load_template("poetry", "compare", folder).task == "poetry"
    message = f"{folder / 'poetry'}: no file best.md; a new task needs a file for every role that is used, so add it"
    with pytest.raises(PromptError, match=f"^{re.escape(message)}$"):
        load_template("poetry", "best", folder)


@pytest.mark.parametrize(
    "use", [check_folder, list_templates, lambda folder: load_template("story", "best", folder)]
)
def test_a_folder_that_is_not_there(tmp_path, use):
    folder = tmp_path / "nowhere"
    message = f"{folder}: the folder of prompt templates does not exist; give a folder with files TASK/ROLE.md"
    with pytest.raises(PromptError, match=f"^{re.escape(message)}$"):
        use(folder)
    folder.write_text("")
    with pytest.raises(
        PromptError, match=r": the folder of prompt templates is a file; give a folder with files"
    ):
        use(folder)


# The file


def test_not_utf8(write):
    path = write(COMPARE.encode().replace(b"Old", b"\xff"))
    assert refused(path) == ":12: not UTF-8; save the template as UTF-8"


def test_unreadable(write, monkeypatch):
    def deny(_path):
        raise PermissionError(13, "Permission denied")

    path = write(COMPARE)
    monkeypatch.setattr(Path, "read_bytes", deny)
    assert refused(path) == ": cannot be read: Permission denied"


@pytest.mark.parametrize(
    "text", ["", "{{context}}", "+++\nslots = []\n", "\n" + COMPARE, "+++\n+++"]
)
def test_no_head(write, text):
    assert refused(write(text)) == ":1: a template starts with a TOML head between two lines of +++"


def test_head_is_not_toml(write):
    message = refused(write(COMPARE.replace('"Worse"', "Worse")))
    assert message.startswith(":6: the head is not TOML (")
    assert "line 6" in message  # the line of the file, not of the head


def test_unknown_key(write):
    path = write(COMPARE.replace("[labels]", "[label]"))
    assert (
        refused(path)
        == ": unknown key 'label' in the head; known: slots, labels, claims, answer_prefix"
    )


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            'slots = ["dimension", "description", "context", "reference", "target"]',
            "['dimension', 'description', ",
        ),
        (
            'slots = ["context", "dimension", "description", "reference"]',
            "['context', 'dimension', 'description', 'r",
        ),
        ("slots = 3", "3"),
        ("", "None"),
    ],
)
def test_head_lists_other_slots_than_the_text(write, line, found):
    path = write(
        COMPARE.replace(
            'slots = ["context", "dimension", "description", "reference", "target"]', line
        )
    )
    assert refused(path).startswith(
        ": slots in the head must list the slots of the text in the order of their first use: "
        f"['context', 'dimension', 'description', 'reference', 'target'], found {found}"
    )


# What a role needs


def test_unknown_slot(write):
    path = write(COMPARE.replace("{{ target }}", "{{targt}}"))
    assert refused(path) == (
        ":13: unknown slot {{targt}}; did you mean {{target}}? Role 'compare' has: "
        "context, background, dimension, description, reference, target"
    )
    path = write(COMPARE.replace("{{ target }}", "{{xyz}}"))
    assert refused(path).startswith(":13: unknown slot {{xyz}}; Role 'compare' has: context, ")


def test_missing_slot(write):
    path = write(COMPARE.replace("{{reference}}", "something"))
    assert refused(path) == ": slot {{reference}} is not in the text; role 'compare' needs it"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{{tar-get}} {{target}}", "'{{tar-get}} '"),
        ("{{ target | upper }} {{target}}", "'{{ target | upper }} '"),
        ("{{target} {{target}}", "'{{target} '"),
        ("{{target}} }}", "'}}'"),
        ("{{}} {{target}}", "'{{}} '"),
        ("{{target\n}} {{target}}", "'{{target'"),
    ],
)
def test_braces_that_are_no_slot(write, text, found):
    message = refused(write(COMPARE.replace("{{ target }}", text)))
    assert message == f":13: {found} is not a slot; a slot is written {{{{name}}}}"


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ('tie = "Similar"\n', "", "{'win': 'Better', 'loss': 'Worse'}"),
        (
            'win = "Better"\nloss = "Worse"\n',
            'loss = "Worse"\nwin = "Better"\n',
            "{'loss': 'Worse', 'win': 'Better', ",
        ),
        (
            'tie = "Similar"\n',
            'tie = "Similar"\ndraw = "Equal"\n',
            "{'win': 'Better', 'loss': 'Worse', 'tie': ",
        ),
    ],
)
def test_labels_for_other_outcomes(write, old, new, found):
    message = refused(write(COMPARE.replace(old, new)))
    assert message.startswith(
        f": role 'compare' needs [labels] for win, loss, tie in this order, found {found}"
    )


def test_labels_that_are_no_table(write):
    text = COMPARE.split("[labels]", maxsplit=1)[0] + "labels = 3\n+++" + COMPARE.split("+++")[2]
    assert (
        refused(write(text))
        == ": role 'compare' needs [labels] for win, loss, tie in this order, found 3"
    )


def test_labels_for_a_writing_role(write):
    path = write(BEST.replace("+++\nGood", '[labels]\nwin = "A"\n+++\nGood'), "story/best.md")
    assert refused(path, "best") == ": role 'best' has no [labels], found {'win': 'A'}"


@pytest.mark.parametrize(
    "word", ['"Better"', '""', '" "', '"Worse "', "1", '["Worse"]', "{ word = 1 }", "true"]
)
def test_labels_that_are_not_different_words(write, word):
    message = refused(write(COMPARE.replace('"Worse"', word)))
    assert message.startswith(
        ": the labels must be different non-empty strings without surrounding spaces, found ['Better', "
    )


def test_an_answer_prefix_is_part_of_the_digest(write):
    plain = load_template("story", "compare", write(COMPARE).parents[1])
    assert plain.prefix == ""
    text = COMPARE.replace("[labels]", "answer_prefix = 'Verdict: \"'\n[labels]")
    template = load_template("story", "compare", write(text).parents[1])
    assert template.prefix == 'Verdict: "'
    assert template.digest != plain.digest
    shown = fill(template, dict.fromkeys(template.names, "x"))
    assert (shown.prefix, "Verdict" in shown.text) == ('Verdict: "', False)
    changed = with_text(template, text_of(template) + "\nAnswer.")
    assert (
        with_text(dataclasses.replace(template, prefix=""), text_of(changed)).digest
        != changed.digest
    )


@pytest.mark.parametrize("prefix", ['"Answer: "', '" Answer:"', "3", '"a\\nb"', '["a"]'])
def test_an_answer_prefix_that_cannot_be_one(write, prefix):
    message = refused(write(COMPARE.replace("[labels]", f"answer_prefix = {prefix}\n[labels]")))
    assert message.startswith(
        ": answer_prefix must be one line of text without surrounding spaces, found "
    )
    assert message.endswith("; correct or delete it")


def test_a_writing_role_has_no_answer_prefix(write):
    path = write(BEST.replace("+++\nGood", 'answer_prefix = "Text:"\n+++\nGood'), "story/best.md")
    assert (
        refused(path, "best")
        == ": answer_prefix is for roles with labels, found 'Text:'; correct or delete it"
    )


def test_a_label_that_the_text_never_names(write):
    path = write(COMPARE.replace('"Similar"', '"Equal"'))
    assert refused(path) == (
        ":9: the text does not name the label 'Equal', so the judge does not know this answer; add it to the text"
    )


def test_of_a_scale_the_text_names_the_ends(write):
    shipped = (TEMPLATES / "story" / "direct-5.md").read_text()
    assert load_template("story", "direct-5").labels["2"] == "2"
    path = write(shipped.replace('5 = "5"', '5 = "five"'), "story/direct-5.md")
    assert "the text does not name the label 'five'" in refused(path, "direct-5")


def test_claims(write):
    shipped = (TEMPLATES / "story" / "compare-yesno.md").read_text()
    path = write(shipped.replace('tie = "about as good as"\n', ""), "story/compare-yesno.md")
    assert refused(path, "compare-yesno") == (
        ": role 'compare-yesno' needs [claims] for win, loss, tie in this order, "
        "found {'win': 'better than', 'loss': 'worse than'}"
    )
    path = write(shipped.replace('"worse than"', '"better than"'), "story/compare-yesno.md")
    assert refused(path, "compare-yesno") == (
        ": the claims must be different non-empty strings without surrounding spaces, "
        "found ['better than', 'better than', 'about as good as']"
    )
    path = write(COMPARE.replace("[labels]", '[claims]\nwin = "x"\n[labels]'))
    assert refused(path) == ": role 'compare' has no [claims], found {'win': 'x'}"


def test_check_template_is_a_contract_for_templates_made_elsewhere():
    template = load_template("story", "compare")
    check_template(template)
    with pytest.raises(
        PromptError, match=r"compare\.md: role 'compare' needs \[labels\] for win, loss, tie"
    ):
        check_template(dataclasses.replace(template, labels={}))
    with pytest.raises(
        UnknownNameError, match=r"^unknown prompt role 'compares'; did you mean 'compare'\?"
    ):
        check_template(dataclasses.replace(template, role="compares"))


# A user's folder


def test_check_folder_reads_every_file_and_list_templates_merges_them(write):
    write("# mine", "README.md")
    write("# mine", "story/README.md")
    write("", ".git/config")
    write("", "story/.compare.md.swp")
    write(BEST, "story-2/best.md")
    folder = write(COMPARE).parents[1]
    mine = check_folder(folder)
    assert [(template.task, template.role) for template in mine] == [
        ("story", "compare"),
        ("story-2", "best"),
    ]
    merged = list_templates(folder)
    assert (
        len(merged) == len(TASKS) * (len(ROLES) - 1) + 1 + 1
    )  # the role subject is of task document only
    assert all(template in merged for template in mine)
    assert load_template("story", "compare") not in merged


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "story/comapre.md",
            ": unknown prompt role 'comapre'; did you mean 'compare'? Known: best, ",
        ),
        ("story/notes.md", ": unknown prompt role 'notes'; Known: best, "),
        ("compare.md", ": not named TASK/ROLE.md, so no prompt would use it; move or rename it"),
        (
            "story/compare.txt",
            ": not named TASK/ROLE.md, so no prompt would use it; move or rename it",
        ),
        (
            "story/compare.md~",
            ": not named TASK/ROLE.md, so no prompt would use it; move or rename it",
        ),
        (
            "story/old/compare.md",
            ": not named TASK/ROLE.md, so no prompt would use it; move or rename it",
        ),
    ],
)
def test_check_folder_refuses_files_that_no_prompt_would_use(write, name, message):
    write(COMPARE)
    path = write(COMPARE, name)
    with pytest.raises(PromptError) as caught:
        check_folder(path.parents[len(Path(name).parts) - 1])
    assert str(caught.value).startswith(f"{path}{message}")


@pytest.mark.parametrize(
    ("task", "near"),
    [
        ("summarisation", "summarization"),
        ("dialog", "dialogue"),
        ("Story", "story"),
        ("data_to_text", "data-to-text"),
    ],
)
def test_check_folder_refuses_a_misspelt_task(write, task, near):
    path = write(COMPARE, f"{task}/compare.md")
    message = f"{path.parent}: unknown task {task!r}; did you mean {near!r}? A new task needs a less similar name"
    with pytest.raises(PromptError, match=f"^{re.escape(message)}$"):
        check_folder(path.parents[1])


@pytest.mark.parametrize("task", ["history", "dialogue-2", "poetry", "summarization.de"])
def test_check_folder_takes_a_task_of_the_users_own(write, task):
    path = write(COMPARE, f"{task}/compare.md")
    assert [template.task for template in check_folder(path.parents[1])] == [task]


def test_check_folder_refuses_a_task_name_that_would_break_a_recipe(write):
    path = write(COMPARE, "my+task/compare.md")
    message = f"{path.parent}: a task name consists of letters, digits, - _ and ., found 'my+task'"
    with pytest.raises(PromptError, match=f"^{re.escape(message)}$"):
        check_folder(path.parents[1])


def test_check_folder_refuses_a_broken_template(write):
    path = write(COMPARE.replace("{{reference}}", "nothing"))
    with pytest.raises(
        PromptError,
        match=r"compare\.md: slot \{\{reference\}\} is not in the text; role 'compare' needs",
    ):
        check_folder(path.parents[1])


def test_check_folder_refuses_a_folder_without_templates(tmp_path):
    message = f"{tmp_path}: contains no template; a template is a file TASK/ROLE.md, e.g. story/compare.md"
    with pytest.raises(PromptError, match=f"^{re.escape(message)}$"):
        check_folder(tmp_path)
