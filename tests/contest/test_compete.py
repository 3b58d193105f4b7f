"""Model against model: generation, trials, explanations, and the command."""

from __future__ import annotations

import hashlib
import json

import pytest
from doubles import Double
from json_lines import read_lines, write_lines
from simulated import Simulated

from refladder.backends.scripted import Rule, Scripted
from refladder.contest import compete as compete_job
from refladder.contest.compete import ContestSpec, run
from refladder.contest.task_prompt import parse_task_prompt, read_instances
from refladder.errors import BackendError, DataError, UsageError
from refladder.events import Silent
from refladder.records import Completion, Dimension, Sampling
from refladder.session import Session

CLARITY = Dimension(name="clarity", description="Plain words.")
WARMTH = Dimension(name="warmth", description="Kind words.")
PROMPT = parse_task_prompt("Write about {topic}.", "prompt.txt")
ROWS = [{"id": "a", "topic": "rain"}, {"id": "b", "topic": "bread"}]


class Says(Double):
    """A model that writes texts of one quality, and none about what it refuses."""

    default_sampling = (1.0, 1.0)
    wants_all = False

    def __init__(self, quality, refuses="nothing"):
        self.fingerprint, self.quality, self.refuses = f"says/{quality}", quality, refuses
        self.asked = []

    def write(self, prompts, sampling):
        self.asked.append((len(prompts), sampling))
        return [
            Completion(text="", finish="error", note="refused")
            if self.refuses in prompt.text
            else Completion(text=f"quality {self.quality} on {prompt.slots['topic']}")
            for prompt in prompts
        ]


class WritesNothing(Double):
    fingerprint = "nothing/1"

    def write(self, _prompts, _sampling):
        return []


def two_models(**of_high):
    return {"low": Says(1), "high": Says(2, **of_high)}


@pytest.fixture
def contest(tmp_path):
    def go(models, judge=None, *, rows=ROWS, **options):
        table = write_lines(tmp_path / "table.jsonl", rows)
        spec = ContestSpec(
            instances=read_instances(str(table), PROMPT),
            models=models,
            judge=judge or Simulated(sharpness=3.0),
            folder=tmp_path / "out",
            **{"criteria": [CLARITY], **options},
        )
        return run(spec, Session(store=False), Silent())

    return go


def over_rows(found, criterion="clarity"):
    """Standings over all rows, the best model first."""
    chosen = [each for each in found.standings if each.row is None and each.criterion == criterion]
    return {each.model: each for each in chosen}


def test_the_better_model_wins_every_pair(contest):
    models = {"low": Says(1), "high": Says(3), "middle": Says(2)}
    found = contest(models, criteria=[CLARITY, WARMTH])
    for criterion in ("clarity", "warmth", "overall"):
        assert list(over_rows(found, criterion)) == ["high", "middle", "low"]
    # each of two rows and two criteria has three pairs
    assert len(found.trials) == 12
    assert over_rows(found, "overall")["middle"].rate == 0.5
    in_a = {(each.model, each.criterion): each.rate for each in found.standings if each.row == "a"}
    assert in_a["high", "clarity"] == 1
    assert found.failures == ()


def test_a_judge_that_always_takes_the_first_makes_ties(contest):
    found = contest(two_models(), Simulated(first=9.0))
    assert [(trial.winner, trial.tie) for trial in found.trials] == [(None, True)] * 2
    for each in over_rows(found).values():
        assert (each.wins, each.ties, each.losses, each.rate) == (0, 2, 0, 0.5)
    assert found.trials[0].forward > 0.99
    assert found.trials[0].backward < 0.01


def test_a_row_that_fails_is_reported_and_counts_neither_for_nor_against(contest, tmp_path):
    models = two_models(refuses="bread")
    models["silent"] = Scripted([Rule(text=" ")])
    models["broken"] = Scripted([Rule(text="half \ud83d")])
    found = contest(models, rows=[*ROWS, {"id": "c", "topic": ""}])
    silent = "model 'silent': the model wrote nothing"
    broken = "model 'broken': the text holds half a surrogate pair, which no file can hold"
    assert found.failures == (
        f"{tmp_path}/table.jsonl:3: column 'topic' is empty or absent",
        f"row 'a', {silent}",
        f"row 'a', {broken}",
        "row 'b', model 'high': refused",
        f"row 'b', {silent}",
        f"row 'b', {broken}",
    )
    counted = {model: (each.rate, each.failed) for model, each in over_rows(found).items()}
    assert counted == {"high": (1, 2), "low": (0, 1), "silent": (None, 3), "broken": (None, 3)}


