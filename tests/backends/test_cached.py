"""The response store around a backend: what is asked, what is kept, and what changes a key."""

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from doubles import Double
from waiting import HANG, count_lines, until

from refladder.backends import connect
from refladder.backends.cache.cached import (
    Stored,
    dump,
    label_keys,
    read_completion,
    read_reading,
    stored,
    write_keys,
)
from refladder.backends.cache.store import ResponseStore
from refladder.errors import BackendError
from refladder.prompts import fill, load_template
from refladder.records import Completion, LabelReading, Sampling
from refladder.testing import check_backend

LABELS = ("Better", "Worse", "Similar")
CRITERION = {
    "context": "A ferry waits.",
    "background": "",
    "dimension": "fluency",
    "description": "It reads well.",
}


def compare(number=0, **slots):
    values = {**CRITERION, "reference": "A ferry.", "target": f"Ferry {number}.", **slots}
    return fill(load_template("summarization", "compare"), values)


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


def test_a_second_run_asks_nothing_and_answers_the_same(tmp_path):
    prompts = [compare(number) for number in range(7)]
    first, second, plain = Counting(), Counting(), Counting()
    expected = plain.read_labels(prompts, LABELS)
    for judge in (first, second):
        with ResponseStore(tmp_path / "r.sqlite") as store:
            backend = Stored(judge, store)
            assert backend.fingerprint == "counting/1"
            assert backend.read_labels(prompts, LABELS) == expected
            assert backend.write(prompts, Sampling(seed=3)) == plain.write(
                prompts, Sampling(seed=3)
            )
            assert (backend.sent, backend.reused) == ((14, 0) if judge is first else (0, 14))
    assert first.asked == prompts * 2
    assert second.asked == []


@pytest.mark.parametrize("name", ["builtin", "scripted"])
def test_the_contract_of_backends_is_kept(tmp_path, name):
    rules = tmp_path / "rules.jsonl"
    rules.write_text(
        '{"role": "compare", "answer": {"win": -1, "loss": -1.5, "tie": -2}}\n{"texts": ["one", "two", "three"]}\n'
    )
    backend = stored(
        connect(name if name == "builtin" else f"scripted:{rules}"), tmp_path / "r.sqlite"
    )
    check_backend(backend)
    backend.store.close()


def test_a_prompt_that_stands_twice_is_asked_once(tmp_path):
    judge = Counting()
    with ResponseStore(tmp_path / "r.sqlite") as store:
        backend = Stored(judge, store)
        found = backend.read_labels([compare(1), compare(2), compare(1)], LABELS)
    assert found == [judge.reading(compare(number)) for number in (1, 2, 1)]
    assert judge.asked == [compare(1), compare(2)]
    assert (backend.sent, backend.reused) == (2, 1)


def test_what_could_not_be_read_is_asked_again(tmp_path):
    prompts = [compare(1), compare(2)]
    with ResponseStore(tmp_path / "r.sqlite") as store:
        broken = Counting(failing=("Ferry 2.", "A ferry waits."))
        assert Stored(broken, store).read_labels(prompts, LABELS)[1].reason == "no answer"
        assert Stored(broken, store).write(prompts[:1], Sampling())[0].note == "refused"
        mended = Counting()
        found = Stored(mended, store).read_labels(prompts, LABELS)
        assert found == [mended.reading(prompt) for prompt in prompts]
        assert mended.asked == prompts[1:]
        assert Stored(mended, store).write(prompts[:1], Sampling())[0].finish == "length"


def test_log_probabilities_that_are_not_finite_are_not_stored():
    assert dump(LabelReading(logprobs=(-math.inf, -1.0), mass=0.5)) is None
    assert dump(LabelReading(logprobs=(math.nan, -1.0), mass=0.5)) is None


def test_impossible_probabilities_are_not_stored_and_those_of_a_changed_file_are_not_used():
    assert dump(LabelReading(logprobs=(5.0, -1.0), mass=1.0)) is None
    assert dump(LabelReading(logprobs=(-1.0, -2.0), mass=7.0)) is None
    read = read_reading(b'{"logprobs":[5.0,-1.0],"mass":1.0,"note":null}')
    assert (read.logprobs, read.mass) == (None, None)
    assert read.reason == "the response store holds a log-probability of 5, above 0"


