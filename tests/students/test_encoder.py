"""Encoders as students, with a tiny random encoder that is made on the spot."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("torch", reason="the local extra is not installed")
pytest.importorskip("accelerate", reason="the encoder extra is not installed")

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, RobertaConfig, RobertaModel

from refladder.errors import BackendUnavailableError, DataError, UsageError
from refladder.students.encoder import EncoderStudent, fit_encoder, settings_of

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "storm", *(f"w{number}" for number in range(12))]
FAST = {"epochs": "4", "learning_rate": "5e-3", "max-tokens": "24"}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Threads of a tiny model wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    inner = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))  # noqa: S106
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=inner, **names).save_pretrained(folder)
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **size)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def lessons():
    """The score is twice the number of storms among ten words."""
    random = np.random.default_rng(0)
    storms = random.integers(0, 9, size=160)
    rows = [[*["storm"] * count, *random.choice(WORDS[5:], 10 - count)] for count in storms]
    return [("w1 w2", " ".join(random.permutation(row))) for row in rows], storms * 2.0


@pytest.fixture(scope="module")
def student(encoder, lessons):
    texts, scores = lessons
    steps = []
    trained = fit_encoder(
        str(encoder),
        texts[:120],
        scores[:120],
        settings_of(FAST),
        lambda done, all_steps: steps.append((done, all_steps)),
    )
    assert steps[-1] == (32, 32)  # 120 rows in batches of 16, four times
    return trained


def test_it_learns_and_estimates_on_the_scale_of_the_scores(student, lessons):
    texts, scores = lessons
    estimates = student.estimate(texts[120:])
    assert np.corrcoef(estimates, scores[120:])[0, 1] > 0.8
    assert abs(estimates.mean() - scores[120:].mean()) < 2


def test_padding_changes_no_estimate(student, lessons):
    texts = [*lessons[0][:5], ("", "storm"), ("w3", "storm " * 100)]
    alone = [student.estimate([text])[0] for text in texts]
    assert np.allclose(student.estimate(texts), alone, atol=1e-4)


def test_the_folder_is_read_back_exactly_and_holds_safetensors(student, lessons, tmp_path):
    digest = student.save(tmp_path)
    read, same = EncoderStudent.load(tmp_path, student.model, student.settings)
    assert same == digest
    assert np.array_equal(read.estimate(lessons[0]), student.estimate(lessons[0]))
    assert sorted(path.name for path in (tmp_path / "encoder").iterdir()) == [
        "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip


def test_training_again_gives_the_same_student(student, encoder, lessons):
    texts, scores = lessons
    again = fit_encoder(str(encoder), texts[:120], scores[:120], settings_of(FAST))
    assert np.allclose(again.estimate(texts[120:]), student.estimate(texts[120:]), atol=1e-5)


def test_an_encoder_is_trained_and_used_from_the_command_line(command, encoder, lessons, tmp_path):
    texts, scores = lessons
    scored, student = tmp_path / "scored.jsonl", tmp_path / "student"
    rows = [
        {"context_id": f"c{number % 20}", "context": context, "output": output}
        for number, (context, output) in enumerate(texts)
    ]
    with_scores = [
        {**row, "worth_score": score, "signature": "judge/1"} for row, score in zip(rows, scores, strict=True)
    ]
    scored.write_text("".join(json.dumps(row) + "\n" for row in with_scores))
    options = ("--model", f"hf:{encoder}", "--model-option", "epochs=1", "--model-option", "max-tokens=24")
    done = command("distil", scored, "--by", "worth_score", "--out", student, *options, "--json")
    assert done.code == 0, done.err
    record = json.loads(done.out)  # nothing else is printed
    assert (record["kind"], record["settings"]["epochs"], record["settings"]["max_tokens"]) == ("encoder", 1, 24)
    assert "The encoder encoder0@" in (student / "README.md").read_text()
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = command("score", source, "--judge", f"distilled:{student}")
    assert done.code == 0, done.err
    (signature,) = {row["signature"] for row in done.rows}
    assert signature.startswith("backend:distilled:encoder@")
    with (student / "encoder" / "config.json").open("a") as file:
        file.write(" ")
    done = command("score", source, "--judge", f"distilled:{student}")
    assert "the weights are not those that student.json describes" in done.err


def test_a_position_table_that_starts_after_the_padding_is_not_exceeded(encoder, lessons, tmp_path):
    for file in encoder.glob("tokenizer*"):
        shutil.copy(file, tmp_path)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = RobertaConfig(vocab_size=len(WORDS), max_position_embeddings=24, pad_token_id=0, **size)
    RobertaModel(config).save_pretrained(tmp_path)
    texts = [(context, 3 * output) for context, output in lessons[0]]  # of 32 tokens and more
    student = fit_encoder(str(tmp_path), texts, lessons[1], settings_of({"epochs": "1"}))
    assert student.settings["max_tokens"] == 23
    assert np.isfinite(student.estimate(texts)).all()


def test_a_training_that_diverges_gives_no_student(fails, encoder, lessons, tmp_path):
    scored, student = tmp_path / "scored.jsonl", tmp_path / "student"
    rows = [
        {"context_id": f"c{number % 20}", "output": output, "worth_score": score}
        for number, ((_, output), score) in enumerate(zip(*lessons, strict=True))
    ]
    scored.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = (f"--model=hf:{encoder}", "--model-option=epochs=1", "--model-option=learning_rate=1e30")
    message = fails(2, "distil", scored, "--by", "worth_score", "--out", student, *options)
    assert "the training has diverged: the student's estimates are not finite; give a smaller rate" in message
    assert not student.exists()


def test_what_cannot_be_trained_or_read_is_named(tmp_path, lessons):
    with pytest.raises(BackendUnavailableError, match="hf:"):
        fit_encoder(str(tmp_path), *lessons, settings_of({}))
    with pytest.raises(DataError, match="encoder: no such folder; distil again"):
        EncoderStudent.load(tmp_path, "x", {})


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"epoch": "3"}, "--model-option epoch: unknown; choose from epochs, learning_rate"),
        ({"batch": "2.5"}, "--model-option batch=2.5: must be a whole number above 0"),
        ({"learning-rate": "-1"}, "--model-option learning-rate=-1: must be a number above 0"),
    ],
)
def test_settings_are_checked(option, message):
    with pytest.raises(UsageError, match=message):
        settings_of(option)
