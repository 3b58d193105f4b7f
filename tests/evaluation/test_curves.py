"""Budget curves and figures."""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from json_lines import read_lines
from matplotlib.figure import Figure
from simulated import DIMENSION, Simulated, benchmark_of

from refladder.errors import UsageError
from refladder.evaluation.cards import report_cards
from refladder.evaluation.charts import Chart, Series, _round_numbers, file_stems
from refladder.evaluation.curves import budget_curve
from refladder.evaluation.evaluate import Protocol, agreement
from refladder.evaluation.figures import _cost, draw_figures
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import run_methods, scored_methods
from refladder.statistics.agreement import MEAN, human_means

MADE = benchmark_of(np.random.default_rng(0).standard_normal((25, 8)))


def compared(judge, benchmark=MADE, **settings):
    (found,) = run_methods(
        ["win-ratio"], benchmark, benchmark.dimensions, lambda: judge, MethodSettings(**settings)
    )
    return found.result.comparisons


def curve(judge, budgets, draws=10):
    points = budget_curve(
        compared(judge), human_means(MADE.ratings), "worth", budgets=budgets, draws=draws
    )
    return {(point.selection, point.debiased, point.budget): point for point in points}


def test_the_whole_budget_of_a_perfect_judge_is_one_without_a_band():
    found = curve(Simulated(sharpness=3.0), [56])
    for selection in ("random", "symmetric"):
        point = found[selection, False, 56]
        assert (point.value, point.low, point.high, point.unscored) == (1, 1, 1, 0)
    assert ("no-repeat", False, 56) not in found  # it has 28 pairs at most


def test_agreement_rises_with_the_budget():
    found = curve(Simulated(noise=1.0), [6, 14, 28, 56])
    values = [found["random", False, budget].value for budget in (6, 14, 28, 56)]
    assert values == sorted(values)
    assert (
        found["random", False, 6].low
        < found["random", False, 6].value
        < found["random", False, 6].high
    )


def test_symmetric_and_debiased_are_ahead_when_the_judge_is_biased():
    # 2307.07889, figure 4 and section 5.3
    found = curve(Simulated(noise=0.3, first=2.0), [12, 28])
    assert found["symmetric", False, 28].value > found["random", False, 28].value
    for budget in (12, 28):
        gain = found["random", True, budget].value - found["random", False, budget].value
        assert gain > 0.02


def test_debiased_curves_of_single_answers_are_the_plain_ones_and_say_so():
    made = benchmark_of(np.random.default_rng(0).standard_normal((6, 6)))
    settings = MethodSettings(answers=1)
    runs = run_methods(["win-ratio"], made, made.dimensions, lambda: Simulated(first=1.0), settings)
    human = human_means(made.ratings)
    compared = runs[0].result.comparisons
    points = budget_curve(compared, human, "worth", budgets=[14, 28], draws=5)
    plain, debiased = (
        [(point.value, point.first) for point in points if point.debiased == wanted]
        for wanted in (False, True)
    )
    assert plain == debiased
    assert all(point.first > 0.6 for point in points)
    _, (note,) = figures_of(runs, made)
    assert re.fullmatch(
        r"budget curve of worth: no threshold that leaves ties alone brings P\(first\) near 1/2 in (\d+) of \1 "
        r"debiased points \(it stays at 0\.\d{3} to 0\.\d{3}\), so position bias remains in them",
        note,
    )
    fair = curve(Simulated(first=1.0), [28])
    assert fair["random", True, 28].first == pytest.approx(0.5, abs=0.001)
    assert fair["random", False, 28].first > 0.6


def test_outputs_that_nothing_was_asked_about_are_counted():
    # 2 comparisons of both orders of one pair leave 6 of 8 outputs out
    assert curve(Simulated(), [2])["symmetric", False, 2].unscored == pytest.approx(6 / 8)


def test_ten_budgets_are_drawn_by_default():
    points = budget_curve(compared(Simulated()), human_means(MADE.ratings), "worth", draws=2)
    assert sorted({point.budget for point in points}) == [6, 11, 17, 22, 28, 34, 39, 45, 50, 56]


def test_a_judge_that_could_not_be_read_has_no_curve():
    (point, *_rest) = curve(
        Simulated(unparsed=lambda _first, _second: True), [10], draws=2
    ).values()
    assert (point.value, point.low, point.high, point.unscored) == (None, None, None, 1)


def test_a_curve_needs_all_pairs_and_contexts_of_one_size():
    human = human_means(MADE.ratings)
    pairs = "a budget curve of 'worth' needs every pair judged in both orders; run win"
    for comparisons in (compared(Simulated(), budget=10), []):
        with pytest.raises(UsageError, match=pairs):
            budget_curve(comparisons, human, "worth")
    uneven = replace(MADE, outputs=MADE.outputs[:-1])
    size = r"same number of outputs in every context, found \[7, 8\]; leave out the contexts"
    with pytest.raises(UsageError, match=size):
        budget_curve(compared(Simulated(), uneven), human, "worth")


