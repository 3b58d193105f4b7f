"""The contract of methods: what breaks it is told, and methods that need a model keep it with small ones."""

import itertools
import math
from dataclasses import replace

import pytest
from doubles import Double

from refladder.backends import connect
from refladder.errors import UsageError
from refladder.methods.contract import EvaluationMethod, Method, MethodResult, method_named
from refladder.methods.measures import Part, of_judgments
from refladder.records import Judgment, Prompt, Sampling
from refladder.testing import check_benchmark, check_method, made_benchmark

EMPTY = Prompt(task="t", role="r", literals=("",), names=(), slots={})


def scored(benchmark, dimensions, value=lambda output: float(len(output.text)), **more):
    scores = {
        (output.id, dimension.name): value(output)
        for output in benchmark.outputs
        for dimension in dimensions
    }
    measures = more.pop("measures", {})
    given = {"name": "mine", "signature": "mine|1", "scores": scores, **more}
    return MethodResult(method=Method(**given), measures=measures)


def mine(benchmark, dimensions, _judge, settings, /):
    settings.own("mine", {})
    return scored(benchmark, dimensions)


def judging(benchmark, dimensions, judge, settings, /, *, fill=None):
    """Asks about every output; `fill` stands for what could not be read."""
    settings.own("mine", {})
    given = judge()
    judgments, scores = [], {}
    for output in benchmark.outputs:
        (answer,) = given.write([EMPTY], Sampling()) if given.fingerprint == "mute" else ("1",)
        read = answer == "1"
        judgment = Judgment(
            context_id=output.context_id,
            dimension=dimensions[0].name,
            subject=output.id,
            against=None,
            outcomes=("1", "2"),
            logprobs=(-0.1, -2.4) if read else None,
            mass=1.0 if read else None,
            key="k",
            recipe="r",
            note=None if read else "no answer",
        )
        judgments.append(judgment)
        scores[output.id, dimensions[0].name] = 1.0 if read else fill
    return MethodResult(
        method=Method(name="mine", signature="mine", scores=scores),
        judgments=len(judgments),
        unparsed=sum(judgment.logprobs is None for judgment in judgments),
        measures=of_judgments(judgments),
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


def rehearsing(most):
    """A method that asks half of its prompts in a dry run, or all of them of which `most` are needed."""

    def run(benchmark, dimensions, judge, settings, /):
        if not settings.dry_run:
            return judging(benchmark, dimensions, judge, settings)
        if most is None:
            half = replace(benchmark, outputs=benchmark.outputs[:6])
            return judging(half, dimensions, judge, settings)
        prompts = [replace(EMPTY, slots={"n": str(number)}) for number in range(12)]
        with judge().at_most(most):
            judge().write(prompts, Sampling())
        return MethodResult(method=None)

    return run


@pytest.mark.parametrize(("most", "counted"), [(None, "6"), (11, "at most 11")])
def test_a_dry_run_counts_what_is_asked(most, counted):
    message = f"method 'mine' asks 12 prompts, and {counted} in a dry run; where answers decide"
    with pytest.raises(UsageError, match=message):
        check(rehearsing(most), judge=Answering)
    assert check(rehearsing(12), judge=Answering).judgments == 12


def wrong(**more):
    """A method that scores every output, with something wrong."""

    def method(benchmark, dimensions, _judge, settings, /):
        settings.own("mine", {})
        return scored(benchmark, dimensions, **more)

    return method


def seeing_ratings(benchmark, dimensions, _judge, settings, /):
    settings.own("mine", {})
    return scored(benchmark, dimensions, lambda _output: float(len(benchmark.ratings)))


def part(measure, context, share):
    """A method with one measure."""
    return wrong(measures={Part(measure, "fluency", context): share})


CHANGING = itertools.count()
EQUAL = "equal questions must have equal answers"


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (lambda *_: {}, r"method 'mine' gave \{\}; give a MethodResult"),
        (
            lambda *_: MethodResult(method=None),
            "gave neither scores nor a reason; say in `skipped`",
        ),
        (wrong(name="other"), "calls itself 'other'; tables would show another name"),
        (wrong(signature="two\nlines"), "the signature is one line of text, found"),
        (
            wrong(scores={("x", "fluency"): 1.0}),
            r"scored \('x', 'fluency'\), which is not an \(outpu",
        ),
        (wrong(value=lambda _: math.nan), "the score nan; a score is a finite float or None"),
        (seeing_ratings, f"gives other scores without the ratings; {EQUAL}"),
        (
            wrong(value=lambda _: float(next(CHANGING))),
            f"gives other scores a second time; {EQUAL}",
        ),
        (
            lambda b, d, *_: scored(b, d),
            r"takes an option that it does not have; call settings\.own",
        ),
        (part("x", "c9", (1, 2)), "the benchmark has no such context or dimension"),
        (part("x", "c0", (3, 2)), "is 3 of 2, which is not a share"),
        (part("unparsed", "c0", (1, 2)), "0 unparsed of 0 judgments, and its measures 1"),
    ],
)
def test_what_breaks_the_contract_is_told(method, message):
    with pytest.raises(UsageError, match=message):
        check(method)


def filling(*arguments):
    return judging(*arguments, fill=0.5)


def silent(*arguments):
    return replace(judging(*arguments), judgments=0, unparsed=0, measures={})


@pytest.mark.parametrize(
    ("method", "told"),
    [
        (filling, "made numbers from a judge that answered nothing; what could not be judged"),
        (silent, "reported 0 unparsed of 0 judgments of a judge that answered nothing; count"),
    ],
)
def test_no_number_may_come_from_a_judge_that_answers_nothing(method, told):
    with pytest.raises(UsageError, match=told):
        check(method, judge=Answering)


@pytest.mark.parametrize("task", ["summarization", "data-to-text"])
def test_the_made_benchmark_is_one(task):
    check_benchmark(made_benchmark(task))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Small random models by method, with the benchmark that each can work on."""
    for package in ("torch", "transformers"):
        pytest.importorskip(package)
    import small_models
    import tiny_models

    folder = tmp_path_factory.mktemp("models")
    encoder = small_models.make_encoder(folder / "encoder")
    verdicts = ("entailment", "neutral", "contradiction")
    classes = small_models.make_classifier(folder / "classes", verdicts)
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


NAMES = ("bertscore", "embedding", "unieval", "nli", "regressor", "gptscore")


@pytest.mark.parametrize("name", NAMES)
def test_methods_with_small_models(small, name):
    benchmark, options, judge = small[name]
    given = {"judge": judge, "options": options, "benchmark": benchmark}
    found = check_method(name, method_named(name), **given)
    assert found.method is not None, found.skipped
