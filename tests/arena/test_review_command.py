"""`refladder review` and the criteria of `compete`: what is refused, and what is said."""

from __future__ import annotations

import builtins
import json
import socket

import pytest
from review_data import contest

from refladder.arena import compete as compete_job
from refladder.arena.criteria import criteria_of
from refladder.errors import BackendError, UnknownNameError, UsageError
from refladder.report.standings import Trial, standings_of


def test_one_file_is_written(command, tmp_path):
    folder = contest(tmp_path, rows=2)
    done = command("review", folder / "run", "--html", tmp_path / "again.html")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (tmp_path / "again.html").read_bytes() == (folder / "page.html").read_bytes()


def test_wrong_calls_are_told_before_anything_starts(fails, tmp_path):
    assert "none: no such run; give a folder of `compete`" in fails(2, "review", tmp_path / "none")
    assert "--html needs the run to show; give RUN" in fails(
        2, "review", "--html", tmp_path / "page.html"
    )
    assert "no such folder" in fails(2, "review", "--folder", tmp_path / "none")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"--port {port}: cannot listen there" in fails(
            2, "review", "--port", port, "--no-browser"
        )
    assert "name the address by which other machines reach" in fails(
        2,
        "review",
        "--host",
        "0.0.0.0",  # noqa: S104
    )
    assert "choose another port" in fails(2, "review", "--host", "256.1.1.1", "--no-browser")


def test_without_the_packages_the_file_is_offered(fails, monkeypatch):
    usual = builtins.__import__

    def lacking(name, *arguments):
        if name == "uvicorn":
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        return usual(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", lacking)
    assert "needs uvicorn; pip install starlette uvicorn, or write the page with --html" in fails(
        2, "review"
    )


def test_both_ends_of_a_scale_may_be_negative():
    (criterion,) = criteria_of(
        {"use": "Is it useful?"}, {"use": "-2: wrong question"}, {"use": "-0.5: fine"}, {}
    )
    assert (criterion.low, criterion.high, criterion.worst, criterion.best) == (
        -2,
        -0.5,
        "wrong question",
        "fine",
    )
    assert criterion.description == "Is it useful?\nWorst (-2): wrong question\nBest (-0.5): fine"
    (criterion,) = criteria_of({"use": "Is it useful?"}, {}, {"use": "10/10: perfect"}, {"use": 3})
    assert (criterion.low, criterion.high, criterion.best, criterion.weight) == (
        1,
        5,
        "10/10: perfect",
        3,
    )


@pytest.mark.parametrize(
    ("worst", "best", "weights", "message"),
    [
        (
            {"use": "5: a"},
            {"use": "1: b"},
            {},
            r"criterion 'use': its scale goes from 5 to 1; the best end must be higher",
        ),
        ({}, {}, {"use": -1.0}, r"weight use=-1: a weight must be a finite number, 0 or more"),
        ({}, {}, {"use": float("nan")}, r"weight use=nan: a weight must be a finite number"),
        ({}, {}, {"use": 0.0}, r"all weights are 0; at least one criterion must count"),
    ],
)
def test_scales_and_weights_that_make_no_sense(worst, best, weights, message):
    with pytest.raises(UsageError, match=message):
        criteria_of({"use": "Is it useful?"}, worst, best, weights)


def test_an_end_of_an_unknown_criterion_gets_the_near_one():
    with pytest.raises(UnknownNameError, match="unknown criterion 'usage'; did you mean 'use'"):
        criteria_of({"use": "Is it useful?"}, {"usage": "bad"}, {}, {})


def test_weights_change_the_overall_rate_only():
    trials = [
        Trial(
            row=row,
            criterion=criterion,
            one="x",
            other="y",
            forward=0.9,
            backward=0.9,
            winner=winner,
            tie=winner is None,
        )
        for row, criterion, winner in [
            ("1", "a", "x"),
            ("2", "a", "x"),
            ("1", "b", "y"),
            ("2", "b", None),
        ]
    ]
    made = {"rows": ["1", "2"], "models": ["x", "y"], "criteria": ["a", "b"]}
    written = {(row, model) for row in "12" for model in "xy"}

    def overall(weights):
        total = standings_of(trials, written, **made, weights=weights)
        return next(
            each
            for each in total
            if each.row is None and (each.model, each.criterion) == ("x", "overall")
        )

    # x: 2 of 2 points on a, 0.5 of 2 on b. Weights 3 and 1: (3 * 2 + 1 * 0.5) / (3 * 2 + 1 * 2) = 6.5 / 8.
    assert overall([3.0, 1.0]).rate == pytest.approx(6.5 / 8)
    assert overall([1.0, 1.0]) == overall(None)
    assert overall([2.0, 2.0]) == overall(None)
    assert (overall([0.0, 1.0]).rate, overall([0.0, 1.0]).wins) == (0.25, 0)
    only = next(
        each
        for each in standings_of(trials, written, **made)
        if each.row is None and (each.model, each.criterion) == ("x", "b")
    )
    assert (overall([0.0, 1.0]).low, overall([0.0, 1.0]).high) == (only.low, only.high)


def test_the_command_keeps_ends_weights_and_cost(command, tmp_path):
    folder = contest(tmp_path, rows=2)
    given = [
        "compete",
        folder / "rows.jsonl",
        "--prompt-text",
        "Write about {topic}.",
        "--judge",
        "builtin",
    ]
    given += [f"--model={name}=scripted:{folder / name}.jsonl" for name in ("aardvark", "badger")]
    given += [
        "--criterion",
        "clarity=Plain words.",
        "--worst",
        "clarity=-1: no",
        "--weight",
        "clarity=2",
        "--out",
        folder / "x",
    ]
    assert command(*given).code == 0
    lines = map(json.loads, (folder / "x" / "results.jsonl").read_text().splitlines())
    (criterion,) = [line for line in lines if line["kind"] == "criterion"]
    assert [criterion[name] for name in ("low", "high", "worst", "best", "weight")] == [
        -1,
        5,
        "no",
        "",
        2,
    ]
    spent = json.loads((folder / "x" / "run.json").read_text())["spent"]
    assert [usage["calls"] for usage in spent] == [2, 2, 4]


def test_the_cost_of_a_contest_is_that_of_all_its_runs(command, monkeypatch, tmp_path):
    folder = contest(tmp_path, rows=2)
    out, page = folder / "x", folder / "page.html"
    given = [
        "compete",
        folder / "rows.jsonl",
        "--prompt-text",
        "Write about {topic}.",
        "--judge",
        "builtin",
    ]
    given += [f"--model={name}=scripted:{folder / name}.jsonl" for name in ("aardvark", "badger")]
    given += ["--criterion", "clarity=Plain words.", "--out", out, "--html", page]

    def calls():
        return [usage["calls"] for usage in json.loads((out / "run.json").read_text())["spent"]]

    def killed(*_arguments, **_options):
        assert calls() == [2, 2, 0]  # known as soon as the texts are stored
        raise BackendError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(compete_job, "_pairs", killed)
        assert command(*given).code == 1
    done = command(*given)
    assert done.code == 0
    assert calls() == [2, 2, 4]
    assert "aardvark.jsonl: 2 calls" in page.read_text()
    assert command(*given).code == 0  # nothing is left to do
    assert calls() == [2, 2, 4]
