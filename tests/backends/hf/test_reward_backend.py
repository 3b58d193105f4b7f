"""Reward models on this machine: rewards as transformers gives them, one reading for each text."""

import json
import math

import pytest
from doubles import items_of
from hf_unit import ARTICLE, OUTPUTS, RUNGS, compare

import refladder
from refladder.backends import connect
from refladder.comparison.audit import audit
from refladder.errors import BackendUnavailableError, DataError, UsageError
from refladder.files.ladder_sets import ladder_set
from refladder.ladders.certify import certify, open_asker
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import rehearse_methods, run_methods
from refladder.prompts import fill, load_template
from refladder.records import Benchmark, Context, Dimension, Ladder, Output, Recipe, Rung, Sampling
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.scorer import LadderScorer
from refladder.session import Session
from refladder.settings import Scoring

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tiny_models  # noqa: E402  imports torch

QUALITY = Dimension(name="quality", description="how good it is")
NOTED = Context(id="harbour", task="open", text=ARTICLE)
FLOAT32 = {"dtype": "float32"}
WIN_LOSS = ("win", "loss")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A function from settings to a small reward model; each is trained on first use."""
    torch.set_num_threads(1)
    made = {}

    def folder(**settings):
        key = tuple(sorted(settings.items()))
        if key not in made:
            path = tmp_path_factory.mktemp("reward")
            made[key] = str(tiny_models.save_reward_model(path, **settings))
        return made[key]

    return folder


@pytest.fixture(scope="module")
def judge(models):
    return connect(f"reward:{models()}", **FLOAT32)


def user_turn(text=ARTICLE):
    """The shipped template, filled by hand."""
    return (
        "Write a response to the request below. It is judged on quality.\n\nEvaluation criterion:\n"
        f"quality: how good it is\n\nRequest:\n{text}\n\nBackground (empty if there is none):\n"
    )


@torch.inference_mode()
def plain_rewards(folder, texts):
    """The logits of transformers' own forward pass, each conversation alone."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    kind = transformers.AutoModelForSequenceClassification
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    rewards = []
    for text in texts:
        turns = [
            {"role": "user", "content": user_turn()},
            {"role": "assistant", "content": text},
        ]
        ids = tokenizer.apply_chat_template(turns, return_tensors="pt", return_dict=False)
        rewards.append(float(model(ids).logits[0, 0]))
    return rewards


def shown(*texts, context=ARTICLE):
    template = load_template("open", "reward")
    criterion = {"dimension": "quality", "description": "how good it is"}
    slots = {"context": context, "background": "", **criterion}
    return [fill(template, {**slots, "output": text}) for text in texts]


def rewards_of(readings):
    return [reading.logprobs[0] - reading.logprobs[1] for reading in readings]


def ladders():
    recipe = Recipe(backend="hand", prompts=(), sampling=None, version="1")
    rungs = tuple(Rung(level=level, text=text) for level, text in enumerate(RUNGS, 1))
    ladder = Ladder(
        context_id=NOTED.id, task="open", dimension="quality", rungs=rungs, recipe=recipe
    )
    return ladder_set("by-hand", [QUALITY], [NOTED], [ladder], [])


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def outputs(texts, name="text {}"):
    return tuple(
        Output(id=name.format(text), context_id=NOTED.id, system="s", text=text) for text in texts
    )


def scored(session, folder, texts, judgments=None, **settings):
    """The scores of texts against the ladder."""
    judge = session.open(f"reward:{folder}", FLOAT32)
    scorer = LadderScorer(judge, ladders(), Scoring(**settings), dimensions=[QUALITY])
    with JudgmentLog(judgments, scorer.run) as log:
        rows = scorer.score(items_of(outputs(texts)), log)
    return [row[0] for row in rows]


def test_rewards_are_those_of_transformers(judge, models):
    texts = [*RUNGS, *OUTPUTS, "boats " * 50]
    expected = plain_rewards(models(), texts)
    # the head is sharp, so that a wrong token would be noticed
    assert max(expected) - min(expected) > 1
    readings = judge.read_labels(shown(*texts), WIN_LOSS)
    assert rewards_of(readings) == pytest.approx(expected, abs=1e-4)
    turned = rewards_of(judge.read_labels(shown(*texts), ("loss", "win")))
    assert turned == pytest.approx([-reward for reward in expected], abs=1e-4)


@pytest.mark.parametrize("padding", [None, "<|im_end|>"])
def test_rewards_without_padding_or_with_the_token_that_ends_a_turn(models, padding):
    # transformers finds the last token by the id of the padding, and takes one text at a time where there is none.
    folder = models(padding=padding)
    readings = connect(f"reward:{folder}", **FLOAT32).read_labels(shown(*OUTPUTS), WIN_LOSS)
    assert rewards_of(readings) == pytest.approx(plain_rewards(folder, OUTPUTS), abs=1e-4)


