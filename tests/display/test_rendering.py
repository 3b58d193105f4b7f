"""Renderings of rows of agreement."""

import io
import json
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from refladder.display.rendering import (
    PlainTable,
    csv_text,
    json_lines,
    latex,
    markdown,
    number,
    shared_legends,
    with_interval,
)
from refladder.display.terminal import fitted, terminal_tables
from refladder.evaluation.agreement_tables import agreement_tables
from refladder.statistics.agreement import Agreement


def row(method="ladder", dimension="wit", **changes):
    fields = {
        "method": method,
        "benchmark": "small",
        "dimension": dimension,
        "level": "within_context",
        "statistic": "spearman",
        "value": 0.4321,
        "low": 0.3777,
        "high": 0.4812,
        "contexts": 98,
        "skipped": 2,
        "constant_predicted": 0,
        "unscored": 3,
        "signature": "rule:sum",
    }
    return Agreement(**{**fields, **changes})


def shown(rows, width=100):
    screen = io.StringIO()
    console = Console(file=screen, width=width, color_system=None)
    for part in terminal_tables(agreement_tables(rows), width):
        console.print(part)
    return screen.getvalue()


def to_markdown(rows):
    return markdown(agreement_tables(rows))


def to_latex(rows):
    return latex(agreement_tables(rows))


def marked(rows, intervals="full"):
    return latex(agreement_tables(rows, marked=True), intervals)


NOTHING = {"value": None, "low": None, "high": None}
TWO = [
    row(),
    row(dimension="clarity", contexts=0, skipped=100, unscored=1600, **NOTHING),
    row(dimension="mean", contexts=0, skipped=100, unscored=1603, **NOTHING),
    row(
        method="length | words",
        value=-0.0004,
        low=-0.05,
        high=0.1,
        reference="ladder",
        p_value=0.03,
        difference=-0.4444,
        common=91,
    ),
]


