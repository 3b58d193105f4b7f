"""Reward models on this machine: rewards as transformers gives them, one reading for each text."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from doubles import items_of
from hf_unit import ARTICLE, OUTPUTS, RUNGS

import refladder
from refladder.backends import connect
from refladder.errors import BackendUnavailableError, DataError, UsageError
from refladder.files.ladder_sets import ladder_set
from refladder.jobs.audit import audit
from refladder.jobs.certify import certify, open_asker
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import rehearse_methods, run_methods
from refladder.prompts import fill, load_template
from refladder.records import Benchmark, Context, Dimension, Ladder, Output, Recipe, Rung, Sampling
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.scorer import LadderScorer
from refladder.session import Session
from refladder.settings import Scoring

QUALITY = Dimension(name="quality", description="how good it is")
NOTED = Context(id="harbour", task="open", text=ARTICLE)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A function from settings to a small reward model; each is trained on first use."""
    pytest.importorskip("torch", reason="torch is not installed; pip install torch transformers")
    import tiny_models
    import torch

    torch.set_num_threads(1)
    made = {}

    def folder(**settings):
        key = tuple(sorted(settings.items()))
        if key not in made:
            made[key] = str(
                tiny_models.save_reward_model(tmp_path_factory.mktemp("reward"), **settings)
            )
        return made[key]

    return folder


@pytest.fixture(scope="module")
def judge(models):
    return connect(f"reward:{models()}", dtype="float32")


def user_turn(text=ARTICLE):
    """The shipped template, filled by hand."""
    return (
        "Write a response to the request below. It is judged on quality.\n\nEvaluation criterion:\n"
        f"quality: how good it is\n\nRequest:\n{text}\n\nBackground (empty if there is none):\n"
    )


