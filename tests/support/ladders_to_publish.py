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
KEEPER = "A keeper finds a bottle"
CONTEXTS = tuple(
    Context(id=f"c{n}", task="story", text=f"A keeper finds bottle {n}.", background="é" * n)
    for n in range(1, 4)
)


def ladders_of(
    contexts=CONTEXTS, dimensions=DIMENSIONS, recipe=RECIPE, last="and a letter of the sea"
):
    ladders = []
    for context in contexts:
        rungs = (
            Rung(level=1, text=f"Bottle. {context.id}"),
            Rung(level=2, text=f"{KEEPER}. {context.id}", between=(1, 3)),
            Rung(level=3, text=f"{KEEPER} on the rocks, {last}. {context.id}"),
        )
        about = {"context_id": context.id, "task": context.task, "rungs": rungs, "recipe": recipe}
        ladders += [Ladder(**about, dimension=dimension.name) for dimension in dimensions]
    return ladders
