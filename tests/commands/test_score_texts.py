"""The table that `score --text` prints."""

from __future__ import annotations

import pytest

from refladder.commands import console
from refladder.commands.main import run


@pytest.mark.parametrize("width", [32, 44, 70])
def test_heads_of_scores_never_break_inside_a_word(capsys, monkeypatch, width):
    monkeypatch.setattr(console, "_WIDTH", width)
    text = "Once upon a time there was a fox."
    assert (
        run(["score", "--ladders", "demo/story", "--context-id", "story-04", "--text", text]) == 0
    )
    lines = capsys.readouterr().out.split("score: ladder-sum")[0].splitlines()
    printed = " ".join(lines).split()
    for word in ("text", "coherence", "complexity", "overall"):
        assert word in printed
    assert printed.count("grade") == printed.count("score") == 2
    assert max(map(len, lines)) <= width
    # a part of the table that does not fit the first is under the same text, and is said to be one
    assert ("continued." in printed) == (width < 70)
    assert printed.count("Once") == printed.count("continued.") + 1
