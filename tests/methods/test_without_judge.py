"""Methods without a judge on a benchmark: what they score, what they skip, and why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from refusals import refuses
from small_benchmarks import run_method, small_benchmark

from refladder.errors import UnknownNameError, UsageError
from refladder.loaders import load_benchmark
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import rehearse_methods
from refladder.methods.reference_metrics import NO_WORDNET
from refladder.records import Context

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
NAMES = ("bleu", "chrf", "rouge-1", "rouge-2", "rouge-l", "meteor")
# What is suggested to those who name no checkpoint, or one that is not there; and how many a method takes.
SUGGESTIONS = {
    "bertscore": (1, "fetch an encoder such as bert-base-uncased"),
    "embedding": (1, "fetch a sentence encoder such as sentence-transformers/all-MiniLM-L6-v2"),
    "unieval": (1, "fetch MingZhong/unieval-sum"),
    "nli": (1, "fetch a model trained on natural language inference"),
    "regressor": (1, "train a sequence classifier with one output"),
    "questeval": (2, "fetch ThomasNLG/t5-qg_squad1-en and ThomasNLG/t5-qa_"),
    "mqag": (3, "fetch potsawee/t5-large-generation-race-QuestionAnswer, potsawee/t5"),
}


def benchmark(
    task="summarization",
    dimensions=("coherence", "fluency"),
    references=(("a storm", "the storm"), ()),
):
    contexts = [
        Context(id=f"c{number}", task=task, text="ferry | open | yes", references=given)
        for number, given in enumerate(references)
    ]
    return small_benchmark(contexts, ("the storm", "bread is bread"), dimensions)


def result(name, data, **options):
    return run_method(name, data, options=options).result


@pytest.mark.parametrize("name", NAMES)
def test_a_context_without_references_has_no_score(name):
    pytest.importorskip("nltk", reason="the metrics extra is not installed")
    found = result(name, benchmark())
    scores = found.method.scores
    assert scores["c0/0", "coherence"] > scores["c0/1", "coherence"]
    assert scores["c0/0", "coherence"] == scores["c0/0", "fluency"]
    assert [scores[f"c1/{place}", "fluency"] for place in (0, 1)] == [None, None]
    *lacking, note = found.notes
    assert note == "contexts without references, whose outputs have no score: 1"
    lacks_synonyms = "|stages:exact,stem|" in found.method.signature  # of meteor
    assert lacking == [NO_WORDNET] * lacks_synonyms
    assert found.method.signature.startswith(f"{name}|")


@pytest.mark.parametrize("name", [*NAMES, "bertscore:some-encoder"])
def test_a_benchmark_without_references_is_skipped(name):
    found = result(name, benchmark(references=((), ())))
    words = "mine has no references to compare with, so this method has nothing to work on; leave it out"
    assert (found.method, found.skipped) == (None, words)


@pytest.mark.parametrize("name", SUGGESTIONS)
def test_a_method_without_its_checkpoint_is_skipped_and_says_what_to_fetch(name):
    pytest.importorskip("transformers", reason="the local extra is not installed")
    count, suggestion = SUGGESTIONS[name]
    data = benchmark("data-to-text" if name == "nli" else "summarization")
    none = result(name, data)
    assert none.method is None
    assert none.skipped.startswith(f"no checkpoint was named; {suggestion}")
    absent = result(f"{name}:{'+'.join(['/none'] * count)}", data)
    assert absent.method is None
    assert re.match(rf"{name}:/none: no such folder; pass .*; {suggestion}", absent.skipped)


def test_a_method_for_other_tasks_is_skipped():
    words = "it reads triples of data, and the task of mine is summarization"
    assert result("nli", benchmark()).skipped == words
    words = "UniEval has no question for story on coherence, fluency with the available data"
    assert result("unieval:t5", benchmark("story")).skipped == words


def test_wrong_options():
    def refused(message, name, error=UsageError, **options):
        method = name.partition(":")[0]
        given = {f"{method}.{key}": value for key, value in options.items()}
        refuses(error, message, result, name, benchmark(), **given)

    message = "unknown option of method 'bleu' 'checkpoint'"
    refused(message, "bleu:path", UnknownNameError)
    message = r"bertscore\.layer=last: a whole number, 0 or more, is needed"
    refused(message, "bertscore:some-encoder", layer="last")
    for questions in ("0", "many"):
        message = rf"mqag\.questions={questions}: a whole number, 1 or more, is needed"
        refused(message, "mqag:a+b+c", questions=questions)
    message = r"questeval takes 2 checkpoints with \+ between them \(question generator, rea"
    refused(message, "questeval:one")
    refused(r"mqag takes 3 checkpoints .*, found 'a\+b'; fetch pots", "mqag:a+b")


KINDS = {"bertscore": "encoder", "unieval": "t5", "nli": "nli", "regressor": "regressor"}


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_checkpoints_by_path(models, name, kind):
    given = (("a storm",), ("the storm",))
    data = benchmark("data-to-text", ("fluency", "semantics", "grammar"), given)
    found = result(f"{name}:{models[kind]}", data)
    assert found.method.name == f"{name}:{models[kind]}"
    scored = {
        dimension for (_, dimension), value in found.method.scores.items() if value is not None
    }
    if name == "unieval":
        assert scored == {"fluency", "semantics"}
        assert found.notes == ("UniEval has no question for grammar; no score there",)
    else:
        assert scored == {"fluency", "semantics", "grammar"}
        assert len(found.method.scores) == len(data.outputs) * 3
    rough = result(f"{name}:{models[kind]}", data, **{f"{name}.dtype": "bfloat16"})
    assert ",bfloat16|" in rough.method.signature


def test_a_number_that_is_not_finite_is_no_score(models, tmp_path):
    transformers = pytest.importorskip("transformers", reason="the local extra is not installed")
    model = transformers.AutoModel.from_pretrained(models["encoder"])
    model.embeddings.word_embeddings.weight.data[:] = float("nan")
    model.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(models["encoder"]).save_pretrained(tmp_path)
    found = result(f"bertscore:{tmp_path}", benchmark(references=(("a storm",),)))
    assert set(found.method.scores.values()) == {None}
    words = (
        "outputs for which the model gave no finite number, without a score: 2; try dtype=float32"
    )
    assert found.notes == (words,)


@pytest.mark.parametrize("name", ["bertscore", "unieval", "regressor"])
def test_a_dry_run_opens_the_checkpoints_and_runs_no_model(models, name, monkeypatch):
    data = benchmark(references=(("a storm",), ("the storm",)))

    def sentences(path):
        names = [f"{name}:{path}"]
        return rehearse_methods(names, data, data.dimensions, pytest.fail, MethodSettings())

    monkeypatch.setattr("refladder.methods.without_judge.Evaluator.result", None)
    assert sentences(models[KINDS[name]]) == []
    ((_, reason),) = sentences("/no/such-folder")
    assert "such-folder" in reason


def test_unieval_has_no_score_where_a_reference_lacks(models):
    name = f"unieval:{models['t5']}"
    found = result(name, benchmark(dimensions=("relevance", "fluency")))
    without = {key for key, value in found.method.scores.items() if value is None}
    assert without == {("c1/0", "relevance"), ("c1/1", "relevance")}
    assert found.notes == (
        "outputs without a score on a dimension that needs a reference (their context has none): 2",
    )
    # in all contexts
    found = result(name, benchmark(dimensions=("relevance", "coherence"), references=((), ())))
    assert {dimension for _, dimension in found.method.scores} == {"coherence"}
    assert found.notes == ("UniEval has no question for relevance; no score there",)


@pytest.mark.skipif(not DATA.is_dir(), reason="the benchmark files are not there (../shared/data)")
@pytest.mark.parametrize(
    ("name", "folder", "counts"),
    [
        ("summeval", "summeval", {11}),
        ("webnlg", "webnlg2017", {1, 2, 3}),
        ("hanna", "hanna", {1}),
        ("newsroom", "newsroom", {0}),
        ("topicalchat", "topicalchat_usr", {0}),
    ],
)
def test_references_of_the_real_benchmarks(name, folder, counts):
    found = load_benchmark(name, source=DATA / folder)
    assert {len(context.references) for context in found.contexts} == counts
    assert "Human" not in {output.system for output in found.outputs}
