"""Tokens and money in the report card, with backends that count, that do not, and that have a price."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console
from simulated import DIMENSION, Simulated, benchmark_of

from refladder.backends import connect
from refladder.backends.cache.cached import Stored
from refladder.backends.cache.store import SqliteStore
from refladder.backends.metered import Metered, Spent, total
from refladder.backends.prices import Price
from refladder.backends.protocol import Usage
from refladder.display.rendering import json_lines, latex, markdown
from refladder.display.terminal import terminal_tables
from refladder.evaluation import cards as cards_module
from refladder.evaluation.cards import card_tables, report_cards
from refladder.methods.contract import MethodSettings
from refladder.methods.measures import Share
from refladder.methods.method_runs import run_methods
from refladder.records import LabelReading

MADE = benchmark_of([[1.0, 2.0, 3.0]])  # one context of three outputs: six ordered pairs


class Local(Simulated):
    """Counts as a model on this machine does: 10 tokens a prompt, of which 4 are its own."""

    usage = Usage(prompt_tokens=1000, run_tokens=700)  # of earlier work, which must not be counted

    def read_labels(self, prompts, labels):
        asked = len(prompts)
        self.usage = Usage(
            prompt_tokens=self.usage.prompt_tokens + 10 * asked,
            run_tokens=self.usage.run_tokens + 4 * asked,
        )
        return super().read_labels(prompts, labels)


class Counting(Simulated):
    def count_tokens(self, prompts):
        return [7] * len(prompts)


def cards_of(judge, *names):
    runs = run_methods(names, MADE, [DIMENSION], lambda: judge, MethodSettings())
    return [card for card in report_cards(runs, MADE, [DIMENSION]) if card.dimension == "all"]


def test_tokens_are_those_of_the_method_alone():
    first, second = cards_of(Local(), "win-ratio", "bradley-terry")
    assert (first.calls, first.prompt_tokens, first.distinct_tokens, first.usd) == (6, 60, 24, None)
    # the second asks nothing that the first has not asked
    assert (second.judgments, second.reused, second.calls) == (6, 6, 0)
    assert (second.prompt_tokens, second.distinct_tokens, second.usd) == (0, 0, None)


def test_what_a_store_answers_is_no_call(tmp_path):
    with SqliteStore(tmp_path / "answers.sqlite") as store:
        judge = Stored(Counting(), store)
        first, second = cards_of(judge, "win-ratio")[0], cards_of(judge, "win-ratio")[0]
    assert (first.judgments, first.calls) == (6, 6)
    assert (second.judgments, second.calls) == (6, 0)
    with SqliteStore(
        tmp_path / "others.sqlite"
    ) as store:  # with the meter of a session inside the store
        judge = Stored(Metered(Counting()), store)
        cards = [cards_of(judge, "win-ratio")[0] for _ in range(2)]
    assert [(card.calls, card.prompt_tokens) for card in cards] == [(6, 6 * 7), (0, 0)]
    assert cards[0].characters == cards[1].characters


def test_a_priced_backend_tells_money():
    judge = Metered(Counting(), Price(model="m", input=2.0, output=10.0))
    (card,) = cards_of(judge, "win-ratio")
    # 6 prompts of 7 tokens at 2 USD a million, 6 answers of one token at 10 USD a million
    assert card.usd == pytest.approx((42 * 2 + 6 * 10) / 1e6)
    assert (card.prompt_tokens, card.distinct_tokens) == (42, None)


def test_a_backend_that_does_not_count_has_no_tokens():
    (card,) = cards_of(Simulated(), "win-ratio")
    assert (card.prompt_tokens, card.distinct_tokens, card.usd) == (None, None, None)
    assert re.search(
        r"\| win-ratio \| 6 \| 6 \| [\d,]+ \| unknown \| unknown \| — \|",
        markdown(card_tables([card])),
    )


def test_what_one_backend_does_not_know_is_not_known_in_all():
    assert total([Spent(5, 3, None), Spent(None, 1, 0.25)]) == Spent(None, 4, 0.25)
    assert total([]) == Spent(0, 0, None)


def test_unparsed_and_tied_judgments_are_in_every_form():
    # equal texts are tied; the pairs with the third cannot be read
    made = benchmark_of([[1.0, 1.0, 3.0]])
    judge = Simulated(unparsed=lambda first, second: "3.000" in first + second)
    runs = run_methods(["win-ratio"], made, [DIMENSION], lambda: judge, MethodSettings())
    cards = report_cards(runs, made, [DIMENSION])
    first = cards[0]
    counts = (first.unparsed, first.low_mass, first.tied.value, first.unscored)
    assert counts == (4, 0, 1.0, 1)
    tables = card_tables(cards)
    for cells in ("win-ratio | 6 | 6 | ", "win-ratio | 4 | 0 | 1.000 | 0.500 | "):
        assert f"| {cells}" in markdown(tables)
        assert cells.replace("|", "&") in latex(tables)


@pytest.mark.parametrize("width", [50, 60, 80, 100])
def test_heads_of_the_terminal_tables_never_break_inside_a_word(width):
    cards = cards_of(Simulated(noise=1.0), "win-ratio", "mean-probability-debiased")
    screen = io.StringIO()
    console = Console(file=screen, width=width, color_system=None)
    tables = card_tables(cards)
    for part in terminal_tables([table._replace(legend=()) for table in tables], width):
        console.print(part)
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    rules = [number for number, line in enumerate(lines) if "──" in line]
    heads = [word for number in rules for word in lines[number - 1].split()]
    # of a head of two words, the last line has the second
    wanted = [head for table in tables for head in table.heads[1:]]
    last_words = " ".join(wanted).replace("low mass", "mass").split()
    assert [head for head in heads if head not in {"method", "low"}] == last_words
    assert heads.count("method") == len(rules)
    assert screen.getvalue().count("win-ratio") == len(rules)


def test_every_column_has_a_line_in_the_legend_in_the_same_order():
    for table in card_tables(cards_of(Simulated(noise=1.0), "win-ratio")):
        assert [term for term, _ in table.legend if term not in {"—", "unknown"}] == table.heads[1:]
        assert "; " not in table.caption
        cells = {cell for row in table.rows for cell in row}
        assert {term for term, _ in table.legend} & {"—", "unknown"} == cells & {"—", "unknown"}


def test_the_keys_of_the_json_form_are_fixed():
    (card,) = cards_of(Simulated(), "win-ratio")
    assert list(json.loads(json_lines([card]))) == [
        "kind", "method", "benchmark", "dimension", "judgments", "unparsed", "low_mass",
        "reused", "unscored", "calls", "characters", "prompt_tokens",
        "distinct_tokens", "usd", "seconds", "judge_seconds", "tied", "first", "longer",
        "inconsistency", "intransitive", "conflict", "accuracy",
    ]  # fmt: skip
    assert list(json.loads(json_lines([card]))["tied"]) == ["value", "low", "high", "of"]


def test_a_new_field_of_the_card_is_a_new_column(monkeypatch):
    shown = cards_module._Shown("extra", "what it needs more", lambda value, _card: f"<{value}>")
    new = SimpleNamespace(name="calls", metadata={"shown": (shown,)})
    (card,) = cards_of(Simulated(), "win-ratio")
    card = replace(card, calls=7)
    monkeypatch.setattr(cards_module, "_COLUMNS", [*cards_module._COLUMNS, new])
    text = markdown(card_tables([card]))
    assert "| seconds | extra |" in text
    assert "| <7> |" in text
    assert "- extra: what it needs more\n" in text


def test_a_small_share_has_an_interval_of_three_digits():
    (card,) = cards_of(Simulated(), "win-ratio")
    small = replace(card, tied=Share(value=0.01, low=0.004, high=0.03, of=200))
    assert "| 0.010 [0.004, 0.030] | " in markdown(card_tables([small]))
    large = replace(card, tied=Share(value=0.5, low=0.25, high=0.75, of=20))
    assert "| 0.500 [0.25, 0.75] | " in markdown(card_tables([large]))


def test_a_method_that_asked_nothing_has_no_unknown_tokens():
    first, second = cards_of(Simulated(), "win-ratio", "bradley-terry")
    assert (second.calls, second.characters) == (0, first.characters)
    without = replace(second, prompt_tokens=None, distinct_tokens=None)
    row = r"\| bradley-terry \| 6 \| 0 \| [\d,]+ \| — \| — \| — \|"
    assert re.search(row, markdown(card_tables([without])))


def test_the_ladder_counts_ties():
    tie = LabelReading(logprobs=(-2.0, -2.0, -0.5), mass=1.0)
    win = LabelReading(logprobs=(-0.5, -2.0, -2.0), mass=1.0)

    class Undecided(Simulated):
        def read_labels(self, prompts, _labels):
            return [tie if number % 3 == 0 else win for number, _ in enumerate(prompts)]

    settings = MethodSettings(rungs=3, writer=lambda: connect("builtin"))
    runs = run_methods(["ladder"], MADE, [DIMENSION], Undecided, settings)
    # nine comparisons, asked together: numbers 0, 3 and 6 are tied
    assert report_cards(runs, MADE, [DIMENSION])[0].tied.value == pytest.approx(3 / 9)
