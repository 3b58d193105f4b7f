"""Prompts with variables, and the rows that fill them."""

from __future__ import annotations

import pytest
from json_lines import write_lines
from refusals import refuses

from refladder.contest.task_prompt import open_task_prompt, parse_task_prompt, read_instances
from refladder.errors import DataError, PromptError, UsageError

PROMPT = parse_task_prompt("Write about {topic}.", "prompt.txt")


@pytest.fixture
def read(tmp_path):
    """Fill the prompt with rows of a table."""

    def go(*rows, **options):
        path = write_lines(tmp_path / "table.jsonl", rows)
        return read_instances(str(path), PROMPT, **options)

    return go


def test_a_prompt_is_cut_at_its_variables():
    found = parse_task_prompt("{{keep}} {a} and { b c }{a}\n", "x")
    assert found.names == ("a", "b c", "a")
    assert found.literals == ("{keep} ", " and ", "", "\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no variable", r"p\.txt: no variable, so every row would get the same prompt"),
        ("first {a}\nthen } b", r"p\.txt:2: a single '}' is not part of a .* and }} for }"),
        ("{a} {", r"p\.txt:1: a single '\{' is not part of a variable"),
        ("{} {a}", r"p\.txt:1: a single '\{' is not part of a variable"),
    ],
)
def test_a_prompt_that_cannot_be_cut_says_where(text, message):
    with pytest.raises(PromptError, match=message):
        parse_task_prompt(text, "p.txt")


def test_a_prompt_is_given_once_and_in_utf_8(tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_bytes(b"\xef\xbb\xbfWrite.\r\nAbout {topic}.")
    found = open_task_prompt(path, None)
    assert (found.where, found.literals) == (str(path), ("Write.\nAbout ", "."))
    path.write_bytes(b"\xff{topic}")
    refuses(DataError, "not UTF-8; save the prompt as UTF-8", open_task_prompt, path, None)
    refuses(UsageError, "give the task prompt once: ", open_task_prompt, None, None)
    refuses(UsageError, "give the task prompt once: ", open_task_prompt, path, "{topic}")


def test_rows_fill_the_prompt_and_values_are_never_read_for_variables(read):
    (found,) = read({"id": 7, "topic": "{topic} {{x}}"})
    assert (found.id, found.prompt.text) == ("7", "Write about {topic} {{x}}.")


def test_a_row_with_an_empty_cell_is_kept_and_noted(read):
    found = read({"topic": "x"}, {"topic": " "}, {"other": "x"})
    assert [each.id for each in found] == ["1", "2", "3"]
    note = "column 'topic' is empty or absent"
    assert [each.note for each in found] == [None, note, note]


def test_tables_that_do_not_fit(read):
    message = r"prompt\.txt: variable \{topic\} is not a column of the table; did you mean \{topics\}\? Columns: id"
    refuses(PromptError, message, read, {"id": "a", "topics": "x"})

    def refused(message, *rows, **options):
        refuses(DataError, message, read, *rows, **options)

    refused("no rows; the table needs a row for each instance of the task")
    message = (
        "no row has all columns of the prompt, the first because column 'topic' is empty or absent"
    )
    refused(message, {"topic": ""}, {"topic": None})
    message = r"table\.jsonl:2: id 'a' appears in .*table\.jsonl:1 already; ids must be unique"
    refused(message, {"id": "a", "topic": "x"}, {"id": "a", "topic": "y"})
    message = r"table\.jsonl:1: column 'name' holds the row's id, and it is empty or absent"
    refused(message, {"id": "a", "topic": "x"}, id_column="name")
    message = "half a surrogate pair, which is not valid Unicode; correct the text"
    refused(rf"table\.jsonl:1: column 'topic': {message}", {"topic": "half \ud83d"})
    refused(f"column 'id': {message}", {"id": "\ud83d", "topic": "x"})
