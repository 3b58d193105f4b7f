"""embedding:PATH against a plain loop over transformers, and its place among the baselines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import refladder
from refladder.jobs.evaluate import agreement
from refladder.metaeval.agreement import human_means
from refladder.methods.contract import Method, MethodSettings
from refladder.methods.method_runs import run_methods
from refladder.methods.surface import BEST, surface_methods

torch = pytest.importorskip(
    "torch", reason="torch is not installed; pip install torch transformers"
)
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

STORY = refladder.load_benchmark("demo/story")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    from support import small_models

    return small_models.make_encoder(tmp_path_factory.mktemp("models") / "encoder")


def run(encoder, benchmark):
    def no_judge():
        raise AssertionError

    return run_methods(
        [f"embedding:{encoder}"], benchmark, benchmark.dimensions, no_judge, MethodSettings()
    )[0]


@torch.inference_mode()
def naive(path, text):
    """The mean of the last states of a text that is read alone."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModel.from_pretrained(path, dtype=torch.float32).eval()
    ids = tokenizer(
        text, truncation=True, max_length=model.config.max_position_embeddings, return_tensors="pt"
    )
    return model(**ids).last_hidden_state[0].double().mean(dim=0).numpy()


def test_the_cosine_is_that_of_a_plain_loop(encoder):
    context = STORY.contexts[0]
    outputs = tuple(output for output in STORY.outputs if output.context_id == context.id)
    short = replace(outputs[0], id="short", system="short", text="the storm.")
    empty = replace(outputs[0], id="empty", system="empty", text=" \n")
    data = replace(STORY, contexts=(context,), outputs=(*outputs, short, empty), ratings=())
    result = run(encoder, data).result
    about = naive(encoder, context.text)
    for output in (*outputs, short):
        vector = naive(encoder, output.text)
        cosine = sum(a * b for a, b in zip(about, vector, strict=True)) / np.sqrt(
            sum(about**2) * sum(vector**2)
        )
        for dimension in STORY.dimensions:
            assert result.method.scores[output.id, dimension.name] == pytest.approx(
                cosine, abs=1e-6
            )
    assert result.method.scores["empty", "coherence"] is None
    assert "empty outputs, without a score: 1" in result.notes
    assert result.method.signature.startswith("embedding|cosine|pooling:mean|model:encoder@")


def test_it_counts_among_the_baselines_where_it_is_asked_for(encoder, command):
    done = command(
        "evaluate", "demo/story", "--methods", f"embedding:{encoder}", "--json", "--resamples", "5"
    )
    name = f"best of the surface measures and embedding:{encoder}"
    rows = [row for row in done.rows if row.get("kind") != "card"]
    assert list(dict.fromkeys(row["method"] for row in rows)) == [f"embedding:{encoder}", name]
    plain = command("evaluate", "demo/story", "--methods", "direct-5", "--json", "--resamples", "5")
    assert {row["method"] for row in plain.rows} == {"direct-5", BEST}


def perfect():
    """A baseline that gives the ratings, so that every context chooses it; one output has no score."""
    scores = dict(human_means(STORY.ratings))
    first = STORY.outputs[0].id
    scores.update(dict.fromkeys([(first, dimension.name) for dimension in STORY.dimensions]))
    return Method(name="embedding:x", signature="made", scores=scores, baseline=True)


def test_the_best_takes_the_scores_of_a_better_baseline():
    (best,) = surface_methods(STORY, STORY.dimensions, {BEST}, [perfect()])
    assert best.signature.startswith(
        "surface:best(coherence=embedding:x*12,complexity=embedding:x*12)|made|refladder:"
    )
    protocol = refladder.Protocol(resamples=5, reference=BEST)
    rows = agreement(STORY, STORY.dimensions, [perfect()], protocol)
    row = next(row for row in rows if row.method == f"{BEST} and embedding:x")
    assert (row.value, row.unscored) == (1.0, 1)  # the output without a score has none here either
    assert rows[0].reference == f"{BEST} and embedding:x"


def test_a_baseline_without_a_score_changes_nothing():
    none = Method(
        name="embedding:x", signature="unavailable:no such folder", scores={}, baseline=True
    )
    rows = agreement(STORY, STORY.dimensions, [none], refladder.Protocol(resamples=5))
    assert {row.method for row in rows} == {"embedding:x", BEST}


def test_a_long_text_is_cut_and_counted_without_a_warning_of_transformers(encoder, capsys, caplog):
    transformers.logging.enable_propagation()
    try:
        data = replace(
            STORY,
            contexts=STORY.contexts[:1],
            outputs=(replace(STORY.outputs[0], text="word " * 600),),
        )
        result = run(encoder, replace(data, ratings=())).result
    finally:
        transformers.logging.disable_propagation()
    assert "inputs truncated to the length that the model accepts: 1" in result.notes
    assert "longer than the specified maximum" not in caplog.text + capsys.readouterr().err
