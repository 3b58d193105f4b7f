"""How fast label probabilities come out of a local model, beside what could be used instead.

    python bench/local_tree.py --rounds 3 --markdown bench/results/local_tree.md
    python bench/local_tree.py --growth           # how time and memory grow, on a small shape
    python bench/local_tree.py --shared           # documents against a shared set; also with --model
    python bench/local_tree.py --quick            # a tiny model, seconds
    python bench/local_tree.py --shape 3B         # 0.5B, 3B or 8B
    python bench/local_tree.py --shared --model hf:FILE.gguf         # a real model, opened by hf for every method

One unit of work is a context of 450 words, 5 rungs and 16 outputs on one dimension: 80 prompts. Whoever shares more of
a prompt gains more, so `--words CONTEXT,RUNG,OUTPUT` makes others. With `--shared` it is 4 documents of 600 tokens
against the 10 rungs of a shared set, of 120 tokens: 40 prompts. No method begins the answer with a prefix. The model
has the shape of Qwen2.5-0.5B with random weights, the texts are made-up words, the tokenizer is trained on them.
Methods are timed in interleaved rounds, each in its own process, with the default allocator settings of glibc and
torch, or with `tune_allocators` of the hf backend (`--memory kept`): freed memory is kept, and large buffers are in
huge pages. refladder is timed with both. The slow methods run on a part of the prompts and are scaled.
"""

# ruff: noqa: D102, ISC004, S106
from __future__ import annotations

import argparse
import ctypes
import json
import random
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from refladder.backends import connect
from refladder.backends.hf import TransformersBackend
from refladder.backends.hf.loading import Opened, operations_per_second, tune_allocators
from refladder.engine.causal import STRATEGIES
from refladder.prompts import fill, load_template
from refladder.records import Sampling

if TYPE_CHECKING:
    from collections.abc import Callable

    from refladder.records import Prompt

clock = (
    time.perf_counter
)  # of one thread: processor time, so that other programs on the machine count for less
TREE = "refladder, prefix tree"
PLAIN = (
    "batches of 8, left-padded, last logits",
    "one prompt at a time, last logits",
    "lm-evaluation-harness HFLM, batch 8",
    "one prompt and one label at a time, all logits",
)
LABELS = ("Better", "Worse", "Similar")
WORDS = (450, 40, 45)  # of the context, a rung, an output
SHARED = load_template("document", "compare-shared")
FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")  # of processors, for products
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SHAPES = {
    "0.5B": {
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
    },
    "3B": {
        "hidden_size": 2048,
        "intermediate_size": 11_008,
        "num_hidden_layers": 36,
        "num_attention_heads": 16,
    },
    "8B": {
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "tie_word_embeddings": False,
    },
    "small": {
        "hidden_size": 256,
        "intermediate_size": 1024,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
    },
    "tiny": {
        "hidden_size": 128,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
    },
}

WINDOWED = "270M-window"  # Gemma-3: five layers with a window to one without
WINDOWED_SHAPE = {
    "vocab_size": 262_144,
    "hidden_size": 640,
    "intermediate_size": 2048,
    "num_hidden_layers": 18,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "sliding_window": 512,
}


