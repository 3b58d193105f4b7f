"""What label probabilities cost on one GPU: this package's strategies beside plain methods and the floor, in one run.

    python bench/gpu_forest.py --price 3 --markdown bench/results/gpu_forest.md    # --price: dollars of a GPU hour
    python bench/gpu_forest.py --shapes 0.5B --contexts 750 --rounds 5
    python bench/gpu_forest.py --tiny      # a tiny model on a CPU: shows that the script works, and measures nothing

Models have the shapes of local_tree.py with random weights in bfloat16, the texts are its made-up words. Prompts are those
of contexts with ladders of their own (5 rungs, 16 outputs; and 1 output), and of documents against a shared set of 10
rungs. All methods run in one process, in interleaved rounds. The slow ones run on a part of the prompts and are scaled.
The first run of each method is not in its median: `forest` compiles kernels there, and before in the self-check. The
floor is the operations that no method can avoid, at the rate of matrix products measured in every round. Memory is that
above the model.
"""

# ruff: noqa: ISC004
from __future__ import annotations

import argparse
import math
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import local_tree
import numpy as np
import torch
import transformers
from local_tree import LABELS, Texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from refladder.backends.hf import TransformersBackend
    from refladder.records import Prompt

OURS = ("forest", "masked")
BATCHES = "batches of 8, left-padded, last logits"
SINGLE = "one prompt at a time, last logits"
MILLION = 1_000_000


class Work(NamedTuple):
    """Prompts, and the number of rows (outputs or documents) that they score."""

    name: str
    prompts: list[Prompt]
    rows: int


class Run(NamedTuple):
    """Seconds and peak GiB of one run of a method over all prompts, scaled if it ran on a part."""

    seconds: float
    memory: float


def clock() -> float:
    """Seconds when the device has nothing left to do."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def works(texts: Texts, tokenizer: Any, contexts: list[int], outputs: int, size: int) -> list[Work]:
    """Own ladders with `size` contexts of each length, ladders of one output each, and documents with a shared set."""

    def own(tokens: int, units: int, outputs: int) -> Work:
        words = round(0.95 * tokens)  # the tokenizer makes 1.05 tokens of a word
        prompts = [prompt for _ in range(units) for prompt in texts.unit(words, outputs=outputs)]
        several = "output" if outputs == 1 else "outputs"
        name = f"own ladders of 5 rungs, contexts of {tokens:,} tokens, {outputs} {several} each"
        return Work(name, prompts, units * outputs)

    documents = outputs * size // 2
    shared = texts.shared(tokenizer, documents)
    return [
        *(own(tokens, size, outputs) for tokens in contexts),
        own(contexts[len(contexts) // 2], outputs * size, 1),
        Work("documents of 600 tokens against a shared set of 10 rungs", shared, documents),
    ]


def matrix_rate(config: Any, device: str, dtype: torch.dtype) -> float:
    """Operations a second of the model's own kind of product, the best of a few."""
    tokens, hidden, inner = 8192, config.hidden_size, config.intermediate_size
    left = torch.randn(tokens, hidden, device=device, dtype=dtype)
    right = torch.randn(inner, hidden, device=device, dtype=dtype)
    seconds = []
    for _ in range(6):
        began = clock()
        for _ in range(4):
            torch.nn.functional.linear(left, right)
        seconds.append((clock() - began) / 4)
    return 2 * tokens * hidden * inner / min(seconds)


def measured(run: Callable[[], object], scale: float) -> Run:
    """Time a method, and take its peak memory."""
    if not torch.cuda.is_available():
        began = clock()
        run()
        return Run((clock() - began) * scale, math.nan)
    torch.cuda.reset_peak_memory_stats()
    before, began = torch.cuda.memory_allocated(), clock()
    run()
    seconds = clock() - began
    return Run(seconds * scale, (torch.cuda.max_memory_allocated() - before) / 2**30)