def test_json_lines_hold_every_field_and_null_for_nothing():
    lines = [json.loads(line) for line in json_lines(TWO).splitlines()]
    assert [line["value"] for line in lines] == [0.4321, None, None, -0.0004]
    assert list(lines[0]) == [
        "method", "benchmark", "dimension", "level", "statistic", "value", "low", "high", "contexts", "skipped",
        "constant_predicted", "unscored", "signature", "constant", "confidence", "reference", "p_value", "p_adjusted",
        "difference", "common", "p_best",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_lines([row(value=float("nan"))])


def test_markdown():
    assert to_markdown(TWO) == (
        "small, within_context: Spearman with the ratings, mean over contexts\n"
        "\n"
        "| method | wit | clarity | mean | contexts | skipped | unscored |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        "| ladder | 0.432 [0.38, 0.48] | — | — | 0-98 | 2-100 | 1603 |\n"
        "| length \\| words | 0.000 [-0.05, 0.10] | — | — | 98 | 2 | 3 |\n"
        "\n"
        "- [ ]: 95 % interval\n"
        "- —: no value\n"
        "- contexts: contexts that the value is computed from; methods may differ in them, and --reference METHOD "
        "compares methods on common ones\n"
        "- skipped: contexts without a correlation; constant contexts are skipped\n"
        "- unscored: rated outputs without a score\n"
        "\n"
        "small, within_context: Spearman, the method minus ladder\n"
        "\n"
        "| method | wit | common contexts |\n"
        "| --- | ---: | ---: |\n"
        "| length \\| words | -0.444* | 91 |\n"
        "\n"
        "- *: p < 0.05, paired permutation test\n"
        "- common contexts: contexts in which both have a correlation; the difference is computed from them\n"
    )


def test_latex_escapes_what_is_special():
    caption = r"small, within\_context: Spearman with the ratings, mean over contexts"
    method = r"50\%\_a\&b \#1 \{x\} \textasciitilde{}\textasciicircum{}\textbackslash{} \$"
    text = to_latex([row(method="50%_a&b #1 {x} ~^\\ $", dimension="in_depth")])
    assert text.splitlines() == [
        r"\begin{table}",
        r"  \centering",
        r"  \caption{" + caption + "}",
        r"  \label{tab:small-within-context-spearman}",
        r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        r"  \begin{tabular}{lrrrr}",
        r"  \toprule",
        r"  method & in\_depth & contexts & skipped & unscored \\",
        r"  \midrule",
        r"  " + method + r" & 0.432 [0.38, 0.48] & 98 & 2 & 3 \\",
        r"  \bottomrule",
        r"  \end{tabular}}",
        r"  \par\medskip\raggedright\footnotesize",
        r"  \textit{[ ]}: 95 \% interval\par",
        r"  \textit{contexts}: contexts that the value is computed from\par",
        r"  \textit{skipped}: contexts without a correlation; constant contexts are skipped\par",
        r"  \textit{unscored}: rated outputs without a score\par",
        r"\end{table}",
    ]


def test_a_latex_table_of_many_columns_spans_the_page():
    # 3 figures, method and 3 counts are 7 columns.
    narrow = [row(dimension=f"d{number}") for number in range(3)]
    assert r"\begin{table}" in to_latex(narrow)
    assert r"\begin{table*}" in to_latex([*narrow, row(dimension="d3")])


def rows_of(dimensions, **changes):
    names = [*(f"d{number}" for number in range(dimensions)), "mean"]
    return [
        row(dimension=name, benchmark=each, **changes) for each in ("one", "two") for name in names
    ]


def test_latex_of_many_columns_has_the_means_of_benchmarks_and_a_table_for_each():
    def heads(text):
        return [line for line in text.splitlines() if line.startswith("  method")]

    # 2 benchmarks of 5 dimensions and the mean are 12 columns, and the mean over benchmarks is one more
    (means, one, two) = heads(marked(rows_of(5)))
    assert means == r"  method & mean & mean & benchmark mean & contexts & skipped & unscored \\"
    names = "d0 & d1 & d2 & d3 & d4"
    assert one == two == rf"  method & {names} & mean & contexts & skipped & unscored \\"
    assert len(heads(marked(rows_of(4)))) == 1
    assert len(heads(to_latex(rows_of(5)))) == 1, "only tables for paper are parted"


def test_latex_of_many_columns_tells_how_many_tests_were_corrected_together():
    best = rows_of(5, method="best", value=0.9)
    other = rows_of(5, method="other", value=0.3, p_best=0.5)
    # by hand: one method against the best, on 5 dimensions and their mean, of each benchmark
    means, *others = (
        line.rpartition("correction")[2]
        for line in marked([*best, *other]).splitlines()
        if "{underlined}" in line
    )
    assert means == r" for each benchmark over 6 and 6 tests\par"
    assert others == [r" over 6 tests\par"] * 2


def test_latex_marks_the_best_and_what_does_not_differ_from_it():
    values = {
        "best": 0.8,
        "as good": 0.80004,
        "near": 0.7,
        "far": 0.2,
        "untested": 0.1,
    }  # the second is the same in print
    tested = {"near": 0.05, "far": 0.0499}
    rows = [
        row(method=name, value=value, p_best=tested.get(name)) for name, value in values.items()
    ]
    text = marked([*rows, row(method="nothing", **NOTHING)], "none")
    assert [line.split(" & ")[1] for line in text.splitlines() if " & 98 & " in line] == [
        r"\textbf{0.800}", r"\textbf{0.800}", r"\underline{0.700}", "0.200", r"\underline{0.100}", "---",
    ]  # fmt: skip
    assert r"\textit{bold}: the best of the column\par" in text
    assert (
        r"\textit{underlined}: not shown to differ from it: p at least 0.05 or no test; paired permutation test, "
        r"Holm's correction over 2 tests\par"
    ) in text


def test_latex_underlines_nothing_where_nothing_is_tested():
    text = marked([row(method="best", value=-0.1), row(method="other", value=-0.2)])
    assert r"\textbf{-0.100} [0.38, 0.48]" in text
    assert "underline" not in text


def test_intervals_in_latex():
    assert r" & \textbf{0.432} [0.38, 0.48] & " in marked([row()])
    assert r" & \textbf{0.432} {\scriptsize [0.38, 0.48]} & " in marked([row()], "small")
    bare = marked([row()], "none")
    assert r" & \textbf{0.432} & " in bare
    assert "[" not in bare
    assert "interval" not in bare


def test_csv_has_empty_cells_and_quotes():
    records = [
        {"method": 'a, "b"', "value": None, "low": 0.1},
        {"method": "c", "value": 0.5, "low": None},
    ]
    assert csv_text(records) == 'method,value,low\n"a, ""b""",,0.1\nc,0.5,\n'
    assert csv_text([{"a": "=1+1", "b": -1.5}]) == "a,b\n'=1+1,-1.5\n"


def test_hyphens_and_dashes_in_latex():
    other = {"method": "other"}
    assert r"and -{}-reference METHOD compares" in to_latex([row(), row(unscored=0, **other)])
    assert " & --- & " in to_latex([row(), row(**other, **NOTHING)])


def test_one_table_for_each_level_and_statistic():
    rows = [
        row(level=level, statistic=name)
        for level in ("pooled", "between_systems")
        for name in ("pearson", "kendall")
    ]
    captions = [text for text in to_markdown(rows).splitlines() if text.startswith("small")]
    assert captions == [
        "small, pooled: Pearson with the ratings, all outputs together",
        "small, pooled: Kendall tau-b with the ratings, all outputs together",
        "small, between_systems: Pearson with the ratings, means of systems",
        "small, between_systems: Kendall tau-b with the ratings, means of systems",
    ]
    # tables in a row with the same legend show it once
    text = to_markdown(rows)
    assert text.count("- [ ]: 95 % interval\n") == 1
    assert text.count("- [ ]: no intervals, because the few systems are a sample too\n") == 1
    assert text.count("- unscored: ") == 2
    assert to_latex(rows).count("{unscored}: ") == 4  # there each table may be on another page
    assert to_markdown([]) == ""
    assert to_latex([]) == ""
    assert terminal_tables([], 100) == []


@pytest.mark.parametrize(
    ("constant", "words"),
    [
        ("skip", "constant contexts are skipped"),
        ("zero", "constant ratings are skipped, a constant prediction counts 0"),
        ("one", "constant ratings count 1, a constant prediction 0"),
    ],
)
def test_legends_name_the_convention(constant, words):
    assert words in to_markdown([row(constant=constant)])


def test_partial_correlations_and_missing_intervals():
    text = to_markdown([row(statistic="partial_spearman", low=None, high=None)])
    caption = (
        "small, within_context: partial Spearman given length with the ratings, mean over contexts"
    )
    assert text.splitlines()[0] == caption
    assert "interval" not in text


def test_the_convention_is_not_mentioned_where_it_changes_nothing():
    assert "constant contexts" not in to_markdown([row(skipped=0)])
    assert "constant ratings are skipped" in to_markdown([row(skipped=0, constant="zero")])


@pytest.mark.parametrize(
    ("first", "second", "differ"),
    [
        ({"unscored": 0}, {"contexts": 90, "unscored": 0}, True),
        ({"unscored": 0}, {}, True),  # unscored outputs
        ({"unscored": 0}, {"constant_predicted": 1, "unscored": 0}, True),
        # a constant prediction counts 0 by this convention, so its context is used
        (
            {"constant": "zero", "unscored": 0},
            {"constant": "zero", "constant_predicted": 1, "unscored": 0},
            False,
        ),
        ({"unscored": 0}, {"unscored": 0}, False),
        ({}, None, False),
    ],
)
def test_the_legend_says_that_methods_may_differ_in_their_contexts(first, second, differ):
    others = [] if second is None else [row(method="other", **second)]
    words = "computed from; methods may differ in them, and --reference METHOD"
    assert (words in to_markdown([row(**first), *others])) == differ


def test_wide_tables_fit_a_terminal():
    names = [f"dimension-{number}" for number in range(7)]
    tested = {"reference": "length", "difference": 0.1, "p_value": 0.2, "p_adjusted": 0.2}
    rows = [
        row(dimension=name, contexts=50 + i, common=40 + i, **tested)
        for i, name in enumerate(names)
    ]
    text = shown(rows)
    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text
    assert "50-56" in text
    assert "40-46" in text


def test_only_corrected_tests_are_marked_in_a_corrected_table():
    compared = {"reference": "length", "difference": 0.25, "common": 9}
    tested = row(p_value=0.001, p_adjusted=0.002, **compared)
    mean = row(dimension="mean", p_value=0.001, **compared)
    other = row(dimension="clarity", p_value=0.03, p_adjusted=0.03, **compared)
    text = to_markdown([tested, other, mean])
    assert "| ladder | 0.250* | 0.250* | 0.250 | 9 |" in text
    assert "Holm's correction over 2 tests, means are not tested\n" in text
    assert "Holm's correction over 1 test\n" in to_markdown([tested])
    assert "contexts with an output that both scored; the" in to_markdown(
        [row(level="pooled", **compared)]
    )
    assert "| ladder | — | 0 |" in to_markdown([row(reference="length", common=0)])


def test_the_mean_of_one_dimension_is_not_repeated():
    assert "mean |" not in to_markdown([row(), row(dimension="mean")])


def test_a_terminal_table_shows_intervals_beside_figures_where_they_fit():
    text = shown(TWO)
    assert "0.432 [0.38, 0.48]" in text
    assert "0.000 [-0.05, 0.10]" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_narrow_terminal_table_shows_figures_above_intervals():
    lines = [" ".join(line.split()) for line in shown(TWO, 70).splitlines()]
    start = next(number for number, line in enumerate(lines) if line.startswith("ladder 0.432"))
    assert lines[start : start + 4] == [
        "ladder 0.432 — — 0-98 2-100 1603",
        ".38 .48",
        "length | words 0.000 — — 98 2 3",
        "-.05 .10",
    ]


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("count", [1, 6, 15])
@pytest.mark.parametrize(
    ("low", "high", "interval"), [(-0.97, 0.12, "-.97 .12"), (-0.97, -0.12, "-.97 -.12")]
)
def test_wide_tables_fit_a_terminal_whole(count, low, high, interval, width):
    names = [f"dimension-{number}-with-a-long-name" for number in range(count)] + ["mean"]
    rows = [
        row(
            method="a method with quite a long name",
            dimension=name,
            value=-number / 100 - 0.1,
            low=low,
            high=high,
        )
        for number, name in enumerate(names)
    ]
    text = shown(rows, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for position in range(count):
        assert f"{-position / 100 - 0.1:.3f}" in text
    assert "unscored" in text
    # "dimension-" has 10 characters, and figures 8 or 9: so a column of figures takes 11 with the space before it,
    # that of the mean 9 or 10. The counts take 26, the edges 2, the method 8 or more.
    columns = (width - 26 - 2 - 8) // 11
    tables = 1 + text.count("small, within_context, continued.")
    assert tables in {-(-count // columns), -(-(count + (count > 1)) // columns)}
    beside = f"[{low:.2f}, {high:.2f}]"
    assert text.count(interval) + text.count(beside) == count + (count > 1)
    assert not (interval in text and beside in text)


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_heads_never_break_inside_a_word(width):
    names = ["engagingness", "consistency", "use_of_knowledge", "ease of understanding"]
    text = shown([row(method="mean-probability-debiased", dimension=name) for name in names], width)
    words = set(re.findall(r"\w+", text))
    whole = {"engagingness", "consistency", "knowledge", "understanding", "contexts", "unscored"}
    assert whole - {"knowledge"} <= words
    assert "use_of_knowledge" in words or {"use_of_", "knowledge"} <= words
    for piece in ("mean-", "probability-", "debiased"):
        assert piece in text
    assert max(map(len, text.splitlines())) <= width


def test_only_a_word_wider_than_the_terminal_is_folded():
    text = shown([row(dimension="d" * 70)], 60)
    assert max(map(len, text.splitlines())) <= 60
    assert sum(map(len, re.findall(r"\bd+\b", text))) == 70


def test_heads_of_several_words_keep_a_line_where_there_is_room():
    table = PlainTable("c: d.", ["model", "win rate", "of_use"], [["one", "1", "2"]])

    def heads(width):
        (shown_table,) = fitted(table, width)
        return [str(column.header) for column in shown_table.columns]

    # 2 for the edges, 8 for the model, 1 and 8 for the rate, 1 and 6 for the use
    assert heads(26) == ["model", "win rate", "of_use"]
    assert heads(25) == ["model", "win\nrate", "of_\nuse"]


def test_letters_of_double_width_take_two_columns():
    name = "流暢さの度合いと正確さ"
    lines = shown([row(dimension=name), row()], 60).splitlines()
    assert any(name in line for line in lines)
    assert max(map(cell_len, lines)) <= 60


def test_markup_in_names_is_text():
    assert "[bold]x[/bold]" in shown([row(method="[bold]x[/bold]")])


def test_the_legend_is_below_the_table_in_the_order_of_its_columns():
    lines = shown(TWO).splitlines()
    rule = next(number for number, line in enumerate(lines) if "──" in line)
    terms = [line.split("  ")[0].strip() for line in lines[rule + 4 :] if line.strip()]
    assert terms[:6] == ["[ ]", "—", "contexts", "", "skipped", "unscored"]  # of two lines
    assert lines[0] == "small, within_context: Spearman with the ratings, mean over contexts"


def test_a_legend_is_shown_once_under_tables_that_share_it():
    same, other = (("a", "x"),), (("b", "y"),)
    tables = [
        PlainTable(str(number), ["h"], [], legend)
        for number, legend in enumerate([same, same, other, same])
    ]
    assert [table.legend for table in shared_legends(tables)] == [(), same, other, same]
    assert shared_legends([]) == []


def test_numbers_of_tables():
    assert [number(value, 2) for value in (None, -0.001, 0.125, 2)] == ["—", "0.00", "0.12", "2.00"]
    assert with_interval(None, 0.1, 0.2) == "—"
    assert with_interval(0.5, None, None) == "0.500"
    assert with_interval(-0.5, -1.0, 0.0) == "-0.500 [-1.00, 0.00]"


def test_ends_of_one_keep_their_digits_in_a_narrow_table():
    text = shown(
        [row(dimension=f"dimension-{number}", low=-1.0, high=1.0) for number in range(6)], 60
    )
    assert "-1.00 1.00" in text
