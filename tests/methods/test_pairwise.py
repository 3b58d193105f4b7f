"""The methods that compare outputs in pairs, end to end with judges of known faults."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from doubles import Double
from simulated import DIMENSION, Simulated, benchmark_of, quality_of

from refladder.backends import connect
from refladder.commands.main import run as run_command
from refladder.errors import DataError, PromptError, UnknownNameError, UsageError
from refladder.jobs.evaluate import Protocol, agreement
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import run_methods
from refladder.methods.surface import BEST
from refladder.methods.zepo import INSTRUCTIONS, rewritten
from refladder.prompts import load_template, text_of, with_text
from refladder.records import Completion
from refladder.report.cards import card_tables, report_cards

PAIRWISE = [
    "win-ratio", "win-ratio-debiased", "mean-probability", "mean-probability-debiased",
    "bradley-terry", "poe", "likelihood", "pairs-greedy",
    "pairs-beam", "zepo",
]  # fmt: skip
QUALITIES = np.random.default_rng(0).permuted(np.tile(np.arange(6.0), (4, 1)), axis=1)


def run(names, judge, *, benchmark=None, **settings):
    made = benchmark_of(QUALITIES) if benchmark is None else benchmark
    return run_methods(names, made, made.dimensions, lambda: judge, MethodSettings(**settings))


def order_agreement(benchmark, scores):
    """Share of the pairs of a context that scores put in the true order, ties half."""
    points = []
    for context in benchmark.contexts:
        own = [output for output in benchmark.outputs if output.context_id == context.id]
        values = np.array([scores[output.id, "worth"] for output in own], dtype=float)
        truth = np.array([quality_of(output.text) for output in own])
        first, second = np.triu_indices(len(own), 1)
        product = (values[first] - values[second]) * (truth[first] - truth[second])
        points += np.where(product == 0, 0.5, product > 0).tolist()
    return float(np.nanmean(points))


@pytest.mark.parametrize("name", PAIRWISE)
def test_a_perfect_judge_gives_the_true_order(name):
    (found,) = run([name], Simulated(sharpness=2.0))
    assert order_agreement(benchmark_of(QUALITIES), found.result.method.scores) == 1
    assert found.result.unparsed == 0


def test_methods_share_what_was_asked():
    judge = Simulated()
    runs = run([name for name in PAIRWISE if name != "zepo"], judge)
    assert judge.asked == 4 * 6 * 5  # every ordered pair of four contexts with six outputs, once
    assert [one.calls for one in runs] == [120] + [0] * 8
    assert runs[1].result.judgments == runs[1].result.reused == 120
    assert (
        len({one.result.characters for one in runs[:7]}) == 1
    )  # each tells what it would need alone


def test_methods_that_share_comparisons_have_the_results_that_they_have_alone(tmp_path):
    names = PAIRWISE[:7]
    judge = Simulated(noise=1.0, first=0.5)
    together = run(names, judge, work=tmp_path)
    for name, shared in zip(names, together, strict=True):
        (alone,) = run([name], judge)
        for field in (
            "method",
            "judgments",
            "unparsed",
            "characters",
            "measures",
            "thresholds",
            "notes",
        ):
            assert getattr(shared.result, field) == getattr(alone.result, field), (name, field)
        for ours, theirs in zip(shared.result.comparisons, alone.result.comparisons, strict=True):
            assert (ours.context, ours.dimension, ours.outputs) == (
                theirs.context,
                theirs.dimension,
                theirs.outputs,
            )
            assert np.array_equal(ours.pairs, theirs.pairs)
            assert np.array_equal(ours.probabilities, theirs.probabilities, equal_nan=True)


def test_comparisons_are_not_shared_between_benchmarks_or_choices_of_pairs():
    settings = MethodSettings()
    for made in (benchmark_of(QUALITIES), benchmark_of(QUALITIES[:2])):
        (all_pairs,) = run_methods(["win-ratio"], made, made.dimensions, Simulated, settings)
        (some,) = run_methods(
            ["win-ratio"], made, made.dimensions, Simulated, replace(settings, budget=12)
        )
        assert all_pairs.result.judgments == 30 * len(made.contexts)
        assert some.result.judgments == 12 * len(made.contexts)


def test_sorting_needs_fewer_comparisons_than_all_pairs():
    greedy, beam = run(["pairs-greedy", "pairs-beam"], Simulated())
    # merge sort of 3 + 3 items takes 3 + 3 + 5 comparisons at most
    assert greedy.result.judgments <= beam.result.judgments
    assert greedy.result.judgments <= 4 * 11
    (twice,) = run(["pairs-greedy"], Simulated(), orders=2)
    assert twice.result.judgments == 2 * greedy.result.judgments


def test_both_orders_take_a_bias_out_of_sorting():
    benchmark = benchmark_of(np.random.default_rng(1).standard_normal((20, 8)))
    shares = []
    for orders in (1, 2):
        (found,) = run(["pairs-greedy"], Simulated(first=2.0), benchmark=benchmark, orders=orders)
        shares.append(order_agreement(benchmark, found.result.method.scores))
    assert shares[0] < 0.9
    assert shares[1] == 1


def test_a_budget_asks_that_many_of_every_context():
    (found,) = run(["win-ratio"], Simulated(), budget=12, selection="no-repeat")
    assert found.result.judgments == 4 * 12
    assert found.result.method.signature.endswith("|pairs:no-repeat,12,seed0")


def test_a_budget_larger_than_the_pairs_is_refused_before_anything_is_asked():
    judge = Simulated()
    with pytest.raises(
        UsageError, match="context 'c0': a budget of 31 comparisons: 6 items have 30 pairs"
    ):
        run(["win-ratio"], judge, budget=31)
    assert judge.asked == 0


def test_a_seed_chooses_the_pairs_and_they_are_the_same_for_every_method():
    runs = run(["win-ratio", "bradley-terry"], Simulated(), budget=14)
    assert runs[1].calls == 0
    (other,) = run(["win-ratio"], Simulated(noise=2.0), budget=14, seed=1)
    (one,) = run(["win-ratio"], Simulated(noise=2.0), budget=14, seed=0)
    assert other.result.method.scores != one.result.method.scores


@pytest.mark.parametrize("name", ["bradley-terry", "poe", "likelihood"])
def test_a_context_whose_comparisons_fall_apart_has_no_scores_and_is_told(name):
    def apart(first, second):
        return (quality_of(first) < 2) != (quality_of(second) < 2)

    (found,) = run([name], Simulated(unparsed=apart))
    assert set(found.result.method.scores.values()) == {None}
    assert any(
        "context 'c0', worth: the comparisons form 2 unconnected components" in note
        for note in found.result.notes
    )


def test_win_ratio_needs_no_connection_and_unread_comparisons_are_counted():
    (found,) = run(
        ["win-ratio"],
        Simulated(unparsed=lambda first, second: 0 in map(quality_of, (first, second))),
    )
    # the text of quality 0 has no readable comparison: 10 ordered pairs of each of four contexts
    assert found.result.unparsed == 40
    assert found.result.notes == ("40 x unparsed: no answer",)
    scores = found.result.method.scores
    assert sum(value is None for value in scores.values()) == 4


@pytest.mark.parametrize("name", ["pairs-greedy", "pairs-beam"])
def test_a_sort_with_an_unread_comparison_scores_none_of_its_context(name):
    (found,) = run(
        [name],
        Simulated(unparsed=lambda first, second: "Idea" in first or "text 0" in first + second),
    )
    assert set(found.result.method.scores.values()) == {None}
    assert found.result.notes[0].endswith("unparsed, so its context cannot be sorted: no answer")


def test_one_system_leaves_nothing_to_compare():
    with pytest.raises(
        UsageError,
        match="made has no context with two outputs, so there is no pair to compare; use a",
    ):
        run(["win-ratio"], Simulated(), benchmark=benchmark_of([[1.0], [2.0]]))


def test_a_context_with_one_output_is_unscored():
    made = benchmark_of([[1.0, 2.0], [3.0, 4.0]])
    made = replace(made, outputs=made.outputs[:3])
    (found,) = run(["win-ratio"], Simulated(), benchmark=made)
    assert found.result.method.scores["c1/s0", "worth"] is None


def test_all_ties_are_constant_and_have_no_correlation():
    made = benchmark_of(QUALITIES)
    runs = run(PAIRWISE, Simulated(sharpness=0.0), benchmark=made)
    methods = [one.result.method for one in runs]
    for method in methods:
        assert len(set(method.scores.values())) == 1
    rows = agreement(
        made,
        [DIMENSION],
        methods,
        Protocol(levels=["within_context"], statistics=["spearman"], resamples=5),
    )
    assert all(row.value is None for row in rows if row.method in PAIRWISE)


def test_debiasing_helps_a_biased_judge():
    # 2307.07889, section 5.3: a judge that nearly always chooses the first sees few differences
    made = benchmark_of(np.random.default_rng(2).standard_normal((30, 6)))
    judge = Simulated(first=3.0, noise=0.3)
    plain, debiased = run(["win-ratio", "win-ratio-debiased"], judge, benchmark=made)
    assert order_agreement(made, debiased.result.method.scores) > order_agreement(
        made, plain.result.method.scores
    )
    shares = [share for part, share in plain.result.measures.items() if part.name == "first"]
    assert sum(points for points, _ in shares) / sum(count for _, count in shares) > 0.9


def test_experts_take_the_bias_of_the_dimension():
    # One comparison of two texts in each context. Log-odds of +-1 and a bias of 1/2: p is 1 / (1 + e^-1.5) = .818 where
    # the better text is first and 1 / (1 + e^.5) = .378 where it is second; the score is half of p minus their mean.
    made = benchmark_of([[0.0, 1.0]] * 40)
    (found,) = run(["poe"], Simulated(first=0.5), benchmark=made, budget=1, selection="no-repeat")
    comparisons = found.result.comparisons
    p = np.array([context.probabilities[0] for context in comparisons])
    assert sorted(set(np.round(p, 3))) == [0.378, 0.818]
    for context, chance in zip(comparisons, p, strict=True):
        first = context.outputs[context.pairs[0, 0]]
        score = found.result.method.scores[first.id, "worth"]
        assert score == pytest.approx((chance - p.mean()) / 2, abs=1e-6)
    assert order_agreement(made, found.result.method.scores) == 1


def test_written_answers_judge_where_log_probabilities_cannot_be_read():
    (found,) = run(["win-ratio"], Simulated(), answers=3)
    assert order_agreement(benchmark_of(QUALITIES), found.result.method.scores) == 1
    assert found.calls == 3 * 120
    assert found.result.method.signature.count("answers:3") == 1


def test_a_run_goes_on_from_its_work_folder(tmp_path):
    first, again = Simulated(), Simulated()
    one = run(["win-ratio", "zepo"], first, work=tmp_path)
    two = run(["win-ratio", "zepo"], again, work=tmp_path)
    assert (first.asked > 0, again.asked) == (True, 0)
    assert [found.result.method for found in one] == [found.result.method for found in two]


def test_options_of_the_beam_are_checked():
    with pytest.raises(
        UsageError,
        match=r"pairs-beam\.beam=wide, pairs-beam\.gap=0\.1: beam must be a whole number",
    ):
        run(["pairs-beam"], Simulated(), options={"pairs-beam.beam": "wide"})
    with pytest.raises(
        UsageError, match=r"gap 0\.7: the beam must be 1 or more and the gap between 0 and 0.5"
    ):
        run(["pairs-beam"], Simulated(), options={"pairs-beam.gap": "0.7"})
    with pytest.raises(
        UnknownNameError, match="unknown option of method 'pairs-beam' 'beams'; did you mean 'beam'"
    ):
        run(["pairs-beam"], Simulated(), options={"pairs-beam.beams": "3"})


def test_zepo_chooses_the_fairest_instruction():
    made = benchmark_of(np.random.default_rng(3).standard_normal((30, 6)))

    def bias_of(text):
        return (
            0.0 if "whichever of them comes first" in text else 3.0
        )  # the second of the shipped rewordings

    found, plain = run(["zepo", "win-ratio"], Simulated(noise=0.5, bias_of=bias_of), benchmark=made)
    assert found.result.notes[0].startswith("worth: instruction 2 of 0-4, |P(first) - 1/2| 0.")
    assert order_agreement(made, found.result.method.scores) > order_agreement(
        made, plain.result.method.scores
    )


def test_zepo_reads_instructions_of_the_user(tmp_path):
    path = tmp_path / "instructions.txt"
    path.write_text(
        "Which one, on {{dimension}}: Story A or Story B?\n\nFairly now, {{dimension}}: Story A, Story B?\n"
    )
    judge = Simulated(bias_of=lambda text: 0.0 if "Fairly" in text else 2.0)
    (found,) = run(["zepo"], judge, options={"zepo.instructions": str(path)})
    assert found.result.notes[0].startswith("worth: instruction 2 of 0-2")


def test_zepo_refuses_instructions_that_are_none(tmp_path):
    path = tmp_path / "instructions.txt"
    path.write_text("Which one?")
    options = {"zepo.instructions": str(path)}
    with pytest.raises(
        PromptError,
        match=r"instructions\.txt: instruction 1 cannot take the place of the template's: .*dimension",
    ):
        run(["zepo"], Simulated(), options=options)
    path.write_text("\n\n")
    with pytest.raises(
        DataError, match="no instructions in this file; write one in each paragraph"
    ):
        run(["zepo"], Simulated(), options=options)
    path.write_bytes(b"\xff")
    with pytest.raises(DataError, match="not UTF-8; save the instructions as UTF-8"):
        run(["zepo"], Simulated(), options=options)


def test_zepo_options_are_numbers():
    with pytest.raises(UsageError, match=r"zepo\.pairs=some, .*: all must be whole numbers"):
        run(["zepo"], Simulated(), options={"zepo.pairs": "some"})
    with pytest.raises(
        UsageError,
        match=r"zepo\.pairs=0, zepo\.rewrites=0, zepo\.rounds=5: at least 1 pair, no less than 0 rewrites, and",
    ):
        run(["zepo"], Simulated(), options={"zepo.pairs": "0"})


def test_zepo_says_when_nothing_could_be_read():
    (found,) = run(["zepo"], Simulated(unparsed=lambda _first, _second: True))
    assert (
        "worth: no pair was read in both orders with any instruction; the template's own is used"
        in found.result.notes
    )
    assert found.result.unparsed == found.result.judgments


class Writer(Double):
    fingerprint = "writer/1"

    def __init__(self, *texts):
        self.completions = [
            text if isinstance(text, Completion) else Completion(text=text) for text in texts
        ]

    def write(self, _prompts, sampling):
        return [self.completions[sampling.seed % len(self.completions)]]


def test_rewrites_that_lose_a_slot_or_a_name_are_counted_and_not_used():
    good = "On {{dimension}}, would you take Story A or Story B?"
    cut = Completion(text="On {{dim", finish="length")
    writer = Writer(good, "Which one?", good, "Take Story A for {{dimension}}?", cut)
    template = load_template("story", "pairwise")
    made, failed = rewritten(writer, template, 5, MethodSettings())
    assert [text_of(one).rpartition("\n\n")[2] for one in made] == [good]
    assert len(failed) == 3
    assert failed[-1] == "the text was cut"
    options = {"zepo.rewrites": "5", "zepo.rounds": "2"}
    (found,) = run(["zepo"], Simulated(first=2.0), writer=lambda: writer, options=options)
    assert found.result.notes[0].startswith(
        "worth: 6 of 10 rewritten instructions cannot be used, e.g. "
    )


@pytest.mark.parametrize("task", ["story", "summarization", "dialogue", "data-to-text", "open"])
def test_shipped_instructions_fit_every_task(task):
    template = load_template(task, "pairwise")
    assert with_text(template, text_of(template)).literals == template.literals
    judge = connect("builtin")
    made = benchmark_of(QUALITIES[:1], task)
    (found,) = run(["zepo"], judge, benchmark=made)
    assert f"0-{len(INSTRUCTIONS)}" in found.result.notes[0]


def test_a_template_without_an_instruction_of_its_own_cannot_be_reworded(tmp_path):
    folder = tmp_path / "story"
    folder.mkdir()
    (folder / "pairwise.md").write_text(
        '+++\nslots = ["context", "dimension", "description", "first", "second"]\n\n[labels]\nwin = "One"\n'
        'loss = "Two"\n+++\n{{context}} {{dimension}} {{description}} One {{first}} Two {{second}}'
    )
    with pytest.raises(
        PromptError,
        match="zepo rewords the last paragraph of the template, and here it holds a text",
    ):
        run(["zepo"], Simulated(), prompts=tmp_path)


def test_cards_by_hand():
    # two outputs, the longer is worse; the judge says first with log-odds 3 whatever it is shown: P(first) = 1
    made = benchmark_of([[10.0, 9.0]])
    judge = Simulated(sharpness=0.0, first=3.0)
    runs = run(["win-ratio", "pairs-greedy"], judge, benchmark=made)
    cards = {(card.method, card.dimension): card for card in report_cards(runs, made, [DIMENSION])}
    card = cards["win-ratio", "all"]
    assert (card.judgments, card.unparsed, card.reused, card.unscored, card.calls) == (
        2,
        0,
        0,
        0,
        2,
    )
    assert (card.first.value, card.inconsistency.value, card.intransitive, card.conflict) == (
        1.0,
        1.0,
        None,
        None,
    )
    assert (card.first.low, card.first.high, card.first.of) == (
        None,
        None,
        2,
    )  # one context has no interval
    assert card.longer is None  # the win ratio ties both outputs
    assert card.characters == sum(run.characters for run in runs[:1])
    sort = cards["pairs-greedy", "worth"]
    assert (sort.judgments, sort.calls, sort.first.value) == (1, None, 1.0)
    assert card.accuracy.value == 0.5  # each text is chosen once
    # the sort ranks one above the other; of the two comparisons of win-ratio one says so and one the contrary
    assert sort.conflict.value == 0.5
    assert sort.longer.value in {0.0, 1.0}


def test_cards_are_told_in_every_format(capsys):
    command = ["evaluate", "demo/dialogue", "--methods", "win-ratio,ladder", "--resamples", "5"]
    assert run_command([*command, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    cards = [line for line in lines if line.get("kind") == "card"]
    assert [(card["method"], card["dimension"]) for card in cards][:2] == [
        ("win-ratio", "all"), ("win-ratio", "engagingness"),
    ]  # fmt: skip
    # Wilson with continuity correction, 0 of 14 contexts: (z^2 + 1 + z sqrt(z^2 + 2 - 1/14)) / (2 (14 + z^2)), z = 1.96
    share = cards[0]["inconsistency"]
    assert share == {"value": 0.0, "low": 0.0, "high": pytest.approx(0.26762, abs=1e-5), "of": 210}
    for form, words in (
        ("text", "intransitive"),
        ("markdown", "| win-ratio | 420 |"),
        ("latex", r"win-ratio & 420 &"),
    ):
        assert run_command([*command, "--format", form]) == 0
        assert words in capsys.readouterr().out
    assert card_tables([]) == []


def test_p_values_are_corrected_for_all_methods_of_a_table():
    made = benchmark_of(np.random.default_rng(4).standard_normal((12, 6)))
    runs = run(["win-ratio", "pairs-greedy"], Simulated(noise=1.0), benchmark=made)
    protocol = Protocol(
        levels=["within_context"], statistics=["spearman"], resamples=200, reference="win-ratio"
    )
    rows = agreement(made, [DIMENSION], [one.result.method for one in runs], protocol)
    assert [(row.method, row.dimension) for row in rows if row.p_adjusted is not None] == [
        ("pairs-greedy", "worth")
    ]
    # Without another method, the baselines are what is compared.
    protocol = replace(protocol, baselines="all")
    rows = agreement(made, [DIMENSION], [runs[0].result.method], protocol)
    tested = [row for row in rows if row.p_adjusted is not None]
    assert len(tested) > 1
    assert BEST in {row.method for row in tested}
    assert {row.dimension for row in tested} == {
        "worth"
    }  # the mean of one dimension repeats its test
    least = min(tested, key=lambda row: row.p_value)
    assert least.p_adjusted == pytest.approx(min(1, len(tested) * least.p_value))


def test_unknown_methods_and_options_of_the_command(capsys):
    assert run_command(["evaluate", "demo/dialogue", "--methods", "win-ration"]) == 2
    assert "unknown method 'win-ration'; did you mean 'win-ratio'?" in capsys.readouterr().err
    assert (
        run_command(["evaluate", "demo/dialogue", "--methods", "win-ratio", "--comparisons", "31"])
        == 2
    )
    assert "a budget of 31 comparisons: 6 items have 30 pairs" in capsys.readouterr().err


def test_a_dry_run_counts_and_its_answers_stay_nowhere(tmp_path, capsys):
    command = [
        "evaluate",
        "demo/dialogue",
        "--methods",
        "win-ratio,pairs-greedy",
        "--work",
        str(tmp_path / "work"),
    ]
    assert run_command([*command, "--dry-run"]) == 0
    printed = capsys.readouterr()
    # fourteen contexts with six outputs and one dimension: 30 pairs each, which the sort shares
    assert "dry run, builtin: 420 calls" in printed.out
    assert run_command(["evaluate", "demo/dialogue", "--methods", "pairs-greedy", "--dry-run"]) == 0
    alone = capsys.readouterr().out
    assert "dry run, builtin: at most 154 calls" in alone  # 14 contexts, 11 comparisons each
    assert "still to be written" not in alone
    # a sort of six texts needs 7 to 11 comparisons: 2 (1 + 1) to 2 (1 + 2) for the halves, 3 to 5 for their merge
    assert (
        "pairs-greedy: needs 98 to 154 comparisons, as its answers make it; counted at most"
        in printed.err
    )
    assert "unparsed" not in printed.err
    assert not list(tmp_path.glob("work/pairwise-*"))
    assert run_command([*command, "--resamples", "5"]) == 0
    assert "unparsed" not in capsys.readouterr().err.replace("0 unparsed", "")


def test_the_card_of_a_debiased_method_shows_its_debiased_choices():
    # 2307.07889, tables 7 and 10: with and without debiasing; tau is the median of all probabilities (equation 10)
    made = benchmark_of(np.random.default_rng(2).standard_normal((30, 6)))
    names = ["win-ratio", "win-ratio-debiased", "mean-probability-debiased"]
    runs = run(names, Simulated(first=3.0, noise=0.3), benchmark=made)
    cards = {
        card.method: card
        for card in report_cards(runs, made, [DIMENSION])
        if card.dimension == "worth"
    }
    plain, debiased = cards["win-ratio"], cards["win-ratio-debiased"]
    comparisons = runs[0].result.comparisons
    tau = np.median(np.concatenate([context.probabilities for context in comparisons]))
    scores = runs[1].result.method.scores
    first = right = discordant = inconsistent = count = 0
    for context in comparisons:
        human = [quality_of(output.text) for output in context.outputs]
        values = [scores[output.id, "worth"] for output in context.outputs]
        choices = dict(
            zip(map(tuple, context.pairs.tolist()), context.probabilities > tau, strict=True)
        )
        for (one, other), choice in choices.items():
            first += choice
            right += choice == (human[one] > human[other])
            discordant += np.sign(values[one] - values[other]) != (1 if choice else -1)
            inconsistent += choice == choices[other, one]  # both orders choose the same position
            count += 1
    assert debiased.first.value == 0.5 == first / count
    assert (debiased.accuracy.value, debiased.conflict.value) == pytest.approx(
        (right / count, discordant / count)
    )
    assert debiased.inconsistency.value == pytest.approx(inconsistent / count)
    assert debiased.accuracy.value > plain.accuracy.value + 0.1
    assert debiased.inconsistency.value < plain.inconsistency.value - 0.1
    # the weight alpha makes the same choices as the threshold
    assert cards["mean-probability-debiased"].accuracy == debiased.accuracy
    # the answers themselves stay what the judge gave, for budget curves
    assert np.array_equal(runs[1].result.comparisons[0].probabilities, comparisons[0].probabilities)


def test_the_order_of_methods_does_not_change_discordance_of_a_debiased_one():
    made = benchmark_of(np.random.default_rng(2).standard_normal((30, 6)))
    judge = Simulated(first=3.0, noise=0.3)
    before, after = (
        {
            card.method: card.conflict
            for card in report_cards(run(names, judge, benchmark=made), made, [DIMENSION])
        }
        for names in (
            ["bradley-terry", "win-ratio", "win-ratio-debiased"],
            ["mean-probability-debiased", "win-ratio", "win-ratio-debiased"],
        )
    )
    assert before["win-ratio-debiased"] == after["win-ratio-debiased"]
    assert before["win-ratio"] == after["win-ratio"]
    assert before["win-ratio"] != before["win-ratio-debiased"]


DEBIASED = ("win-ratio-debiased", "mean-probability-debiased")


@pytest.mark.parametrize("name", DEBIASED)
def test_single_answers_that_no_threshold_can_debias_are_left_as_they_are(name):
    # 2307.07889, equation 10 needs probabilities: the median of 0 and 1 makes ties of all wins of one position
    made = benchmark_of(np.random.default_rng(2).standard_normal((30, 6)))
    judge = Simulated(first=1.0, noise=0.3)
    plain, debiased = run(
        [name.removesuffix("-debiased"), name],
        judge,
        benchmark=made,
        answers=1,
        budget=14,
    )
    assert debiased.result.method.scores == plain.result.method.scores
    cards = report_cards([plain, debiased], made, [DIMENSION])
    first = cards[0].first.value
    assert first > 0.6
    assert cards[2].first.value == first
    assert plain.result.notes == ()
    (note,) = debiased.result.notes
    assert note == (
        f"worth: no threshold that leaves ties alone brings P(first) near 1/2 (it stays at {first:.3f}), so p is used "
        "as it is; read label probabilities instead (--answers 0), or sample more answers"
    )


@pytest.mark.parametrize("name", DEBIASED)
def test_a_judge_that_always_chooses_the_first_gives_scores_and_a_note(name):
    (debiased,) = run([name], Simulated(first=99.0), answers=1)
    assert set(debiased.result.method.scores.values()) == {0.5}
    (note,) = debiased.result.notes
    words = "worth: no threshold that leaves ties alone brings P(first) near 1/2 (it stays at 1.000), so p is used as it is"
    assert (
        note == f"{words}; read label probabilities instead (--answers 0), or sample more answers"
    )
    (read,) = run([name], Simulated(first=99.0))  # probabilities of 1, not only answers
    assert set(read.result.method.scores.values()) == {0.5}
    assert read.result.notes == (words,)


class Drawn(Simulated):
    """Draws an answer by its probability, with the sampling's seed."""

    def write(self, prompts, sampling):
        random = np.random.default_rng(sampling.seed)
        chances = [1 / (1 + np.exp(-self._gap(prompt))) for prompt in prompts]
        return [
            Completion(text=prompt.labels[int(random.random() > chance)])
            for prompt, chance in zip(prompts, chances, strict=True)
        ]


def test_a_threshold_that_leaves_a_bias_is_used_and_reported():
    made = benchmark_of(np.random.default_rng(2).standard_normal((30, 6)))
    plain, debiased = run(
        ["win-ratio", "win-ratio-debiased"],
        Drawn(first=2.0),
        benchmark=made,
        answers=3,
    )
    before, _, after, _ = report_cards([plain, debiased], made, [DIMENSION])
    assert before.first.value - 0.5 > after.first.value - 0.5 > 0.05
    (note,) = debiased.result.notes
    assert note == (
        f"worth: the best threshold, 0.833, leaves P(first) at {after.first.value:.3f}; "
        "read label probabilities instead (--answers 0), or sample more answers"
    )
    assert order_agreement(made, debiased.result.method.scores) > order_agreement(
        made, plain.result.method.scores
    )