class Texts:
    """Made-up words, as frequent as words are (Zipf), in prompts of the project's own template."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  no secret
        syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvw" for vowel in "aeiou"]
        self._words = [
            "".join(self._random.choices(syllables, k=self._random.choice([1, 2, 2, 3])))
            for _ in range(3000)
        ]
        self._weights = [1 / (rank + 3) for rank in range(3000)]
        self._template = load_template("summarization", "compare")

    def text(self, words: int) -> str:
        return " ".join(self._random.choices(self._words, self._weights, k=words)) + "."

    def unit(
        self,
        context: int = WORDS[0],
        rungs: int = 5,
        outputs: int = 16,
        dimensions: int = 1,
        words: tuple[int, int] = WORDS[1:],
    ) -> list[Prompt]:
        slots = {
            "context": self.text(context),
            "background": "",
            "description": "The summary is well structured and goes from sentence to sentence.",
        }
        references = [self.text(words[0]) for _ in range(rungs)]
        targets = [self.text(words[1]) for _ in range(outputs)]
        return [
            fill(
                self._template,
                {**slots, "dimension": dimension, "reference": reference, "target": target},
            )
            for dimension in ("coherence", "consistency", "fluency", "relevance")[:dimensions]
            for reference in references
            for target in targets
        ]

    def shared(self, tokenizer: Any, documents: int = 4, rungs: int = 10) -> list[Prompt]:
        """Documents of 600 tokens, each against all rungs of a shared set, of 120 tokens."""
        targets, references = (
            [
                tokenizer.decode(tokenizer(self.text(size))["input_ids"][:size])
                for _ in range(number)
            ]
            for number, size in ((documents, 600), (rungs, 120))
        )
        criterion = {
            "dimension": "clarity",
            "description": "Whether a reader can follow the document to its end.",
        }
        return [
            fill(SHARED, {**criterion, "target": target, "reference": reference})
            for target in targets
            for reference in references
        ]

    def tokenizer(self) -> Any:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        words = self.unit(10, 1, 1)[0].text.replace(
            "Worse", "W orse"
        )  # as in Qwen's vocabulary: two tokens
        tokenizer.train_from_iterator(
            [self.text(2000) for _ in range(20)] + [words, "".join(SHARED.literals)] * 50,
            trainers.BpeTrainer(
                vocab_size=6000,
                special_tokens=SPECIAL,
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                show_progress=False,
            ),
        )
        return transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            eos_token="<|im_end|>",
            pad_token="<|endoftext|>",
            chat_template=CHATML,
        )


def causal(
    shape: str, tokenizer: Any, device: str = "cpu", dtype: str = "bfloat16"
) -> TransformersBackend:
    if shape == WINDOWED:
        config: Any = transformers.Gemma3TextConfig(**WINDOWED_SHAPE)
    else:
        usual = {
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
            "max_position_embeddings": 32_768,
        }
        vocabulary = 151_936 if shape.endswith("B") else 8192
        config = transformers.Qwen2Config(vocab_size=vocabulary, **{**usual, **SHAPES[shape]})
    torch.manual_seed(0)
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    model.eval().requires_grad_(requires_grad=False)
    return local(model, tokenizer, f"{config.model_type}-{shape}-shape")


def local(model: Any, tokenizer: Any, name: str) -> TransformersBackend:
    opened = Opened(
        name=name,
        config=model.config,
        load=lambda: model,
        settings=lambda: None,
        tokenizer=tokenizer,
        revision="random",
        dtype=str(model.dtype).removeprefix("torch."),
        encoder_decoder=model.config.is_encoder_decoder,
    )
    memory = 4 * 2**30 if model.device.type == "cpu" else None
    return TransformersBackend(opened, memory=memory, truncate_context=False, prefix=False)


def real(name: str, dtype: str) -> Any:
    """A model of the Hub, a folder or a GGUF file; every method reads the weights that hf has opened."""
    backend: Any = connect(name, device="cpu", dtype=dtype, memory="4G", prefix="none")
    backend.load()
    if backend.opened.tokenizer.pad_token is None:  # the plain batches pad
        backend.opened.tokenizer.pad_token = backend.opened.tokenizer.eos_token
    return backend


def rendered(tokenizer: Any, prompts: list[Prompt]) -> list[str]:
    return [
        tokenizer.apply_chat_template(prompt.messages, tokenize=False, add_generation_prompt=True)
        for prompt in prompts
    ]


@torch.inference_mode()
def padded(model: Any, tokenizer: Any, prompts: list[Prompt], size: int) -> None:
    """The usual method: left-padded batches, logits of the last place only (so labels of one token only)."""
    tokenizer.padding_side = "left"
    texts = rendered(tokenizer, prompts)
    for first in range(0, len(texts), size):
        batch = tokenizer(
            texts[first : first + size], add_special_tokens=False, padding=True, return_tensors="pt"
        )
        batch.pop("token_type_ids", None)
        model(
            **batch.to(model.device), logits_to_keep=1, use_cache=False
        ).logits.float().log_softmax(-1)


@torch.inference_mode()
def one_label(model: Any, tokenizer: Any, prompts: list[Prompt]) -> None:
    """Research code: one prompt and one label at a time, the logits of every place."""
    for text in rendered(tokenizer, prompts):
        for label in LABELS:
            ids = tokenizer(text + label, add_special_tokens=False, return_tensors="pt")[
                "input_ids"
            ]
            model(input_ids=ids.to(model.device)).logits.float().log_softmax(-1)


def harness(model: Any, tokenizer: Any) -> Callable[[list[Prompt]], None] | None:
    """lm-evaluation-harness, batches of 8; None where it is not installed."""
    try:
        from lm_eval.api.instance import Instance
        from lm_eval.models.huggingface import HFLM
    except ImportError:
        return None
    scorer = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=8, max_length=8192)

    def run(prompts: list[Prompt]) -> None:
        asked = [
            Instance("loglikelihood", {}, (text, label), place)
            for place, text in enumerate(rendered(tokenizer, prompts))
            for label in LABELS
        ]
        scorer.loglikelihood(asked, disable_tqdm=True)

    return run


def matrix_rate(hidden: int, inner: int, dtype: str = "bfloat16") -> float:
    """Operations a second of the model's own kind of product, the best of a few."""
    left, right = (torch.randn(rows, hidden).to(getattr(torch, dtype)) for rows in (2048, inner))
    seconds = []
    for _ in range(12):
        began = clock()
        for _ in range(4):
            torch.nn.functional.linear(left, right)
        seconds.append((clock() - began) / 4)
    return 2 * 2048 * hidden * inner / min(seconds)


