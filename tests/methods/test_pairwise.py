"""The methods that compare outputs in pairs, end to end with judges of known faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from refusals import refuses
from simulated import DIMENSION, Simulated, benchmark_of, quality_of
from support.offenders import offenders

from refladder.errors import UnknownNameError, UsageError
from refladder.evaluation.cards import report_cards
from refladder.evaluation.evaluate import Protocol, agreement
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import run_methods
from refladder.methods.surface import BEST
from refladder.records import Completion

PAIRWISE = [
    "win-ratio", "win-ratio-debiased", "mean-probability", "mean-probability-debiased",
    "bradley-terry", "poe", "likelihood", "pairs-greedy",
    "pairs-beam", "zepo",
]  # fmt: skip
DEBIASED = ["win-ratio-debiased", "mean-probability-debiased"]
MADE = benchmark_of(np.random.default_rng(0).permuted(np.tile(np.arange(6.0), (4, 1)), axis=1))
MANY = benchmark_of(np.random.default_rng(2).standard_normal((30, 6)))


def run(names, judge, *, benchmark=MADE, **settings):
    settings = MethodSettings(**settings)
    return run_methods(names, benchmark, benchmark.dimensions, lambda: judge, settings)


def order_agreement(benchmark, found):
    """Share of the pairs of a context that scores put in the true order, ties half."""
    scores = found.result.method.scores
    points = []
    for context in benchmark.contexts:
        outputs = [output for output in benchmark.outputs if output.context_id == context.id]
        values = np.array([scores[output.id, "worth"] for output in outputs], dtype=float)
        truth = np.array([quality_of(output.text) for output in outputs])
        first, second = np.triu_indices(len(outputs), 1)
        product = (values[first] - values[second]) * (truth[first] - truth[second])
        points += np.where(product == 0, 0.5, product > 0).tolist()
    return float(np.nanmean(points))


def test_a_perfect_judge_gives_the_true_order():
    def check(name):
        (found,) = run([name], Simulated(sharpness=2.0))
        assert order_agreement(MADE, found) == 1
        assert found.result.unparsed == 0

    assert offenders(check, PAIRWISE) == []


def test_methods_share_what_was_asked():
    judge = Simulated()
    runs = run([name for name in PAIRWISE if name != "zepo"], judge)
    assert judge.asked == 4 * 6 * 5  # every ordered pair of four contexts with six outputs, once
    assert [found.calls for found in runs] == [120] + [0] * 8
    assert runs[1].result.judgments == runs[1].result.reused == 120
    # each reports what it would need alone
    assert len({found.result.characters for found in runs[:7]}) == 1


def test_methods_that_share_comparisons_have_the_results_that_they_have_alone(tmp_path):
    def fields(result):
        compared = [
            (each.context, each.dimension, each.outputs, each.pairs.tolist())
            for each in result.comparisons
        ]
        probabilities = [each.probabilities.tolist() for each in result.comparisons]
        counts = result.judgments, result.unparsed, result.characters, result.notes
        return result.method, counts, result.measures, result.thresholds, compared, probabilities

    judge = Simulated(noise=1.0, first=0.5)
    for shared in run(PAIRWISE[:7], judge, work=tmp_path):
        (alone,) = run([shared.name], judge)
        assert fields(shared.result) == fields(alone.result)


def test_comparisons_are_not_shared_between_benchmarks_or_choices_of_pairs():
    settings = MethodSettings()
    for made in (MADE, benchmark_of([[1.0, 2.0, 3.0]])):
        items, contexts = len(made.outputs) // len(made.contexts), len(made.contexts)
        for budget, pairs in ((None, items * (items - 1)), (4, 4)):
            settings = replace(settings, budget=budget)
            (found,) = run_methods(["win-ratio"], made, [DIMENSION], Simulated, settings)
            assert found.result.judgments == pairs * contexts


def test_sorting_needs_fewer_comparisons_than_all_pairs():
    greedy, beam = run(["pairs-greedy", "pairs-beam"], Simulated())
    # merge sort of 3 + 3 items takes 3 + 3 + 5 comparisons at most
    assert greedy.result.judgments <= beam.result.judgments
    assert greedy.result.judgments <= 4 * 11
    (twice,) = run(["pairs-greedy"], Simulated(), orders=2)
    assert twice.result.judgments == 2 * greedy.result.judgments


def test_both_orders_take_a_bias_out_of_sorting():
    made = benchmark_of(np.random.default_rng(1).standard_normal((20, 8)))
    once, twice = (
        run(["pairs-greedy"], Simulated(first=2.0), benchmark=made, orders=orders)[0]
        for orders in (1, 2)
    )
    assert order_agreement(made, once) < 0.9
    assert order_agreement(made, twice) == 1


def test_a_budget_asks_that_many_of_every_context():
    (found,) = run(["win-ratio"], Simulated(), budget=12, selection="no-repeat")
    assert found.result.judgments == 4 * 12
    assert found.result.method.signature.endswith("|pairs:no-repeat,12,seed0")


def test_a_seed_chooses_the_pairs_and_they_are_the_same_for_every_method():
    judge = Simulated(noise=2.0)
    found, second = run(["win-ratio", "bradley-terry"], judge, budget=14, seed=0)
    assert second.calls == 0
    (other,) = run(["win-ratio"], judge, budget=14, seed=1)
    assert other.result.method.scores != found.result.method.scores


def test_a_context_whose_comparisons_fall_apart_has_no_scores_and_is_reported():
    def apart(first, second):
        return (quality_of(first) < 2) != (quality_of(second) < 2)

    words = "context 'c0', worth: the comparisons form 2 unconnected components"
    for found in run(["bradley-terry", "poe", "likelihood"], Simulated(unparsed=apart)):
        assert set(found.result.method.scores.values()) == {None}
        assert any(words in note for note in found.result.notes)


def test_win_ratio_needs_no_connection_and_unparsed_comparisons_are_counted():
    def unparsed(first, second):
        return 0 in (quality_of(first), quality_of(second))

    (found,) = run(["win-ratio"], Simulated(unparsed=unparsed))
    # the text of quality 0 has no readable comparison: 10 ordered pairs of each of four contexts
    assert found.result.unparsed == 40
    assert found.result.notes == ("40 x unparsed: no answer",)
    assert sum(value is None for value in found.result.method.scores.values()) == 4


def test_a_sort_with_an_unparsed_comparison_scores_none_of_its_context():
    judge = Simulated(unparsed=lambda first, second: "text 0" in first + second)
    for found in run(["pairs-greedy", "pairs-beam"], judge):
        assert set(found.result.method.scores.values()) == {None}
        words = "unparsed, so its context cannot be sorted: no answer"
        assert found.result.notes[0].endswith(words)


def test_a_context_with_one_output_is_unscored():
    made = benchmark_of([[1.0, 2.0], [3.0, 4.0]])
    made = replace(made, outputs=made.outputs[:3])
    (found,) = run(["win-ratio"], Simulated(), benchmark=made)
    assert found.result.method.scores["c1/s0", "worth"] is None


def test_all_ties_are_constant_and_have_no_correlation():
    methods = [found.result.method for found in run(PAIRWISE, Simulated(sharpness=0.0))]
    for method in methods:
        assert len(set(method.scores.values())) == 1
    protocol = Protocol(levels=["within_context"], statistics=["spearman"], resamples=5)
    rows = agreement(MADE, [DIMENSION], methods, protocol)
    assert {row.value for row in rows if row.method in PAIRWISE} == {None}


def test_experts_take_the_bias_of_the_dimension():
    # One comparison of two texts in each context. Log-odds of +-1 and a bias of 1/2: p is 1 / (1 + e^-1.5) = .818 where
    # the better text is first and 1 / (1 + e^.5) = .378 where it is second; the score is half of p minus their mean.
    made = benchmark_of([[0.0, 1.0]] * 40)
    (found,) = run(["poe"], Simulated(first=0.5), benchmark=made, budget=1, selection="no-repeat")
    p = np.array([compared.probabilities[0] for compared in found.result.comparisons])
    assert sorted(set(np.round(p, 3))) == [0.378, 0.818]
    for compared, chance in zip(found.result.comparisons, p, strict=True):
        first = compared.outputs[compared.pairs[0, 0]]
        score = found.result.method.scores[first.id, "worth"]
        assert score == pytest.approx((chance - p.mean()) / 2, abs=1e-6)
    assert order_agreement(made, found) == 1


def test_written_answers_judge_where_log_probabilities_cannot_be_read():
    (found,) = run(["win-ratio"], Simulated(), answers=3)
    assert order_agreement(MADE, found) == 1
    assert found.calls == 3 * 120
    assert found.result.method.signature.count("answers:3") == 1


def test_a_run_goes_on_from_its_work_folder(tmp_path):
    names = ["win-ratio", "pairs-greedy", "zepo"]
    once, again = (run(names, judge, work=tmp_path) for judge in (Simulated(), Simulated()))
    assert [found.calls > 0 for found in once] == [True, False, True]
    assert [found.calls for found in again] == [0, 0, 0]
    assert [found.result.method for found in once] == [found.result.method for found in again]


def test_what_cannot_be_done_is_refused_before_anything_is_asked():
    judge = Simulated()
    message = "context 'c0': a budget of 31 comparisons: 6 items have 30 pairs"
    refuses(UsageError, message, run, ["win-ratio"], judge, budget=31)

    def refused(error, message, **options):
        given = {f"pairs-beam.{name}": value for name, value in options.items()}
        refuses(error, message, run, ["pairs-beam"], judge, options=given)

    message = r"pairs-beam\.beam=wide, pairs-beam\.gap=0\.1: beam must be a whole number and gap a"
    refused(UsageError, message, beam="wide")
    refused(UsageError, r"beam 10, gap 0\.7: the beam must be 1 or more", gap="0.7")
    message = "unknown option of method 'pairs-beam' 'beams'; did you mean 'beam'"
    refused(UnknownNameError, message, beams="3")
    assert judge.asked == 0


def test_one_system_leaves_nothing_to_compare():
    message = "made has no context with two outputs, so there is no pair to compare; use a"
    with pytest.raises(UsageError, match=message):
        run(["win-ratio"], Simulated(), benchmark=benchmark_of([[1.0], [2.0]]))


def test_without_another_method_the_baselines_are_tested():
    made = benchmark_of(np.random.default_rng(4).standard_normal((12, 6)))
    (found,) = run(["win-ratio"], Simulated(noise=1.0), benchmark=made)
    protocol = Protocol(
        levels=["within_context"], statistics=["spearman"], resamples=200, reference="win-ratio"
    )
    rows = agreement(made, [DIMENSION], [found.result.method], replace(protocol, baselines="all"))
    tested = [row for row in rows if row.p_adjusted is not None]
    assert len(tested) > 1
    assert BEST in {row.method for row in tested}
    # the mean of one dimension repeats its test
    assert {row.dimension for row in tested} == {"worth"}
    least = min(tested, key=lambda row: row.p_value)
    assert least.p_adjusted == pytest.approx(min(1, len(tested) * least.p_value))


def test_a_dry_run_counts_and_its_answers_stay_nowhere(command, tmp_path):
    both = ["evaluate", "demo/dialogue", "--methods", "win-ratio,pairs-greedy"]
    both += ["--work", tmp_path / "work"]
    done = command(*both, "--dry-run")
    # fourteen contexts with six outputs and one dimension: 30 pairs each, which the sort shares
    assert "dry run, builtin: 420 calls" in done.out
    # a sort of six texts needs 7 to 11 comparisons: 2 (1 + 1) to 2 (1 + 2) for the halves, 3 to 5 for their merge
    words = "pairs-greedy: needs 98 to 154 comparisons, as its answers make it; counted at most"
    assert words in done.err
    assert "unparsed" not in done.err
    assert not list(tmp_path.glob("work/pairwise-*"))
    alone = command("evaluate", "demo/dialogue", "--methods", "pairs-greedy", "--dry-run").out
    assert "dry run, builtin: at most 154 calls" in alone  # 14 contexts, 11 comparisons each
    assert "still to be written" not in alone
    ran = command(*both, "--resamples", "5")
    assert ran.code == 0
    assert "unparsed" not in ran.err.replace("0 unparsed", "")


def cards_of(runs, benchmark=MANY):
    """The cards of the one dimension, by method."""
    cards = report_cards(runs, benchmark, [DIMENSION])
    return {card.method: card for card in cards if card.dimension == "worth"}


def test_the_card_of_a_debiased_method_shows_its_debiased_choices():
    # 2307.07889, tables 7 and 10: with and without debiasing; tau is the median of all probabilities (equation 10)
    runs = run(["win-ratio", *DEBIASED], Simulated(first=3.0, noise=0.3), benchmark=MANY)
    cards = cards_of(runs)
    plain, debiased = cards["win-ratio"], cards["win-ratio-debiased"]
    comparisons = runs[0].result.comparisons
    tau = np.median(np.concatenate([compared.probabilities for compared in comparisons]))
    scores = runs[1].result.method.scores
    first, right, discordant, inconsistent = [], [], [], []
    for compared in comparisons:
        human = [quality_of(output.text) for output in compared.outputs]
        values = [scores[output.id, "worth"] for output in compared.outputs]
        pairs = map(tuple, compared.pairs.tolist())
        choices = dict(zip(pairs, compared.probabilities > tau, strict=True))
        for (one, other), choice in choices.items():
            first.append(choice)
            right.append(choice == (human[one] > human[other]))
            discordant.append(np.sign(values[one] - values[other]) != (1 if choice else -1))
            # both orders choose the same position
            inconsistent.append(choice == choices[other, one])
    assert debiased.first.value == 0.5 == np.mean(first)
    assert debiased.accuracy.value == pytest.approx(np.mean(right))
    assert debiased.conflict.value == pytest.approx(np.mean(discordant))
    assert debiased.inconsistency.value == pytest.approx(np.mean(inconsistent))
    assert debiased.accuracy.value > plain.accuracy.value + 0.1
    assert debiased.inconsistency.value < plain.inconsistency.value - 0.1
    # the weight alpha makes the same choices as the threshold
    assert cards["mean-probability-debiased"].accuracy == debiased.accuracy
    # the answers themselves stay what the judge gave, for budget curves
    kept = runs[1].result.comparisons[0].probabilities
    assert np.array_equal(kept, comparisons[0].probabilities)


def test_the_order_of_methods_does_not_change_discordance_of_a_debiased_one():
    judge = Simulated(first=3.0, noise=0.3)
    before, after = (
        cards_of(run([name, "win-ratio", "win-ratio-debiased"], judge, benchmark=MANY))
        for name in ("bradley-terry", "mean-probability-debiased")
    )
    plain, debiased = before["win-ratio"].conflict, before["win-ratio-debiased"].conflict
    assert (after["win-ratio"].conflict, after["win-ratio-debiased"].conflict) == (plain, debiased)
    assert plain != debiased


STAYS = "worth: no threshold that leaves ties alone brings P(first) near 1/2 (it stays at {:.3f}), so p is used as it is"
MORE = "; read label probabilities instead (--answers 0), or sample more answers"


@pytest.mark.parametrize("name", DEBIASED)
def test_single_answers_that_no_threshold_can_debias_are_left_as_they_are(name):
    # 2307.07889, equation 10 needs probabilities: the median of 0 and 1 makes ties of all wins of one position
    judge = Simulated(first=1.0, noise=0.3)
    names = [name.removesuffix("-debiased"), name]
    plain, debiased = run(names, judge, benchmark=MANY, answers=1, budget=14)
    assert debiased.result.method.scores == plain.result.method.scores
    cards = cards_of([plain, debiased])
    first = cards[names[0]].first.value
    assert first > 0.6
    assert cards[name].first.value == first
    assert plain.result.notes == ()
    assert debiased.result.notes == (STAYS.format(first) + MORE,)


@pytest.mark.parametrize("name", DEBIASED)
def test_a_judge_that_always_chooses_the_first_gives_scores_and_a_note(name):
    # answers, and probabilities of 1
    for answers, advice in ((1, MORE), (0, "")):
        (found,) = run([name], Simulated(first=99.0), answers=answers)
        assert set(found.result.method.scores.values()) == {0.5}
        assert found.result.notes == (STAYS.format(1) + advice,)


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
    names = ["win-ratio", "win-ratio-debiased"]
    plain, debiased = run(names, Drawn(first=2.0), benchmark=MANY, answers=3)
    before, after = (card.first.value for card in cards_of([plain, debiased]).values())
    assert before - 0.5 > after - 0.5 > 0.05
    words = f"worth: the best threshold, 0.833, leaves P(first) at {after:.3f}"
    assert debiased.result.notes == (words + MORE,)
    assert order_agreement(MANY, debiased) > order_agreement(MANY, plain)
