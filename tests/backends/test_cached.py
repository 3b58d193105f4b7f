"""The response store around a backend: what is asked, what is kept, and what changes a key."""

import hashlib
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from doubles import Double
from waiting import count_lines, until

from refladder.backends import connect
from refladder.backends.cache.cached import (
    Stored,
    dump,
    label_keys,
    read_completion,
    read_reading,
    write_keys,
)
from refladder.backends.cache.store import SqliteStore
from refladder.errors import BackendError
from refladder.prompts import fill, load_template
from refladder.records import Completion, LabelReading, Sampling
from refladder.testing import check_backend

LABELS = ("Better", "Worse", "Similar")
COMPARE = load_template("summarization", "compare")
SLOTS = dict.fromkeys(COMPARE.names, "A ferry waits.")


def compare(number=0):
    return fill(COMPARE, {**SLOTS, "target": f"Ferry {number}."})


class MemoryStore:
    """The five methods of a response store, in a dict."""

    def __init__(self):
        self.answers = {}

    def find(self, keys):
        return {key: self.answers[key] for key in keys if key in self.answers}

    def add(self, _fingerprint, _kind, answers):
        for key, text in answers:
            self.answers.setdefault(key, text.encode())

    def remove(self, keys):
        for key in keys:
            self.answers.pop(key, None)

    def answer_seconds(self, _fingerprint, _kind):
        return None

    def close(self):
        pass


@pytest.fixture(params=["file", "memory"])
def store(tmp_path, request):
    opened = SqliteStore(tmp_path / "r.sqlite") if request.param == "file" else MemoryStore()
    yield opened
    opened.close()


class Counting(Double):
    """Answers by the length of the target; remembers what it was asked. `failing` prompts cannot be read."""

    def __init__(self, fingerprint="counting/1", failing=()):
        self.fingerprint = fingerprint
        self.asked = []
        self.failing = failing

    def reading(self, prompt):
        if prompt.slots["target"] in self.failing:
            return LabelReading(logprobs=None, mass=None, reason="no answer")
        share = 1 / (1 + len(prompt.slots["target"]))
        return LabelReading(
            logprobs=(math.log(share), math.log1p(-share) - 1, -40.0), mass=0.875, note="bounded"
        )

    def write(self, prompts, sampling):
        self.asked += prompts
        texts = [f"{prompt.slots['dimension']} ½ {sampling.seed}" for prompt in prompts]
        return [
            Completion(text="", finish="error", note="refused")
            if prompt.slots["context"] in self.failing
            else Completion(text=text, finish="length")
            for prompt, text in zip(prompts, texts, strict=True)
        ]

    def read_labels(self, prompts, labels):
        assert tuple(labels) == LABELS
        self.asked += prompts
        return [self.reading(prompt) for prompt in prompts]


class Streaming(Counting):
    """Gives readings as they come, last first, and breaks off after `good` of them."""

    def __init__(self, good=1000):
        super().__init__()
        self.good = good

    def read_labels_each(self, prompts, _labels):
        for number in reversed(range(len(prompts))):
            if len(self.asked) == self.good:
                raise BackendError("the server is gone")
            self.asked.append(prompts[number])
            yield number, self.reading(prompts[number])


def test_a_second_run_asks_nothing_and_answers_the_same(store):
    prompts = [compare(number) for number in range(7)]
    plain = Counting()
    readings = plain.read_labels(prompts, LABELS)
    texts = plain.write(prompts, Sampling(seed=3))
    for sent, reused in ((14, 0), (0, 14)):
        judge = Counting()
        backend = Stored(judge, store)
        assert backend.fingerprint == "counting/1"
        assert backend.read_labels(prompts, LABELS) == readings
        assert backend.write(prompts, Sampling(seed=3)) == texts
        assert (backend.sent, backend.reused) == (sent, reused)
        assert judge.asked == (prompts * 2 if sent else [])


@pytest.mark.parametrize("fixed", [False, True])
def test_a_prompt_that_is_asked_anew_gets_no_answer_of_an_earlier_session(store, fixed):
    prompts = [compare(1), replace(compare(2), anew=True)]
    Stored(Counting(), store).read_labels(prompts, LABELS)
    judge = Counting()
    judge.is_fixed = fixed
    backend = Stored(judge, store)
    known, anew = backend.stored_readings(prompts, LABELS)
    assert (known, anew) == (
        judge.reading(prompts[0]),
        judge.reading(prompts[1]) if fixed else None,
    )
    for _ in range(2):
        backend.read_labels(prompts, LABELS)
    # Once in a session; weights on this machine cannot change.
    assert judge.asked == ([] if fixed else prompts[1:])
    backend.write(prompts, Sampling())
    backend.write(prompts, Sampling())
    assert judge.asked == [*([] if fixed else prompts[1:]), *prompts]


