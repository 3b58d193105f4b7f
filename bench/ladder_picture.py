"""Draw docs/ladder.svg: a text of the demo data on its ladder, as narrow as the screen of a telephone.

`python bench/ladder_picture.py` writes the picture from the demo set and the built-in judge.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import refladder
from refladder.evaluation.charts import matplotlib_figure, svg_of

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "ladder.svg"
CONTEXT, DIMENSION = "dialogue-05", "engagingness"
OUTPUT = (
    "Nail varnish smell just means it's starving. Throw away all but a spoonful, feed it rye, and by tomorrow it'll "
    "smell of apples again."
)
PROMPT = "Prompt: my sourdough starter smells like nail varnish. Convince me to keep it."
NOTE = "The judge compares the new text with every rung. The grade is its place among them: 1 below all rungs, 5 above all."
WIDTH, LINE, GAP = (
    302,
    12.5,
    9,
)  # points; a screen of 390 pixels shows text of 9 points 11 pixels high
CHARACTERS = 46  # of a line beside the ladder
RAIL, TEXT = 30, 58  # points from the left
BLUE, GREY = "#0b5cad", "#5a6068"


def shortened(text: str, lines: int) -> list[str]:
    """The first lines of a text, with `…` where more follow."""
    wrapped = textwrap.wrap(text, CHARACTERS)
    if len(wrapped) > lines:
        wrapped = [
            *wrapped[: lines - 1],
            wrapped[lines - 1][: CHARACTERS - 2].rsplit(" ", 1)[0] + " …",
        ]
    return wrapped


def main() -> None:
    """Draw the picture."""
    ladder = refladder.load_ladders("demo/dialogue").ladders[CONTEXT, DIMENSION]
    (score,) = refladder.Scorer(ladders="demo/dialogue", judge="builtin").score(
        [OUTPUT], context_id=CONTEXT
    )
    rungs = len(ladder.rungs)
    grades = [
        1 + 4 * (level - 0.5) / rungs for level in range(1, rungs + 1)
    ]  # of a text that equals the rung, 1 to 5
    below = sum(grade < score.grade for grade in grades)
    head, note = textwrap.wrap(PROMPT, 52), textwrap.wrap(NOTE, 56)
    texts = {level: shortened(rung.text, 2) for level, rung in enumerate(ladder.rungs, start=1)}
    new = textwrap.wrap(OUTPUT, CHARACTERS)
    blocks = [*range(rungs, below, -1), 0, *range(below, 0, -1)]  # 0: the new text
    heights = {level: LINE * (1 + len(texts[level])) + GAP for level in texts} | {
        0: LINE * (3 + len(new)) + 2 * GAP
    }
    height = LINE * (len(head) + len(note) + 2) + 3 * GAP + sum(heights.values())
    figure = matplotlib_figure(WIDTH / 72, height / 72)
    figure.set_layout_engine("none")

    def write(x: float, y: float, text: str, **style: object) -> None:
        figure.text(
            x / WIDTH,
            1 - y / height,
            text.replace("$", r"\$"),
            **{"fontsize": 9, "va": "top", **style},
        )

    y = GAP
    for line in head:
        write(10, y, line, weight="bold")
        y += LINE
    write(10, y, f"Dimension: {DIMENSION}, 1 to 5. Left: the grade of each rung.", color=GREY)
    y += LINE + GAP
    top, places = y, {}
    for block in blocks:
        places[block] = y
        y += heights[block]
    canvas = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
    canvas.axis("off")
    canvas.plot([RAIL, RAIL], [top, y - GAP], color=GREY, linewidth=4, solid_capstyle="round")
    for level in range(rungs, 0, -1):
        place = places[level]
        canvas.plot(
            [RAIL, TEXT - 6],
            [place + LINE / 2] * 2,
            color=GREY,
            linewidth=4,
            solid_capstyle="round",
        )
        write(6, place, f"{grades[level - 1]:.1f}", weight="bold")
        end = {rungs: ", the best", 1: ", the worst"}.get(level, "")
        write(TEXT, place, f"rung {level}{end}", color=GREY)
        for number, line in enumerate(texts[level], start=1):
            write(TEXT, place + LINE * number, line)
    place = places[0]
    box = [
        [TEXT - 6, WIDTH - 6, WIDTH - 6, TEXT - 6, TEXT - 6],
        [place, place, *[place + heights[0] - GAP] * 2, place],
    ]
    canvas.plot(*box, color=BLUE, linewidth=1.2)
    canvas.plot(
        [RAIL, TEXT - 6], [place + LINE] * 2, color=BLUE, linewidth=2, linestyle=(0, (2, 1))
    )
    lines = [
        ("A new text", {"weight": "bold"}),
        *((line, {}) for line in new),
        (f"grade {score.grade:.2f}", {"weight": "bold", "color": BLUE}),
        (f"between rungs {below} and {below + 1}", {"color": GREY}),
    ]
    for number, (line, style) in enumerate(lines):
        write(TEXT, place + 3 + LINE * number, line, **style)
    for number, line in enumerate(note):
        write(10, y + LINE * number, line, color=GREY)
    PICTURE.write_text(svg_of(figure), encoding="utf-8")


if __name__ == "__main__":
    main()