def test_an_unparsed_trial_is_neither_won_nor_tied(contest):
    def unparsed(first, second):
        return "quality 1" in first and "bread" in second  # one order of one row

    found = contest(two_models(), Simulated(sharpness=3.0, unparsed=unparsed))
    trial = found.trials[1]
    assert (trial.winner, trial.tie, trial.forward, trial.note) == (None, False, None, "no answer")
    assert trial.backward is not None
    counted = [(each.wins, each.losses, each.unparsed) for each in over_rows(found).values()]
    assert counted == [(1, 0, 1), (0, 1, 1)]


def test_a_run_goes_on_and_failed_texts_are_tried_again(contest, tmp_path):
    first = contest(two_models(refuses="bread"))
    path = tmp_path / "out" / "generated.jsonl"
    assert [line["text"] is None for line in read_lines(path)].count(True) == 1
    path.write_bytes(path.read_bytes() + b'{"torn')
    judge, models = Simulated(sharpness=3.0), two_models()
    again = contest(models, judge)
    assert (models["low"].asked, [count for count, _ in models["high"].asked]) == ([], [1])
    assert judge.asked == 2
    assert (len(first.trials), len(again.trials)) == (1, 2)


def test_each_model_writes_with_its_own_temperature_and_keys_say_so(contest, tmp_path):
    models = two_models()
    models["low"].default_sampling = (0.5, 0.8)
    contest(models, rows=ROWS[:1])
    assert models["low"].asked == [(1, Sampling(temperature=0.5, top_p=0.8))]
    drawn = {1: "temperature=0.5, top_p=0.8", 2: "temperature=1.0, top_p=1.0"}
    # as in the files of versions that drew every text with temperature 1 and top-p 1
    words = [
        f"says/{quality}\0Sampling(max_tokens=512, {how}, seed=0)\0Write about rain."
        for quality, how in drawn.items()
    ]
    keys = [hashlib.blake2b(each.encode(), digest_size=8).hexdigest() for each in words]
    assert [line["key"] for line in read_lines(tmp_path / "out" / "generated.jsonl")] == keys


def test_a_model_that_wants_all_is_asked_once(contest, monkeypatch):
    monkeypatch.setattr(compete_job, "BATCH", 1)
    models = two_models()
    models["high"].wants_all = True
    contest(models, rows=[{"topic": topic} for topic in ("rain", "snow", "fog")])
    asked = {name: [count for count, _ in model.asked] for name, model in models.items()}
    assert asked == {"low": [1, 1, 1], "high": [3]}


def test_the_judge_explains_what_it_decided(contest, tmp_path):
    class Explaining(Simulated):
        def write(self, prompts, _sampling):
            return [
                Completion(text="", finish="error", note="busy")
                if "bread" in prompt.slots["context"]
                else Completion(text=f" Because of {prompt.slots['target']}\ud83d. ")
                for prompt in prompts
            ]

    found = contest(two_models(), Explaining(sharpness=3.0), explain=True)
    words = "Because of quality 2 on rain\ud83d."
    assert [trial.explanation for trial in found.trials] == [words, None]
    assert found.trials[1].note == "no explanation: busy"
    assert "quality 2 on rain\\ud83d." in (tmp_path / "out" / "results.jsonl").read_text()


def test_results_hold_trials_and_standings(contest, tmp_path):
    found = contest(two_models())
    lines = read_lines(tmp_path / "out" / "results.jsonl")
    kinds = {"contest": 1, "row": 2, "criterion": 1, "text": 4, "trial": 2, "standing": 6}
    expected = [kind for kind, count in kinds.items() for _ in range(count)]
    assert [line["kind"] for line in lines] == expected
    assert len(found.trials) == kinds["trial"]
    assert lines[0] == {"kind": "contest", "signature": found.signature}
    assert lines[1] == {"kind": "row", "row": "a", "prompt": "Write about rain.", "note": None}
    described = {"criterion": "clarity", "description": "Plain words.", "low": 1.0, "high": 5.0}
    assert lines[3] == {"kind": "criterion", **described}
    # who shows the contest needs no other file: each trial is about texts and a prompt that are above it
    texts = {(line["row"], line["model"]): line["text"] for line in lines[4:8]}
    for line in lines[8:10]:
        assert texts[line["row"], line["one"]]
        assert texts[line["row"], line["other"]]


@pytest.mark.parametrize(
    "criteria", [[], [CLARITY] * 2, [Dimension(name="overall", description="All.")]]
)
def test_criteria_have_names_of_their_own(contest, criteria):
    message = "needs one criterion or more, with different names and none called 'overall', found"
    with pytest.raises(UsageError, match=message):
        contest(two_models(), criteria=criteria)


def test_a_contest_needs_two_models(contest):
    message = "a contest needs two models or more, found low; add one"
    with pytest.raises(UsageError, match=message):
        contest({"low": Says(1)})