def test_points_at_the_same_place_have_one_tag():
    points = [("a", 10.0, 0.5), ("b", 1000.0, 0.1), ("c", 10.1, 0.501), ("d", 10.0, 0.6)]
    # by hand: c is 0.2 % of the logarithmic axis and 0.2 % of the other one away from a, d 18 % of the other one
    chart = Chart(title="T", across="across", up="up", points=points)
    assert chart.tags() == [(10.0, 0.5, "1, 3"), (1000.0, 0.1, "2"), (10.0, 0.6, "4")]
    assert ">1, 3</text>" in chart.svg()
    assert Chart(title="T", across="across", up="up").tags() == []


def test_a_chart_is_the_same_in_every_run_and_its_text_is_text():
    one = Series(
        name="a < b & $c", points=((1, 0.2), (5, 0.4)), band=((0.1, 0.3), (0.35, 0.5)), dashed=True
    )
    drawn = [Chart(title="A & B", across="across", up="up", series=[one]).svg() for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert not re.search(r"\d{4}-\d\d-\d\d", drawn[0])  # no date
    texts = {node.text for node in ET.fromstring(drawn[0]).iter("{http://www.w3.org/2000/svg}text")}  # noqa: S314  made here
    assert {"A & B", "across", "up", "a < b & $c"} <= texts


def test_a_chart_can_be_read_on_a_telephone():
    points = [(f"m{number}", 10.0 + number, 0.5) for number in range(30)]
    drawn = Chart(title="T", across="across", up="up", points=points).svg()
    width, height = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn).groups())
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", drawn)]
    assert len(sizes) >= 30
    assert min(sizes) * 390 / width > 10  # pixels
    places = [tuple(map(float, pair)) for pair in re.findall(r'x="([\d.]+)" y="([\d.]+)"', drawn)]
    assert len(places) >= 30
    assert all(0 <= x <= width and 0 <= y <= height for x, y in places)


@pytest.mark.parametrize(
    ("ends", "ticks"),
    [
        ((90, 20_000), [100, 1000, 10_000]),
        ((90, 600), [100, 200, 500]),
        ((0.04, 0.3), [0.05, 0.1, 0.2]),
        ((41, 44), [41, 44]),  # none within: the ends
    ],
)
def test_numbers_along_a_logarithmic_axis_are_round(ends, ticks):
    assert _round_numbers(*ends) == pytest.approx(ticks)


def test_nothing_to_draw_is_refused():
    with pytest.raises(UsageError, match=r"^T: nothing to draw$"):
        Chart(title="T", across="across", up="up").svg()


def figures_of(runs, made):
    """The files of figures, and the sentences on what is missing."""
    protocol = Protocol(levels=["within_context"], statistics=["spearman"], resamples=2)
    rows = agreement(made, made.dimensions, scored_methods(runs, []), protocol)
    cards = report_cards(runs, made, made.dimensions)
    return draw_figures(rows, cards, runs, made, dimensions=made.dimensions)


def drawn(made):
    """Figures of all pairs."""
    return figures_of(
        run_methods(["win-ratio"], made, made.dimensions, Simulated, MethodSettings()), made
    )


def test_without_matplotlib_the_data_are_drawn_and_a_line_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # as if it were not installed
    made = benchmark_of(np.random.default_rng(0).standard_normal((3, 4)))
    files, missing = drawn(made)
    assert list(files) == ["curves.jsonl"]
    assert "charts need matplotlib; pip install matplotlib" in missing


def test_no_budget_curves_without_all_pairs(command, tmp_path):
    line = f"evaluate demo/dialogue --resamples 5 --figures {tmp_path} --methods pairs-greedy"
    done = command(line)
    words = "no budget curves: they need every pair judged, as win-ratio does without --comparisons"
    assert words in done.err


def test_figures_of_dimensions_whose_names_differ_in_signs_or_letters_alone_have_a_file_each(
    tmp_path,
):
    likes = ("warmth", "Warmth", "in depth", "in/depth", "流暢さ", "正確さ", "é", "e\u0301")
    names = [*likes, "w" * 300, "w" * 300 + "!", "half \ud83d"]
    stems = file_stems(names)
    assert list(stems) == names
    # two file systems of three fold case and composed letters together
    folded = {unicodedata.normalize("NFC", stem).casefold() for stem in stems.values()}
    assert len(folded) == len(names)
    for stem in stems.values():
        (tmp_path / f"curve-{stem}.svg").write_text("x")
    assert len(list(tmp_path.iterdir())) == len(names)
    # a name that is safe is the stem, of one that is not the words can be read
    few = {"empathy": "empathy", "in depth": stems["in depth"]}
    assert file_stems([*few]) == few
    assert re.fullmatch(r"in_depth-[0-9a-f]{8}", stems["in depth"])
    assert stems["流暢さ"] == "流暢さ"


