"""Rungs without a model: a best text made from the context, a worst one from scraps of it, and texts between two.

`worth` is always a function that gives a text its quality; what is tried is tried in an order that the seed decides, so
that the same seed gives the same text.
"""

from __future__ import annotations

import hashlib
import random
import re
from itertools import product
from typing import TYPE_CHECKING

from refladder.backends.builtin.features import CAMEL, FUNCTION_WORDS, split_words
from refladder.records import DOCUMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Worth = Callable[[str], float]

_SENTENCE_BREAK = re.compile(r"(?<=[.!?])[\"'”’)]*\s+|\n+")  # noqa: RUF001  closing quotation marks
_TRIPLE_BREAK = re.compile(r"<br>|\n|;")

# Plain sentences for contexts that have too little text of their own. They share few content words, so that a text made
# of many of them is as varied as a long human one.
STOCK = (
    "At first nobody in the narrow street noticed that anything had changed.",
    "The old clock above the bakery struck seven, and a grey cat stretched itself on the warm stones.",
    "She remembered her grandfather's advice: patience opens more doors than strength ever will.",
    "Rain began to drum against the windows while distant thunder rolled across the valley.",
    "He counted the coins twice, folded the worn letter carefully, and slipped both into his coat pocket.",
    "Something about the silence made every shadow seem deeper than usual.",
    "Her brother laughed nervously, though his hands were trembling around the lantern.",
    "Years of quiet work had taught them to trust small signs: a broken twig, fresh mud, smoke beyond the hills.",
    "By noon the market was crowded with farmers, musicians, and children chasing paper kites.",
    "The stranger spoke slowly, choosing each word as if it might cost him dearly.",
    "Inside the wooden box lay a silver key, three dried roses, and a photograph of someone she had never met.",
    "Suddenly the floor groaned, dust fell from the ceiling, and the candle went out.",
    "They ran through the orchard, jumped the crooked fence, and hid behind an abandoned tractor until midnight.",
    "No map showed this village, yet its people greeted them like cousins returning home.",
    "An elderly teacher poured tea with honey and began to explain what had really happened that winter.",
    "The truth, when it finally came, was stranger and sadder than any rumour.",
    "Anger gave way to grief, then grief to an unexpected feeling of relief.",
    "Outside, snow covered the harbour, the fishing boats, and the empty benches along the pier.",
    "One decision remained, and neither friend wanted to say it aloud.",
    "With a deep breath she turned the handle, stepped over the threshold, and faced the bright morning alone.",
    "Behind the curtain a machine hummed, its brass wheels spinning without any visible cause.",
    "The captain shook his head, muttered a prayer, and ordered the crew to lower the sails.",
    "Nothing in her training had prepared her for such kindness from an enemy.",
    "A single violin played somewhere below, thin and clear, until even the guards stopped to listen.",
    "He had promised to protect the garden, but promises grow heavy when hunger sits at the table.",
    "Later, under a copper moon, they shared bread, bitter olives, and stories about vanished kingdoms.",
    "The judge closed the thick book, removed her glasses, and offered him an impossible bargain.",
    "Across the river, bells announced either a wedding or a fire; from this distance nobody could tell.",
    "Tomorrow would bring questions, newspapers, perhaps even punishment, yet tonight belonged to them.",
    "Thirty seconds passed before the signal blinked again, green instead of red.",
    "Moths circled the lamp as the widow unrolled a chart painted on yellow silk.",
    "His younger self would have fought; instead he smiled, apologised, and walked away.",
    "Beneath the bridge, somebody had carved their names beside a date that had not arrived yet.",
    "The dog barked twice, sniffed the frozen ground, and began digging furiously.",
    "What they discovered there surprised the doctor, frightened the mayor, and delighted the smallest child.",
    "In the end the mountain kept its secret, and the travellers kept theirs.",
)
_FILLERS = (
    "There is more to say about this, but the main point is already clear.",
    "That is the heart of the matter, and the rest can wait for another day.",
    "Anybody who wants to know more will have to look further than these few lines.",
    "Little else is known so far, although several people have asked.",
)
_LEADS = "In short:", "Briefly:", "In a few words:", "To sum up:", "All in all:", "In the end:"
# Most words of a draft that is lengthened.
_SHORT = 12
_HANDFULS = 400
_SCRAPS = "the", "of", "a", "and", "to"
_REPLIES = (
    "I did not know that",
    "That reminds me of something I read",
    "You make a good point",
    "I heard about this too",
)
_QUESTIONS = (
    "What do you think about",
    "Have you ever wondered about",
    "Do you know more about",
    "How do you feel about",
)


def seeded(seed: int, parts: Sequence[str]) -> random.Random:
    """Return a random generator seeded with a seed and texts only."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (str(seed), *parts):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return random.Random(int.from_bytes(digest.digest(), "big"))  # noqa: S311  reproducible, not secret


def shorten(text: str, words: int) -> str:
    """Return the text, cut after a number of words."""
    pieces = text.split()
    return text if len(pieces) <= words else " ".join(pieces[:words])


def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text, unchanged."""
    return [piece.strip() for piece in _SENTENCE_BREAK.split(text) if split_words(piece)]


