"""Model against model: prompts with variables, generation, trials, standings, and the command."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from doubles import Double
from scipy import stats
from simulated import Simulated

from refladder.arena import compete as compete_job
from refladder.arena.compete import ContestSpec, run
from refladder.arena.task_prompt import parse_task_prompt, read_instances
from refladder.backends.scripted import Rule, Scripted
from refladder.commands import console
from refladder.commands.main import run as run_command
from refladder.errors import BackendError, DataError, PromptError, UsageError
from refladder.events import Silent
from refladder.metaeval.shares import share_intervals
from refladder.records import Completion, Dimension, Sampling
from refladder.report.standings import Trial, standings_of
from refladder.session import Session

CRITERIA = [
    Dimension(name="clarity", description="Plain words."),
    Dimension(name="warmth", description="Kind words."),
]
PROMPT = parse_task_prompt("Write about {topic}.", "prompt.txt")
ROWS = [{"id": "a", "topic": "rain"}, {"id": "b", "topic": "bread"}]


def table(folder, *rows, name="table.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


class Says(Double):
    """A model that writes texts of one quality, and none about what it refuses."""

    def __init__(self, name, quality, refuses="nothing"):
        self.fingerprint, self.quality, self.refuses = f"says/{name}", quality, refuses
        self.asked = 0

    def write(self, prompts, _sampling):
        self.asked += len(prompts)
        return [
            Completion(text="", finish="error", note="refused")
            if self.refuses in prompt.text
            else Completion(text=f"quality {self.quality} on {prompt.slots['topic']}")
            for prompt in prompts
        ]


def contest(folder, rows, models, judge, **options):
    spec = ContestSpec(
        instances=read_instances(table(folder, *rows), PROMPT),
        models=models,
        judge=judge,
        folder=folder / "out",
        **{"criteria": CRITERIA[:1], **options},
    )
    return run(spec, Session(store=False), Silent())


class OfItsOwn(Says):
    """A model with a temperature and top-p of its own, which notes the sampling that it is given."""

    default_sampling = (0.5, 0.8)

    def write(self, prompts, sampling):
        self.given = sampling
        return super().write(prompts, sampling)


def test_each_model_writes_with_its_own_temperature_and_keys_say_so(tmp_path):
    models = {"one": OfItsOwn("one", 1), "two": Says("two", 2)}
    contest(tmp_path, ROWS[:1], models, Simulated())
    assert models["one"].given == Sampling(temperature=0.5, top_p=0.8)
    keys = [
        json.loads(line)["key"]
        for line in (tmp_path / "out" / "generated.jsonl").read_text().splitlines()
    ]
    for key, name, drawn in zip(
        keys, models, ("temperature=0.5, top_p=0.8", "temperature=1.0, top_p=1.0"), strict=True
    ):
        # as in the files of versions that drew every text with temperature 1 and top-p 1
        words = f"says/{name}\0Sampling(max_tokens=512, {drawn}, seed=0)\0Write about rain."
        assert key == hashlib.blake2b(words.encode(), digest_size=8).hexdigest()


def rates(found, row=None):
    return {(one.model, one.criterion): one.rate for one in found.standings if one.row == row}


def test_a_prompt_is_cut_at_its_variables():
    found = parse_task_prompt("{{keep}} {a} and { b c }{a}\n", "x")
    assert found.names == ("a", "b c", "a")
    assert found.literals == ("{keep} ", " and ", "", "\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no variable", r"p\.txt: no variable, so every row would get the same prompt"),
        (
            "first {a}\nthen } b",
            r"p\.txt:2: a single '}' is not part of a variable; .* and }} for }",
        ),
        ("{a} {", r"p\.txt:1: a single '\{' is not part of a variable"),
        ("{} {a}", r"p\.txt:1: a single '\{' is not part of a variable"),
    ],
)
def test_a_prompt_that_cannot_be_cut_is_told_where(text, message):
    with pytest.raises(PromptError, match=message):
        parse_task_prompt(text, "p.txt")


def test_rows_fill_the_prompt_and_values_are_never_read_for_variables(tmp_path):
    (found,) = read_instances(table(tmp_path, {"id": 7, "topic": "{topic} {{x}}"}), PROMPT)
    assert (found.id, found.prompt.text) == ("7", "Write about {topic} {{x}}.")


def test_a_missing_variable_gets_the_near_column(tmp_path):
    with pytest.raises(
        PromptError,
        match=r"prompt\.txt: variable \{topic\} is not a column of the table; did you mean \{topics\}\? Columns: id",
    ):
        read_instances(table(tmp_path, {"id": "a", "topics": "x"}), PROMPT)


def test_a_row_with_an_empty_cell_is_kept_and_told_and_an_empty_column_is_refused(tmp_path):
    found = read_instances(table(tmp_path, {"topic": "x"}, {"topic": " "}, {"other": "x"}), PROMPT)
    assert [one.id for one in found] == ["1", "2", "3"]
    assert [one.note for one in found] == [None, *["column 'topic' is empty or absent"] * 2]
    with pytest.raises(
        DataError,
        match="no row has all columns of the prompt, the first because column 'topic' is empty or absent",
    ):
        read_instances(table(tmp_path, {"topic": ""}, {"topic": None}), PROMPT)
    with pytest.raises(
        DataError, match="no rows; the table needs a row for each instance of the task"
    ):
        read_instances(table(tmp_path), PROMPT)


@pytest.mark.parametrize("column", ["id", "place"])
def test_half_a_surrogate_pair_is_refused_before_anything_is_written(tmp_path, column):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"id": "1", "place": "a beach", column: "half \ud83d"}) + "\n")
    match = rf"rows\.jsonl:1: column '{column}': half a surrogate pair, which is not valid Unicode; correct the text"
    with pytest.raises(DataError, match=match):
        read_instances(str(path), parse_task_prompt("Go to {place}.", "prompt"))


def test_ids_name_rows(tmp_path):
    with pytest.raises(
        DataError,
        match=r"table\.jsonl:2: id 'a' appears in .*table\.jsonl:1 already; ids must be unique",
    ):
        read_instances(
            table(tmp_path, {"id": "a", "topic": "x"}, {"id": "a", "topic": "y"}), PROMPT
        )
    with pytest.raises(
        DataError,
        match=r"table\.jsonl:1: column 'name' holds the row's id, and it is empty or absent",
    ):
        read_instances(table(tmp_path, {"id": "a", "topic": "x"}), PROMPT, id_column="name")


def test_the_better_model_wins_every_pair(tmp_path):
    models = {"low": Says("low", 1), "high": Says("high", 3), "middle": Says("middle", 2)}
    found = contest(tmp_path, ROWS, models, Simulated(sharpness=3.0), criteria=CRITERIA)
    for criterion in ("clarity", "warmth", "overall"):
        assert [one.model for one in found.standings if one.row is None and one.criterion == criterion] == [
            "high", "middle", "low",
        ]  # fmt: skip
    # each of two rows and two criteria has three pairs
    assert len(found.trials) == 12
    assert rates(found)["middle", "overall"] == 0.5
    assert rates(found, "a")["high", "clarity"] == 1
    assert found.failures == ()


def test_a_judge_that_always_takes_the_first_makes_ties(tmp_path):
    models = {"low": Says("low", 1), "high": Says("high", 2)}
    found = contest(tmp_path, ROWS, models, Simulated(first=9.0))
    assert [(trial.winner, trial.tie) for trial in found.trials] == [(None, True)] * 2
    assert [
        (one.wins, one.ties, one.losses, one.rate) for one in found.standings if one.row is None
    ] == [(0, 2, 0, 0.5)] * 2
    assert found.trials[0].forward > 0.99
    assert found.trials[0].backward < 0.01


def test_a_row_that_fails_is_reported_and_counts_neither_for_nor_against(tmp_path):
    rows = [*ROWS, {"id": "c", "topic": ""}]
    models = {
        "low": Says("low", 1),
        "high": Says("high", 2, refuses="bread"),
        "silent": Scripted([Rule(text=" ")]),
    }
    models["broken"] = Scripted([Rule(text="half \ud83d")])
    found = contest(tmp_path, rows, models, Simulated(sharpness=3.0))
    assert found.failures == (
        f"{tmp_path}/table.jsonl:3: column 'topic' is empty or absent",
        "row 'a', model 'silent': the model wrote nothing",
        "row 'a', model 'broken': the text holds half a surrogate pair, which no file can hold",
        "row 'b', model 'high': refused",
        "row 'b', model 'silent': the model wrote nothing",
        "row 'b', model 'broken': the text holds half a surrogate pair, which no file can hold",
    )
    none = {("silent", "clarity"): None, ("broken", "clarity"): None}
    assert rates(found) == {("high", "clarity"): 1, ("low", "clarity"): 0, **none}
    failed = {one.model: one.failed for one in found.standings if one.row is None}
    assert failed == {"low": 1, "high": 2, "silent": 3, "broken": 3}


def test_an_unparsed_trial_is_neither_won_nor_tied(tmp_path):
    def unparsed(first, second):
        return "quality 1" in first and "bread" in second  # one order of one row

    models = {"low": Says("low", 1), "high": Says("high", 2)}
    found = contest(tmp_path, ROWS, models, Simulated(sharpness=3.0, unparsed=unparsed))
    unparsed = found.trials[1]
    assert (unparsed.winner, unparsed.tie, unparsed.forward, unparsed.note) == (
        None,
        False,
        None,
        "no answer",
    )
    assert unparsed.backward is not None
    assert [(one.wins, one.losses, one.unparsed) for one in found.standings if one.row is None] == [
        (1, 0, 1),
        (0, 1, 1),
    ]


def test_a_run_goes_on_and_failed_texts_are_tried_again(tmp_path):
    first = {"low": Says("low", 1), "high": Says("high", 2, refuses="bread")}
    one = contest(tmp_path, ROWS, first, Simulated())
    path = tmp_path / "out" / "generated.jsonl"
    assert [json.loads(line)["text"] is None for line in path.read_text().splitlines()].count(
        True
    ) == 1
    path.write_bytes(path.read_bytes() + b'{"torn')
    judge, again = Simulated(), {"low": Says("low", 1), "high": Says("high", 2)}
    two = contest(tmp_path, ROWS, again, judge)
    assert (again["low"].asked, again["high"].asked, judge.asked) == (0, 1, 2)
    assert (len(one.trials), len(two.trials)) == (1, 2)


def test_another_sampling_writes_anew(tmp_path):
    models = {"low": Says("low", 1), "high": Says("high", 2)}
    contest(tmp_path, ROWS, models, Simulated())
    contest(tmp_path, ROWS, models, Simulated(), sampling=Sampling(seed=1))
    assert models["low"].asked == 4


def test_the_judge_explains_what_it_decided(tmp_path):
    class Explaining(Simulated):
        def write(self, prompts, _sampling):
            return [
                Completion(text="", finish="error", note="busy")
                if "bread" in prompt.slots["context"]
                else Completion(text=f" Because of {prompt.slots['target']}\ud83d. ")
                for prompt in prompts
            ]

    models = {"low": Says("low", 1), "high": Says("high", 2)}
    found = contest(tmp_path, ROWS, models, Explaining(sharpness=3.0), explain=True)
    assert [trial.explanation for trial in found.trials] == [
        "Because of quality 2 on rain\ud83d.",
        None,
    ]
    assert found.trials[1].note == "no explanation: busy"
    assert "quality 2 on rain\\ud83d." in (tmp_path / "out" / "results.jsonl").read_text()


def test_a_judge_that_explains_too_little_is_refused(tmp_path):
    class Silent(Simulated):
        def write(self, _prompts, _sampling):
            return []

    models = {"low": Says("low", 1), "high": Says("high", 2)}
    with pytest.raises(BackendError, match="gave 0 answers for 2 prompts"):
        contest(tmp_path, ROWS, models, Silent(sharpness=3.0), explain=True)


def test_results_hold_trials_and_standings(tmp_path):
    models = {"low": Says("low", 1), "high": Says("high", 2)}
    found = contest(tmp_path, ROWS, models, Simulated())
    lines = [
        json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()
    ]
    kinds = {"contest": 1, "row": 2, "criterion": 1, "text": 4, "trial": 2, "standing": 6}
    assert [line["kind"] for line in lines] == [
        kind for kind, count in kinds.items() for _ in range(count)
    ]
    assert [line["kind"] for line in lines].count("trial") == len(found.trials)
    assert lines[0] == {"kind": "contest", "signature": found.signature}
    assert lines[1] == {"kind": "row", "row": "a", "prompt": "Write about rain.", "note": None}
    described = {
        "criterion": CRITERIA[0].name,
        "description": CRITERIA[0].description,
        "low": 1.0,
        "high": 5.0,
    }
    assert lines[3] == {"kind": "criterion", **described}
    # who shows the contest needs no other file: each trial is about texts and a prompt that stand above it
    texts = {(line["row"], line["model"]): line["text"] for line in lines if line["kind"] == "text"}
    for line in lines[8:10]:
        assert texts[line["row"], line["one"]]
        assert texts[line["row"], line["other"]]


def test_calls_that_cannot_be_done_are_refused(tmp_path):
    one, two = {"low": Says("low", 1)}, {"low": Says("low", 1), "high": Says("high", 2)}
    with pytest.raises(UsageError, match="a contest needs two models or more, found low; add one"):
        contest(tmp_path, ROWS, one, Simulated())
    for criteria in ([], [CRITERIA[0]] * 2, [Dimension(name="overall", description="All.")]):
        with pytest.raises(
            UsageError,
            match="a contest needs one criterion or more, with different names and none called 'overall'",
        ):
            contest(tmp_path, ROWS, two, Simulated(), criteria=criteria)

    class Short(Says):
        def write(self, _prompts, _sampling):
            return []

    with pytest.raises(BackendError, match="says/low gave 0 answers for 2 prompts"):
        contest(tmp_path, ROWS, {"low": Short("low", 1), "high": Says("high", 2)}, Simulated())


def trial(row, winner=None, *, tie=False):
    return Trial(
        row=row,
        criterion="c",
        one="x",
        other="y",
        forward=0.5,
        backward=0.5,
        winner=winner,
        tie=tie,
    )


def test_standings_by_hand_and_their_interval():
    rows = [str(number) for number in range(40)]
    trials = [trial(row, "x" if int(row) % 4 else "y") for row in rows[:-2]] + [
        trial("38", tie=True),
        trial("39"),
    ]
    written = {(row, model) for row in rows for model in "xy"}
    found = standings_of(trials, written, rows=rows, models=["y", "x"], criteria=["c"])
    best, worst = found[-2:]
    # rows 0 .. 37: ten are multiples of 4, won by y; 28 by x; one tie, one unparsed
    assert (best.model, best.wins, best.ties, best.losses, best.unparsed) == ("x", 28, 1, 10, 1)
    assert best.rate == pytest.approx(28.5 / 39)
    assert worst.rate == pytest.approx(10.5 / 39)
    # the standard error of a share of .73 over 39 rows is .071
    assert best.low == pytest.approx(best.rate - 1.96 * 0.071, abs=0.03)
    assert best.high == pytest.approx(best.rate + 1.96 * 0.071, abs=0.03)


def test_one_row_has_no_interval():
    found = standings_of(
        [trial("1", "x")], {("1", "x"), ("1", "y")}, rows=["1"], models=["x", "y"], criteria=["c"]
    )
    assert (found[-2].rate, found[-2].low, found[-2].high) == (1, None, None)


def standings(trials, rows):
    written = {(row, model) for row in rows for model in "xy"}
    found = standings_of(trials, written, rows=rows, models=["x", "y"], criteria=["c"])
    return {one.model: one for one in found if one.row is None}


def test_a_rate_of_one_from_two_rows_has_a_wide_interval():
    found = standings([trial("1", "x"), trial("2", "x")], ["1", "2"])
    expected = stats.binomtest(2, 2).proportion_ci(method="wilsoncc")
    assert (found["x"].low, found["x"].high) == pytest.approx((expected.low, 1.0))
    assert (found["y"].low, found["y"].high) == pytest.approx((0.0, 1 - expected.low))


def test_a_tie_is_half_a_win_in_the_interval_too():
    rows = [str(number) for number in range(12)]
    found = standings([trial(row, tie=True) for row in rows], rows)
    # twelve ties are half of twelve wins: the interval is the same for both models, hence even about 1/2
    assert (found["x"].rate, found["x"].low) == (0.5, pytest.approx(1 - found["x"].high))
    # five wins and seven ties: the interval of 8.5 points of 12, by the formulas for the points alone
    found = standings(
        [trial(row, "x" if int(row) < 5 else None, tie=int(row) >= 5) for row in rows], rows
    )
    expected = share_intervals(np.array([1.0] * 5 + [0.5] * 7), np.ones(12))
    assert (found["x"].low, found["x"].high) == pytest.approx(tuple(expected))
    assert found["x"].low < 8.5 / 12 < found["x"].high < 1


def test_overall_adds_up_the_trials_of_all_criteria_and_a_model_without_trials_is_last():
    trials = [
        replace(trial(row, winner), criterion=name)
        for row in "12"
        for name, winner in (("c", "x"), ("d", "y"))
    ]
    written = {(row, model) for row in "12" for model in "xyz"}
    found = standings_of([*trials, replace(trial("1", "x"), criterion="d")], written, rows=["1", "2"],
                         models=["z", "y", "x"], criteria=["c", "d"])  # fmt: skip
    overall = [one for one in found if one.row is None and one.criterion == "overall"]
    assert [(one.model, one.wins, one.losses) for one in overall] == [
        ("x", 3, 2),
        ("y", 2, 3),
        ("z", 0, 0),
    ]
    assert [one.model for one in found if one.row is None and one.criterion == "d"] == [
        "y",
        "x",
        "z",
    ]
    assert (overall[2].rate, overall[2].low, overall[2].high) == (None, None, None)


def rules(folder, name, text):
    path = folder / name
    path.write_text(json.dumps({"role": "generate", "text": text}) + "\n")
    return f"scripted:{path}"


def test_the_command_warns_of_low_label_mass(tmp_path, capsys):
    judge = tmp_path / "judge.jsonl"
    judge.write_text(
        json.dumps({"role": "pairwise", "answer": {"win": -1.2, "loss": -2.3}}) + "\n"
    )  # e^-1.2 + e^-2.3 = .40
    texts = (
        rules(tmp_path, "one.jsonl", "Rain falls."),
        rules(tmp_path, "two.jsonl", "Rain rain."),
    )
    command = [
        "compete", table(tmp_path, *ROWS), "--model", f"one={texts[0]}", "--model", f"two={texts[1]}", "--judge",
        f"scripted:{judge}", "--criterion", "clarity=Plain words.", "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    assert run_command([*command, "--prompt-text", "Write about {topic}."]) == 0
    told = capsys.readouterr().err
    assert (
        "Low label mass in 4 of 4 judgments: the judge gave the labels less than half of its probability."
        in told
    )


def test_heads_of_standings_never_break_inside_a_word(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(console, "_WIDTH", 50)
    texts = (
        rules(tmp_path, "one.jsonl", "Rain falls on the harbour."),
        rules(tmp_path, "two.jsonl", "Rain rain."),
    )
    command = [
        "compete", table(tmp_path, *ROWS), "--model", f"a-model-of-a-long-name={texts[0]}", "--model",
        f"two={texts[1]}", "--judge", "builtin", "--criterion", "clarity=Plain words.", "--out", str(tmp_path / "out"),
        "--prompt-text", "Write about {topic}.",
    ]  # fmt: skip
    assert run_command(command) == 0
    printed = capsys.readouterr().out
    for head in ("model", "interval", "wins", "ties", "losses", "unparsed"):
        assert head in printed.split()
    assert max(map(len, printed.splitlines())) <= 50
    assert "…" not in printed
    assert "[0.198, 1.000]" in printed  # two rows, both won


def test_the_command_prints_standings_and_says_what_failed(tmp_path, capsys):
    source = table(tmp_path, *ROWS, {"id": "c", "topic": ""})
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Write about {topic}.\n")
    one = rules(tmp_path, "one.jsonl", "Rain falls on the harbour and on the bread of the baker.")
    two = rules(tmp_path, "two.jsonl", "Rain rain.")
    command = [
        "compete", source, "--model", f"one={one}", "--model", f"two={two}", "--judge", "builtin", "--criterion",
        "clarity=Plain words.", "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    assert run_command([*command, "--prompt", str(prompt), "--dry-run"]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("2 calls") == 2  # a text of each model for each of two rows
    assert "4 calls" in printed.out  # one pair in each row, in both orders
    assert run_command([*command, "--prompt", str(prompt), "--explain", "--dry-run"]) == 0
    assert (
        "at most 6 calls" in capsys.readouterr().out
    )  # an explanation for each pair, if it gets a winner
    assert not (tmp_path / "out").exists()
    assert run_command([*command, "--prompt", str(prompt)]) == 3
    printed = capsys.readouterr()
    assert printed.out.startswith(
        "clarity: win rate over pairs of texts, each judged in both orders\n"
    )
    assert "win rate  (wins + ties / 2) / (wins + ties + losses)" in printed.out
    assert "wins      pairs in which both orders choose this model's text" in printed.out
    assert "no text" in printed.out
    assert (
        "1 rows without a prompt and texts that could not be written; the same command tries the texts again:\n"
        in printed.err
    )
    assert (
        f"{tmp_path / 'out' / 'results.jsonl'} holds prompts, texts, verdicts and standings\n"
        in printed.err
    )
    assert "table.jsonl:3: column 'topic' is empty or absent" in printed.err
    assert run_command([*command, "--prompt-text", "Write about {topic}.", "--json"]) == 3
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["model"], line["rate"]) for line in lines] == [("one", 1.0), ("two", 0.0)]
    assert json.loads((tmp_path / "out" / "run.json").read_text())["signature"].startswith(
        "compete|models:one=scripted@"
    )
    writers = [
        "--model",
        "a=builtin",
        "--model",
        "b=builtin",
        "--judge",
        "builtin",
        "--criterion",
        "clarity=Plain.",
    ]
    assert (
        run_command(
            ["compete", source, *writers, "--out", str(tmp_path / "b"), "--prompt", str(prompt)]
        )
        == 1
    )
    assert (
        "the builtin backend writes the rungs of ladders and nothing else"
        in capsys.readouterr().err
    )
    assert run_command(command) == 2
    assert (
        "give the task prompt once: --prompt FILE or --prompt-text TEXT" in capsys.readouterr().err
    )
    prompt.write_bytes(b"\xff{topic}")
    assert run_command([*command, "--prompt", str(prompt)]) == 2
    assert "not UTF-8; save the prompt as UTF-8" in capsys.readouterr().err


def test_a_model_that_wants_all_is_asked_once(tmp_path, monkeypatch):
    monkeypatch.setattr(compete_job, "BATCH", 1)
    sizes = {}

    class Sized(Says):
        wants_all = False

        def write(self, prompts, sampling):
            sizes.setdefault(self.fingerprint, []).append(len(prompts))
            return super().write(prompts, sampling)

    whole, piecewise = Sized("a", 2), Sized("b", 1)
    whole.wants_all = True
    rows = [{"topic": topic} for topic in ("rain", "snow", "fog")]
    contest(tmp_path, rows, {"a": whole, "b": piecewise}, Simulated())
    assert sizes == {"says/a": [3], "says/b": [1, 1, 1]}
