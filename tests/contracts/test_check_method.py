"""The contract of methods: what breaks it is told, and methods that need a model keep it with small ones."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from doubles import Double

from refladder.backends import connect
from refladder.errors import UsageError
from refladder.methods.contract import EvaluationMethod, Method, MethodResult, method_named
from refladder.methods.measures import Part, of_judgments
from refladder.records import Judgment, Prompt, Sampling
from refladder.testing import check_benchmark, check_method, made_benchmark

HERE = Path(__file__).parents[1]


EMPTY = Prompt(task="t", role="r", literals=("",), names=(), slots={})


def scored(benchmark, dimensions, value=lambda output: float(len(output.text)), **more):
    scores = {
        (output.id, dimension.name): value(output)
        for output in benchmark.outputs
        for dimension in dimensions
    }
    given = {"name": "mine", "signature": "mine|1", "scores": scores, **more}
    return MethodResult(method=Method(**given))


def mine(benchmark, dimensions, _judge, settings, /):
    settings.own("mine", {})
    return scored(benchmark, dimensions)


def judging(benchmark, dimensions, judge, settings, /, *, fill=None, counted=True):
    """Asks about every output; `fill` stands for what could not be read."""
    settings.own("mine", {})
    given = judge()
    judgments, scores = [], {}
    for output in benchmark.outputs:
        (answer,) = given.write([EMPTY], Sampling()) if given.fingerprint == "mute" else ("1",)
        read = answer == "1"
        judgments.append(
            Judgment(
                context_id=output.context_id, dimension=dimensions[0].name, subject=output.id, against=None,
                outcomes=("1", "2"), logprobs=(-0.1, -2.4) if read else None, mass=1.0 if read else None, key="k",
                recipe="r", note=None if read else "no answer",
            )
        )  # fmt: skip
        scores[output.id, dimensions[0].name] = 1.0 if read else fill
    unread = sum(judgment.logprobs is None for judgment in judgments)
    return MethodResult(
        method=Method(name="mine", signature="mine", scores=scores),
        judgments=len(judgments),
        unparsed=unread if counted else 0,
        measures=of_judgments(judgments) if counted else {},
    )


class Answering(Double):
    """Under the fingerprint by which `judging` tells judges that it can ask."""

    fingerprint = "mute"

    def write(self, _prompts, _sampling):
        return ["1"]


def check(run, **more):
    return check_method("mine", EvaluationMethod(run=run), **more)


def test_a_good_method_passes():
    assert check(mine).method.name == "mine"
    assert check(judging, judge=Answering).judgments == 12


def test_a_dry_run_counts_what_is_asked():
    def rehearsing(most):
        """Asks half of its prompts in a dry run, or all of them of which `most` are needed."""

        def run(benchmark, dimensions, judge, settings, /):
            if not settings.dry_run:
                return judging(benchmark, dimensions, judge, settings)
            if most is None:
                return judging(
                    replace(benchmark, outputs=benchmark.outputs[:6]), dimensions, judge, settings
                )
            with judge().at_most(most):
                judge().write(
                    [replace(EMPTY, slots={"n": str(number)}) for number in range(12)], Sampling()
                )
            return MethodResult(method=None)

        return run

    with pytest.raises(
        UsageError, match="method 'mine' asks 12 prompts, and 6 in a dry run; where answers decide"
    ):
        check(rehearsing(None), judge=Answering)
    with pytest.raises(
        UsageError, match="asks 12 prompts, and at most 11 in a dry run; where answers decide what"
    ):
        check(rehearsing(11), judge=Answering)
    assert check(rehearsing(12), judge=Answering).judgments == 12


def wrong(**more):
    def method(benchmark, dimensions, _judge, settings, /):
        settings.own("mine", {})
        return scored(benchmark, dimensions, **more)

    return method


def seeing_ratings(benchmark, dimensions, _judge, settings, /):
    settings.own("mine", {})
    return scored(benchmark, dimensions, lambda _output: float(len(benchmark.ratings)))


def changing():
    calls = []

    def method(benchmark, dimensions, _judge, settings, /):
        settings.own("mine", {})
        calls.append(1)
        return scored(benchmark, dimensions, lambda _output: float(len(calls)))

    return method


def with_measures(measures):
    def method(benchmark, dimensions, _judge, settings, /):
        settings.own("mine", {})
        return replace(scored(benchmark, dimensions), measures=measures)

    return method


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (lambda *_: {}, r"method 'mine' gave \{\}; give a MethodResult"),
        (lambda *_: MethodResult(method=None), "gave neither scores nor a reason; say in `skipped` why"),
        (wrong(name="other"), "calls itself 'other'; tables would show another name"),
        (wrong(signature="two\nlines"), "the signature is one line of text, found"),
        (wrong(scores={("nowhere", "fluency"): 1.0}), r"scored \('nowhere', 'fluency'\), which is not an \(output id"),
        (wrong(value=lambda _: float("nan")), "the score nan; a score is a finite float or None"),
        (seeing_ratings, "gives other scores without the ratings; equal questions must have equal answers"),
        (changing(), "gives other scores a second time; equal questions must have equal answers"),
        (lambda b, d, *_: scored(b, d), r"takes an option that it does not have; call settings\.own\('mine'"),
        (with_measures({Part("x", "fluency", "c9"): (1, 2)}), "the benchmark has no such context or dimension"),
        (with_measures({Part("x", "fluency", "c0"): (3, 2)}), "is 3 of 2, which is not a share"),
        (with_measures({Part("unparsed", "fluency", "c0"): (1, 2)}), "0 unparsed of 0 judgments, and its measures 1"),
    ],
)  # fmt: skip
def test_what_breaks_the_contract_is_told(method, message):
    with pytest.raises(UsageError, match=message):
        check(method)


def test_no_number_may_come_from_a_judge_that_answers_nothing():
    def filling(*arguments):
        return judging(*arguments, fill=0.5)

    with pytest.raises(
        UsageError,
        match="made numbers from a judge that answered nothing; what could not be judged",
    ):
        check(filling, judge=Answering)

    def silent(benchmark, dimensions, judge, settings, /):
        found = judging(benchmark, dimensions, judge, settings)
        return replace(found, judgments=0, unparsed=0, measures={})

    with pytest.raises(
        UsageError,
        match="reported 0 unparsed of 0 judgments of a judge that answered nothing; count",
    ):
        check(silent, judge=Answering)


@pytest.mark.parametrize("task", ["summarization", "data-to-text"])
def test_the_made_benchmark_is_one(task):
    check_benchmark(made_benchmark(task))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Small random models by method, with the benchmark that each can work on."""
    for package in ("torch", "transformers"):
        pytest.importorskip(
            package, reason=f"{package} is not installed; pip install torch transformers"
        )
    sys.path[:0] = [str(HERE / "scoring")]
    import tiny_models
    from support import small_models

    folder = tmp_path_factory.mktemp("models")
    encoder = small_models.make_encoder(folder / "encoder")
    classes = small_models.make_classifier(
        folder / "classes", ("entailment", "neutral", "contradiction")
    )
    number = small_models.make_classifier(folder / "number", ("number",))
    questions = small_models.make_t5(folder / "t5")
    judge = connect(f"hf:{tiny_models.save('llama', folder / 'llama')}", dtype="float32")
    news, data = made_benchmark(), made_benchmark("data-to-text")
    return {
        "bertscore": (news, {"bertscore.checkpoint": str(encoder)}, None),
        "embedding": (news, {"embedding.checkpoint": str(encoder)}, None),
        "unieval": (news, {"unieval.checkpoint": str(questions)}, None),
        "nli": (data, {"nli.checkpoint": str(classes)}, None),
        "regressor": (news, {"regressor.checkpoint": str(number)}, None),
        "gptscore": (news, {}, lambda: judge),
    }


@pytest.mark.parametrize(
    "name", ["bertscore", "embedding", "unieval", "nli", "regressor", "gptscore"]
)
def test_methods_with_small_models(small, name):
    benchmark, options, judge = small[name]
    found = check_method(
        name, method_named(name), judge=judge, options=options, benchmark=benchmark
    )
    assert found.method is not None, found.skipped
