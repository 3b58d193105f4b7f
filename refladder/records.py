"""The records that flow between modules: frozen, keyword-only, plain.

Floats must be finite (the file readers refuse NaN and infinity); what is not known is None. Ids come from the source of
the data, never from row order.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math

# pydantic resolves the annotations at run time.
from collections.abc import Callable, Iterable, Mapping, Sequence  # noqa: TC003
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal, Protocol, Self, TypeVar

from refladder.typed import checked_record

WIN, LOSS, TIE = "win", "loss", "tie"
OUTCOMES = (WIN, LOSS, TIE)
YES, NO = "yes", "no"
# Natural logarithm used for probability 0, which has none; exp gives exactly 0 again.
IMPOSSIBLE = -1000.0
# The role of a prompt whose answer is known, and the slot that holds this answer.
REWARD = "reward"
OUTPUT = "output"
# The task of texts without a context: its rows have no context, and its anchors have a subject.
DOCUMENT = "document"
# The id of a rung in a Comparison is this and its level.
RUNG = "rung:"
# The outcomes of a judgment that rates one text.
RATINGS = ("1", "2", "3", "4", "5")
# The one outcome of a judgment that is the log-probability of a whole text.
TEXT = "text"

# Sum of probabilities that rounding in half precision can reach.
LARGEST_SUM = 1.01

# Exactness of label probabilities, see LabelReading.
Exactness = Literal["exact", "bounded", "sampled"]

T = TypeVar("T")


class Progress(Protocol):
    """Called with what is done, the total (None if unknown), a note, and how many prompts a unit takes, if known."""

    def __call__(self, done: int, total: int | None, note: str = "", each: int = 0, /) -> None:
        """Take the state of the job."""


class Named(Protocol):
    """A thing with a name, such as a dimension or a method."""

    @property
    def name(self) -> str:
        """Return its name."""


class WithId(Protocol):
    """A thing with an id, such as a context or an output."""

    @property
    def id(self) -> str:
        """Return its id."""


N = TypeVar("N", bound=Named)
W = TypeVar("W", bound=WithId)


def names_of(things: Iterable[Named]) -> list[str]:
    """Return the names of dimensions, methods or other things, in order."""
    return [thing.name for thing in things]


def ids_of(things: Iterable[WithId]) -> list[str]:
    """Return the ids of contexts, outputs or other things, in order."""
    return [thing.id for thing in things]


def by_name(things: Iterable[N]) -> dict[str, N]:
    """Return things by their names."""
    return {thing.name: thing for thing in things}


def by_id(things: Iterable[W]) -> dict[str, W]:
    """Return things by their ids."""
    return {thing.id: thing for thing in things}


def without_none(values: Iterable[T | None]) -> list[T]:
    """Return the values that are not None, in order."""
    return [value for value in values if value is not None]


# Schemas of the records that are lines of files: each line begins with its schema.
SCHEMAS: dict[type, str] = {}
OLDER: dict[type, Mapping[str, Callable[[dict[str, object]], dict[str, object]]]] = {}


def _key_of(name: str) -> str:
    """Return the key of a field in JSON: `from_` is `from`, which is a word of Python."""
    return name.removesuffix("_")


def record(
    schema: str = "",
    older: Mapping[str, Callable[[dict[str, object]], dict[str, object]]] | None = None,
) -> Callable[[type[T]], type[T]]:
    """Refuse floats that are not finite when a class is read; with a `schema`, the class is a line of a file.

    Lines of `older` schemas are read too: each has a function that brings their fields up to date.
    """

    def made(kind: type[T]) -> type[T]:
        kind.__pydantic_config__ = {"allow_inf_nan": False, "alias_generator": _key_of}  # type: ignore[attr-defined]
        if schema:
            SCHEMAS[kind] = schema
            OLDER[kind] = older or {}
        return kind

    return made


@record("dimension/1")
@checked_record
@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """A quality that texts are rated on.

    `name` and `description` are the words that writer and judge see; `low` and `high` are the ends of the human scale.
    """

    name: str
    description: str
    low: float = 1.0
    high: float = 5.0


@record("context/1")
@checked_record
@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The subject of texts: an article, a dialogue so far, a story idea, a set of triples."""

    id: str
    task: str
    text: str
    background: str = ""
    references: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Return the `text_id` of text and background."""
        return text_id(self.text, self.background)


def digest_of(*parts: str, size: int = 8) -> str:
    """Compute a digest of texts in hexadecimal (BLAKE2b of `size` bytes); they may hold half a surrogate pair."""
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=size).hexdigest()


def text_id(text: str, background: str = "") -> str:
    """Make the id of a context without one: 16 hexadecimal digits (BLAKE2b) of its text and any background.

    Raises:
        UnicodeEncodeError: half a surrogate pair, which the readers of tables refuse.
    """
    data = json.dumps([text, background], ensure_ascii=False) if background else text
    return hashlib.blake2b(data.encode(), digest_size=8).hexdigest()


@record("context-digest/1")
@dataclass(frozen=True, slots=True, kw_only=True)
class ContextDigest:
    """The `text_id` of a context: what a ladder set keeps where the text itself may not be redistributed."""

    context_id: str
    digest: str


@record("output/1")
@checked_record
@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A text that a system wrote for a context. It holds no human score: gold cannot leak into a judgment."""

    id: str
    context_id: str
    system: str
    text: str


