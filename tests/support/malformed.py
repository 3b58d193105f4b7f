"""Malformed inputs for every reader, made from good ones by a seed, and what a command does with one.

`READERS` are commands with the file that each of them reads; `good_files` makes those files; `damaged` spoils one.
"""

import contextlib
import csv
import gzip
import io
import json
import random
import re
import shutil
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from unittest import mock

from json_lines import read_lines, write_lines
from scored_folders import Inline

from refladder.cli import console
from refladder.commands.main import run as run_command

LIMIT = 120.0  # seconds after which a command counts as hanging
CODES = {0, 1, 2, 3, 4}
DATA = Path(__file__).parents[1] / "loaders/data"
EXAMPLES = Path(__file__).parents[2] / "docs/examples"
BENCHMARKS = {
    "hanna": "hanna/hanna_stories_annotations.csv",
    "newsroom": "newsroom/release/newsroom-human-eval.csv",
    "podcast": "podcast/podcast_summary_assessment.json",
    "summeval": "summeval/flat/summeval.json",
}
OWN = "table --task-file {f}/task.toml"
PLAIN = "--resamples 1 --dimension clarity"
STORY = "--ladders demo/story --out {f}/o.jsonl"
WITH_SET = "score {f}/own.jsonl --ladders {f}/set --out {f}/o.jsonl"
TRUE_OWN = f"evaluate {OWN} --source {{f}}/own.jsonl {PLAIN}"
MODELS = "--model a=scripted:{f}/rules.jsonl --model b=scripted:{f}/rules.jsonl --judge builtin"
CONTEST = f"--prompt-text Say-{{output}} --criterion good=words {MODELS}"

COHERENCE = f"{STORY} --dimension coherence"
FOLDER = "--ladders demo/story --dimension coherence"
REPLY = "--ladders general/reply --anchors 2 --dimension helpfulness --any-judge"
ASKED = "--column output=reply --column context=question"
ACROSS = "--across-judges --by coherence_grade"
CHATS = "--column context=messages --column output=messages"
# Modes of written answers, and one answer in each form. The judge check needs answers that can be read, not good ones;
# in the mode `stated`, it shows a rung less.
FOUR = "A: 90\nB: 70\nC: 50\nD: 30"
FORMS = {
    "stated": [{"contains": "\nE:\n", "text": f"{FOUR}\nE: 10"}, {"text": FOUR}],
    "rating:stated": [{"text": "1: 0\n2: 10\n3: 20\n4: 30\n5: 40"}],
    "rating:together": [{"text": "helpfulness\n1: 0\n2: 10\n3: 20\n4: 30\n5: 40"}],
}
PROMISE = "--good >=2 --by coherence_score --precision 0.6"

