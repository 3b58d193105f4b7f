"""Runs for the tests of the review page: a contest of scripted models, and texts that try to be markup."""

from __future__ import annotations

import json

from refladder.commands.main import run as run_command

NASTY = (
    '<img src=x onerror="window.hit=1"></script><script>window.hit=1</script>{{7*7}}&amp;\'\u2028'
)
SYSTEMS = ("aardvark", "badger")
CRITERION = "clarity"


def contest(folder, rows=24, nasty=""):
    """A run of `compete`: two models, one of which wins the odd rows and one the even ones."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "rows.jsonl"
    table.write_text(
        "".join(
            json.dumps({"id": f"r{n}{nasty}", "topic": f"topic{n} {nasty}"}) + "\n"
            for n in range(rows)
        )
    )
    models = []
    for name, better in zip(SYSTEMS, (1, 0), strict=True):
        rules = [
            {
                "contains": f"topic{n} ",
                "text": f"{'good' if n % 2 == better else 'poor'} text about {n} {nasty}",
            }
            for n in range(rows)
        ]
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(rule) + "\n" for rule in rules))
        models.append(f"--model={name}{nasty.replace('=', '')}=scripted:{path}")
    judge = folder / "judge.jsonl"
    sure = {"win": -0.05, "loss": -3.1}
    answers = [
        {"role": "explain", "text": f"It is better. {nasty}"},
        {"contains": {"first": "good"}, "answer": sure},
        {"contains": "", "answer": {"win": -3.1, "loss": -0.05}},
    ]
    judge.write_text("".join(json.dumps(rule) + "\n" for rule in answers))
    arguments = [
        "compete",
        str(table),
        "--prompt-text",
        "Write about {topic}.",
        *models,
        "--judge",
        f"scripted:{judge}",
    ]
    arguments += [
        "--criterion",
        f"{CRITERION}=Plain words. {nasty}",
        "--out",
        str(folder / "run"),
        "--explain",
    ]
    assert run_command([*arguments, "--html", str(folder / "page.html")]) == 0
    return folder