@record("rating/1")
@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """One rater's value for one output on one dimension."""

    output_id: str
    dimension: str
    value: float
    rater: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Contexts, outputs and human ratings of one meta-evaluation data set; all contexts are of one task."""

    name: str
    revision: str
    licence: str
    dimensions: tuple[Dimension, ...]
    contexts: tuple[Context, ...]
    outputs: tuple[Output, ...]
    ratings: tuple[Rating, ...]

    @property
    def title(self) -> str:
        """Return the name in captions: of a user's own table, the name of its file."""
        table = self.revision.rpartition("@")[0]
        return PurePath(table).name if self.name == "table" and table else self.name

    def __str__(self) -> str:
        """Return the name and the counts."""
        return (
            f"{self.name} ({self.revision}): {len(self.contexts):,} contexts, {len(self.outputs):,} outputs, "
            f"{len(self.ratings):,} ratings on {', '.join(names_of(self.dimensions))}"
        )


@record()
@checked_record
@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How texts are drawn from a writer.

    Attributes:
        max_tokens: maximum length of a text, in the writer's own tokens.
        temperature: of the softmax, 0 or more; 0 takes the most probable token. None is the writer's own
            (`Backend.default_sampling`): that of the model's generation_config.json if there is one, else 1.
        top_p: share of probability that tokens are drawn from, 0 to 1; None as for `temperature`.
        seed: of the random numbers.
    """

    max_tokens: int = 512
    temperature: float | None = None
    top_p: float | None = None
    seed: int = 0

    def drawn(self, own: tuple[float, float] = (1.0, 1.0)) -> tuple[float, float]:
        """Return temperature and top-p; missing ones are taken from `own`."""
        temperature = own[0] if self.temperature is None else self.temperature
        top_p = own[1] if self.top_p is None else self.top_p
        return temperature, top_p

    def filled(self, own: tuple[float, float] = (1.0, 1.0)) -> Sampling:
        """Return the sampling with the numbers that `drawn` gives."""
        temperature, top_p = self.drawn(own)
        return replace(self, temperature=temperature, top_p=top_p)


@record("recipe/1")
@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that can change the answers of a backend.

    `backend` is the backend's fingerprint. `prompts` are "task/role@digest" in the order of their use, none for
    judgments that were recorded elsewhere. A temperature or top-p that `sampling` does not name is 1: a judge's
    answers are votes, and `filled` has given a writer its own.
    """

    backend: str
    prompts: tuple[str, ...]
    sampling: Sampling | None
    version: str

    def __post_init__(self) -> None:
        if self.sampling is not None:
            object.__setattr__(self, "sampling", self.sampling.filled())

    @property
    def signature(self) -> str:
        """Write the recipe in one line, as sacrebleu does: `key:value` pairs joined by bars."""
        parts = [f"backend:{self.backend}"]
        if self.prompts:
            parts.append(f"prompts:{'+'.join(self.prompts)}")
        if self.sampling is not None:
            drawn = self.sampling
            parts.append(
                f"sampling:max{drawn.max_tokens},t{drawn.temperature:g},p{drawn.top_p:g},seed{drawn.seed}"
            )
        return "|".join([*parts, f"refladder:{self.version}"])

    @property
    def digest(self) -> str:
        """Return the digest of the signature: twelve hexadecimal digits."""
        return _digest_of_recipe(self)