# name of the reader: (file that is spoilt, its share of the inputs, the command)
READERS = {
    "score JSON lines": ("rows.jsonl", 6, f"score {{t}} {STORY}"),
    "score CSV": ("rows.csv", 6, f"score {{t}} {STORY}"),
    "score Parquet": ("rows.parquet", 6, "score {t} --ladders demo/story --out {f}/o.parquet"),
    "filter JSON lines": ("rows.jsonl", 8, "filter {t} --min score=1"),
    "filter CSV": ("rows.csv", 8, "filter {t} --top 1 --by score --out-format jsonl"),
    "filter Parquet": ("rows.parquet", 6, "filter {t} --max score=1 --out {f}/o.jsonl"),
    "filter, best of groups": ("scored.jsonl", 2, "filter {t} --best 1 --per context_id --by score"),
    "pairs": ("scored.jsonl", 4, "pairs {t} --margin 1 --by score --out {f}/o.jsonl"),
    "recorded judgments, ladder": ("rungs.jsonl", 4, f"score {{f}}/rows.jsonl {STORY} --judgments-from {{t}}"),
    "recorded judgments, pairs": ("verdicts.csv", 4, f"{TRUE_OWN} --judgments-from {{t}}"),
    "recorded judgments, own file": (
        "kept.jsonl", 4, f"score {{f}}/rows.jsonl {STORY} --dimension coherence --judgments-from {{t}}"
    ),
    "rescore": ("kept.jsonl", 6, "rescore {t}"),
    "kept judgments": ("kept.jsonl", 6, f"score {{f}}/rows.jsonl {STORY} --dimension coherence --judgments {{t}}"),
    "response store": ("store.db", 3, "store show --store {t}"),
    "config": ("config.toml", 6, "--config {t} score {f}/rows.jsonl --out {f}/o.jsonl"),
    "prices": ("prices.toml", 4, f"score {{f}}/rows.jsonl {STORY} --prices {{t}} --dry-run"),
    "task file": ("task.toml", 4, TRUE_OWN),
    "own data, JSON lines": ("own.jsonl", 2, TRUE_OWN),
    "own data, JSON list": ("own.json", 2, f"evaluate {OWN} --source {{t}} {PLAIN}"),
    "own data, CSV": ("own.csv", 2, f"evaluate {OWN} --source {{t}} {PLAIN}"),
    "scores of others": ("scores.jsonl", 2, f"{TRUE_OWN} --scores {{t}}"),
    "dimensions": ("set/dimensions.jsonl", 3, WITH_SET),
    "contexts": ("set/contexts.jsonl", 3, WITH_SET),
    "ladders": ("set/ladders.jsonl", 4, WITH_SET),
    "ladders, shown": ("set/ladders.jsonl", 3, "show {f}/set q1"),
    "journal of a build": (
        "set/build.journal.jsonl", 4, f"build {OWN} --source {{f}}/own.jsonl --out {{f}}/set --rungs 3 --writer builtin"
    ),
    "rules": ("rules.jsonl", 3, f"score {{f}}/rows.jsonl {STORY} --judge scripted:{{t}} --no-store --any-judge"),
    "prompt template": ("prompts/story/compare.md", 3, f"score {{f}}/rows.jsonl {STORY} --prompts {{f}}/prompts"),
    **{
        f"benchmark {name}": (f"{name}{Path(path).suffix}", 1, f"build {name} --source {{t}} --out {{f}}/b --dry-run")
        for name, path in BENCHMARKS.items()
    },
    "texts of compete": ("contest/*.jsonl", 3, f"compete {{f}}/rows.jsonl --out {{f}}/contest {CONTEST}"),
    "table of compete": ("rows.csv", 2, f"compete {{t}} --out {{f}}/new {CONTEST}"),
    "rows of calibrate": ("labelled.jsonl", 4, f"calibrate {{t}} {PROMISE} --label coherence"),
    "labels": ("labels.csv", 4, f"calibrate {{f}}/labelled.jsonl {PROMISE} --labels {{t}} --label quality"),
    "rows to label": (
        "labelled.jsonl", 2, f"calibrate {{t}} {PROMISE} --label coherence --plan --out {{f}}/to-label.csv"
    ),
    "threshold, filter": ("threshold.json", 3, "filter {f}/labelled.jsonl --threshold {t}"),
    "link": ("link.json", 3, "filter {f}/labelled.jsonl --min coherence_score=1 --link {t}"),
    "table of link": ("labelled.jsonl", 3, "link --from {t} --to {f}/o2.jsonl --out {f}/other.json"),
    "rows of distil": ("labelled.jsonl", 3, "distil {t} --by coherence_score --label coherence --out {f}/new"),
    "record of a student": ("student/student.json", 3, "score {f}/rows.jsonl --judge distilled:{f}/student"),
    "weights of a student": ("student/weights.npz", 2, "score {f}/rows.jsonl --judge distilled:{f}/student"),
    "rows of a folder": ("rows.jsonl", 3, f"score {{t}} {FOLDER} --out {{f}}/new"),
    "records of scored files": ("scored/counts/*.json", 4, f"score {{f}}/rows.jsonl {FOLDER} --out {{f}}/scored"),
    "records of scored files, filter": (
        "scored/run.json", 2, "filter {f}/scored --min coherence_score=1 --out {f}/o.jsonl"
    ),
    "judgments of scored files": ("scored/judgments/*", 3, "rescore {f}/scored --out {f}/o.jsonl"),
    "scored files": ("scored/*.jsonl", 3, "filter {f}/scored --min coherence_score=1 --out {f}/o.jsonl"),
    "certificate": ("set/certificate.json", 3, WITH_SET),
    "judgments of certify": ("set/certificate.judgments.jsonl", 3, "certify {f}/set"),
    "judgments of audit": ("audit.jsonl", 3, "audit --ladders demo/story --contexts 2 --judgments {t}"),
    "set to publish": ("set/*.json*", 3, "publish {f}/set group/name --dry-run --baseline"),
    "export of a benchmark": ("hanna.csv", 1, "export hanna --source {t} --out {f}/o.jsonl"),
    "human rungs": ("human.csv", 2, "build demo/story --dimension coherence --rungs 3 --out {f}/new --human {t}"),
    "results of evaluate, reviewed": ("work/results.jsonl", 3, "review {f}/work --html {f}/page.html"),
    "results of compete, reviewed": ("contest/results.jsonl", 3, "review {f}/contest --html {f}/page.html"),
    "scored table, reviewed": ("labelled.jsonl", 2, "review {t} --html {f}/page.html"),
    "record of compete, reviewed": ("contest/run.json", 2, "review {f}/contest --html {f}/page.html"),
    "run of a folder": ("scored/run.json", 4, f"score {{f}}/rows.jsonl {FOLDER} --out {{f}}/scored"),
    "scored files, rescored": ("scored/run.json", 2, "rescore {f}/scored --out {f}/o.jsonl"),
    "rows, packed": ("rows.jsonl.gz", 3, f"score {{t}} {STORY}"),
    **{
        f"judgments of {mode}, rescored": (f"{mode.replace(':', '-')}.jsonl", 6, "rescore {t}")
        for mode in ("rating", "anchored", *FORMS)
    },
    "recorded judgments, ratings": (
        "rating.jsonl", 6, f"score {{f}}/replies.csv {ASKED} {REPLY} --judgments-from {{t}} --out {{f}}/o.jsonl"
    ),
    "kept judgments, together": (
        "rating-together.jsonl", 4, (f"score {{f}}/replies.csv {ASKED} {REPLY} --answers rating:together --judgments {{t}} "
        "--judge scripted:{f}/rating-together.rules --out {f}/o.jsonl"),
    ),
    "answers in files": (
        "replies-answers/answers.jsonl", 4, (f"score {{f}}/replies.csv {ASKED} {REPLY} --answers rating:stated --judge "
        "openai:large-language-model --base-url file:{f}/replies-answers --no-store --out {f}/o.jsonl"),
    ),
    "tables of jury": ("members/*", 8, "jury {f}/members/a.jsonl {f}/members/b.jsonl --out {f}/o.jsonl"),
    "baseline of watch": ("watch.json", 8, "watch general/reply --answers rating --baseline {t}"),
    "texts of watch": (
        "replies.csv", 4, (f"watch general/reply --answers rating --dimension helpfulness --baseline {{f}}/new.json --new "
        f"--texts {{t}} {ASKED}")
    ),
    "across judges, compared": ("members/*", 4, f"compare {{f}}/members/a.jsonl {{f}}/members/b.jsonl {ACROSS}"),
    "across judges, filter": (
        "members/*", 4, "filter {f}/members/b.jsonl --threshold {f}/graded.json --across-judges --out {f}/o.jsonl"
    ),
    "log of promptfoo": ("promptfoo.json", 6, "compare {t} --by score_promptfoo"),
    "log of promptfoo, scored": ("promptfoo.json", 3, f"score {{t}} {REPLY} --column context=input --out {{f}}/o.jsonl"),
    "log of lm-eval": ("samples.jsonl", 6, f"score {{t}} {REPLY} --column context=input --out {{f}}/o.jsonl"),
    "chats": ("chats.jsonl", 6, f"score {{t}} {REPLY} {CHATS} --out {{f}}/o.jsonl"),
    "chats in CSV": ("chats.csv", 4, f"score {{t}} {REPLY} {CHATS} --out {{f}}/o.jsonl"),
    "judgments of certify, given": (
        "set/certificate.judgments.jsonl", 6, "certify {f}/set --judgments-from {t}"
    ),
    "judgments of evaluate": ("work/*", 2, f"{TRUE_OWN} --methods win-ratio,g-eval-5 --work {{f}}/work"),
}  # fmt: skip