@pytest.mark.parametrize("name", ["builtin", "scripted"])
def test_the_contract_of_backends_is_kept(tmp_path, store, name):
    rules = tmp_path / "rules.jsonl"
    rules.write_text(
        '{"role": "compare", "answer": {"win": -1, "loss": -1.5, "tie": -2}}\n{"texts": ["one", "two", "three"]}\n'
    )
    opened = connect(name if name == "builtin" else f"scripted:{rules}")
    check_backend(Stored(opened, store))


def test_a_prompt_that_stands_twice_is_asked_once(store):
    judge = Counting()
    backend = Stored(judge, store)
    found = backend.read_labels([compare(1), compare(2), compare(1)], LABELS)
    assert found == [judge.reading(compare(number)) for number in (1, 2, 1)]
    assert judge.asked == [compare(1), compare(2)]
    assert (backend.sent, backend.reused) == (2, 1)


def test_what_could_not_be_read_is_asked_again(store):
    prompts = [compare(1), compare(2)]
    broken = Counting(failing=("Ferry 2.", "A ferry waits."))
    assert Stored(broken, store).read_labels(prompts, LABELS)[1].reason == "no answer"
    assert Stored(broken, store).write(prompts[:1], Sampling())[0].note == "refused"
    mended = Counting()
    found = Stored(mended, store).read_labels(prompts, LABELS)
    assert found == [mended.reading(prompt) for prompt in prompts]
    assert mended.asked == prompts[1:]
    assert Stored(mended, store).write(prompts[:1], Sampling())[0].finish == "length"


@pytest.mark.parametrize(
    "answer",
    [
        # not finite, impossible, half a surrogate pair
        LabelReading(logprobs=(-math.inf, -1.0), mass=0.5),
        LabelReading(logprobs=(math.nan, -1.0), mass=0.5),
        LabelReading(logprobs=(5.0, -1.0), mass=1.0),
        LabelReading(logprobs=(-1.0, -2.0), mass=7.0),
        LabelReading(logprobs=(-1.0,), mass=0.5, note="\ud800"),
        Completion(text="a \ud800"),
        Completion(text="a", note="\udfff"),
    ],
)
def test_answers_that_are_not_stored(answer):
    assert dump(answer) is None


def test_impossible_probabilities_of_a_changed_file_are_not_used():
    read = read_reading(b'{"logprobs":[5.0,-1.0],"mass":1.0,"note":null}')
    assert (read.logprobs, read.mass) == (None, None)
    assert read.reason == "the response store holds a log-probability of 5, above 0"


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_texts_survive_as_they_are(finish):
    text = Completion(text='a "quote"\n½\x00', finish=finish, note="why")
    assert read_completion(dump(text).encode()) == text


@pytest.mark.parametrize(
    "fields",
    [
        {"logprobs": (-12.1, -1e-300, -12345.678901234567), "mass": 0.1 + 0.2},
        {"mass": None, "note": "½"},
        {"cut": True},
        {"exactness": "bounded"},
        {"cut": True, "exactness": "sampled", "note": "1 of 2 answers unparsed"},
    ],
)
def test_readings_survive_as_they_are(fields):
    reading = LabelReading(**{"logprobs": (-1.0, -50.0), "mass": 0.4, **fields})
    assert read_reading(dump(reading).encode()) == reading


def test_fields_with_their_default_are_not_stored():
    reading = LabelReading(logprobs=(-0.5,), mass=0.6)
    assert dump(reading) == '{"logprobs":[-0.5],"mass":0.6,"note":null}'
    assert read_reading(dump(reading).encode()) == reading
    assert dump(Completion(text="a")) == '{"text":"a","finish":"stop","note":null}'