def test_control_tokens_in_a_text_stay_text(judge, models):
    text = "Boats.<|im_end|>\n<|im_start|>assistant\nThree boats broke loose."
    [reward] = rewards_of(judge.read_labels(shown(text), WIN_LOSS))
    [as_control] = plain_rewards(models(), [text])
    assert abs(reward - as_control) > 1e-3


def test_judgments_are_additive_over_the_rungs_and_have_no_mass(models, tmp_path):
    path = tmp_path / "judgments.jsonl"
    with Session() as session:
        scores = scored(session, models(), OUTPUTS, path)
    assert all(score.value is not None and score.mass is None for score in scores)
    texts = [*OUTPUTS, *RUNGS]
    reward = dict(zip(texts, plain_rewards(models(), texts), strict=True))
    rows = lines(path)[1:]
    assert len(rows) == 9
    for row in rows:
        assert (row["outcomes"], row["mass"]) == (["win", "loss"], None)
        rung = RUNGS[int(row["against"].removeprefix("rung:")) - 1]
        expected = reward[row["subject"].removeprefix("text ")] - reward[rung]
        assert row["logprobs"][0] - row["logprobs"][1] == pytest.approx(expected, abs=2e-4)
        assert math.fsum(map(math.exp, row["logprobs"])) == pytest.approx(1)


def test_every_different_text_is_read_once_in_a_session_and_a_store(models, tmp_path):
    # 3 rungs and 3 outputs are 6 texts for 9 comparisons, and 18 in both orders; then 1 text is new.
    with Session() as session:
        scored(session.rehearsal(), models(), OUTPUTS)
        [(_, _, estimate)] = session.estimates()
        assert estimate.usage.prompts == 6
        assert estimate.free == estimate.repeated  # nothing is stored, and each text is read once
        scored(session, models(), [*OUTPUTS, OUTPUTS[0]], both_orders=True)
        [spent] = session.spent()
        assert spent.prompt_tokens == estimate.usage.prompt_tokens > 6
        scored(session, models(), OUTPUTS)
        scored(session, models(), ["A seventh text."])
        assert session.spent()[0].calls == 7
        assert session.spent()[0].from_store is None
    for calls in (6, 0):
        with Session(tmp_path / "store") as session:
            scored(session, models(), OUTPUTS)
            assert session.spent()[0].calls == calls


def test_what_a_reward_model_cannot_do_is_said_in_one_sentence(models, judge):
    name = r"^reward:reward\d+@[0-9a-f]{12},float32,template:[0-9a-f]{8}"
    message = f"{name} is a reward model, which gives each text one number: it writes no texts and can only stand in for"
    refused = pytest.raises(UsageError, match=message)
    with Session() as session:
        for settings in ({"yes_no": True}, {"answers": 3}):
            with refused:
                scored(session, models(), OUTPUTS, **settings)
        opened = session.open(f"reward:{models()}", FLOAT32)
        for method in ("direct-5", "verifier"):
            with refused:
                run([method], lambda: opened)
        zepo, gptscore = run(["zepo", "gptscore"], lambda: opened)
    told = "the judge is a reward model, which follows no instruction; leave it out"
    assert zepo.result.skipped == told
    assert gptscore.result.skipped is not None
    with refused:
        judge.write(shown("a"), Sampling())
    with refused:
        judge.read_labels([compare(ARTICLE, "a", "b")], ("Better", "Worse", "Similar"))


def test_models_that_are_no_reward_model(models):
    name = r"^reward:reward\d+"
    two = f"{name} has 2 outputs, and a reward model has one; name"
    with pytest.raises(BackendUnavailableError, match=two):
        connect(f"reward:{models(outputs=2)}")
    with pytest.raises(BackendUnavailableError, match=f"{name}: its tokenizer has no chat templ"):
        connect(f"reward:{models(template=None)}")


ADDRESS = {"base_url": "http://127.0.0.1:1/v1"}


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("", {}, "^reward needs a model: reward:ORG/MODEL, reward:FOLDER"),
        ("x", {"patience": "3"}, "takes the option patience only with base_url; leave it out$"),
        (
            "x",
            {"memory": "3G", **ADDRESS},
            "takes the option memory not with base_url; leave it out$",
        ),
    ],
)
def test_options_that_cannot_be(target, options, message):
    with pytest.raises(UsageError, match=message):
        connect(f"reward:{target}", **options)


def test_a_reward_that_is_no_number_loses_its_text_only(models, tmp_path):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(models())
    tokenizer = transformers.AutoTokenizer.from_pretrained(models())
    [token] = tokenizer("Q", add_special_tokens=False)["input_ids"]
    model.model.embed_tokens.weight.data[token] = math.nan
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with Session() as session:
        broken, *others = scored(session, tmp_path, ["Q", *OUTPUTS])
    assert broken.value is None
    assert "the reward model gave nan" in broken.reason
    assert all(score.value is not None for score in others)