def good_files(folder):
    """Every file of READERS, as good ones, in a folder."""
    rows = [
        {
            "output_id": f"o{k}",
            "context_id": f"story-0{k}",
            "output": f"A keeper found a bottle. Day {k}.",
            "score": k / 2,
        }
        for k in (1, 2, 3)
    ]
    own = read_lines(DATA / "own/outputs.jsonl")
    write_lines(folder / "rows.jsonl", rows)
    write_lines(folder / "own.jsonl", own)
    rules = [{"text": "A text."}, {"answer": {"win": -1, "loss": -1.5, "tie": -2}}]
    write_lines(folder / "rules.jsonl", rules)
    (folder / "own.json").write_text(json.dumps(own, indent=1))
    shutil.copy(DATA / "own/outputs.csv", folder / "own.csv")
    shutil.copy(DATA / "own/task.toml", folder / "task.toml")
    for name, path in BENCHMARKS.items():
        shutil.copy(DATA / path, folder / f"{name}{Path(path).suffix}")
    _csv(folder / "rows.csv", rows[0], *(row.values() for row in rows))
    (folder / "prices.toml").write_text('["builtin"]\ninput = 0.4\noutput = 1.6\n')
    (folder / "config.toml").write_text(
        '[score]\nladders = "demo/story"\nrule = "ladder-sum"\ndimension = ["coherence"]\nboth-orders = false\n'
        f'weight = ["coherence=2"]\njudgments = "{folder}/j.jsonl"\n'
    )
    template = files("refladder") / "prompts/templates/story/compare.md"
    (folder / "prompts/story").mkdir(parents=True)
    (folder / "prompts/story/compare.md").write_text(template.read_text())
    _parquet(folder / "rows.parquet", rows)
    for command in (
        f"score {{f}}/rows.jsonl {STORY} --dimension coherence --judgments {{f}}/kept.jsonl --store {{f}}/store.db",
        f"build {OWN} --source {{f}}/own.jsonl --out {{f}}/set --rungs 3 --writer builtin",
        READERS["texts of compete"][2],
        READERS["judgments of evaluate"][2],
    ):
        _made(command, folder)
    ids = [f"{row['context_id']}/{row['system']}" for row in own]
    scores = [{"output_id": output_id, "clarity": k} for k, output_id in enumerate(ids)]
    write_lines(folder / "scores.jsonl", scores)
    scored = [
        {"context_id": f"c{k // 3}", "context": "Say.", "output": f"Text {k}.", "score": k}
        for k in range(6)
    ]
    write_lines(folder / "scored.jsonl", scored)
    verdict = {"win": 0.5, "loss": 0.25, "tie": 0.125}
    about = [
        {"context_id": row["context_id"], "dimension": "coherence", "output": row["output_id"]}
        for row in rows
    ]
    rungs = [{**each, "rung": level, **verdict} for each in about for level in range(1, 6)]
    write_lines(folder / "rungs.jsonl", rungs)
    stories = "score {f}/stories.jsonl --ladders demo/story --dimension coherence"
    for command in (
        "export demo/story --out {f}/stories.jsonl",
        f"{stories} --out {{f}}/labelled.jsonl --judgments {{f}}/first.jsonl",
        f"{stories} --out {{f}}/o2.jsonl --judgments {{f}}/second.jsonl --both-orders",
        f"calibrate {{f}}/labelled.jsonl {PROMISE} --label coherence --out {{f}}/threshold.json",
        "link --from {f}/labelled.jsonl --to {f}/o2.jsonl --out {f}/link.json",
        "distil {f}/labelled.jsonl --by coherence_score --out {f}/student",
        f"score {{f}}/rows.jsonl {FOLDER} --out {{f}}/scored",
        "certify {f}/set",
        "audit --ladders demo/story --contexts 2 --judgments {f}/audit.jsonl",
    ):
        _made(command, folder)
    _good_ratings(folder)
    for path in folder.glob("o.jsonl*"):
        path.unlink()
    human = ("story-01", "coherence", 3, "My best story.")
    _csv(folder / "human.csv", ("context_id", "dimension", "level", "text"), human)
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress((folder / "rows.jsonl").read_bytes()))
    labelled = read_lines(folder / "labelled.jsonl")
    labels = [(row["output_id"], row["coherence"]) for row in labelled]
    _csv(folder / "labels.csv", ("output_id", "quality"), *labels)
    # The first context alone has two outputs.
    verdict = (own[0]["context_id"], "clarity", *ids[:2], "first")
    names = ("context_id", "dimension", "first", "second", "winner")
    _csv(folder / "verdicts.csv", names, verdict)