@functools.cache
def _digest_of_recipe(recipe: Recipe) -> str:
    """Compute the digest of a recipe, once: every judgment has it."""
    return digest_of(recipe.signature, size=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One reference text of a ladder. Level 1 is the worst; `between` names the two levels it was written between."""

    level: int
    text: str
    between: tuple[int, int] | None = None


@record("ladder/1")
@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Reference texts of rising quality for one context on one dimension, worst first."""

    context_id: str
    task: str
    dimension: str
    rungs: tuple[Rung, ...]
    recipe: Recipe


@record("ladder-set/1")
@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What a set says of itself. A text is compared with the ladders of all `anchors` of a shared set, drawn by `seed`.

    `serves` are further tasks whose texts the set is for, beside that of its ladders. The first `scoring` anchors
    score texts, None for all; the others prove judges and ladders. `replaced_by` names a newer set.
    """

    anchors: tuple[str, ...]
    seed: int
    shared: bool = True
    serves: tuple[str, ...] = ()
    scoring: int | None = None
    licence: str | None = None
    version: str | None = None
    language: str | None = None
    replaced_by: str | None = None

    def __post_init__(self) -> None:
        if self.anchors and not self.shared:
            raise ValueError("a set that is not shared has no anchors")
        if self.scoring is not None and not 1 <= self.scoring <= len(self.anchors):
            raise ValueError(f"scoring must be 1 to {len(self.anchors)}, the number of anchors")


@record("revision/1")
@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """An earlier revision of a ladder set, before `build --add`: its first `ladders`, which have this digest."""

    ladders: int
    digest: str


@record("ladder-failure/1")
@dataclass(frozen=True, slots=True, kw_only=True)
class LadderFailure:
    """A rung that could not be written, with the reason of every attempt; its ladder does not exist."""

    context_id: str
    task: str
    dimension: str
    level: int
    reasons: tuple[str, ...]
    recipe: Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two texts of one context to compare, by id; `subject` is the one the verdict is about.

    A rung's id is `rung:LEVEL`, and `rung:LEVEL@ANCHOR` in a shared set, where `context_id` is that of the text and
    empty if it has no context. The swapped order of a pair is a second Comparison.
    """

    context_id: str
    dimension: str
    subject: str
    against: str


def log_of(probability: float) -> float:
    """Return the natural logarithm of a probability, which may be 0."""
    return math.log(probability) if probability > 0 else IMPOSSIBLE


def impossible(logprobs: Sequence[float], mass: float | None, *, apart: bool = False) -> str | None:
    """Describe what is impossible in the log-probabilities of labels and their mass; None if nothing is.

    Args:
        logprobs: natural logarithms, one for each label.
        mass: sum of the label probabilities, where it is known.
        apart: whether each label answers a question of its own, so that the probabilities may sum to more than 1.
    """
    if not all(map(math.isfinite, logprobs)):
        return f"log-probabilities that are not finite: {tuple(logprobs)}"
    if (highest := max(logprobs, default=0.0)) > math.log(LARGEST_SUM):
        return f"a log-probability of {highest:g}, above 0"
    if not apart and (total := math.fsum(map(math.exp, logprobs))) > LARGEST_SUM:
        return f"label probabilities that add to {total:.2f}, more than 1"
    if mass is not None and not 0 <= mass <= LARGEST_SUM:
        return f"a label mass of {mass:g}, which is not between 0 and 1"
    return None


@record("judgment/1")
@dataclass(frozen=True, slots=True, kw_only=True)
class Judgment:
    """A judge's verdict on one comparison (or, with `against` None, on one text).

    `logprobs` are natural logarithms of probabilities, one for each of `outcomes`, unnormalised and finite; None if the
    judge gave no reading, and then `note` says why. `mass` is the sum of the label probabilities. `cut` is True if the
    context that the judge saw was shortened to fit. `key` is a digest of the texts that were shown, so that a judgment
    is never used for other texts. `recipe` is a Recipe.digest; the recipe itself is in the file's first line (Run).
    `stated` holds the probabilities in percent that a judge wrote, one for each order in which the ladder was shown,
    None for an answer that could not be read; it is empty where the judge was asked otherwise.
    """

    context_id: str
    dimension: str
    subject: str
    against: str | None
    outcomes: tuple[str, ...]
    logprobs: tuple[float, ...] | None
    mass: float | None
    key: str
    recipe: str
    note: str | None = None
    cut: bool = False
    stated: tuple[float | None, ...] = ()

    def __post_init__(self) -> None:
        if not self.outcomes or len(set(self.outcomes)) != len(self.outcomes):
            raise ValueError("outcomes must be different, and at least one")
        if self.logprobs is not None and len(self.logprobs) != len(self.outcomes):
            raise ValueError(
                f"{len(self.logprobs)} logprobs for {len(self.outcomes)} outcomes; it needs one for each"
            )
        # The three outcomes of yes/no questions may add to more than 1; readers that know the prompts check the sum.
        if wrong := impossible(self.logprobs or (), self.mass, apart=True):
            raise ValueError(f"{wrong}; correct the line, or delete the file")

    @property
    def comparison(self) -> Comparison:
        """Return what was judged."""
        return Comparison(
            context_id=self.context_id,
            dimension=self.dimension,
            subject=self.subject,
            against=self.against or "",
        )

    def logprobs_of(self, outcomes: tuple[str, ...]) -> tuple[float, ...] | None:
        """Return the log-probabilities of some outcomes, in the requested order; None if the judge gave no reading.

        A tie is impossible where the judge chose between win and loss (a reward model).
        """
        if self.logprobs is None or self.outcomes == outcomes:
            return self.logprobs
        value = dict(zip(self.outcomes, self.logprobs, strict=True))
        if TIE not in value:
            value[TIE] = IMPOSSIBLE
        return tuple(value[outcome] for outcome in outcomes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RungRating:
    """A judge's rating of a rung, None if it is unparsed; `anchor` is the context of its ladder."""

    dimension: str
    anchor: str
    level: int
    rating: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The score of one output on one dimension, by a judge, a ladder set and a rule.

    `value` is the rule's number, `grade` the position on the dimension's human scale and `spread` the standard
    deviation of the grade of one reading; all three are None where the output could not be scored. `mass` is the least
    label mass of the judgments, None where the judge gives none. `reason` says why there is no value, or why it is
    unreliable. `signature` names all that made the score. `output_id` is None for a row that holds no output.

    `anchor_spread` is the standard deviation (n - 1) over the anchors of a shared set, in units of `value`; None with
    one anchor, or without anchors.

    `interval` is the 95 % interval of the mean value over all orders of the rungs, where the judge stated probabilities
    in five orders or more.
    """

    output_id: str | None
    dimension: str
    value: float | None
    grade: float | None
    spread: float | None
    mass: float | None
    reason: str | None
    signature: str
    anchor_spread: float | None = None
    interval: tuple[float, float] | None = None


def _of_run_2(fields: dict[str, object]) -> dict[str, object]:
    """Name the mode, which was a number of answers, a number of orders or a mode that rates."""
    answers, stated = fields.get("answers", 0), fields.pop("stated", 0)
    if not isinstance(answers, str):
        fields["answers"] = str(answers) if type(answers) is int else answers
    if type(stated) is not int:
        fields["stated"] = stated
    elif stated:
        fields["answers"] = f"stated:{stated}"
    return fields


@record("run/3", older={"run/2": _of_run_2})
@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The first line of a judgments file: its origin, so that the file can be read, resumed and rescored alone.

    `rungs` is the number of rungs of every ladder, `orders` 1, or 2 if every pair was asked in both orders. `answers`
    is the name of the mode, as `--answers` has it. `anchors` are those of a shared set that score. `rated_rungs` is the
    number of ratings of rungs before those of texts; None in a file of a version that did not count them.
    """

    recipe: Recipe
    ladders: str
    dimensions: tuple[Dimension, ...]
    rungs: int
    orders: int
    answers: str = "0"
    anchors: tuple[str, ...] = ()
    rated_rungs: int | None = field(default=None, compare=False)

    @property
    def sampled(self) -> int:
        """Return the number of answers that were sampled for each question."""
        return int(self.answers) if self.answers.isdecimal() else 0

    @property
    def compared(self) -> int:
        """Return the number of rungs that each text is compared with."""
        return self.rungs * max(len(self.anchors), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A filled template: a question to a backend.

    `literals` has one more entry than `names`; the text is literal, slot, literal, slot, ..., literal. Slot values are
    filled in once and never searched for slots, so user text may hold anything. `labels` are the answers that the
    prompt asks for and `outcomes` their meanings; both are empty for a writing prompt. `claim` is the outcome that a
    yes/no question asks about. `prefix` is the beginning of the answer, for a backend that can set it; empty for none. A
    prompt that is asked `anew` does not get its answer in an earlier run.
    """

    task: str
    role: str
    literals: tuple[str, ...]
    names: tuple[str, ...]
    slots: Mapping[str, str]
    labels: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    claim: str | None = None
    prefix: str = ""
    anew: bool = False

    @property
    def text(self) -> str:
        """Return the whole prompt as one string."""
        pieces = [self.literals[0]]
        for name, literal in zip(self.names, self.literals[1:], strict=True):
            pieces += (self.slots[name], literal)
        return "".join(pieces)

    @property
    def messages(self) -> list[dict[str, str]]:
        """Return the prompt as one turn of the user; in role `reward`, the output follows as the assistant's turn."""
        if self.role != REWARD:
            return [{"role": "user", "content": self.text}]
        answer = self.slots[OUTPUT]
        asked = self.text[: len(self.text) - len(answer)]
        return [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A text of a writer.

    `finish` is `stop` if the text is complete, `length` if it reached the length limit, `error` if the backend failed
    on this row; then `note` has the reason. `cut` is True if the prompt's context was shortened to fit. `place` names the
    line of a file of answers that holds the text.
    """

    text: str = ""
    finish: str = "stop"
    note: str | None = None
    cut: bool = False
    place: str | None = field(default=None, compare=False)


@record("generated/1")
@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A model's text for one row of a table; `text` is None if the model failed, and then `note` has the reason.

    `key` is a digest of the prompt and of everything else that makes the text.
    """

    row: str
    model: str
    text: str | None
    finish: str
    key: str
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelReading:
    """Label log-probabilities of one prompt.

    Attributes:
        logprobs: natural logarithms, one for each label, in the order of the labels; None if the row has no reading.
        mass: sum of the label probabilities before any normalisation, between 0 and 1; None if unknown.
        reason: why `logprobs` is None; None where there are log-probabilities.
        cut: whether the prompt's context was shortened to fit.
        exactness: `exact`; `bounded` if the probability of some label is only an upper bound; `sampled` if the
            probabilities are shares of sampled answers.
        note: for people; no code reads it.
    """

    logprobs: tuple[float, ...] | None = None
    mass: float | None = None
    reason: str | None = None
    cut: bool = False
    exactness: Exactness = "exact"
    note: str | None = None


def possible(reading: LabelReading, whose: str) -> LabelReading:
    """Return a reading; without numbers, and with a reason (`whose` is its subject), if they are impossible."""
    wrong = None if reading.logprobs is None else impossible(reading.logprobs, reading.mass)
    return reading if wrong is None else LabelReading(reason=f"{whose} {wrong}", cut=reading.cut)


class NotAsked(LabelReading):
    """The reading of a prompt that was not asked, in a dry run."""

    __slots__ = ()


class NotJudged(Judgment):
    """The judgment of a question that was not asked, in a dry run; it is never stored."""

    __slots__ = ()


class Unwritten(str):
    """A text that a run is still to write.

    It can be a slot of a prompt like any other text. Its content only distinguishes it from other texts.

    Attributes:
        tokens: the most tokens that the text can have.
    """

    __slots__ = ("tokens",)
    tokens: int

    def __new__(cls, identity: str, tokens: int) -> Self:
        """Make a text that differs from the text of every other identity."""
        text = super().__new__(cls, f"(not written yet: {identity})")
        text.tokens = tokens
        return text


@record("judge-check/2")
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCheck:
    """The check whether a judge distinguishes the best rung of ladders from the worst, on one dimension of a set.

    It compared them in both orders, on `compared` ladders. An answer counts 1 for the best rung, 0 for the worst and
    1/2 for neither; a ladder counts the mean of its answers. `right` is the sum over the `read` ladders with a parsed
    answer. `low` and `high` are the ends of Wilson's 95 % interval of their share, None without such a ladder.
    `unparsed` is the number of other answers, and `note` says why the first of them could not be read. `shared` says
    whether the set is. `ladders` and `template` are digests. Of the ladders that were compared, `by_length` are those in
    which a rule of length alone (characters) finds the best rung; None in files without this count.
    """

    judge: str
    ladders: str
    template: str
    dimension: str
    shared: bool
    compared: int
    right: float
    read: int
    unparsed: int
    low: float | None
    high: float | None
    note: str | None = None
    by_length: int | None = None


# Before the name of a column, in the place of the signature of scores that have none.
COLUMN = "column:"


@record()
@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """How many texts of a link are decided otherwise than by the target scores, `>= at`.

    `unlinked` is by the scores as they are, `linked` by those of a map that was made without the text, and `best` by the
    cut-off that does best on the other texts.
    """

    at: float
    unlinked: int
    linked: int
    best: int


@record()
@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedColumn:
    """A map of one column of scores to the scale of another, from texts that both score: straight between knots.

    `scores` are those of the first column, rising. `values` are the same on the scale of the second, and `least` and
    `most` the 95 % interval of the map (bootstrap over contexts), empty where there were too few texts. `half_width` is
    half of the 95 % interval of a single text's score, None likewise. `slope` and `shift` are those of the line. `map` is
    the one that is used, `error` its mean absolute error on texts that were held out, beside that of each map. `rows`
    texts of the `common` ones that both score made it. `decisions` are those at each cut-off that decides something.
    """

    column: str
    to_column: str
    scores: tuple[float, ...]
    values: tuple[float, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]
    half_width: float | None
    slope: float
    shift: float
    rows: int
    common: int
    contexts: int
    error: float
    identity_error: float
    shift_error: float
    line_error: float
    equipercentile_error: float
    map: Literal["identity", "shift", "line", "equipercentile"]
    decisions: tuple[Decisions, ...]

    def __post_init__(self) -> None:
        rising = list(self.scores) == sorted(self.scores)
        others = {len(self.values), len(self.least), len(self.most)}
        if not self.least and not self.most:
            others = {len(self.values)}
        if not self.scores or not rising or others != {len(self.scores)}:
            raise ValueError(
                "it needs scores in rising order, and as many other numbers at these knots"
            )


@record("link/3")
@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Maps of scores with one signature to the scale of scores with another."""

    from_signature: str
    to_signature: str
    columns: tuple[LinkedColumn, ...]
    version: str


@record()
@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Agreement of one method's numbers with a target on held-out rows: `teacher`, or the column of people's labels.

    `pearson` and `spearman` are over all rows at once; those `within` are means over contexts. All are between -1 and
    1, None where they are not defined. `error` is the mean absolute error in units of the target, None where the method
    has another unit.
    """

    method: str
    target: str
    rows: int
    contexts: int
    pearson: float | None
    spearman: float | None
    within_pearson: float | None
    within_spearman: float | None
    error: float | None


@record("distilled/2")
@dataclass(frozen=True, slots=True, kw_only=True)
class Distilled:
    """A small regressor (a student) that has learned a column of scores from their texts.

    `column` and `teacher` are the name and the signature of the scores it learned from (None if they have none).
    `reads_context` is True if it reads the text of the context beside the output. `rows` of `contexts` contexts trained
    it. Estimates are cut at `low` and `high`, the least and the greatest score among these. `settings` are those of the
    training. `weights` is a digest of the files of weights. `held_out_by` is what was held out for `held_out`: whole
    contexts, or texts if there is at most one context. `half_width` is the .9 quantile of the absolute errors of
    held-out rows.
    """

    column: str
    teacher: str | None
    reads_context: bool
    rows: int
    contexts: int
    low: float
    high: float
    settings: Mapping[str, float]
    weights: str
    held_out_by: Literal["context", "text"]
    held_out: tuple[HeldOut, ...]
    half_width: float
    version: str
