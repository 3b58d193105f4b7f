"""What messages, lists and help advise: the right name, and the next step."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from json_lines import write_lines

from refladder import registry
from refladder.errors import similar
from refladder.loaders import BENCHMARKS, load_benchmark

REPOSITORY = Path(__file__).parents[2]
EXTRA = "refladder" + "["  # an extra of a package that no index has
TASK = 'task = "open"\n[[dimensions]]\nname = "clarity"\ndescription = "Clear?"\n'


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder with tables."""
    monkeypatch.chdir(tmp_path)
    row = {"context_id": "story-01", "output": "A text."}
    write_lines("rows.jsonl", [row])
    write_lines(
        "scored.jsonl", [row | {"clarity_grade": 3, "clarity_score": 1, "overall_score": 2}]
    )
    (tmp_path / "task.toml").write_text(TASK)
    (tmp_path / "named.csv").write_text("question,reply\nWhy?,So.\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "noted.csv").write_text("note\nx\n")
    (tmp_path / "rated.csv").write_text("context,output,stars\nWhy?,So.,3\n")
    return tmp_path


def test_no_hint_names_an_extra_of_a_package_that_no_index_has():
    files = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")]
    files += [
        path
        for name in ("refladder", "tests", "bench")
        for path in (REPOSITORY / name).rglob("*.py")
    ]
    assert len(files) > 100
    assert [str(path) for path in files if EXTRA in path.read_text(encoding="utf-8")] == []


def test_options_of_benchmarks_are_listed(command):
    listed = {row["name"]: row["about"] for row in command("list benchmarks --json").rows}
    # These are options of the command line of their own.
    otherwise = {"source", "task_file", "columns", "dimensions"}
    for name in BENCHMARKS:
        parameters = inspect.signature(registry.find("benchmark", name, BENCHMARKS)).parameters
        wanted = [option for option in parameters if option not in otherwise]
        assert re.findall(r"--option (\w+)=", listed[name]) == wanted, name


def test_methods_beside_scores(command, place):
    """The help of --methods says when the ladder runs; each of its cases."""
    words = " ".join(command("evaluate --help").out.split())
    default = "Default: ladder; none with --scores unless --judge, --writer or --ladders is given."
    assert default in words
    outputs = load_benchmark("demo/story").outputs
    lines = [f"{output.id},{len(output.text)}\n" for output in outputs]
    (place / "mine.csv").write_text("output_id,score\n" + "".join(lines))
    for options, runs in [
        ("", True),
        ("--scores mine.csv", False),
        ("--scores mine.csv --judge builtin", True),
        ("--scores mine.csv --writer builtin", True),
        ("--scores mine.csv --ladders demo/story", True),
        ("--scores mine.csv --methods ladder", True),
    ]:
        done = command(f"evaluate demo/story --resamples 5 --json {options}")
        assert done.code == 0, done.err
        assert ("ladder" in {row["method"] for row in done.rows}) == runs, options


@pytest.mark.parametrize("line", ["build {} --out out", "evaluate {}", "export {} --out out"])
def test_a_path_as_a_benchmark_says_what_is_missing(fails, line):
    def told(words):
        return fails(2, line.format(words)).removeprefix("refladder: ")

    own = (
        "rows.jsonl: a table of your own needs its task and dimensions; add --task-file TASK.toml\n"
    )
    assert told("rows.jsonl") == own
    two = "rows.jsonl is a table, and --source other.csv is another; give one of them\n"
    assert told("rows.jsonl --source other.csv") == two
    assert told("none.jsonl --task-file t") == "none.jsonl: no such file\n"
    near = "unknown benchmark or file 'sumeval'; did you mean 'summeval'? Known: "
    assert told("sumeval").startswith(near)


MODELS = ("gpt-4o", "o3-mini", "claude-sonnet-4", "gemini-2.0-flash", "llama3:8b")
BACKENDS = {
    **{name: f"; did you mean 'openai:{name}'?" for name in MODELS},
    "Qwen/Qwen3-8B": "; did you mean 'hf:Qwen/Qwen3-8B'?",
    "meta-llama/Llama-3.1-8B-Instruct": "; did you mean 'hf:meta-llama/Llama-3.1-8B-Instruct'?",
    "build-in": "; did you mean 'builtin'?",
    "script": "; did you mean 'scripted'?",
    "openai/gpt-4o": "; did you mean 'openai:gpt-4o'?",
    "zzz": ".",
    "": ".",  # as of a variable of the shell that is not set
}


@pytest.mark.parametrize("name", BACKENDS)
def test_the_name_of_a_model_alone_says_what_to_put_before_it(fails, name):
    known = "Known: builtin, hf, openai, reward, scripted"
    told = f"refladder: unknown backend {name!r}{BACKENDS[name]} {known}\n"
    assert fails(2, f"score rows.jsonl --ladders demo/story --judge {name!r}") == told
    assert fails(2, f"build demo/story --out set --writer {name!r}") == told


def test_a_file_of_a_set_names_its_folder(command, fails, place):
    assert command("build demo/story --out set --rungs 2").code == 0
    path = place / "set" / "ladders.jsonl"
    message = f"a file, and a ladder set is a folder; name the folder, {path.parent}"
    for line in ("show {}", "score rows.jsonl --ladders {}", "certify {}"):
        assert fails(2, line.format(path)) == f"refladder: {path}: {message}\n"


def test_a_wrong_ladder_set_stops_before_judging_and_names_the_contexts(command):
    rows = [{"context_id": f"mine-{k}", "output": f"Text {k}."} for k in range(5)]
    line = "score mine.jsonl --ladders demo/story --dimension coherence"
    write_lines("mine.jsonl", rows)
    done = command(f"{line} --judge scripted:no-such-file")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "refladder: mine.jsonl: no row has a ladder; there is none for context 'mine-0', 'mine-1', 'mine-2', ... in "
        "demo/story, which has 'story-01', 'story-02', 'story-03', ...; name the right --ladders\n"
    )
    write_lines("mine.jsonl", [*rows[:2], {"context_id": "story-01", "output": "Rain."}])
    done = command(line)
    assert done.code == 3
    assert done.err.splitlines()[0] == (
        "no ladder for 2 of 3 rows: there is none for context 'mine-0', 'mine-1' in demo/story, which has "
        "'story-01', 'story-02', 'story-03', ..."
    )