def _good_ratings(folder):
    """Files of rating modes, of two judges, logs of other tools and chats."""
    lines = (EXAMPLES / "replies.csv").read_text().splitlines(keepends=True)
    (folder / "replies.csv").write_text("".join(lines[:4]))
    shutil.copytree(EXAMPLES / "replies-answers", folder / "replies-answers")
    (folder / "members").mkdir()
    table = f"score {{f}}/replies.csv {ASKED} {REPLY} --no-store"
    for mode in ("rating", "anchored"):
        kept = f"--judgments {{f}}/{mode}.jsonl"
        _made(f"{table} --answers {mode} {kept} --out {{f}}/o.{mode}.jsonl", folder)
    for mode, rules in FORMS.items():
        name = mode.replace(":", "-")
        write_lines(folder / f"{name}.rules", rules)
        kept = f"--judge scripted:{{f}}/{name}.rules --judgments {{f}}/{name}.jsonl"
        _made(f"{table} --answers {mode} {kept} --out {{f}}/o.{name}.jsonl", folder)
    graded = folder / "members/a.jsonl"
    _made(f"score {{f}}/stories.jsonl {FOLDER} --answers rating --out {graded}", folder)
    promise = PROMISE.replace("score", "grade")
    _made(f"calibrate {graded} {promise} --label coherence --out {{f}}/graded.json", folder)
    for path in folder.glob("members/a.jsonl.*"):
        path.unlink()
    other = graded.read_text().replace("backend:builtin/1", "backend:other/1")
    (folder / "members/b.jsonl").write_text(other)
    few = "--anchors 2 --dimension helpfulness"
    _made(f"watch general/reply --answers rating {few} --baseline {{f}}/watch.json --new", folder)
    whole = json.loads((EXAMPLES / "promptfoo.json").read_text())
    del whole["results"]["results"][4:]
    (folder / "promptfoo.json").write_text(json.dumps(whole))
    sample = {"target": "Old.", "resps": [["Old."]], "filtered_resps": ["Old."], "acc": 1.0}
    given = {"gen_args_0": {"arg_0": "Why?", "arg_1": {"until": []}}}
    samples = [{"doc_id": k, "doc": {"q": "Why?"}, "arguments": given, **sample} for k in range(2)]
    write_lines(folder / "samples.jsonl", samples)
    parts = [{"type": "text", "text": "Old yeast."}]
    chats = [
        [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Yeast."}],
        [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "Old yeast."}],
        [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": parts}],
        ["Why?", "Yeast.", "And now?", "Buy some."],
    ]
    write_lines(
        folder / "chats.jsonl", [{"id": k, "messages": chat} for k, chat in enumerate(chats)]
    )
    with (folder / "chats.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["messages"], *([json.dumps(chat)] for chat in chats)])
    for path in folder.glob("o.*jsonl*"):
        path.unlink()


def _made(command, folder):
    code, told = ended(_words(command, folder))
    assert code in {0, 3}, (command, told)


def _words(command, folder, target=""):
    words = command.replace("{f}", str(folder)).replace("{t}", str(target))
    return words.split()


def _csv(path, *rows):
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))


