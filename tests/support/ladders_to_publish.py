"""A small ladder set: three contexts, two dimensions, three rungs."""

from __future__ import annotations

from refladder.records import Context, Dimension, Ladder, Recipe, Rung, Sampling

RECIPE = Recipe(
    backend="scripted:writer",
    prompts=("story/best@0123", "story/worst@4567"),
    sampling=Sampling(),
    version="0.1.0",
)
DIMENSIONS = (
    Dimension(name="clarity", description="How clear it is."),
    Dimension(name="wit", description="How witty it is | in words.", low=0, high=10),
)
CONTEXTS = tuple(
    Context(
        id=f"c{number}",
        task="story",
        text=f"A keeper finds bottle {number}.",
        background="é" * number,
    )
    for number in range(1, 4)
)


def ladders_of(
    contexts=CONTEXTS, dimensions=DIMENSIONS, recipe=RECIPE, last="and a letter of the sea"
):
    texts = (
        "Bottle.",
        "A keeper finds a bottle.",
        f"A keeper finds a bottle on the rocks, {last}.",
    )
    return [
        Ladder(
            context_id=context.id,
            task=context.task,
            dimension=dimension.name,
            rungs=tuple(
                Rung(
                    level=level, text=f"{text} {context.id}", between=(1, 3) if level == 2 else None
                )
                for level, text in enumerate(texts, start=1)
            ),
            recipe=recipe,
        )
        for context in contexts
        for dimension in dimensions
    ]