def operations(backend: TransformersBackend, prompts: list[Prompt]) -> float:
    """Operations that cannot be avoided: distinct tokens through all weights, attention to what they see, the head."""
    model = backend.scorer.model
    config = model.config
    questions = [backend.tokens.questions([prompt.text], LABELS)[0] for prompt in prompts]
    local = sum(kind == "sliding_attention" for kind in getattr(config, "layer_types", None) or ())
    window = config.sliding_window if local else 0
    distinct: set[tuple[int, int]] = set()
    scores = 0  # of all layers
    heads = set()
    for question in questions:
        for label in question.labels:
            state = 0
            ids = [*question.prompt, *label[:-1]]
            for depth, token in enumerate(ids):
                state = hash((state, token))
                if (depth, state) not in distinct:
                    distinct.add((depth, state))
                    scores += (config.num_hidden_layers - local) * (depth + 1)
                    scores += local * min(depth + 1, window)
                if depth >= len(question.prompt) - 1:
                    heads.add((depth, state))
    embedding = model.get_input_embeddings().weight.numel()
    tables = 1 if config.tie_word_embeddings else 2
    body = sum(parameter.numel() for parameter in model.parameters()) - tables * embedding
    width = config.num_attention_heads * getattr(
        config, "head_dim", config.hidden_size // config.num_attention_heads
    )
    attention = 4 * scores * width
    return 2.0 * len(distinct) * body + attention + 2.0 * len(heads) * embedding


