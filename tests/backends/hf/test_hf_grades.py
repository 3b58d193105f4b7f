"""g-eval-100 on a local model, against one full forward pass for each grade, with transformers alone."""

import math
from dataclasses import replace

import pytest

from refladder.loaders import load_benchmark
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import run_methods
from refladder.prompts import fill, load_template

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@torch.inference_mode()
def naive(path, text, prefix):
    """TrustJudge: the sum over 1..100 of s times p(s), where p is a softmax over the numbers after the prefix.

    The probability of a number is the product over its tokens, less that of the numbers that begin with it.
    """
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
    )
    chat += prefix
    start = len(tokenizer(chat, add_special_tokens=False)["input_ids"])
    begins, lengths = {}, set()
    for number in range(1, 101):
        ids = tokenizer(f"{chat}{number}", add_special_tokens=False)["input_ids"]
        logprobs = torch.log_softmax(
            model(input_ids=torch.tensor([ids])).logits[0].double(), dim=-1
        )
        begins[number] = math.exp(
            sum(float(logprobs[place - 1, ids[place]]) for place in range(start, len(ids)))
        )
        lengths.add(len(ids) - start)
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