def _parquet(path, rows):
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.Table.from_pylist(rows), path)


@dataclass
class Ended:
    """How a command ended: its exit code, or None with the traceback; the seconds it took."""

    code: int | None
    told: str
    seconds: float


class HangingError(BaseException):
    """A command took longer than LIMIT."""


def _hang(*_):
    raise HangingError


def ended(arguments, stdin=b""):
    """Run a command here; (exit code, standard error), or (None, traceback)."""
    console.say_once.cache_clear()
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    given = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    workers = mock.patch("refladder.many_files.workers.Processes", Inline)
    streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with workers, mock.patch.object(sys, "stdin", given), streams[0], streams[1]:
        try:
            code = run_command(arguments)
        except (Exception, HangingError, SystemExit):  # noqa: BLE001  what a user would see as a traceback
            return None, traceback.format_exc()
    err.flush()
    return code, err.buffer.getvalue().decode()


def tried(name, good, folder, seed):
    """Run a reader on a file spoilt by a seed (None: a good one); `good` holds good files, `folder` is remade."""
    target, _, command = READERS[name]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good, folder)
    drawn = random.Random(f"{name}/{seed}")  # noqa: S311  no secrets
    path = folder / target
    if "*" in target:
        path = drawn.choice(sorted(path for path in folder.glob(target) if path.is_file()))
    if seed is not None:
        path.write_bytes(damaged(path.read_bytes(), drawn))
    # They name the folder.
    for written in [folder / "config.toml", *folder.glob("scored/run.json")]:
        written.write_bytes(written.read_bytes().replace(str(good).encode(), str(folder).encode()))
    with contextlib.chdir(folder):  # a spoilt configuration may name a file of its own
        return timed(_words(command, folder, path))


