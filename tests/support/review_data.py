"""Runs for the tests of the review page: a contest of scripted models, and texts that try to be markup."""

from __future__ import annotations

from json_lines import write_lines

from refladder.commands.main import run as run_command

NASTY = (
    '<img src=x onerror="window.hit=1"></script><script>window.hit=1</script>{{7*7}}&amp;\'\u2028'
)
SYSTEMS = ("aardvark", "badger")
CRITERION = "clarity"


def contest(folder, rows=24, nasty=""):
    """A run of `compete`: two models, one of which wins the odd rows and one the even ones."""
    folder.mkdir(parents=True, exist_ok=True)
    topics = [{"id": f"r{n}{nasty}", "topic": f"topic{n} {nasty}"} for n in range(rows)]
    table = write_lines(folder / "rows.jsonl", topics)
    models = []
    for name, better in zip(SYSTEMS, (1, 0), strict=True):
        texts = ["good" if n % 2 == better else "poor" for n in range(rows)]
        rules = [
            {"contains": f"topic{n} ", "text": f"{text} text about {n} {nasty}"}
            for n, text in enumerate(texts)
        ]
        path = write_lines(folder / f"{name}.jsonl", rules)
        models.append(f"--model={name}{nasty.replace('=', '')}=scripted:{path}")
    sure = {"win": -0.05, "loss": -3.1}
    answers = [
        {"role": "explain", "text": f"It is better. {nasty}"},
        {"contains": {"first": "good"}, "answer": sure},
        {"contains": "", "answer": {"win": -3.1, "loss": -0.05}},
    ]
    judge = write_lines(folder / "judge.jsonl", answers)
    arguments = ["compete", str(table), "--prompt-text", "Write about {topic}.", *models]
    arguments += ["--judge", f"scripted:{judge}", "--out", str(folder / "run"), "--explain"]
    arguments += ["--criterion", f"{CRITERION}=Plain words. {nasty}"]
    assert run_command([*arguments, "--html", str(folder / "page.html")]) == 0
    return folder
