"""The whole report card on the real benchmarks, with seconds and memory.

`python bench/card.py` runs every method that applies with the builtin judge on the five benchmarks, then some of them
on ten contexts of each with a small local model, whose tokenizer and weights are made here from the same texts in a few
seconds. Each run is a process of its own. Results go to bench/results/card.md; `python bench/card.py NAME builtin` or
`... local` prints one of them.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.backends import connect
from refladder.jobs.evaluate import Protocol, evaluate
from refladder.loaders import load_benchmark
from refladder.methods.contract import METHODS, MethodSettings
from refladder.methods.ladder import evaluation_ladders
from refladder.report.agreement_tables import agreement_tables
from refladder.report.cards import card_tables
from refladder.report.rendering import markdown

if TYPE_CHECKING:
    from refladder.records import Benchmark

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "bench" / "results" / "card.md"
SOURCES = {
    "summeval": "summeval/mteb_summeval.test.jsonl.gz",
    "topicalchat": "topicalchat_usr/tc_usr_data.json",
    "hanna": "hanna",
    "newsroom": "newsroom",
    "webnlg": "webnlg2017",
}
MODELS = {
    "gptscore",
    "bertscore",
    "unieval",
    "nli",
    "regressor",
    "questeval",
    "mqag",
}  # not with the builtin judge alone
BUILTIN = [name for name in METHODS if name not in MODELS]
LOCAL = [
    *("ladder", "win-ratio", "win-ratio-debiased", "bradley-terry", "pairs-beam"),
    *("direct-5", "g-eval-5", "gptscore", "rouge-l"),
]
CONTEXTS = 10
STEPS = 60
ROW = 128  # tokens of a training row


def sliced(benchmark: Benchmark) -> Benchmark:
    """The first ten contexts that have outputs, on the first dimension."""
    with_outputs = {output.context_id for output in benchmark.outputs}
    contexts = tuple(context for context in benchmark.contexts if context.id in with_outputs)[:CONTEXTS]
    context_ids = {context.id for context in contexts}
    outputs = tuple(output for output in benchmark.outputs if output.context_id in context_ids)
    output_ids, dimension = {output.id for output in outputs}, benchmark.dimensions[0]
    ratings = tuple(
        rating for rating in benchmark.ratings if rating.output_id in output_ids and rating.dimension == dimension.name
    )
    return replace(benchmark, dimensions=(dimension,), contexts=contexts, outputs=outputs, ratings=ratings)


def small_model(folder: Path, texts: list[str]) -> None:
    """A two-layer model with a tokenizer of its own, both made from these texts, saved in a folder."""
    import torch  # noqa: PLC0415  only the local runs need it
    import transformers  # noqa: PLC0415
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: PLC0415

    torch.manual_seed(0)
    end = "<|end|>"
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=4000, special_tokens=[end], initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(texts, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token=end)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=16384,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    model = transformers.LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    stream = torch.tensor(tokenizer.encode(end.join(texts)))
    for _ in range(STEPS):
        starts = torch.randint(0, len(stream) - ROW, (8,)).tolist()
        ids = torch.stack([stream[start : start + ROW] for start in starts])
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def card(name: str, kind: str) -> str:
    """Run the methods on one benchmark; the tables, seconds and memory in Markdown."""
    benchmark = load_benchmark(name, DATA / SOURCES[name])
    builtin = connect("builtin")
    methods, judge, made = BUILTIN, builtin, ""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "local":
            import torch  # noqa: PLC0415

            torch.set_num_threads(1)
            benchmark, methods = sliced(benchmark), LOCAL
            start = time.perf_counter()
            texts = [record.text for record in (*benchmark.contexts, *benchmark.outputs)]
            small_model(Path(folder), texts)
            judge = connect(f"hf:{folder}", dtype="float32")
            made = f"; making the model took {time.perf_counter() - start:.1f} s"
        settings = MethodSettings(writer=lambda: builtin, work=Path(folder) / "work", least_mass=0.0)  # a tiny model
        if kind == "local":  # so small a model writes no ladders; written before, they are not among what it is asked
            evaluation_ladders(builtin, benchmark, benchmark.dimensions, settings)
        evaluation = evaluate(
            benchmark, judge=judge, methods=methods, settings=settings, protocol=Protocol(resamples=200)
        )
    seconds = sum(run.seconds for run in evaluation.runs)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10))
    size = f"{len(benchmark.contexts):,} contexts, {len(benchmark.outputs):,} outputs"
    skipped = [f"{run.name}: {run.result.skipped}" for run in evaluation.runs if run.result.skipped]
    notes = [f"{run.name}: {note}" for run in evaluation.runs for note in run.result.notes[:1] if run.name != "zepo"]
    parts = [
        (
            f"{size}, {len(benchmark.dimensions)} dimension(s): {seconds:.1f} s for all methods, {peak:,.0f} MB at most"
            f"{made}."
        ),
        markdown([*agreement_tables(evaluation.rows), *card_tables(evaluation.cards)]).strip(),
        "\n".join(f"- {line}" for line in [*skipped, *notes]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def main() -> None:
    """Run everything and record it, or print the benchmark that is named."""
    if len(sys.argv) > 1:
        print(card(sys.argv[1], sys.argv[2]), end="")
        return
    head = (
        "# The report card on real benchmarks\n\nWritten by `bench/card.py` on "
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, with other work on the "
        "machine. The builtin judge puts every text at one number, so that it contradicts itself nowhere and the "
        "methods that ask it enough find the same order. The local model is tiny and made on the spot: its runs show "
        "that everything works and what it costs, "
        "not how a judge of that kind agrees with people.\n"
    )
    sections = [head]
    for kind, title in (("builtin", "builtin judge"), ("local", "small local model, ten contexts, first dimension")):
        for name in SOURCES:
            print(f"{name}, {title}", file=sys.stderr)
            command = [sys.executable, __file__, name, kind]
            done = subprocess.run(
                command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=False
            )
            text = done.stdout.decode() if done.returncode == 0 else f"failed: {done.stderr.decode()[-300:]}\n"
            sections.append(f"## {name}, {title}\n\n{text}")
            RESULTS.write_text("\n".join(sections))


if __name__ == "__main__":
    main()