def test_each_chart_has_the_points_of_the_data_as_svg_and_as_png(tmp_path, command, monkeypatch):
    saved, save = [], Figure.savefig
    keep = lambda self, *given, **how: (saved.append(self), save(self, *given, **how))  # noqa: E731
    monkeypatch.setattr(Figure, "savefig", keep)
    rows = command(
        f"evaluate demo/dialogue --methods win-ratio,direct-5 --resamples 5 --figures {tmp_path} --json"
    ).rows
    names = ["cost", "curve-engagingness"]
    for kind in ("svg", "png"):
        assert sorted(path.stem for path in tmp_path.glob(f"*.{kind}")) == names
    for name in names:
        assert ET.parse(tmp_path / f"{name}.svg").getroot().tag.endswith("svg")  # noqa: S314  made here
        # The width and the height follow the signature and the name of the first part.
        head = (tmp_path / f"{name}.png").read_bytes()[:24]
        assert head[:8] == b"\x89PNG\r\n\x1a\n"
        assert (int.from_bytes(head[16:20]), int.from_bytes(head[20:24])) > (1200, 900)
    cost, curve = (each.axes[0] for each in saved[:2])
    cards = [row for row in rows if row.get("kind") == "card" and row["dimension"] == "all"]
    means = {
        row["method"]: row["value"]
        for row in rows
        if row["dimension"] == "mean"
        and "kind" not in row
        and (row["level"], row["statistic"]) == ("within_context", "spearman")
    }
    expected = [[card["characters"] / 84, means[card["method"]]] for card in cards]  # of 84 texts
    found = [part.get_offsets().tolist()[0] for part in cost.collections]
    assert found == [pytest.approx(point) for point in expected]
    assert [part.get_label() for part in cost.collections] == ["1 win-ratio", "2 direct-5"]
    assert (cost.get_xlabel(), cost.get_xscale()) == ("characters of prompts a text", "log")
    points = read_lines(tmp_path / "curves.jsonl")
    selections = {point["selection"] for point in points if point["kind"] == "curve"}
    assert selections == {"random", "no-repeat", "symmetric"}
    first = [
        [point["budget"], point["value"]]
        for point in points
        if point.get("selection") == "random" and not point["debiased"]
    ]
    drawn_points = curve.lines[0].get_xydata().tolist()
    assert drawn_points == [point for point in first if point[1] is not None]
    sizes = [(p["size"], p["final"]) for p in points if p["kind"] == "self-consistency"]
    assert sizes == [(size, 1) for size in (2, 3, 4, 6)]  # a judge without noise


def test_the_cost_figure_has_tokens_a_text_where_all_are_known():
    (run,) = run_methods(["win-ratio"], MADE, MADE.dimensions, Simulated, MethodSettings())
    mean = next(
        row
        for row in agreement(MADE, MADE.dimensions, [run.result.method], Protocol())
        if row.dimension == MEAN
    )
    rows = [replace(mean, method="a", value=0.5), replace(mean, method="b", value=0.25)]
    whole, texts = report_cards([run], MADE, MADE.dimensions)[0], len(MADE.outputs)
    first = replace(whole, method="a", prompt_tokens=20 * texts, characters=100 * texts, reused=0)

    def chart(**changes):
        return _cost(rows, [first, replace(first, method="b", **changes)], texts)

    tokens = chart(prompt_tokens=40 * texts)
    assert tokens.across == "prompt tokens sent a text"
    assert list(tokens.points) == [("a", 20, 0.5), ("b", 40, 0.25)]
    for changes in ({"prompt_tokens": None}, {"reused": 1}):
        characters = chart(**changes)
        assert characters.across == "characters of prompts a text"
        assert list(characters.points) == [("a", 100, 0.5), ("b", 100, 0.25)]


def test_every_dimension_has_a_curve():
    first, second = replace(DIMENSION, name="fit?"), replace(DIMENSION, name="fit!")
    made = benchmark_of(np.random.default_rng(0).standard_normal((3, 4)))
    ratings = [replace(one, dimension=name) for one in made.ratings for name in ("fit?", "fit!")]
    made = replace(made, dimensions=(first, second), ratings=tuple(ratings))
    files, _ = drawn(made)
    curves = [files[name] for name in files if re.fullmatch(r"curve-.*\.svg", name)]
    assert [name in text for name, text in zip(["fit?", "fit!"], curves, strict=True)] == [True] * 2