def timed(arguments):
    """How a command ends, stopped after LIMIT seconds."""
    begun = time.perf_counter()
    before = signal.signal(signal.SIGALRM, _hang)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        code, told = ended(arguments)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return Ended(code, told, time.perf_counter() - begun)


DEEP = "[" * 3000 + "]" * 3000
VALUES = (
    "null", "true", "false", "0", "-1", "1.5", "7", '"x"', '""', '" "', "[]", "{}", "[null]", '{"a": 1}', "[[1]]",
    "1e999", "-1e999", "NaN", "-Infinity", "nan", "inf", "1" * 20, "9" * 400, "9" * 5000, "0x" + "f" * 5000, "-0",
    '"\\u0000"', '"\\ud800"', '"\\u001b[2J"', '"rung:1"', '"' + "9" * 5000 + '"', '"' + "y" * 70000 + '"', DEEP,
    '"\\u202e\\u2066"', '"a\\\\..\\\\b"', "[" * 90 + "]" * 90,
    "[" * 99 + '{"a":1}' + "]" * 99, '{"a":' * 3000 + "1" + "}" * 3000, "1979-05-27", "07:32:00",
    "1979-05-27T07:32:00Z", "99999-99-99", '"""', "'''", "a.b.c", ".".join("a" * 2000), '"=1+1"', '"../../x"', "1_0",
)  # fmt: skip
# Gzip files of 100 million spaces or line ends, and one that unpacks to another: each packs to some 100,000 bytes.
BOMBS = (gzip.compress(b" " * 100_000_000, 1), gzip.compress(b"\n" * 100_000_000, 1))
WHOLE = (
    *BOMBS, gzip.compress(BOMBS[0]), b"\n" * 20_000, '{"a": "\u202e\u2066"}'.encode(), b"\x1b]0;title\x07",
    b"", b"\n", b"\n\n", b"null", b"[]", b"{}", b"[[]]", b"[1, 2]", b'"text"', b"0", b"\x00", b"\xff\xfe", b"PAR1",
    b"PAR1PAR1", b"\x1f\x8b", b"\x1f\x8b\x08\x00", b"SQLite format 3\x00", b"[" * 100_000, b'{"a":' * 50_000,
    b"9" * 5000, b"a = " + b"[" * 5000, b"a = 0x" + b"f" * 9999, b"a." * 3000 + b"a = 1", b"+++\n+++\n", b",\n,\n",
    b'"', b"a,a\n1,2\n", b"\xef\xbb\xbf", b"+++\na = " + b"[" * 5000 + b"\n+++\nx",
)  # fmt: skip
_TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null')
_WORD = re.compile(rb"[A-Za-z_]{3,}")


