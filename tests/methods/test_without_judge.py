"""Methods without a judge on a benchmark: what they score, what they skip, and why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from refladder.errors import UnknownNameError, UsageError
from refladder.loaders import load_benchmark
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import rehearse_methods, run_methods
from refladder.methods.reference_metrics import NO_WORDNET
from refladder.records import Benchmark, Context, Dimension, Output

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
NAMES = ("bleu", "chrf", "rouge-1", "rouge-2", "rouge-l", "meteor")


def benchmark(
    task="summarization",
    dimensions=("coherence", "fluency"),
    references=(("a storm", "the storm"), ()),
):
    contexts = tuple(
        Context(id=f"c{number}", task=task, text="ferry | open | yes", references=own)
        for number, own in enumerate(references)
    )
    texts = ("the storm", "bread is bread")
    return Benchmark(
        name="mine",
        revision="1",
        licence="none",
        dimensions=tuple(Dimension(name=name, description=name) for name in dimensions),
        contexts=contexts,
        outputs=tuple(
            Output(id=f"{context.id}/{place}", context_id=context.id, system=f"s{place}", text=text)
            for context in contexts
            for place, text in enumerate(texts)
        ),
        ratings=(),
    )


def no_judge():
    raise AssertionError


def one(name, data, **options):
    return run_methods([name], data, data.dimensions, no_judge, MethodSettings(options=options))[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_context_without_references_has_no_score(name):
    pytest.importorskip("nltk", reason="the metrics extra is not installed")
    result = one(name, benchmark()).result
    scores = result.method.scores
    assert scores["c0/0", "coherence"] > scores["c0/1", "coherence"]
    assert scores["c0/0", "coherence"] == scores["c0/0", "fluency"]
    assert [scores[f"c1/{place}", "fluency"] for place in (0, 1)] == [None, None]
    *lacking, told = result.notes
    assert told == "contexts without references, whose outputs have no score: 1"
    assert lacking == (
        [NO_WORDNET] if "|stages:exact,stem|" in result.method.signature else []
    )  # of meteor
    assert result.method.signature.startswith(f"{name}|")


@pytest.mark.parametrize("name", [*NAMES, "bertscore:some-encoder"])
def test_a_benchmark_without_references_is_skipped(name):
    result = one(name, benchmark(references=((), ()))).result
    assert result.method is None
    assert (
        result.skipped
        == "mine has no references to compare with, so this method has nothing to work on; leave it out"
    )


@pytest.mark.parametrize(
    ("name", "task", "reason"),
    [
        (
            "bertscore",
            "summarization",
            "no checkpoint was named; fetch an encoder such as bert-base-uncased",
        ),
        ("unieval", "summarization", "no checkpoint was named; fetch MingZhong/unieval-sum"),
        (
            "nli",
            "data-to-text",
            "no checkpoint was named; fetch a model trained on natural language inference",
        ),
        (
            "regressor",
            "summarization",
            "no checkpoint was named; train a sequence classifier with one output",
        ),
        ("nli", "summarization", "it reads triples of data, and the task of mine is summarization"),
        (
            "unieval:t5",
            "story",
            "UniEval has no question for story on coherence, fluency with the available data",
        ),
        (
            "embedding",
            "summarization",
            "no checkpoint was named; fetch a sentence encoder such as sentence-",
        ),
        (
            "bertscore:/none",
            "summarization",
            "bertscore:/none: no such folder; pass bertscore:FOLDER or .*; fetch an",
        ),
        (
            "unieval:/none",
            "summarization",
            "unieval:/none: no such folder; pass .*; fetch MingZhong/unieval-sum",
        ),
        (
            "regressor:/none",
            "summarization",
            "regressor:/none: no such folder; pass .*; train a sequence classifier",
        ),
        (
            "nli:/none",
            "data-to-text",
            "nli:/none: no such folder; pass .*; fetch a model trained on natural language",
        ),
        (
            "questeval:/none+/no",
            "story",
            "questeval:/none: no such folder; pass .*; fetch ThomasNLG/t5-qg_squad1-en",
        ),
        (
            "mqag:/none+/no+/nil",
            "story",
            "mqag:/none: no such folder; pass .*; fetch potsawee/t5-large-generation-race",
        ),
        (
            "questeval",
            "summarization",
            "no checkpoint was named; fetch ThomasNLG/t5-qg_squad1-en and ThomasNLG/t5-qa_",
        ),
        (
            "mqag",
            "summarization",
            "no checkpoint was named; fetch potsawee/t5-large-generation-race-QuestionAnswer, po",
        ),
    ],
)
def test_why_a_method_was_skipped(name, task, reason):
    if ":/" in name:
        pytest.importorskip("transformers", reason="the local extra is not installed")
    result = one(name, benchmark(task)).result
    assert result.method is None
    assert re.match(reason, result.skipped)


def test_options_and_paths_of_methods_that_have_none():
    with pytest.raises(UnknownNameError, match="unknown option of method 'bleu' 'checkpoint'"):
        one("bleu:path", benchmark())
    with pytest.raises(
        UsageError, match=r"bertscore\.layer=last: a whole number, 0 or more, is needed"
    ):
        one("bertscore:some-encoder", benchmark(), **{"bertscore.layer": "last"})
    for questions in ("0", "many"):
        with pytest.raises(
            UsageError, match=rf"mqag\.questions={questions}: a whole number, 1 or more, is needed"
        ):
            one("mqag:a+b+c", benchmark(), **{"mqag.questions": questions})
    with pytest.raises(
        UsageError,
        match=r"questeval takes 2 checkpoints with \+ between them \(question generator, rea",
    ):
        one("questeval:one", benchmark())
    with pytest.raises(
        UsageError,
        match=r"mqag takes 3 checkpoints with \+ between them .*, found 'a\+b'; fetch pots",
    ):
        one("mqag:a+b", benchmark())


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    pytest.importorskip("transformers", reason="the local extra is not installed")

    from support import small_models

    folder = tmp_path_factory.mktemp("models")
    return {
        "bertscore": small_models.make_encoder(folder / "encoder"),
        "unieval": small_models.make_t5(folder / "t5"),
        "nli": small_models.make_classifier(folder / "nli", ["contradiction", "entailment"]),
        "regressor": small_models.make_classifier(folder / "regressor", ["LABEL_0"]),
        "questeval": "+".join(
            (
                str(small_models.make_taught_t5(folder / "asker", ASKED)),
                str(small_models.make_taught_t5(folder / "answerer", ANSWERED)),
            )
        ),
        "mqag": "+".join(
            (
                str(small_models.make_taught_t5(folder / "generator", DRAWN)),
                str(small_models.make_taught_t5(folder / "distractors", WRONG)),
                str(small_models.make_longformer_choice(folder / "choice")),
            )
        ),
    }


# What the small models are taught for the texts of `benchmark`: "the storm", "bread is bread", "ferry | open | yes".
ASKED = {
    f"sv1 </s> {span} </s> {text}": f"what is {span} ?"
    for text, own in {
        "ferry | open | yes": ("ferry", "open"),
        "the storm": ("storm",),
        "bread is bread": ("bread",),
    }.items()
    for span in own
}
ANSWERED = {
    f"what is {span} ? </s> {text}": "unanswerable"
    for span in ("ferry", "open", "storm", "bread")
    for text in ("ferry | open | yes", "the storm", "bread is bread")
}
DRAWN = {"the storm": "what is the storm ? <sep> a storm", "bread is bread": "bread"}
WRONG = {"what is the storm ? <sep> a storm <sep> the storm": "bread <sep> ferry"}


def test_checkpoints_by_path(small):
    data = benchmark(
        "data-to-text", ("fluency", "semantics", "grammar"), (("a storm",), ("the storm",))
    )
    names = [f"{name}:{path}" for name, path in small.items()]
    settings = MethodSettings(options={"mqag.questions": "2"})
    runs = run_methods(names, data, data.dimensions, no_judge, settings)
    for name, run in zip(names, runs, strict=True):
        method = run.result.method
        assert method.name == name
        scored = {dimension for (_, dimension), value in method.scores.items() if value is not None}
        if name.startswith("unieval"):
            assert scored == {"fluency", "semantics"}
            assert run.result.notes == ("UniEval has no question for grammar; no score there",)
        elif name.startswith("mqag"):
            assert {
                output for (output, _), value in method.scores.items() if value is not None
            } == {"c0/0", "c1/0"}
            assert run.result.notes == (
                "questions left out (no answer, no wrong option, cut off, or not answerable): 4",
                "outputs about which no question could be parsed, without a score: 2",
            )
            assert re.match(
                r"mqag\|models:generator@\w+,float32\+distractors@\w+,float32\+choice@",
                method.signature,
            )
            assert "|questions:2|seed:0|distance:total-variation|refladder:" in method.signature
        else:
            assert scored == {"fluency", "semantics", "grammar"}
            assert len(method.scores) == len(data.outputs) * 3


def test_the_machine_is_asked_for_by_option(small):
    data = benchmark("data-to-text", ("fluency",), (("a storm",),))
    for name, path in small.items():
        few = {"mqag.questions": "1"} if name == "mqag" else {}

        def run(name=name, path=path, few=few, **machine):
            options = {f"{name}.{key}": value for key, value in machine.items()}
            return one(f"{name}:{path}", data, **options, **few).result

        assert ",bfloat16|" in run(dtype="bfloat16", device="cpu").method.signature
        with pytest.raises(
            UsageError,
            match="device=gpu9: torch has no such device here; use cpu, cuda or cuda:NUMBER",
        ):
            run(device="gpu9")
        with pytest.raises(
            UsageError, match="memory=lots: must be an amount such as 8G or 512M, or auto"
        ):
            run(memory="lots")


def test_draws_follow_the_seed_of_the_run(small):
    data = benchmark("summarization", ("fluency",), ((),))
    names = [f"mqag:{small['mqag']}"]
    options = {"mqag.questions": "2"}
    for seed in (0, 3):
        run = run_methods(
            names, data, data.dimensions, no_judge, MethodSettings(options=options, seed=seed)
        )[0]
        assert f"|questions:2|seed:{seed}|" in run.result.method.signature


def test_a_number_that_is_none_has_no_score(small):
    transformers = pytest.importorskip("transformers", reason="the local extra is not installed")
    folder = Path(small["bertscore"]).parent / "broken"
    model = transformers.AutoModel.from_pretrained(small["bertscore"])
    model.embeddings.word_embeddings.weight.data[:] = float("nan")
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(small["bertscore"]).save_pretrained(folder)
    data = benchmark("summarization", ("fluency",), (("a storm",),))
    result = one(f"bertscore:{folder}", data).result
    assert set(result.method.scores.values()) == {None}
    assert result.notes == (
        "outputs for which the model gave no finite number, without a score: 2; try dtype=float32",
    )


@pytest.mark.parametrize("name", ["bertscore", "unieval", "regressor", "questeval"])
def test_a_dry_run_opens_the_checkpoints_and_runs_no_model(small, name, monkeypatch):
    data = benchmark("summarization", ("fluency",), (("a storm",), ("the storm",)))

    def sentences(paths):
        return rehearse_methods(
            [f"{name}:{paths}"], data, data.dimensions, no_judge, MethodSettings()
        )

    monkeypatch.setattr("refladder.methods.without_judge.Evaluator.result", None)
    assert sentences(small[name]) == []
    missing = "+".join(["/no/such-folder"] * len(str(small[name]).split("+")))
    ((_, reason),) = sentences(missing)
    assert "such-folder" in reason


def test_unieval_has_no_score_where_a_context_lacks_its_reference(small):
    result = one(
        f"unieval:{small['unieval']}", benchmark("summarization", ("relevance", "fluency"))
    ).result
    without = {key for key, value in result.method.scores.items() if value is None}
    assert without == {("c1/0", "relevance"), ("c1/1", "relevance")}
    assert result.notes == (
        "outputs without a score on a dimension that needs a reference (their context has none): 2",
    )


def test_unieval_without_references_leaves_their_dimension_out(small):
    data = benchmark("summarization", ("relevance", "coherence"), ((), ()))
    result = one(f"unieval:{small['unieval']}", data).result
    assert {dimension for _, dimension in result.method.scores} == {"coherence"}
    assert result.notes == ("UniEval has no question for relevance; no score there",)


@pytest.mark.skipif(not DATA.is_dir(), reason="the benchmark files are not there (../shared/data)")
def test_real_references_are_there():
    summeval = load_benchmark("summeval", source=DATA / "summeval")
    assert {len(context.references) for context in summeval.contexts} == {11}
    webnlg = load_benchmark("webnlg", source=DATA / "webnlg2017")
    assert {len(context.references) for context in webnlg.contexts} == {1, 2, 3}
    hanna = load_benchmark("hanna", source=DATA / "hanna")
    assert {len(context.references) for context in hanna.contexts} == {1}
    assert "Human" not in {output.system for output in hanna.outputs}
    for name, folder in (("newsroom", "newsroom"), ("topicalchat", "topicalchat_usr")):
        assert not any(
            context.references for context in load_benchmark(name, source=DATA / folder).contexts
        )