def content_words(text: str) -> list[str]:
    """Return the different content words of a text, in the order of their first use."""
    return [word for word in dict.fromkeys(split_words(text)) if word not in FUNCTION_WORDS]


def write_best(  # noqa: PLR0917
    task: str, context: str, background: str, random: random.Random, worth: Worth, limit: int
) -> str:
    """Return the best of a few texts that contain much of the context, in the form of the task; `limit` is in words."""
    if task == "summarization":
        # A summary is shorter than its source.
        longest = 2 * len(context.split()) // 3
        drafts = []
        for budget in (50, 80, 120):
            sentences = _key_sentences(context, min(budget, longest), random)
            drafts.append(" ".join(sentences))
    elif task == "data-to-text":
        drafts = [_verbalise(context, random) for _ in range(2)]
    elif task == "dialogue":
        drafts = [_reply(context, background, random) for _ in range(4)]
    else:
        # A story runs to hundreds of words, an answer to a request mostly does not.
        counts = (12, 24, len(STOCK)) if task == "story" else (3, 6, 9)
        # A stock sentence has about 13 words.
        if task == DOCUMENT:
            most = max(1, min(len(STOCK), (limit - len(context.split())) // 13))
            counts = (most, max(1, most - 1), max(1, most - 2))
        drafts = [_extend(context, count, random) for count in counts]
    # A context of a few words, or one that is hardly prose, gives a draft that leaves no room below it.
    filler = " ".join(random.sample(_FILLERS, 2))
    topics = content_words(context)[:12]
    random.shuffle(topics)
    short = [draft for draft in (*drafts, shorten(background, 60)) if len(draft.split()) <= _SHORT]
    drafts = [draft for draft in drafts if draft not in short]
    drafts += [f"{random.choice(_LEADS)} {draft}" for draft in short]
    drafts += [f"{_finish(draft)} {filler}" for draft in short]
    listed = f"{random.choice(_LEADS)} {', '.join(topics) or 'very little'}."
    drafts += [listed, f"{listed} {filler}"]
    return max(map(_finish, drafts), key=worth)


def limit_of(background: str) -> int:
    """Return the word limit that a document's background states; 200, as in the prompt, if it has none."""
    first = background.partition(" ")[0]
    return int(first) if first.isdecimal() else 200


def _finish(text: str) -> str:
    text = " ".join(text.split())
    return text if text[-1:] in ".!?\"'”’)" else text + "."  # noqa: RUF001  closing quotation marks


def _key_sentences(context: str, budget: int, random: random.Random) -> list[str]:
    """Return the sentences with the most new content words within a budget of words, in their order."""
    all_sentences = sentences(context)[:200]
    counts: dict[str, int] = {}
    for word in split_words(context):
        counts[word] = counts.get(word, 0) + 1
    left = {number: set(content_words(sentence)) for number, sentence in enumerate(all_sentences)}
    sizes = [len(sentence.split()) for sentence in all_sentences]
    if len(all_sentences) > 4:
        del left[random.randrange(len(all_sentences))]
    # The seed decides which sentences are preferred.
    taste = [random.uniform(0.6, 1.6) for _ in all_sentences]
    chosen: list[int] = []
    covered: set[str] = set()
    while left:
        used = sum(sizes[number] for number in chosen)
        gains = {}
        for number, words in left.items():
            if not chosen or used + sizes[number] <= budget:
                new = sum(counts[word] for word in words - covered)
                gains[number] = taste[number] * new / (5 + sizes[number]) / (1 + number / 10)
        if not gains:
            break
        number = max(gains, key=gains.__getitem__)
        covered |= left.pop(number)
        chosen.append(number)
    return [shorten(all_sentences[number], 120) for number in sorted(chosen)]


def _verbalise(context: str, random: random.Random) -> str:
    """Turn triples `subject | property | object` into plain sentences, and other data into a list of its words."""
    said: list[str] = []
    previous = ""
    for piece in _TRIPLE_BREAK.split(context):
        parts = [CAMEL.sub(" ", part).replace("_", " ").strip(" \"'") for part in piece.split("|")]
        if len(parts) == 3 and all(parts):
            subject, relation, value = parts
            forms = (
                f"The {relation.lower()} of {subject} is {value}.",
                f"{subject} has the {relation.lower()} {value}.",
            )
            same = (
                f"Its {relation.lower()} is {value}.",
                f"It also has the {relation.lower()} {value}.",
            )
            said.append(random.choice(same if subject == previous else forms))
            previous = subject
    if said:
        return " ".join(said)
    words = content_words(CAMEL.sub(" ", context))
    return f"This is about {', '.join(words[:40])}." if words else random.choice(_FILLERS)


def _reply(context: str, background: str, random: random.Random) -> str:
    """Return a reply that refers to the last turn, quotes the background and asks a question."""
    facts = [shorten(fact, 30).rstrip(" .!?") for fact in sentences(background)]
    turns = [turn for turn in context.splitlines() if split_words(turn)]
    topics = sorted(content_words(turns[-1]) if turns else [], key=len, reverse=True)[:4]
    random.shuffle(topics)
    said = [random.choice(_REPLIES) + "."]
    said += [fact + "." for fact in random.sample(facts, min(2, len(facts)))]
    if not facts:
        said.append(random.choice(STOCK[:20]))
    if topics:
        said.append(f"{random.choice(_QUESTIONS)} {' and '.join(topics[:2])}?")
    return " ".join(said)


def _extend(context: str, count: int, random: random.Random) -> str:
    """Return the idea of the context, continued with stock sentences."""
    idea = [_finish(shorten(context, 60))] if split_words(context) else []
    return " ".join([*idea, *random.sample(STOCK, count)])


def write_worst(context: str, background: str, random: random.Random, worth: Worth) -> str:
    """Return the worst of a few random word lists: words of the context, shuffled and doubled, mixed with function words."""
    words = content_words(f"{context} {background}")[:200] or ["thing"]
    drafts = []
    for _ in range(6):
        scraps = [*random.sample(words, min(len(words), 3)), *random.choices(_SCRAPS, k=3)]
        random.shuffle(scraps)
        scraps.insert(random.randrange(len(scraps)), scraps[-1])
        drafts.append(" ".join(scraps))
    return min(drafts, key=worth)


def write_between(lower: str, higher: str, random: random.Random, worth: Worth) -> str:
    """Return a text whose quality lies between those of two others: the higher one damaged, or words of both where short."""
    low, high = worth(lower), worth(higher)
    middle, gap = (low + high) / 2, abs(high - low)
    taken = {_plain(lower), _plain(higher), ""}
    best, distance = "", float("inf")
    damaged = _damaged(lower, higher, random, lambda text: worth(text) > middle)
    thrown = _thrown_together(lower, higher, random)
    for drafts, near in ((damaged, gap / 8), (thrown, gap / 2)):
        for draft in drafts:
            if distance < near:
                break
            value = worth(draft)
            off = abs(value - middle)
            if not min(low, high) < value < max(low, high):
                off += gap
            if off < distance and _plain(draft) not in taken:
                best, distance = draft, off
    return best


def _plain(text: str) -> str:
    # Two texts are equal for a ladder if they fold to this.
    return " ".join(text.split()).casefold()


def _thrown_together(lower: str, higher: str, random: random.Random) -> Iterator[str]:
    """Yield handfuls of the words of two texts, about as long as they are."""
    words = [*higher.split()[:400], *lower.split()[:400], *_SCRAPS]
    sizes = sorted((len(higher.split()), len(lower.split())))
    shortest = max(1, sizes[0] - 2)
    longest = min(len(words), sizes[1] + 2)
    for _ in range(_HANDFULS):
        chosen = sorted(
            random.sample(range(len(words)), random.randint(min(shortest, longest), longest))
        )
        if random.random() < 0.5:
            random.shuffle(chosen)
        yield " ".join(words[position] for position in chosen) + random.choice(("", ".", " the"))


def _damaged(
    lower: str, higher: str, random: random.Random, good: Callable[[str], bool]
) -> Iterator[str]:
    """Yield texts between two others: each damage is halved or doubled until it is about right."""
    words, poor = higher.split(), lower.split()
    size = max(1, len(words))
    order = random.sample(range(len(words)), len(words))
    moved = random.sample(words, len(words))

    start = random.random()

    def cut(share: float) -> list[str]:
        left = round(size * (1 - share))
        return words[: round(left * start)] + words[len(words) - left + round(left * start) :]

    def thin(share: float) -> list[str]:
        removed = set(order[: round(size * share)])
        return [word for position, word in enumerate(words) if position not in removed]

    def scramble(share: float) -> list[str]:
        scrambled = words.copy()
        for position in order[: round(size * share)]:
            scrambled[position] = moved[position]
        return scrambled

    def cut_and_scramble(share: float) -> list[str]:
        return scramble(share)[: round(size * (1 - share / 2))]

    def blend(share: float) -> list[str]:
        return poor[: round(len(poor) * share)] + cut(share)

    def build(share: float) -> list[str]:
        return poor + thin(share)

    ways = [cut, thin, cut_and_scramble, blend]
    random.shuffle(ways)
    for way, ended in product([*ways, build, scramble], (True, False)):
        yield from _halved(way, good, ended=ended)


def _halved(
    way: Callable[[float], list[str]], good: Callable[[str], bool], *, ended: bool
) -> Iterator[str]:
    """Bisect the share of a damage: more if the text is still too good, less if it is not."""
    least, most = 0.0, 1.0
    for _ in range(9):
        share = (least + most) / 2
        text = " ".join(way(share))
        if ended and text[-1:] not in ".!?":
            text = text.rstrip(",;:-") + "."
        yield text
        if good(text):
            least = share
        else:
            most = share