def peak(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and the highest resident memory above what was there before, in GiB."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = resident("VmRSS")
    began = clock()
    run()
    return clock() - began, (resident("VmHWM") - before) / 2**20


def resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def methods_of(
    arguments: argparse.Namespace,
) -> tuple[TransformersBackend, list[Prompt], dict[str, tuple[float, Callable[[], object]]]]:
    """The model, the prompts of one unit, and for each method its scale (it may run on a part) and a function."""
    texts = Texts(0)
    words, part = arguments.words, arguments.part
    if arguments.model:
        backend: TransformersBackend = real(arguments.model, arguments.dtype)
    else:
        backend = causal(arguments.shape, texts.tokenizer(), dtype=arguments.dtype)
    model, tokenizer = backend.scorer.model, backend.opened.tokenizer
    prompts = texts.shared(tokenizer) if arguments.shared else texts.unit(words[0], words=words[1:])
    few = prompts[:: len(prompts) // part][:part]
    scale = len(prompts) / len(few)
    methods: dict[str, tuple[float, Callable[[], object]]] = {
        TREE: (1, lambda: backend.read_labels(prompts, LABELS)),
        "batches of 8, left-padded, last logits": (
            scale / 2,
            lambda: padded(model, tokenizer, few * 2, 8),
        ),
        "one prompt at a time, last logits": (scale, lambda: padded(model, tokenizer, few, 1)),
    }
    if run := harness(model, tokenizer):
        methods["lm-evaluation-harness HFLM, batch 8"] = (scale, lambda: run(few))
    methods["one prompt and one label at a time, all logits"] = (
        scale,
        lambda: one_label(model, tokenizer, few),
    )
    return backend, prompts, methods


def work(arguments: argparse.Namespace) -> None:
    """One method in its own process: for every line that comes in, run it once and print what it took."""
    backend, prompts, methods = methods_of(arguments)
    config = backend.scorer.model.config
    if arguments.worker not in methods:  # lm-evaluation-harness is not installed
        print("null", flush=True)
        return
    factor, run_method = methods[arguments.worker]
    facts = {"operations": operations(backend, prompts), "scale": factor, "prompts": len(prompts)}
    facts["tokens"] = sum(len(backend.tokens.prompts([prompt.text])[0]) for prompt in prompts)
    print(json.dumps(facts), flush=True)
    for number, _ in enumerate(sys.stdin):
        if not number:  # memory left over from loading would hide what a method takes
            ctypes.CDLL(None).malloc_trim(0)
        before = backend.scorer.tokens_run
        wall = time.perf_counter()
        seconds, memory = peak(run_method)
        wall = time.perf_counter() - wall
        rate = matrix_rate(config.hidden_size, config.intermediate_size, arguments.dtype)
        result = {"seconds": seconds, "wall": wall, "memory": memory, "rate": rate}
        print(json.dumps({**result, "run": backend.scorer.tokens_run - before}), flush=True)


def compare(arguments: argparse.Namespace, report: Callable[[list[str]], None]) -> list[str]:
    """Every method in its own process, in turns."""
    shape = "tiny" if arguments.quick else arguments.shape
    asked = [(TREE, "kept"), (TREE, "default")] + [
        (name, arguments.memory or "default") for name in PLAIN
    ]
    workers = {}
    for name, memory in asked:
        command = [sys.executable, __file__, "--worker", name, "--memory", memory, "--shape", shape]
        command += ["--part", str(arguments.part), "--threads", str(arguments.threads)]
        command += ["--shared"] * arguments.shared + ["--model", arguments.model] * bool(
            arguments.model
        )
        command += [
            "--words",
            ",".join(map(str, arguments.words)),
            "--dtype",
            arguments.dtype,
        ]
        workers[name, memory] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    lines: list[str] = []
    try:
        facts = {
            key: json.loads(worker.stdout.readline() or "null") for key, worker in workers.items()
        }
        workers = {
            key: worker for key, worker in workers.items() if facts[key]
        }  # without lm-eval one is missing
        results: dict[tuple[str, str], list[dict[str, float]]] = {key: [] for key in workers}
        for number in range(1 if arguments.quick else arguments.rounds):
            for key, worker in workers.items():
                worker.stdin.write("go\n")
                worker.stdin.flush()
                results[key].append(json.loads(worker.stdout.readline()))
                last = results[key][-1]
                print(
                    f"round {number + 1}: {key}: {last['seconds'] * facts[key]['scale']:.1f} s",
                    flush=True,
                )
            lines = table(facts, results)
            report(lines)
    finally:
        for worker in workers.values():
            worker.stdin.close()
            worker.wait()
    return lines


def table(facts: dict[Any, Any], results: dict[Any, list[dict[str, float]]]) -> list[str]:
    """Medians; the tree against its floor round by round, at the rate that its own process had just after."""
    first = facts[TREE, "kept"]
    trees = results[TREE, "kept"]
    rates = [one["rate"] for several in results.values() for one in several]
    floor = first["operations"] / statistics.median(rates)
    own = statistics.median(one["seconds"] * one["rate"] / first["operations"] for one in trees)
    tree = statistics.median(one["seconds"] for one in trees)
    lines = [
        f"{first['prompts']} prompts of {first['tokens']:,} tokens; {trees[0]['run']:,.0f} went through the model in "
        f"the tree. Matrix rate {statistics.median(rates) / 1e12:.2f} TFLOP/s (median of {len(rates)}, "
        f"{min(rates) / 1e12:.2f} to {max(rates) / 1e12:.2f}), so the floor is {floor:.3g} s. Against the rate measured"
        f" right after it in its own process the tree took {own:.2f} times the floor ({len(trees)} rounds).",
        "",
        "| method | memory | median s | wall s | x floor | tree is faster by | peak GiB above the model | on |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (name, kind), several in results.items():
        fact = facts[name, kind]
        median = statistics.median(one["seconds"] for one in several) * fact["scale"]
        wall = statistics.median(one["wall"] for one in several) * fact["scale"]
        on = (
            "all prompts"
            if fact["scale"] == 1
            else f"{round(fact['prompts'] / fact['scale'])} prompts, scaled"
        )
        memory = max(one["memory"] for one in several)
        lines.append(
            f"| {name} | {kind} | {median:.3g} | {wall:.3g} | {median / floor:.1f} | {median / tree:.1f} "
            f"| {memory:.2f} | {on} |"
        )
    return lines


def growth(*, quick: bool) -> list[str]:
    """How time and memory grow, on 4 layers of width 256."""
    texts = Texts(3)
    backend = causal("small", texts.tokenizer())
    backend.read_labels(texts.unit(50, 2, 2), LABELS)  # the first call pays for imports and buffers
    units = [(375, 5, outputs, 1) for outputs in (1, 4, 16, 64, 256)]
    units += [(375, rungs, 16, 1) for rungs in (2, 9, 17)]
    units += [(words, 5, 16, 1) for words in (85, 1250, 3350)] + [(375, 5, 16, 4)]
    lines = [
        "| context tokens | rungs | outputs | dimensions | prompt tokens | distinct | run | s | run/s | peak GiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for words, rungs, outputs, dimensions in units[: 3 if quick else None]:
        prompts = texts.unit(words, rungs, outputs, dimensions)
        questions = [backend.tokens.questions([prompt.text], LABELS)[0] for prompt in prompts]
        context = len(backend.tokens.prompts([prompts[0].slots["context"]])[0])
        total = sum(len(question.prompt) for question in questions)
        seen = distinct_tokens(questions)
        ctypes.CDLL(None).malloc_trim(0)  # what earlier units left would hide what this one takes
        before = backend.scorer.tokens_run
        took, memory = peak(lambda asked=prompts: backend.read_labels(asked, LABELS))
        run = backend.scorer.tokens_run - before
        lines.append(
            f"| {context:,} | {rungs} | {outputs} | {dimensions} | {total:,} | {seen:,} | {run:,} | {took:.2f} "
            f"| {run / took:,.0f} | {memory:.2f} |"
        )
        print(lines[-1], flush=True)
    return lines


def distinct_tokens(questions: list[Any]) -> int:
    """Beginnings of the sequences that have to be run, each counted once: not by the trie of the package."""
    seen: set[int] = set()
    for question in questions:
        for label in question.labels:
            state = 0
            for token in [*question.prompt, *label[:-1]]:
                state = hash((state, token))
                seen.add(state)
    return len(seen)


def writing(backend: TransformersBackend, prompts: list[Prompt], new: int = 32) -> list[str]:
    model = backend.scorer.model
    ids = [torch.tensor([backend.tokens.prompts([prompt.text])[0]]) for prompt in prompts]
    began = clock()
    backend.write(prompts, Sampling(max_tokens=new))
    together = clock() - began
    began = clock()
    for one in ids[:2]:
        model.generate(
            one,
            attention_mask=torch.ones_like(one),
            max_new_tokens=new,
            min_new_tokens=new,
            do_sample=True,
        )
    alone = (clock() - began) * len(ids) / 2
    made = len(prompts) * new
    return [
        f"Writing {len(prompts)} texts of {new} tokens: {made / together:.1f} tokens/s in one batch, "
        f"{made / alone:.1f} with `generate` row by row (2 rows, scaled)."
    ]


def encoder_decoder(*, quick: bool) -> list[str]:
    texts = Texts(1)
    tokenizer = texts.tokenizer()
    size = {"d_model": 512, "d_ff": 1024, "d_kv": 64, "num_layers": 8, "num_heads": 6}
    if quick:
        size = {"d_model": 64, "d_ff": 96, "d_kv": 16, "num_layers": 2, "num_heads": 4}
    config = transformers.T5Config(
        vocab_size=32_128,
        feed_forward_proj="gated-gelu",
        decoder_start_token_id=0,
        pad_token_id=0,
        **size,
    )
    torch.manual_seed(0)
    model = transformers.AutoModelForSeq2SeqLM.from_config(config, dtype=torch.bfloat16).eval()
    backend = local(model, tokenizer, "t5-small-shape")
    unit = texts.unit(150, 3, 4) + texts.unit(300, 3, 4)
    prompts = unit[::2] + unit[1::2]  # lengths mixed
    tokenizer.padding_side = "right"

    @torch.inference_mode()
    def plain() -> None:
        for first in range(0, len(prompts), 8):
            batch = tokenizer(
                [one.text for one in prompts[first : first + 8]], padding=True, return_tensors="pt"
            )
            batch.pop("token_type_ids", None)
            for label in LABELS:
                ids = tokenizer(label, add_special_tokens=False)["input_ids"]
                start = torch.tensor([[0, *ids[:-1]]]).repeat(len(batch["input_ids"]), 1)
                model(**batch, decoder_input_ids=start).logits.float().log_softmax(-1)

    ours, theirs = [], []
    for _ in range(3):
        ours.append(peak(lambda: backend.read_labels(prompts, LABELS))[0])
        theirs.append(peak(plain)[0])
    return [
        f"Encoder-decoder (FLAN-T5-small shape, {len(prompts)} prompts): {statistics.median(ours):.2f} s by length "
        f"with one encoder pass, {statistics.median(theirs):.2f} s in plain batches of 8 with one forward a label. "
        "Prompts share nothing exactly in a bidirectional encoder."
    ]


def precision() -> list[str]:
    """How far the strategies are from each other and from float32, on a small shape (4 layers, width 128)."""
    texts = Texts(2)
    tokenizer = texts.tokenizer()
    backend = causal("tiny", tokenizer)
    prompts = texts.unit(200, 3, 4)
    read = {}
    for dtype in (torch.bfloat16, torch.float32):
        backend.scorer.model.to(dtype)  # weights stored in bfloat16 are the same numbers in float32
        for strategy in ("single", "batches", "tree"):
            backend.scorer.strategy = strategy
            readings = backend.read_labels(prompts, LABELS)
            read[dtype, strategy] = torch.tensor(
                [reading.logprobs for reading in readings], dtype=torch.float64
            )

    def apart(first: tuple[Any, str], second: tuple[Any, str]) -> str:
        difference = read[first] - read[second]
        return f"{difference.square().mean().sqrt():.1e} rms, {difference.abs().max():.1e} at most"

    half, whole = torch.bfloat16, torch.float32
    return [
        "Label log-probabilities apart, nats (4 layers, width 128, 12 prompts):",
        "",
        "| | |",
        "|---|---|",
        f"| float32, tree and one at a time | {apart((whole, 'tree'), (whole, 'single'))} |",
        f"| bfloat16, tree and one at a time | {apart((half, 'tree'), (half, 'single'))} |",
        f"| bfloat16, batches and one at a time | {apart((half, 'batches'), (half, 'single'))} |",
        f"| one at a time, bfloat16 and float32 | {apart((half, 'single'), (whole, 'single'))} |",
    ]


def strategies() -> list[str]:
    """What each strategy of the engine takes for one unit, on 4 layers of width 256; the single one on a part."""
    texts = Texts(4)
    backend = causal("small", texts.tokenizer())
    prompts = texts.unit()
    lines = [
        f"Each strategy on one unit ({len(prompts)} prompts, 4 layers of width 256):",
        "",
        "| strategy | s, the faster of two | tokens run |",
        "|---|---|---|",
    ]
    for strategy in STRATEGIES:
        backend.scorer.strategy = strategy
        part = prompts[::10] if strategy == "single" else prompts
        before = backend.scorer.tokens_run
        seconds = [peak(lambda asked=part: backend.read_labels(asked, LABELS))[0] for _ in range(2)]
        scale = len(prompts) / len(part)
        run = (backend.scorer.tokens_run - before) / 2 * scale
        lines.append(f"| `{strategy}` | {min(seconds) * scale:.2f} | {run:,.0f} |")
        print(lines[-1], flush=True)
    return lines


def machine(arguments: argparse.Namespace) -> str:
    flags = re.search(
        r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE
    )
    features = [name for name in FEATURES if flags and name in flags[1].split()]
    rates = ", ".join(
        f"{dtype} {operations_per_second(dtype) / 1e12:.2f}" for dtype in ("bfloat16", "float32")
    )
    return f"{arguments.threads} thread(s), {' '.join(features)} (TFLOP/s: {rates})"


def _words(text: str) -> tuple[int, int, int]:
    context, rung, output = map(int, text.split(","))
    return context, rung, output


def options_of(arguments: argparse.Namespace) -> str:
    """The options as they were given, without paths."""
    given = (
        " ".join(one for one in sys.argv[1:] if one != str(arguments.markdown))
        .replace("--markdown", "")
        .strip()
    )
    if arguments.model:
        given = given.replace(
            arguments.model, f"hf:{Path(arguments.model.removeprefix('hf:')).name}"
        )
    return given


def main() -> None:
    global clock  # noqa: PLW0603  set once, before anything is timed
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", type=int, default=4, help="prompts that the slow methods run on")
    parser.add_argument("--words", type=_words, default=WORDS, metavar="CONTEXT,RUNG,OUTPUT")
    parser.add_argument(
        "--shared", action="store_true", help="4 documents against the 10 rungs of a shared set"
    )
    parser.add_argument(
        "--model", help="a real model in the place of random weights, such as hf:FILE.gguf"
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="1: processor seconds are counted, else seconds"
    )
    parser.add_argument("--quick", action="store_true", help="a tiny model, one round")
    parser.add_argument("--growth", action="store_true", help="only how time and memory grow")
    parser.add_argument(
        "--others", action="store_true", help="only writing, encoder-decoder and precision"
    )
    parser.add_argument("--markdown", type=Path, help="file for the tables")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument(
        "--memory",
        choices=("default", "kept"),
        help="of the methods that are not refladder's: default",
    )
    parser.add_argument("--shape", default="0.5B", choices=(*SHAPES, WINDOWED), help="of the model")
    parser.add_argument(
        "--dtype", default="bfloat16", choices=("bfloat16", "float32"), help="of the model"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.threads == 1:
        clock = time.process_time
    measured_here = (
        arguments.worker or arguments.growth or arguments.others
    )  # else by workers, who would inherit it
    if measured_here and arguments.memory != "default":
        tune_allocators()
    if arguments.worker:
        work(arguments)
        return
    options = options_of(arguments)
    weights = "weights opened once a process by hf" if arguments.model else "random weights"

    def report(lines: list[str]) -> None:
        head = [
            f"`python bench/local_tree.py {options}`: {weights}, {arguments.dtype}, {machine(arguments)}, "
            f"s is {'processor' if clock is time.process_time else 'wall-clock'} seconds, torch {torch.__version__}, "
            f"transformers {transformers.__version__}.",
            "",
        ]
        if arguments.markdown is not None:
            arguments.markdown.write_text("\n".join([*head, *lines, ""]), "utf-8")

    if arguments.growth:
        lines = growth(quick=arguments.quick)
    elif arguments.others:
        texts = Texts(0)
        backend = causal("tiny" if arguments.quick else "0.5B", texts.tokenizer())
        lines = [
            *writing(backend, texts.unit()[:8]),
            "",
            *encoder_decoder(quick=arguments.quick),
            "",
            *precision(),
            "",
            *strategies(),
        ]
    else:
        lines = compare(arguments, report)
    report(lines)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