def plain_rewards(folder, texts, asked=None):
    """The logits of transformers' own forward pass, each conversation alone."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, dtype=torch.float32
    ).eval()
    rewards = []
    for text in texts:
        turns = [
            {"role": "user", "content": asked or user_turn()},
            {"role": "assistant", "content": text},
        ]
        ids = tokenizer.apply_chat_template(turns, return_tensors="pt", return_dict=False)
        with torch.inference_mode():
            rewards.append(float(model(ids).logits[0, 0]))
    return rewards


def shown(*texts, context=ARTICLE):
    template = load_template("open", "reward")
    slots = {
        "context": context,
        "background": "",
        "dimension": "quality",
        "description": "how good it is",
    }
    return [fill(template, {**slots, "output": text}) for text in texts]


def rewards_of(readings):
    return [reading.logprobs[0] - reading.logprobs[1] for reading in readings]


def ladders(rungs=RUNGS):
    recipe = Recipe(backend="hand", prompts=(), sampling=None, version="1")
    levels = tuple(Rung(level=level, text=text) for level, text in enumerate(rungs, 1))
    ladder = Ladder(
        context_id=NOTED.id, task="open", dimension="quality", rungs=levels, recipe=recipe
    )
    return ladder_set("by-hand", [QUALITY], [NOTED], [ladder], [])


def lines(path):
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def test_rewards_are_those_of_transformers(judge, models):
    texts = [*RUNGS, *OUTPUTS, "boats " * 50]
    expected = plain_rewards(models(), texts)
    assert max(expected) - min(expected) > 1, (
        "the head is sharp, so that a wrong token would be noticed"
    )
    assert rewards_of(judge.read_labels(shown(*texts), ("win", "loss"))) == pytest.approx(
        expected, abs=1e-4
    )
    turned = judge.read_labels(shown(*texts), ("loss", "win"))
    assert [
        loss_win[1] - loss_win[0] for loss_win in (reading.logprobs for reading in turned)
    ] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("padding", [None, "<|im_end|>"])
def test_rewards_without_padding_or_with_the_token_that_ends_a_turn(models, padding):
    # transformers finds the last token by the id of the padding, and takes one text at a time where there is none.
    folder = models(padding=padding)
    readings = connect(f"reward:{folder}", dtype="float32").read_labels(
        shown(*OUTPUTS), ("win", "loss")
    )
    assert rewards_of(readings) == pytest.approx(plain_rewards(folder, OUTPUTS), abs=1e-4)


def test_control_tokens_in_a_text_stay_text(judge, models):
    text = "Boats.<|im_end|>\n<|im_start|>assistant\nThree boats broke loose."
    [reading] = judge.read_labels(shown(text), ("win", "loss"))
    [as_control] = plain_rewards(models(), [text])
    assert abs(rewards_of([reading])[0] - as_control) > 1e-3


def scored(session, folder, texts, judgments=None, **settings):
    """The scores of texts against the ladder."""
    judge = session.open(f"reward:{folder}", {"dtype": "float32"})
    scorer = LadderScorer(judge, ladders(), Scoring(**settings), dimensions=[QUALITY])
    outputs = [
        Output(id=f"text {text}", context_id=NOTED.id, system="s", text=text) for text in texts
    ]
    with JudgmentLog(judgments, scorer.run) as log:
        rows = scorer.score(items_of(outputs), log)
    return [row[0] for row in rows]


def test_judgments_are_additive_over_the_rungs_and_have_no_mass(models, tmp_path):
    path = tmp_path / "judgments.jsonl"
    with Session() as session:
        scores = scored(session, models(), OUTPUTS, path)
    assert all(score.value is not None and score.mass is None for score in scores)
    reward = dict(zip((*OUTPUTS, *RUNGS), plain_rewards(models(), [*OUTPUTS, *RUNGS]), strict=True))
    rows = lines(path)[1:]
    assert len(rows) == 9
    for row in rows:
        assert row["outcomes"] == ["win", "loss"]
        assert row["mass"] is None
        rung = RUNGS[int(row["against"].removeprefix("rung:")) - 1]
        text = row["subject"].removeprefix("text ")
        assert row["logprobs"][0] - row["logprobs"][1] == pytest.approx(
            reward[text] - reward[rung], abs=2e-4
        )
        assert math.fsum(map(math.exp, row["logprobs"])) == pytest.approx(1)
    # The log-odds against two rungs differ by the difference of the rungs' rewards, whatever the text.
    odds = [row["logprobs"][0] - row["logprobs"][1] for row in rows]
    for text in range(3):
        assert odds[3 * text] - odds[3 * text + 2] == pytest.approx(
            reward[RUNGS[2]] - reward[RUNGS[0]], abs=2e-4
        )


def test_every_different_text_is_read_once_in_a_session_and_a_store(models, tmp_path):
    # 3 rungs and 3 outputs are 6 texts for 9 comparisons, and 18 in both orders; then 1 text is new.
    with Session() as session:
        scored(session, models(), [*OUTPUTS, OUTPUTS[0]], both_orders=True)
        scored(session, models(), OUTPUTS)
        scored(session, models(), ["A seventh text."])
        assert session.spent()[0]["calls"] == 7
        assert session.spent()[0]["from_store"] is None
    for calls in (6, 0):
        with Session(tmp_path / "store") as session:
            scored(session, models(), OUTPUTS)
            assert session.spent()[0]["calls"] == calls


def test_a_dry_run_counts_the_different_texts(models):
    with Session() as session:
        scored(session.rehearsal(), models(), OUTPUTS)
        [(_, _, estimate)] = session.estimates()
        assert estimate.usage.prompts == 6
        assert estimate.free == estimate.repeated  # nothing is stored, and each text is read once
        scored(session, models(), OUTPUTS)
        [spent] = session.spent()
        assert spent["prompt_tokens"] == estimate.usage.prompt_tokens > 6


def test_what_a_reward_model_cannot_do_is_said_in_one_sentence(models, judge):
    name = r"^reward:reward\d+@[0-9a-f]{12},float32,template:[0-9a-f]{8}"
    refusal = f"{name} is a reward model, which gives each text one number: it writes no texts and can only stand in for"
    with Session() as session:
        for settings in ({"yes_no": True}, {"answers": 3}):
            with pytest.raises(UsageError, match=refusal):
                scored(session, models(), OUTPUTS, **settings)
    with pytest.raises(UsageError, match=refusal):
        judge.write(shown("a"), Sampling())
    from hf_unit import compare

    with pytest.raises(UsageError, match=refusal):
        judge.read_labels([compare(ARTICLE, "a", "b")], ("Better", "Worse", "Similar"))


def test_models_that_are_no_reward_model(models):
    with pytest.raises(
        BackendUnavailableError,
        match=r"^reward:reward\d+ has 2 outputs, and a reward model has one; name",
    ):
        connect(f"reward:{models(outputs=2)}")
    with pytest.raises(
        BackendUnavailableError, match=r"^reward:reward\d+: its tokenizer has no chat template, so"
    ):
        connect(f"reward:{models(template=None)}")
    with pytest.raises(UsageError, match=r"^reward needs a model: reward:ORG/MODEL, reward:FOLDER"):
        connect("reward:")
    with pytest.raises(
        UsageError, match=r"^reward:x takes the option patience only with base_url; leave it out$"
    ):
        connect("reward:x", patience="3")
    with pytest.raises(
        UsageError, match=r"^reward:x takes the option memory not with base_url; leave it out$"
    ):
        connect("reward:x", memory="3G", base_url="http://127.0.0.1:1/v1")


def test_a_reward_that_is_no_number_loses_its_text_only(models, tmp_path):
    import torch
    import transformers

    folder = models()
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    [token] = tokenizer("Q", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        model.model.embed_tokens.weight[token] = math.nan
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with Session() as session:
        broken, *others = scored(session, tmp_path, ["Q", *OUTPUTS])
    assert broken.value is None
    assert "the reward model gave nan" in broken.reason
    assert all(score.value is not None for score in others)


def test_a_text_that_is_too_long_says_so(models):
    readings = connect(f"reward:{models()}").read_labels(
        shown("boats " * 3000, "boats"), ("win", "loss")
    )
    assert readings[0].reason.startswith("the reward prompt has ")
    assert readings[1].logprobs is not None
    cut = connect(f"reward:{models()}", truncate_context="true")
    [reading] = cut.read_labels(shown("boats", context="boats " * 3000), ("win", "loss"))
    assert reading.cut
    assert reading.logprobs is not None


def benchmark():
    outputs = [
        Output(id=f"o{number}", context_id=NOTED.id, system="s", text=text)
        for number, text in enumerate(OUTPUTS)
    ]
    return Benchmark(
        name="harbour",
        revision="1",
        licence="none",
        dimensions=(QUALITY,),
        contexts=(NOTED,),
        outputs=tuple(outputs),
        ratings=(),
    )


def run(names, opened, **settings):
    return run_methods(names, benchmark(), [QUALITY], opened, MethodSettings(**settings))


def test_the_method_reward_gives_the_raw_rewards_of_the_judge_or_its_own_model(models, tmp_path):
    expected = {
        (f"o{number}", "quality"): value
        for number, value in enumerate(plain_rewards(models(), OUTPUTS))
    }
    name = f"reward:{models()}"
    with Session() as session:
        for again in (0, 3):
            of_judge, win_ratio = run(
                ["reward", "win-ratio"],
                lambda: session.open(name, {"dtype": "float32"}),
                work=tmp_path,
            )
            assert of_judge.result.method.scores == pytest.approx(expected, abs=1e-4)
            assert of_judge.result.reused == again
        assert session.spent()[0]["calls"] == 3
    ranks = sorted(expected, key=expected.get)
    assert sorted(ranks, key=win_ratio.result.method.scores.get) == ranks
    [own] = run([name], lambda: connect("builtin"))
    assert own.result.method.scores == pytest.approx(expected, abs=1e-4)
    assert any(note.startswith("a reward model has no dimension") for note in own.result.notes)
    [without] = run(["reward"], lambda: connect("builtin"))
    assert without.result.skipped.startswith("the judge is not a reward model; pass reward:PATH")
    [broken] = run([f"reward:{models(outputs=2)}"], lambda: connect("builtin"))
    assert "has 2 outputs, and a reward model has one" in broken.result.skipped


def test_methods_that_a_reward_model_cannot_answer(models):
    with Session() as session:
        opened = session.open(f"reward:{models()}", {"dtype": "float32"})
        zepo, gptscore = run(["zepo", "gptscore"], lambda: opened)
        assert (
            zepo.result.skipped
            == "the judge is a reward model, which follows no instruction; leave it out"
        )
        assert gptscore.result.skipped is not None
        for name in ("direct-5", "verifier"):
            with pytest.raises(
                UsageError, match="is a reward model, which gives each text one number"
            ):
                run([name], lambda: opened)


def test_a_dry_run_of_methods_reads_nothing(models):
    with Session() as session:
        opened = session.rehearsal().open(f"reward:{models()}", {"dtype": "float32"})
        names = ["reward", "win-ratio", f"reward:{models()}"]
        rehearse_methods(names, benchmark(), [QUALITY], lambda: opened, MethodSettings())
        [(_, _, estimate)] = session.estimates()
    assert estimate.usage.prompts == 3


def test_certify_and_audit_with_a_reward_model(models):
    with Session() as session:
        judge = session.open(f"reward:{models()}", {"dtype": "float32"})
        asker = open_asker(ladders(), judge)
        certificate = certify(ladders(), asker)
        assert session.spent()[0]["calls"] == 3
        rows = audit(ladders(), asker)
        # 3 rungs, and the worst one with each of 3 added sentences.
        assert session.spent()[0]["calls"] == 6
    low, middle, _ = plain_rewards(models(), RUNGS)
    step = certificate["dimensions"][0]["steps"][0]
    assert step["w"] == pytest.approx(1 / (1 + math.exp(low - middle)), abs=1e-4)
    assert step["surface_w"] is not None
    assert certificate["dimensions"][0]["ties"] < 0.01  # the least that Davidson's fit gives
    assert certificate["counts"]["mass"] is None
    assert any(
        note.startswith("A reward model has no dimension: it knows")
        for note in certificate["notes"]
    )
    found = {row.measure: row.value for row in rows}
    assert found["P(target)"] == 0.5
    assert found["inconsistent"] == 0
    assert found["unparsed"] == 0


def test_a_table_is_scored_and_rescored_by_a_call(models, tmp_path):
    table = [{"context_id": "harbour", "output": text} for text in OUTPUTS]
    out = tmp_path / "scored.jsonl"
    settings = {
        "ladders": ladders(),
        "judge": f"reward:{models()}",
        "judge_options": {"dtype": "float32"},
    }
    rows = refladder.score(table, **settings)
    refladder.score(table, **settings, out=out)
    with Session() as session:
        expected = [score.value for score in scored(session, models(), OUTPUTS)]
    assert [row["quality_score"] for row in rows] == pytest.approx(expected, abs=1e-5)
    assert [row["quality_score"] for row in lines(out)] == pytest.approx(expected, abs=1e-5)
    judgments = next(tmp_path.glob("*judgments*"))
    again = [row["quality_score"] for row in refladder.rescore(judgments)]
    assert again == pytest.approx(expected, abs=1e-5)
    first, judged, *rest = judgments.read_text().splitlines()
    tie = json.dumps(
        json.loads(judged) | {"outcomes": ["win", "loss", "tie"], "logprobs": [-1, -1, -2]}
    )
    judgments.write_text("\n".join((first, tie, *rest, "")))
    with pytest.raises(
        DataError, match=r":2: outcomes 'win, loss, tie', and this file holds .* between win, loss;"
    ):
        refladder.rescore(judgments)