def test_a_backend_that_writes_too_little_is_refused(contest):
    class Mute(WritesNothing, Simulated):
        """Judges, and explains nothing."""

    message = "gave 0 answers for 2 prompts"
    with pytest.raises(BackendError, match=f"nothing/1 {message}"):
        contest({"low": WritesNothing(), "high": Says(2)})
    with pytest.raises(BackendError, match=message):
        contest(two_models(), Mute(sharpness=3.0), explain=True)


@pytest.fixture
def compete(command, tmp_path):
    """Run the command with two scripted models."""

    def go(*options, judge="builtin", rows=ROWS, names=("one", "two")):
        table = write_lines(tmp_path / "table.jsonl", rows)
        texts = ("Rain falls on the harbour and on the bread of the baker.", "Rain rain.")
        given = ["compete", table, "--judge", judge, "--criterion", "clarity=Plain words."]
        for name, text in zip(names, texts, strict=True):
            path = tmp_path / f"{name}.jsonl"
            write_lines(path, [{"role": "generate", "text": text}])
            given.append(f"--model={name}=scripted:{path}")
        return command(*given, "--out", tmp_path / "out", *options)

    return go


TEXT = ("--prompt-text", "Write about {topic}.")


def test_the_command_warns_of_low_label_mass(compete, tmp_path):
    # e^-1.2 + e^-2.3 = .40
    rule = {"role": "pairwise", "answer": {"win": -1.2, "loss": -2.3}}
    judge = write_lines(tmp_path / "judge.jsonl", [rule])
    done = compete(*TEXT, judge=f"scripted:{judge}")
    words = "Low label mass in 4 of 4 judgments: the judge gave the labels less than half of its probability."
    assert done.code == 0
    assert words in done.err


def test_a_dry_run_counts_texts_pairs_and_explanations(compete, tmp_path):
    printed = compete(*TEXT, "--dry-run").out
    assert printed.count("2 calls") == 2  # a text of each model for each of two rows
    assert "4 calls" in printed  # one pair in each row, in both orders
    # an explanation for each pair, if it gets a winner
    assert "at most 6 calls" in compete(*TEXT, "--explain", "--dry-run").out
    assert not (tmp_path / "out").exists()


def test_the_command_prints_standings_and_says_what_failed(compete, tmp_path):
    rows = [*ROWS, {"id": "c", "topic": ""}]
    done = compete(*TEXT, rows=rows)
    assert done.code == 3
    assert done.out.startswith(
        "clarity: win rate over pairs of texts, each judged in both orders\n"
    )
    for words in (
        "win rate  (wins + ties / 2) / (wins + ties + losses)",
        "wins      pairs in which both orders choose this model's text",
        "no text",
    ):
        assert words in done.out
    for words in (
        "1 rows without a prompt and texts that could not be written; the same command tries the texts again:\n",
        "table.jsonl:3: column 'topic' is empty or absent",
        f"{tmp_path / 'out' / 'results.jsonl'} holds prompts, texts, verdicts and standings\n",
    ):
        assert words in done.err
    again = compete(*TEXT, "--json", rows=rows)
    assert again.code == 3
    assert {row["model"]: row["rate"] for row in again.rows} == {"one": 1.0, "two": 0.0}
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["signature"].startswith("compete|models:one=scripted@")


def test_the_cost_of_a_contest_is_that_of_all_its_runs(compete, monkeypatch, tmp_path):
    def calls():
        spent = json.loads((tmp_path / "out" / "run.json").read_text())["spent"]
        return [usage["calls"] for usage in spent]

    def killed(*_arguments, **_options):
        assert calls() == [2, 2, 0]  # known as soon as the texts are stored
        raise BackendError("gone")

    page = tmp_path / "page.html"
    with monkeypatch.context() as patched:
        patched.setattr(compete_job, "_pairs", killed)
        assert compete(*TEXT, "--html", page).code == 1
    assert compete(*TEXT, "--html", page).code == 0
    assert calls() == [2, 2, 4]
    assert "one.jsonl: 2 calls" in page.read_text()
    assert compete(*TEXT, "--html", page).code == 0  # nothing is left to do
    assert calls() == [2, 2, 4]


def test_a_damaged_record_of_earlier_costs_is_refused_before_a_model_is_asked(contest, tmp_path):
    contest(two_models())
    path = tmp_path / "out" / "run.json"
    record = json.loads(path.read_text())
    record["spent"][0]["calls"] = "two"
    path.write_text(json.dumps(record))
    models = two_models()
    words = (
        r"out/run\.json: not the record of a run field 'spent\.0\.calls': .* found 'two'; "
        r"delete it, and run the command again$"
    )
    with pytest.raises(DataError, match=words):
        contest(models)
    assert [model.asked for model in models.values()] == [[], []]