def test_everything_that_can_change_an_answer_is_in_the_key():
    prompt, backend, other = compare(1), Counting(), Counting("counting/2")
    slots = [{**prompt.slots, name: f"{value}."} for name, value in prompt.slots.items()]
    slots.append({**prompt.slots, "more": ""})  # for backends that read slots
    prompts = [
        prompt,
        replace(prompt, task="story"),
        replace(prompt, role="pairwise"),
        replace(prompt, claim="win"),
        replace(prompt, literals=(prompt.literals[0] + " ", *prompt.literals[1:])),
        replace(prompt, labels=("A", "B", "C")),
        replace(prompt, outcomes=prompt.outcomes[::-1]),
        *(replace(prompt, slots=values) for values in slots),
    ]
    samplings = [{}, {"seed": 1}, {"temperature": 0.5}, {"top_p": 0.5}, {"max_tokens": 9}]
    keys = label_keys(backend, prompts, LABELS)
    keys += label_keys(backend, [prompt], LABELS[::-1]) + label_keys(other, [prompt], LABELS)
    for sampling in samplings:
        keys += write_keys(backend, [prompt], Sampling(**sampling))
    keys += write_keys(other, [prompt], Sampling())
    assert len(set(keys)) == len(keys)
    turned = replace(prompt, slots=dict(reversed(prompt.slots.items())))
    # neither batch nor order of slots counts
    assert label_keys(backend, [prompts[1], turned], LABELS)[1] == keys[0]


def test_a_key_by_hand():
    # blake2b over the canonical JSON of what is common, then that of the slots; computed here with the library alone.
    prompt = replace(compare(1), literals=("x",), names=(), slots={"b": "½", "a": "1"})
    of_prompt = ["summarization", "compare", ["x"], [], list(prompt.labels), list(prompt.outcomes)]
    common = [["response-key/1", "labels", "counting/1", ["Better"]]]
    common.append([*of_prompt, None, prompt.prefix])
    text = json.dumps(common, separators=(",", ":")) + '{"a":"1","b":"\\u00bd"}'
    expected = hashlib.blake2b(text.encode(), digest_size=16).digest()
    assert label_keys(Counting(), [prompt], ["Better"]) == [expected]


def test_readings_are_stored_as_they_come(store):
    prompts = [compare(number) for number in range(6)]
    with pytest.raises(BackendError, match="the server is gone"):
        Stored(Streaming(good=4), store).read_labels(prompts, LABELS)
    after = Streaming()
    found = dict(Stored(after, store).read_labels_each(prompts, LABELS))
    assert found == {place: after.reading(prompt) for place, prompt in enumerate(prompts)}
    assert after.asked == [prompts[1], prompts[0]]  # the last four were answered before


def test_a_batch_with_a_missing_answer_is_refused_and_not_stored(store):
    class Short(Counting):
        def read_labels(self, prompts, labels):
            return super().read_labels(prompts, labels)[1:]

    class ShortStream(Counting):
        def read_labels_each(self, prompts, _labels):
            yield 1, self.reading(prompts[1])

    for judge in (Short(), ShortStream()):
        with pytest.raises(BackendError, match=r"counting/1 gave [12] answers? for 3 prompts;"):
            Stored(judge, store).read_labels([compare(number) for number in range(3)], LABELS)
    # what the stream answered has its right key; of the batch nothing is known
    keys = label_keys(Counting(), [compare(number) for number in range(3)], LABELS)
    assert list(store.find(keys)) == [keys[1]]


def test_what_else_a_backend_has_is_reached(store):
    judge = Counting()
    judge.count_tokens = lambda prompts: [1] * len(prompts)
    assert Stored(judge, store).count_tokens([compare(1)]) == [1]


# It waits with its eleventh answer, and takes longer for each than the store holds one back, so that the ten before are
# stored then.
VICTIM = """
import sys, time
from pathlib import Path
folder = Path(sys.argv[1])
sys.path[:0] = sys.argv[2:]
from test_cached import LABELS, Counting, compare
from refladder.backends.cache.cached import Stored
from refladder.backends.cache.store import SqliteStore

class Slow(Counting):
    def read_labels_each(self, prompts, labels):
        for number, prompt in enumerate(prompts):
            time.sleep(0.02)
            with (folder / "asked").open("a") as stream:
                stream.write("x\\n")
            while number == 10:
                time.sleep(0.01)
            yield number, self.reading(prompt)

Stored(Slow(), SqliteStore(folder / "r.sqlite")).read_labels([compare(number) for number in range(40)], LABELS)
"""


def test_after_kill_9_nothing_that_was_stored_is_asked_again(tmp_path):
    folders = [Path(__file__).parent, Path(__file__).parents[1] / "support"]
    victim = subprocess.Popen([sys.executable, "-c", VICTIM, tmp_path, *folders])
    until(lambda: count_lines(tmp_path / "asked") == 11, victim)
    victim.kill()
    victim.wait()
    prompts = [compare(number) for number in range(40)]
    with SqliteStore(tmp_path / "r.sqlite") as store:
        assert store.count() == 10  # the last was asked, and its answer did not come
        judge = Counting()
        found = Stored(judge, store).read_labels(prompts, LABELS)
        assert found == [judge.reading(prompt) for prompt in prompts]
        assert judge.asked == prompts[10:]
