from __future__ import annotations

import hashlib
from dataclasses import replace

from refladder.records import Context, Dimension, Ladder, Output, Recipe, Rung
from refladder.scoring.grades import grade_question
from refladder.scoring.question import ladder_questions, rung_id

CONTEXT = Context(id="c1", task="story", text="Über Wien.")
COHERENCE = Dimension(name="coherence", description="It hangs together.")
OUTPUT = Output(id="o1", context_id="c1", system="s", text="Marit found a bottle.")


def ladder_of(*texts):
    recipe = Recipe(backend="test", prompts=(), sampling=None, version="0")
    rungs = tuple(Rung(level=level, text=text) for level, text in enumerate(texts, start=1))
    return Ladder(context_id="c1", task="story", dimension="coherence", rungs=rungs, recipe=recipe)


LADDER = ladder_of("Rain.", "Rain fell on the bottle.")


def asked(output=OUTPUT, context=CONTEXT, dimension=COHERENCE, ladder=LADDER, orders=1):
    return list(ladder_questions(output, context, dimension, ladder, orders=orders))


def test_the_canonical_order_of_questions():
    both = asked(orders=2)
    pairs = [(one.comparison.subject, one.comparison.against) for one in both]
    assert pairs == [("o1", "rung:1"), ("rung:1", "o1"), ("o1", "rung:2"), ("rung:2", "o1")]
    texts = [(one.texts["reference"], one.texts["target"]) for one in both]
    assert texts[:2] == [("Rain.", OUTPUT.text), (OUTPUT.text, "Rain.")]
    assert [one.key for one in asked()] == [one.key for one in both[::2]]
    assert rung_id(3) == "rung:3"


def test_the_key_is_a_digest_of_the_shown_texts_and_their_lengths():
    context = replace(CONTEXT, background="b")
    for question in asked(context=context, orders=2):
        state = hashlib.blake2b(digest_size=8)
        shown = (CONTEXT.text, "b", *(COHERENCE.name, COHERENCE.description))
        for text in (*shown, *question.texts.values()):
            state.update(str(len(text.encode())).encode() + b":" + text.encode())
        assert question.key == state.hexdigest()


def test_the_key_changes_with_every_text_that_is_shown_and_with_nothing_else():
    changes = [
        {},
        {"output": replace(OUTPUT, text="Marit found a bottle!")},
        {"context": replace(CONTEXT, text="A keeper finds a boat.")},
        {"context": replace(CONTEXT, background="x")},
        {"dimension": replace(COHERENCE, description="It hangs together!")},
        {"ladder": ladder_of("Rain!", "y")},
    ]
    assert len({asked(**change)[0].key for change in changes}) == len(changes)
    grades = [
        grade_question(*{"output": OUTPUT, "context": CONTEXT, "dimension": COHERENCE, **change}.values())
        for change in changes[:-1]
    ]  # fmt: skip
    assert len({question.key for question in grades}) == len(grades)
    assert asked(replace(OUTPUT, id="o2"))[0].key == asked()[0].key
    # Moving a letter from one text to the other is another question.
    ab, a = (replace(OUTPUT, text=text) for text in ("ab", "a"))
    assert asked(ab, ladder=ladder_of("c"))[0].key != asked(a, ladder=ladder_of("bc"))[0].key