def test_half_surrogate_pairs_are_not_stored():
    assert dump(Completion(text="a \ud800")) is None
    assert dump(Completion(text="a", note="\udfff")) is None
    assert dump(LabelReading(logprobs=(-1.0,), mass=0.5, note="\ud800")) is None


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_answers_survive_as_they_are(finish):
    text = Completion(text='a "quote"\n½\x00', finish=finish, note="why")
    assert read_completion(dump(text).encode()) == text
    for reading in (
        LabelReading(logprobs=(-12.1, -1e-300, -12345.678901234567), mass=0.1 + 0.2, note=None),
        LabelReading(logprobs=(-1.0,), mass=None, note="½"),
        LabelReading(logprobs=(-1.0,), mass=0.4, cut=True),
        LabelReading(logprobs=(-1.0,), mass=0.4, exactness="bounded"),
        LabelReading(
            logprobs=(-1.0, -50.0),
            mass=1.0,
            cut=True,
            exactness="sampled",
            note="1 of 2 answers unparsed",
        ),
    ):
        assert read_reading(dump(reading).encode()) == reading


def test_fields_with_their_default_are_not_stored():
    assert (
        dump(LabelReading(logprobs=(-0.5,), mass=0.6))
        == '{"logprobs":[-0.5],"mass":0.6,"note":null}'
    )
    assert dump(Completion(text="a")) == '{"text":"a","finish":"stop","note":null}'
    assert read_reading(b'{"logprobs":[-0.5],"mass":0.6,"note":null}') == LabelReading(
        logprobs=(-0.5,), mass=0.6
    )


def test_everything_that_can_change_an_answer_is_in_the_key():
    prompt = compare(1)
    backend = Counting()
    (key,) = label_keys(backend, [prompt], LABELS)
    others = [
        replace(prompt, task="story"),
        replace(prompt, role="pairwise"),
        replace(prompt, claim="win"),
        replace(prompt, literals=(prompt.literals[0] + " ", *prompt.literals[1:])),
        replace(prompt, labels=("A", "B", "C")),
        replace(prompt, outcomes=prompt.outcomes[::-1]),
        *(
            replace(prompt, slots={**prompt.slots, name: value + "."})
            for name, value in prompt.slots.items()
        ),
        replace(prompt, slots={**prompt.slots, "more": ""}),  # for backends that read slots
    ]
    keys = [
        key,
        *label_keys(backend, others, LABELS),
        *label_keys(backend, [prompt], LABELS[::-1]),
        *label_keys(Counting("counting/2"), [prompt], LABELS),
        *write_keys(backend, [prompt], Sampling()),
        *write_keys(Counting("counting/2"), [prompt], Sampling()),
        *(
            write_keys(backend, [prompt], sampling)[0]
            for sampling in (
                Sampling(seed=1),
                Sampling(temperature=0.5),
                Sampling(top_p=0.5),
                Sampling(max_tokens=9),
            )
        ),
    ]
    assert len(set(keys)) == len(keys)
    turned = replace(prompt, slots=dict(reversed(prompt.slots.items())))
    assert (
        label_keys(backend, [others[0], turned], LABELS)[1] == key
    )  # neither batch nor order of slots counts


def test_a_key_by_hand():
    # blake2b over the canonical JSON of what is common, then that of the slots; computed here with the library alone.
    import hashlib

    prompt = replace(compare(1), literals=("x",), names=(), slots={"b": "½", "a": "1"})
    common = [
        ["response-key/1", "labels", "counting/1", ["Better"]],
        [
            "summarization",
            "compare",
            ["x"],
            [],
            list(prompt.labels),
            list(prompt.outcomes),
            None,
            prompt.prefix,
        ],
    ]
    text = json.dumps(common, separators=(",", ":")) + '{"a":"1","b":"\\u00bd"}'
    expected = hashlib.blake2b(text.encode(), digest_size=16).digest()
    assert label_keys(Counting(), [prompt], ["Better"]) == [expected]


