"""Chats in the cells of a table: the last message of the assistant is scored, with all before it as its context."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from json_lines import read_lines

import refladder
from refladder.errors import DataError
from refladder.files.tables import Row
from refladder.loaders.chats import is_chat
from refladder.loaders.input_rows import Mapped, items
from refladder.records import text_id

ASKED, SAID = "Why is my bread flat?", "The yeast was dead."
TURN = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": SAID}]
CHAT = {"context": "chat", "output": "chat"}
LONG = "System: Be kind.\n\nUser: Hello.\n\nAssistant: Hello!\n\nUser: " + ASKED


def read(fields, columns):
    (item,) = items([Row("t:1", fields)], Mapped(columns=columns), check_ids=True)
    return item


@pytest.mark.parametrize(
    ("fields", "columns", "context"),
    [
        ({"chat": TURN}, CHAT, ASKED),
        ({"chat": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello."},
                   {"role": "assistant", "content": "Hello!"}, *TURN]}, CHAT, LONG),
        ({"chat": [{"from": "human", "value": ASKED}, {"from": "gpt", "value": SAID}]}, CHAT, ASKED),
        ({"chat": ["Hello.", "Hello!", ASKED, SAID]}, CHAT, LONG.removeprefix("System: Be kind.\n\n")),
        ({"chat": [TURN[0], {"role": "model", "content": [{"type": "thinking", "thinking": "Yeast?"},
                                                          {"type": "text", "text": SAID}]}]}, CHAT, ASKED),
        # what follows the last message of the assistant is left out
        ({"chat": [*TURN, {"role": "user", "content": "Thanks."}]}, CHAT, ASKED),
        # as CSV has it
        ({"chat": json.dumps(TURN)}, CHAT, ASKED),
        ({"chat": json.dumps(["Hello.", "Hello!", ASKED, SAID])}, CHAT, LONG.removeprefix("System: Be kind.\n\n")),
        ({"prompt": TURN[:1], "chosen": TURN[1:]}, {"context": "prompt", "output": "chosen"}, ASKED),
        ({"prompt": TURN[:1], "chosen": SAID}, {"context": "prompt", "output": "chosen"}, ASKED),
        ({"prompt": ASKED, "chosen": TURN[1:]}, {"context": "prompt", "output": "chosen"}, ASKED),
        (
            {"prompt": TURN[:1], "completion": [{"role": "assistant", "content": None, "tool_calls": []},
                                                {"role": "tool", "content": "42"}, TURN[1]]},
            {"context": "prompt", "output": "completion"},
            f"User: {ASKED}\n\nTool: 42",
        ),
        # a path into the cell
        (
            {"q": [{"text": ASKED}], "choices": [{"message": {"content": "No."}}, {"message": {"content": SAID}}]},
            {"context": "q[0].text", "output": "choices[-1].message.content"},
            ASKED,
        ),
        ({"q[0]": ASKED, "a.b": SAID}, {"context": "q[0]", "output": "a.b"}, ASKED),
    ],
)  # fmt: skip
def test_forms_of_chats(fields, columns, context):
    item = read(fields, columns)
    assert (item.note, item.output.text, item.context.text) == (None, SAID, context)
    assert item.output.context_id == text_id(context, "")


@pytest.mark.parametrize(
    ("chat", "note"),
    [
        (TURN[:1], "the chat has no message of an assistant"),
        ([], "the chat has no message of an assistant"),
        ([*TURN, {"role": "tool", "content": "42"}], "the chat ends in a tool's message"),
        ([*TURN, {"role": "assistant", "content": None}], "the assistant's last message has no text"),
        ([TURN[0], {"role": "assistant", "content": "<think>Yeast?"}], "the output is a thought without an answer"),
        ([TURN[0], {"role": "assistant", "content": " "}], "the output is empty"),
    ],
)  # fmt: skip
def test_a_chat_without_an_answer_has_no_score_and_says_why(chat, note):
    item = read({"chat": chat, "context": ASKED}, {"output": "chat"})
    assert (item.output, item.note) == (None, note)


FORMS = "a text or a chat (messages with role and content, or from and value, or a list of texts)"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([1, 2], "a list with 1"),
        ([TURN[0], "Yes."], "a list with 'Yes.'"),
        ([{"text": "Yes."}], "a list with {'text': 'Yes.'}"),
        ([{"role": "assistant", "content": 3}], "the message {'role': 'assistant', 'content': 3}"),
        ([{"role": None, "content": "Yes."}], "the message {'role': None, 'content': 'Yes.'}"),
    ],
)
def test_another_form_is_named(value, found):
    with pytest.raises(DataError) as told:
        read({"chat": value, "context": ASKED}, {"output": "chat"})
    assert str(told.value) == f"t:1: column 'chat': expected {FORMS}, found {found}"


@pytest.mark.parametrize(
    "cell", [SAID, json.dumps(TURN)[:-1], str(TURN), '{"role": "assistant", "content": "Yes."}']
)
def test_a_text_is_no_chat_where_one_column_is_context_and_output(cell):
    """A text, JSON that a spreadsheet cut, Python's own form, and a message without its list."""
    with pytest.raises(DataError, match="t:1: column 'chat' is the context and the output, so it"):
        read({"chat": cell}, CHAT)


def test_half_a_surrogate_pair_in_a_chat_is_refused():
    with pytest.raises(DataError, match="column 'chat': half a surrogate pair"):
        read({"chat": ["Hello.", "\ud800"]}, CHAT)
    with pytest.raises(DataError, match="column 'chat': half a surrogate pair"):
        read({"chat": json.dumps(["Hello.", "\ud800"])}, CHAT)


def test_a_table_with_a_chat_is_told_how_it_is_read():
    with pytest.raises(DataError) as told:
        read({"id": "a", "messages": TURN}, {})
    hint = "'messages' holds a chat: --column context=messages --column output=messages reads it."
    assert str(told.value).startswith(
        f"t:1: no column 'output' for the output; {hint} Columns there: id, messages."
    )


def test_ten_thousand_turns_are_read():
    turns = TURN * 5_000
    item = read({"chat": turns}, CHAT)
    assert item.output.text == SAID
    assert item.context.text.count("User: ") == 5_000
    assert is_chat(turns)


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "frame", "rows"])
def test_a_chat_has_the_scores_of_its_texts(form, tmp_path):
    turns = [
        [{"role": "user", "content": f"{ASKED} {n}"}, {"role": "assistant", "content": SAID * n}]
        for n in (1, 2)
    ]
    rows = [{"chat": turn} for turn in turns]
    table = path = str(tmp_path / f"chats.{form}")
    if form == "jsonl":
        (tmp_path / "chats.jsonl").write_text("\n".join(map(json.dumps, rows)))
    elif form == "csv":
        pd.DataFrame({"chat": [json.dumps(turn) for turn in turns]}).to_csv(path, index=False)
    elif form == "parquet":
        pd.DataFrame(rows).to_parquet(path)
    else:
        table = rows if form == "rows" else pd.DataFrame(rows)
    scored = {"ladders": "general/reply", "dimensions": ["clarity"], "any_judge": True}
    plain = [{"context": f"{ASKED} {n}", "output": SAID * n} for n in (1, 2)]
    expected = [row["clarity_score"] for row in refladder.score(plain, **scored)]
    if isinstance(table, str):
        out = tmp_path / "out.jsonl"
        refladder.score(table, columns=CHAT, out=str(out), **scored)
        done = read_lines(out)
    else:
        done = pd.DataFrame(refladder.score(table, columns=CHAT, **scored)).to_dict("records")
    assert [row["clarity_score"] for row in done] == expected