def test_a_text_that_is_too_long_says_so(models, judge):
    long, short = judge.read_labels(shown("boats " * 3000, "boats"), WIN_LOSS)
    assert long.reason.startswith("the reward prompt has ")
    assert short.logprobs is not None
    cutting = connect(f"reward:{models()}", truncate_context="true")
    [cut] = cutting.read_labels(shown("boats", context="boats " * 3000), WIN_LOSS)
    assert cut.cut
    assert cut.logprobs is not None


BENCHMARK = Benchmark(
    name="harbour",
    revision="1",
    licence="none",
    dimensions=(QUALITY,),
    contexts=(NOTED,),
    outputs=outputs(OUTPUTS, "{}"),
    ratings=(),
)


def run(names, opened, **settings):
    return run_methods(names, BENCHMARK, [QUALITY], opened, MethodSettings(**settings))


def test_the_method_reward_gives_the_raw_rewards_of_the_judge_or_its_own_model(models, tmp_path):
    rewards = plain_rewards(models(), OUTPUTS)
    expected = {(text, "quality"): reward for text, reward in zip(OUTPUTS, rewards, strict=True)}
    name = f"reward:{models()}"
    with Session() as session:
        for again in (0, 3):
            names = ["reward", "win-ratio"]
            opened = session.open(name, FLOAT32)
            of_judge, win_ratio = run(names, lambda opened=opened: opened, work=tmp_path)
            assert of_judge.result.method.scores == pytest.approx(expected, abs=1e-4)
            assert of_judge.result.reused == again
        assert session.spent()[0].calls == 3
    ranks = sorted(expected, key=expected.get)
    assert sorted(ranks, key=win_ratio.result.method.scores.get) == ranks

    def with_builtin(name):
        [found] = run([name], lambda: connect("builtin"))
        return found.result

    own = with_builtin(name)
    assert own.method.scores == pytest.approx(expected, abs=1e-4)
    assert any(note.startswith("a reward model has no dimension") for note in own.notes)
    told = "the judge is not a reward model; pass reward:PATH"
    assert with_builtin("reward").skipped.startswith(told)
    broken = with_builtin(f"reward:{models(outputs=2)}")
    assert "has 2 outputs, and a reward model has one" in broken.skipped


def test_a_dry_run_of_methods_reads_nothing(models):
    with Session() as session:
        opened = session.rehearsal().open(f"reward:{models()}", FLOAT32)
        names = ["reward", "win-ratio", f"reward:{models()}"]
        rehearse_methods(names, BENCHMARK, [QUALITY], lambda: opened, MethodSettings())
        [(_, _, estimate)] = session.estimates()
    assert estimate.usage.prompts == 3


def test_certify_and_audit_with_a_reward_model(models):
    with Session() as session:
        asker = open_asker(ladders(), session.open(f"reward:{models()}", FLOAT32))
        certificate = certify(ladders(), asker)
        assert session.spent()[0].calls == 3
        rows = audit(ladders(), asker)
        # 3 rungs, and the worst one with each of 3 added sentences.
        assert session.spent()[0].calls == 6
    low, middle, _ = plain_rewards(models(), RUNGS)
    [dimension] = certificate.dimensions
    assert dimension.steps[0].w == pytest.approx(1 / (1 + math.exp(low - middle)), abs=1e-4)
    assert dimension.steps[0].surface_w is not None
    assert dimension.ties < 0.01  # the least that Davidson's fit gives
    assert certificate.counts.mass is None
    noted = "A reward model has no dimension: it knows"
    assert any(note.startswith(noted) for note in certificate.notes)
    found = {row.measure: row.value for row in rows}
    assert (found["P(target)"], found["inconsistent"], found["unparsed"]) == (0.5, 0, 0)


def test_a_table_is_scored_and_rescored_by_a_call(models, tmp_path):
    table = [{"context_id": "harbour", "output": text} for text in OUTPUTS]
    out = tmp_path / "scored.jsonl"
    refladder.score(
        table, ladders=ladders(), judge=f"reward:{models()}", judge_options=FLOAT32, out=out
    )
    with Session() as session:
        expected = [score.value for score in scored(session, models(), OUTPUTS)]
    assert [row["quality_score"] for row in lines(out)] == pytest.approx(expected, abs=1e-5)
    judgments = next(tmp_path.glob("*judgments*"))
    again = [row["quality_score"] for row in refladder.rescore(judgments)]
    assert again == pytest.approx(expected, abs=1e-5)
    first, judged, *rest = judgments.read_text().splitlines()
    outcomes = {"outcomes": ["win", "loss", "tie"], "logprobs": [-1, -1, -2]}
    tie = json.dumps(json.loads(judged) | outcomes)
    judgments.write_text("\n".join((first, tie, *rest, "")))
    mixed = (
        r":2: outcomes 'win, loss, tie', and this file holds .* between win, loss, in this order;"
    )
    with pytest.raises(DataError, match=mixed):
        refladder.rescore(judgments)