def methods_of(
    backend: TransformersBackend, work: Work, part: int, fell: set[str]
) -> dict[str, tuple[float, Callable[[], object]]]:
    """Return for each method its scale (it may run on a part) and a function; `fell` gets strategies that gave way."""
    scorer: Any = backend.scorer
    tokenizer = backend.opened.tokenizer
    few = work.prompts[:: max(1, len(work.prompts) // part)][:part]

    # An out-of-memory error of one strategy must not shorten the rows of another.
    limits: dict[str, int | None] = {}

    def ours(strategy: str) -> None:
        scorer.strategy, scorer.forward_tokens = strategy, limits.get(strategy)
        backend.read_labels(work.prompts, LABELS)
        limits[strategy] = scorer.forward_tokens
        if scorer.strategy != strategy:
            fell.add(strategy)

    def plain(prompts: list[Prompt], size: int) -> None:
        local_tree.padded(scorer.model, tokenizer, prompts, size)

    scale = len(work.prompts) / len(few)
    return {
        **{strategy: (1.0, lambda strategy=strategy: ours(strategy)) for strategy in OURS},
        BATCHES: (scale / 2, lambda: plain(few * 2, 8)),
        SINGLE: (scale, lambda: plain(few, 1)),
    }


def apart(backend: TransformersBackend, work: Work) -> str:
    """Say how far the readings of the strategies are from those of one prompt at a time, on a few prompts."""
    few = work.prompts[:: max(1, len(work.prompts) // 16)]
    scorer: Any = backend.scorer
    read = {}
    for strategy in (*OURS, "single"):
        scorer.strategy, scorer.forward_tokens = strategy, None
        read[strategy] = np.array([each.logprobs for each in backend.read_labels(few, LABELS)])
    differences = {each: read[each] - read["single"] for each in OURS}
    shown = (
        f"`{name}` {np.sqrt(np.mean(gap**2)):.2g} rms, {np.abs(gap).max():.2g} at most"
        for name, gap in differences.items()
    )
    return f"Nats from one prompt at a time, {len(few)} prompts: {'; '.join(shown)}."


def compare(
    backend: TransformersBackend, work: Work, rounds: int, part: int, price: float | None
) -> list[str]:
    """Return the table of one model and one kind of work."""
    scorer: Any = backend.scorer
    config, device = scorer.model.config, scorer.model.device.type
    fell: set[str] = set()
    methods = methods_of(backend, work, part, fell)
    ran: dict[str, int] = {}
    first, later = {}, {name: [] for name in methods}
    rates = []
    for number in range(rounds + 1):
        rates.append(matrix_rate(config, device, scorer.model.dtype))
        for name, (scale, run) in methods.items():
            before = scorer.tokens_run
            result = measured(run, scale)
            ran[name] = scorer.tokens_run - before
            if number:
                later[name].append(result)
            else:
                first[name] = result
    tokens = sum(len(backend.tokens.prompts([prompt.text])[0]) for prompt in work.prompts)
    rate = statistics.median(rates)
    floor = local_tree.operations(backend, work.prompts) / rate
    medians = {name: statistics.median(run.seconds for run in runs) for name, runs in later.items()}
    lines = [
        f"### {work.name}",
        "",
        f"{len(work.prompts)} prompts of {tokens:,} tokens for {work.rows} rows. Matrix rate {rate / 1e12:.3g} TFLOP/s "
        f"(median of {len(rates)}), so the floor is {floor:.3g} s. {apart(backend, work)}",
        "",
        "| method | tokens run | first run, s | median s | x floor | x as fast as batches of 8 | peak GiB "
        "| rows/s | rows an hour | 1 million rows, hours | $ |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, median in medians.items():
        memory = max(run.memory for run in later[name])
        hours = MILLION / work.rows * median / 3600
        cells = [
            name + (" (gave way to `masked`)" if name in fell else ""),
            f"{ran[name]:,}" if name in OURS else "-",
            f"{first[name].seconds:.3g}",
            f"{median:.3g}",
            f"{median / floor:.1f}",
            f"{medians[BATCHES] / median:.1f}",
            "-" if math.isnan(memory) else f"{memory:.2f}",
            f"{work.rows / median:.3g}",
            f"{3600 * work.rows / median:,.0f}",
            f"{hours:.3g}",
            "-" if price is None else f"{hours * price:,.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    saved = (medians["masked"] - medians["forest"]) / work.rows
    spent = (first["forest"].seconds - medians["forest"]) - (
        first["masked"].seconds - medians["masked"]
    )
    gain = f"after {max(0, spent) / saved:,.0f} rows" if saved > 0 else "never: `masked` is faster"
    return [
        *lines,
        "",
        f"`forest` regains what its first run takes longer, without the self-check, {gain}.",
    ]


def main() -> None:
    """Measure each shape with each kind of work, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default="0.5B,3B,8B", help="of the models, with commas")
    parser.add_argument("--contexts", default="200,750,3000", help="tokens, with commas")
    parser.add_argument("--size", type=int, default=4, help="contexts of 16 outputs")
    parser.add_argument("--part", type=int, default=40, help="prompts that the slow methods run on")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--price", type=float, help="dollars of a GPU hour")
    parser.add_argument("--markdown", type=Path, help="file for the tables")
    parser.add_argument("--tiny", action="store_true", help="a tiny model on a CPU, one round")
    arguments = parser.parse_args()
    if arguments.tiny and arguments.markdown is not None:
        parser.error("--tiny writes no file: its figures are those of a CPU")
    if not arguments.tiny and not torch.cuda.is_available():
        parser.error("torch sees no GPU here; --tiny shows on a CPU that the script works")
    tiny = arguments.tiny
    device = "cpu" if tiny else "cuda"
    shapes = ["tiny"] if tiny else arguments.shapes.split(",")
    contexts = [30] if tiny else [int(each) for each in arguments.contexts.split(",")]
    texts = Texts(0)
    tokenizer = texts.tokenizer()
    everything = works(texts, tokenizer, contexts, *((2, 1) if tiny else (16, arguments.size)))
    lines = [
        "A tiny model on a CPU: this shows that the script works. No figure below says anything about a GPU."
        if tiny
        else f"{torch.cuda.get_device_name()}, random weights, bfloat16, torch {torch.__version__}, transformers "
        f"{transformers.__version__}; {arguments.rounds} rounds after a first one.",
    ]

    def show(more: list[str]) -> None:
        print("\n".join(more), flush=True)
        lines.extend(more)
        if arguments.markdown is not None:
            arguments.markdown.write_text("\n".join([*lines, ""]), "utf-8")

    print(lines[0])
    for shape in shapes:
        backend = local_tree.causal(shape, tokenizer, device, "float32" if tiny else "bfloat16")
        began = clock()
        scorer: Any = backend.scorer
        opened = clock() - began
        weights = Counter(str(each.dtype) for each in scorer.model.parameters()).most_common(1)
        show(
            [
                "",
                f"## {shape}: {weights[0][0]}, the self-check chose `{scorer.strategy}`",
                "",
                f"Reading the weights and the self-check, with the kernels that it compiles: {opened:.1f} s.",
            ]
        )
        for work in everything:
            rounds, part = (1, 8) if tiny else (arguments.rounds, arguments.part)
            show(["", *compare(backend, work, rounds, part, arguments.price)])
        del backend, scorer
        if not tiny:
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
