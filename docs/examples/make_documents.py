"""Make 2,000 documents in four Parquet files, and what people would say about each.

`documents/part-0.parquet` to `part-3.parquet` have the columns `id` and `text`. `people.jsonl` has the rating of each
document, 1 to 5: how much a reader can learn from it. All sentences are made up, and the same ones come every time.
"""

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

WORDS = {
    "thing": ["river", "glacier", "bridge", "furnace", "leaf", "violin", "harbour", "beehive", "canal", "lung"],
    "part": ["surface", "centre", "edge", "inner layer", "oldest part", "lower half", "narrow end", "visible side"],
    "act": ["absorbs heat", "loses water", "bends slightly", "collects minerals", "slows down", "stores energy"],
    "cause": ["pressure rises", "light reaches it", "salt dissolves", "air cools", "iron expands", "bacteria multiply"],
    "effect": ["keeps the balance", "protects what lies behind it", "explains the pattern", "limits its growth"],
    "year": [str(year) for year in range(1850, 2020)],
}
FACTS = [
    "The {part} of a {thing} {act} because {cause}.",
    "When {cause}, the {part} {act}, and this {effect}.",
    "Measurements from {year} show that the {part} {act} only after {cause}.",
    "Without its {part}, a {thing} never {act}: that {effect}.",
]
CHATTER = [
    "Honestly, my {thing} weekend in {year} was lovely!",
    "Nobody told me that a {thing} looks so nice, wow.",
    "My cousin has another {thing}, and I wonder what for.",
]
ADVERTS = ["Buy your {thing} now, best price, click here.", "Cheap {thing}, cheap {thing}, click here."]
MENUS = ["Home | {thing} | {part} | Login | Cart", "{thing} {thing} {part} {year} next >>"]
EMPTY, AT_ODDS = 0.003, 0.1  # shares of documents without a text, and of those of which people think otherwise
KINDS = [  # sentences, the least and the greatest number of them, and the rating
    (FACTS, 7, 12, 5),
    (FACTS, 4, 6, 4),
    (CHATTER, 2, 4, 2),
    (ADVERTS, 2, 6, 1),
    (MENUS, 1, 4, 1),
]


def document(draw: random.Random) -> tuple[str, int]:
    """A text and its rating."""
    if draw.random() < EMPTY:
        return "", 1
    sentences, least, most, rating = draw.choice(KINDS)
    lines = []
    for _ in range(draw.randint(least, most)):
        words = {name: draw.choice(choices) for name, choices in WORDS.items()}
        lines.append(draw.choice(sentences).format(**words))
    if draw.random() < AT_ODDS:
        rating += draw.choice([-2, -1, 1, 2])
    return " ".join(lines), min(5, max(1, rating))


draw = random.Random(1)
made = [(f"doc-{number:04}", *document(draw)) for number in range(2000)]
Path("documents").mkdir()
for part in range(4):
    rows = [{"id": name, "text": text} for name, text, _ in made[part * 500 : part * 500 + 500]]
    pq.write_table(pa.Table.from_pylist(rows), f"documents/part-{part}.parquet")
with Path("people.jsonl").open("w", encoding="utf-8") as stream:
    stream.writelines(json.dumps({"id": name, "rating": rating}) + "\n" for name, _, rating in made)