def damaged(content, drawn):
    """Good bytes, spoilt in one of many ways."""
    for _ in range(drawn.choice((1, 1, 1, 2, 3))):
        content = drawn.choice(_WAYS)(content, drawn)
    return content


def _value(content, drawn):
    """Another value in the place of one."""
    places = list(_TOKEN.finditer(content))
    if not places:
        return drawn.choice(WHOLE)
    place = drawn.choice(places)
    return content[: place.start()] + drawn.choice(VALUES).encode() + content[place.end() :]


def _bytes(content, drawn):
    spoilt = bytearray(content)
    for _ in range(drawn.randrange(1, 6)):
        at = drawn.randrange(len(spoilt) + 1)
        spoilt[at : at + drawn.randrange(4)] = drawn.randbytes(drawn.randrange(4))
    return bytes(spoilt)


def _cut(content, drawn):
    return content[: drawn.randrange(len(content) + 1)]


def _not_text(content, drawn):
    """Bytes that are not UTF-8 in the place of a word."""
    places = list(_WORD.finditer(content))
    if not places:
        return content + b"\xff"
    place = drawn.choice(places)
    return content[: place.start()] + b"\xff" * len(place.group()) + content[place.end() :]


def _line(content, drawn):
    """A line left out, twice, blank, or in another place."""
    lines = content.split(b"\n")
    at = drawn.randrange(len(lines))
    way = drawn.randrange(4)
    if way == 0:
        del lines[at]
    elif way == 1:
        lines.insert(at, lines[at])
    elif way == 2:
        lines.insert(at, b"")
    else:
        lines.append(lines.pop(at))
    return b"\n".join(lines)


def _word(content, drawn):
    """Another word in the place of one, often a key."""
    places = list(_WORD.finditer(content))
    if not places:
        return content
    place, other = drawn.choice(places), drawn.choice(places)
    return content[: place.start()] + other.group() + content[place.end() :]


def _whole(content, drawn):
    return drawn.choice((
        *WHOLE, content * 2, gzip.compress(content), gzip.compress(content)[:-9], gzip.compress(b"\xff" + content),
        content.decode("latin-1").encode("utf-16"), b"\xef\xbb\xbf" + content, content.replace(b"\n", b"\r\n"),
        content.replace(b"\n", b"\r"), content.replace(b"\n", b" "), content[::-1],
    ))  # fmt: skip


_WAYS = (_value, _value, _value, _value, _bytes, _cut, _not_text, _line, _word, _word, _whole)