STORY = "score rows.jsonl --ladders demo/story --out o.jsonl"
SAID = [
    (
        "filter scored.jsonl --min clarity=3",
        "scored.jsonl:1: no column 'clarity'; did you mean 'clarity_grade' or 'clarity_score'? Columns: ",
    ),
    (
        "filter scored.jsonl --min overall=3",
        "no column 'overall'; did you mean 'overall_score'?",
    ),
    ("filter scored.jsonl --min grade=3", "no column 'grade'; did you mean 'clarity_grade'?"),
    (
        "filter rows.jsonl --min clarity_grade=3",
        "nor another column of scores; `refladder score` adds them",
    ),
    (
        "compare rows.jsonl --by clarity_grade",
        "nor another column of scores; `refladder score` adds them",
    ),
    ("filter scored.jsonl --threshold 3", "for a number, give --min COLUMN=3"),
    (
        "filter scored.jsonl --min grade>=3",
        "refladder: --min grade>=3: give --min grade=3; --min keeps the bound itself too\n",
    ),
    (
        "filter scored.jsonl --max grade<=3",
        "refladder: --max grade<=3: give --max grade=3; --max keeps the bound itself too\n",
    ),
    (
        "evaluate named.csv --task-file task.toml",
        "map the field 'context' to its column with --column context=COLUMN",
    ),
    (
        "evaluate rated.csv --task-file task.toml",
        "table has no ratings on clarity; add ratings, or choose other dimensions. Ratings are read from columns of ",
    ),
    ("evaluate rated.csv --task-file task.toml", "map others with --column clarity=NAME"),
    ("score --model gpt-4o", "No such option '--model'. Did you mean '--judge'?"),
    ("score --output o", "No such option '--output'. Did you mean '--out'?"),
    ("review --out o", "No such option '--out'. Did you mean '--html'?"),
    ("calibrate --score s", "No such option '--score'. Did you mean '--by'?"),
    ("score --api-key k", "'--api-key'. Set OPENAI_API_KEY, or name a file with "),
    ("score rated.csv", "name the ladder set with --ladders. Shipped sets"),
    ("pairs t.csv", "Missing option '--margin'. Give the least difference of the scores"),
    ("help score", "run `refladder score --help`"),
    ("list judges", "unknown kind of thing 'judges'; did you mean 'backends'?"),
    (
        f"{STORY} --judge ollama:llama3",
        "a server is openai:llama3 with --base-url URL, such as http://127.0.0.1:11434/v1",
    ),
    (
        f"{STORY} --judge http://127.0.0.1:8000/v1",
        "'http://127.0.0.1:8000/v1' is an address, and a judge is a model: name it as openai:MODEL, with --base-url http:",
    ),
    (f"{STORY} --budget 5USD", "'--budget': '5USD' is not a valid float range; give 5."),
    (f"{STORY} --budget $0.5", "'--budget': '$0.5' is not a valid float range; give 0.5."),
    (f"{STORY} --judge azure:gpt-4o", "a server is openai:gpt-4o with --base-url URL\n"),
    (
        f"{STORY} --column reply=output",
        "unknown field 'reply'; did you mean '--column output=reply'?",
    ),
    (f"{STORY} --column text=reply", "unknown field 'text'; "),
    ("list judge", "unknown kind of thing 'judge'; did you mean 'backends'?"),
    (
        "score rows.jsonl demo/story",
        "Got unexpected extra argument (demo/story). Name the option of each value, as in --out FILE; a value with spaces",
    ),
    (
        "calibrate scored.jsonl --label a --good >=3,5 --by overall_score --precision 0.9",
        "--good '>=3,5': must be a comparison with a number, such as '>=4', or '=WORD'; give 3.5\n",
    ),
    ("socre rows.jsonl", "unknown command 'socre'; did you mean 'score'? Known: "),
    (
        "filter scored.jsonl --top 20 --by overall_score",
        "refladder: --top 20.0: a fraction must be more than 0 and at most 1; give 0.2 for 20 %\n",
    ),
    (
        "filter scored.jsonl --top 20% --by overall_score",
        "Invalid value for '--top': '20%' is not a valid float; give 0.2 for 20 %.",
    ),
    (
        "calibrate scored.jsonl --precision 0,9",
        "Invalid value for '--precision': '0,9' is not a valid float; give 0.9.",
    ),
    (
        "filter scored.jsonl --min overall_score=3,5",
        "refladder: --min overall_score=3,5: '3,5' is not a number; give 3.5\n",
    ),
    (
        "calibrate scored.jsonl --labels named.csv --label reply --good =So. --by overall_score --precision 0.9",
        "refladder: named.csv: the labels have no id: add the column output_id (or id, or context_id and ",
    ),
    (
        "evaluate noted.csv --task-file task.toml",
        "noted.csv:2: no column 'context'. It has: note; map the field 'context'",
    ),
    (
        "score --text x --ladders demo/story --context-id story-1",
        "unknown context 'story-1'; did you mean 'story-01'? Known: ",
    ),
    (
        "filter scored.jsonl --min overall_score=1 --out folder",
        "refladder: folder: a folder; name a file in it\n",
    ),
    (
        "filter scored.jsonl --min overall_score=1 --out folder --out-format csv",
        "refladder: folder: a folder; name a file in it\n",
    ),
    (
        "score rows.jsonl --ladders demo/story --out o.xlsx",
        "a spreadsheet, which refladder cannot write; name a .csv file",
    ),
]