def test_readings_are_stored_as_they_come(tmp_path):
    prompts = [compare(number) for number in range(6)]
    with ResponseStore(tmp_path / "r.sqlite") as store:
        with pytest.raises(BackendError, match="the server is gone"):
            Stored(Streaming(good=4), store).read_labels(prompts, LABELS)
        after = Streaming()
        found = Stored(after, store).read_labels(prompts, LABELS)
    assert found == [after.reading(prompt) for prompt in prompts]
    assert after.asked == [prompts[1], prompts[0]]  # the last four were answered before


def test_a_batch_with_a_missing_answer_is_refused_and_not_stored(tmp_path):
    class Short(Counting):
        def read_labels(self, prompts, labels):
            return super().read_labels(prompts, labels)[1:]

    class ShortStream(Counting):
        def read_labels_each(self, prompts, _labels):
            yield 1, self.reading(prompts[1])

    with ResponseStore(tmp_path / "r.sqlite") as store:
        for judge in (Short(), ShortStream()):
            with pytest.raises(BackendError, match=r"counting/1 gave [12] answers? for 3 prompts;"):
                Stored(judge, store).read_labels([compare(number) for number in range(3)], LABELS)
        # what the stream answered has its right key; of the batch nothing is known
        assert store.count() == 1


def test_what_else_a_backend_has_is_reached(tmp_path):
    judge = Counting()
    judge.count_tokens = lambda prompts: [1] * len(prompts)
    with ResponseStore(tmp_path / "r.sqlite") as store:
        assert Stored(judge, store).count_tokens([compare(1)]) == [1]


def test_answers_as_they_come_are_stored_too(tmp_path):
    judge = Counting()
    with ResponseStore(tmp_path / "r.sqlite") as store:
        kept = Stored(judge, store)
        first = dict(kept.read_labels_each([compare(1), compare(2)], LABELS))
        assert dict(kept.read_labels_each([compare(1), compare(2)], LABELS)) == first
        assert len(judge.asked) == 2


# While the file `hold` exists, it waits with its eleventh answer. It takes longer for each than the store holds one
# back, so that the ten before are stored then.
SLOW = """
    import sys, time
    from pathlib import Path
    sys.path[:0] = {tests!r}
    from test_cached import LABELS, Counting, compare
    from refladder.backends.cache.cached import stored

    class Slow(Counting):
        def read_labels_each(self, prompts, labels):
            for number, prompt in enumerate(prompts):
                time.sleep(0.02)
                with open({asked!r}, "a") as stream:
                    stream.write(prompt.slots["target"] + "\\n")
                while number == 10 and Path({hold!r}).exists():
                    time.sleep(0.01)
                yield number, self.reading(prompt)

    backend = stored(Slow(), Path({path!r}))
    found = backend.read_labels([compare(number) for number in {numbers}], LABELS)
    assert found == [Slow().reading(compare(number)) for number in {numbers}]
    backend.store.close()
"""


def start(tmp_path, *, numbers, asked="asked.txt"):
    code = textwrap.dedent(SLOW).format(
        tests=[str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")],
        numbers=numbers,
        asked=str(tmp_path / asked),
        hold=str(tmp_path / "hold"),
        path=str(tmp_path / "r.sqlite"),
    )
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)


def test_after_kill_9_nothing_that_was_stored_is_asked_again(tmp_path):
    (tmp_path / "hold").touch()
    victim = start(tmp_path, numbers="range(40)")
    until(lambda: count_lines(tmp_path / "asked.txt") == 11, victim)
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    (tmp_path / "hold").unlink()
    keys = dict(
        zip(label_keys(Counting(), [compare(n) for n in range(40)], LABELS), range(40), strict=True)
    )
    with ResponseStore(tmp_path / "r.sqlite") as store:
        kept = set(store.find(list(keys)))
        assert store.count() == len(kept) == 10  # the last was asked, and its answer did not come
    before = (tmp_path / "asked.txt").read_text().splitlines()
    second = start(tmp_path, numbers="range(40)", asked="again.txt")
    assert second.communicate(timeout=HANG) == (None, "")
    again = (tmp_path / "again.txt").read_text().splitlines()
    assert len(again) == len(set(again)) == 40 - len(kept)
    assert set(again) | set(before) == {f"Ferry {number}." for number in range(40)}
    assert not {f"Ferry {keys[key]}." for key in kept} & set(again)
