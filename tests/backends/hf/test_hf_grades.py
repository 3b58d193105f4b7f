"""Ratings by a local model, against one full forward pass for each number, with transformers alone."""

import math
from dataclasses import replace

import pytest

import refladder
from refladder.loaders import load_benchmark
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import run_methods
from refladder.prompts import fill, load_template

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@torch.inference_mode()
def begun(path, text, prefix, numbers):
    """The probability that the answer after the prefix begins with each number, and how many tokens the numbers have."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
    )
    chat += prefix
    start = len(tokenizer(chat, add_special_tokens=False)["input_ids"])
    begins, lengths = {}, set()
    for number in numbers:
        ids = tokenizer(f"{chat}{number}", add_special_tokens=False)["input_ids"]
        logprobs = torch.log_softmax(
            model(input_ids=torch.tensor([ids])).logits[0].double(), dim=-1
        )
        begins[number] = math.exp(
            sum(float(logprobs[place - 1, ids[place]]) for place in range(start, len(ids)))
        )
        lengths.add(len(ids) - start)
    return begins, lengths


def naive(path, text, prefix):
    """TrustJudge: the sum over 1..100 of s times p(s), where p is a softmax over the numbers after the prefix.

    The probability of a number is the product over its tokens, less that of the numbers that begin with it.
    """
    begins, lengths = begun(path, text, prefix, range(1, 101))
    assert lengths == {1, 2, 3}  # the numbers of this tokenizer have as many tokens as digits
    whole = dict(begins)
    for number in range(1, 10):
        whole[number] -= sum(begins[10 * number + digit] for digit in range(10))
    whole[10] -= begins[100]
    return sum(number * share for number, share in whole.items()) / sum(whole.values())


def test_g_eval_100_is_the_expectation_over_whole_numbers(folder, opened):
    shipped = load_benchmark("demo/dialogue")
    context, dimension = shipped.contexts[0], shipped.dimensions[0]
    outputs = tuple(output for output in shipped.outputs if output.context_id == context.id)[:1]
    benchmark = replace(
        shipped, contexts=(context,), outputs=outputs, dimensions=(dimension,), ratings=()
    )
    settings = MethodSettings(least_mass=0.0)
    (run,) = run_methods(["g-eval-100"], benchmark, [dimension], lambda: opened("llama"), settings)
    template = load_template("dialogue", "direct-100")
    for output in outputs:
        slots = {
            "context": context.text,
            "background": context.background,
            "dimension": dimension.name,
            "description": dimension.description,
            "target": output.text,
        }
        expected = naive(
            folder("llama"), fill(template, slots).messages[0]["content"], template.prefix
        )
        told = dimension.low + (dimension.high - dimension.low) * (expected - 1) / 99
        assert run.result.method.scores[output.id, dimension.name] == pytest.approx(told, abs=1e-4)
    assert "|grades:100|rule:expected" in run.result.method.signature


@pytest.mark.parametrize("answers", ["rating", "anchored"])
def test_a_rating_is_the_expectation_over_five_digits(answers, folder, opened):
    ladders = refladder.load_ladders("demo/story")
    dimension = next(each for each in ladders.dimensions if each.name == "coherence")
    context = ladders.contexts["story-04"]
    texts = ["Ember sneezed, and the kite burned.", "It rained."]
    rows = [{"context_id": context.id, "output": text} for text in texts]
    scored = refladder.score(
        rows, ladders=ladders, judge=opened("llama"), answers=answers,
        dimensions=[dimension.name], any_judge=True, least_mass=0.0, store=False,
    )  # fmt: skip
    template = load_template("story", answers)
    assert template.prefix
    slots = {
        "context": context.text,
        "background": context.background,
        "dimension": dimension.name,
        "description": dimension.description,
    }
    if answers == "anchored":
        # Five rungs are the ratings 1 to 5.
        rungs = ladders.ladders[context.id, dimension.name].rungs
        examples = "\n\n".join(f"Rating {rung.level}:\n{rung.text}" for rung in rungs)
        slots |= {"examples": examples, "reference_context": "", "reference_background": ""}
    for text, row in zip(texts, scored, strict=True):
        prompt = fill(template, slots | {"target": text})
        digits, lengths = begun(
            folder("llama"), prompt.messages[0]["content"], template.prefix, range(1, 6)
        )
        assert lengths == {1}
        mass = sum(digits.values())
        mean = sum(digit * share for digit, share in digits.items()) / mass
        variance = sum((digit - mean) ** 2 * share for digit, share in digits.items()) / mass
        assert row["coherence_score"] == pytest.approx(mean, abs=5e-5)
        # In units of the grade: a rating of anchored counts 4/5 of a grade. A judge that is refused gives no grade.
        spread = (
            pytest.approx(0.8 * math.sqrt(variance), abs=5e-5) if answers == "anchored" else None
        )
        assert row["coherence_spread"] == spread
        assert row["coherence_mass"] == pytest.approx(mass, abs=5e-5)