@pytest.mark.parametrize(("line", "said"), SAID)
def test_a_wrong_guess_leads_to_the_right_one(fails, line, said):
    assert said in fails(2, line)


@pytest.mark.parametrize(
    ("name", "names", "meant"),
    [
        ("story-1", ["story-12", "story-01", "story-10"], "story-01"),
        ("v007", ["v07", "v008"], "v07"),
        # Of two that are equally similar, the one with the same beginning.
        ("story-2", ["story-1", "ztory-2"], "story-1"),
        ("url", ["base_url"], "base_url"),
        ("x", ["story"], None),
    ],
)
def test_the_most_similar_name(name, names, meant):
    assert similar(name, names) == meant
    assert similar(name, []) is None


def test_judgments_of_another_judge_say_so(fails, command):
    assert command(STORY).code == 0
    rule = {"role": "compare", "answer": {"win": -0.5, "loss": -1.5, "tie": -1.8}}
    write_lines("rules.jsonl", [rule])
    message = fails(2, f"{STORY} --judge scripted:rules.jsonl --any-judge")
    another = "these judgments are of another run (another judge: builtin/1, this run has scripted"
    assert another in message
    assert "o.jsonl.judgments.jsonl" in message


def test_builtin_refused_leads_to_a_judge(fails):
    line = "score rated.csv --ladders general/reply --out o.csv"
    first, again = fails(2, line), fails(2, line)
    advice = "builtin counts words and reads no meaning, so name a judge model with --judge"
    assert advice in first
    assert re.search(r"delete the stored results \(3\) in \S*checks to ask again", again)


def test_a_run_without_ladders_names_the_shipped_sets_that_fit_the_columns(fails, tmp_path):
    table = tmp_path / "t.csv"
    for header, fits, others in (
        ("output", ["general/document (a text)"], ["general/reply", "general/grounded"]),
        (
            "reply,context",
            [
                "general/reply (a request and a reply)",
                "general/reply-de (a request and a reply in the language de)",
            ],
            ["general/document"],
        ),
        (
            "output,context,background",
            ["general/grounded (a question, passages"],
            ["general/reply"],
        ),
        # Columns of other names may be anything.
        ("x,y", ["general/document (a text)", "general/reply (a request"], []),
    ):
        table.write_text(f"{header}\na,b,c\n")
        mapped = " --column output=reply" if "reply" in header else ""
        text = fails(2, f"score {table}{mapped}")
        assert text.startswith("refladder: name the ladder set with --ladders. Shipped sets")
        assert [each for each in fits if each not in text] == []
        assert [each for each in others if f"{each} (" in text] == []
