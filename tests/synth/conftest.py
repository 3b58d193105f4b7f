import pytest

from refladder.backends.scripted import Rule, Scripted
from refladder.records import Context, Dimension

CRITERION = '"context", "dimension", "description"'
BODY = "{{context}}\n{{dimension}}: {{description}}\n"


@pytest.fixture
def templates(tmp_path):
    """A small folder of templates for two tasks that are not shipped."""
    folder = tmp_path / "templates"
    for task in ("news", "note"):
        (folder / task).mkdir(parents=True)
        for role in ("worst", "best"):
            text = f"+++\nslots = [{CRITERION}]\n+++\nWrite the {role} {task} on\n{BODY}"
            (folder / task / f"{role}.md").write_text(text, encoding="utf-8")
        text = f'+++\nslots = [{CRITERION}, "lower", "higher"]\n+++\n{BODY}between\n{{{{lower}}}}\nand\n{{{{higher}}}}\n'
        (folder / task / "between.md").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def contexts():
    return [Context(id=f"c{number}", task="news", text=f"article {number}") for number in (1, 2, 3)]


@pytest.fixture
def dimensions():
    return [
        Dimension(name="coherence", description="It hangs together."),
        Dimension(name="relevance", description="It says what matters."),
    ]


@pytest.fixture
def rules():
    """Five usable texts for any context: worst, best, middle, low and high."""
    worst, best = "Rain.", "The harbour opens on Thursday, after a storm."
    middle = "A storm closed the harbour."
    low, high = "Rain and a storm.", "A storm closed the harbour for three days."
    return [
        Rule(role="worst", text=worst),
        Rule(role="best", text=f"\n {best} "),
        Rule(role="between", contains={"lower": worst, "higher": best}, text=middle),
        Rule(role="between", contains={"lower": worst, "higher": middle}, text=low),
        Rule(role="between", contains={"lower": middle, "higher": best}, text=high),
    ]


class Recording(Scripted):
    """A scripted backend that remembers what it was sent."""

    def __init__(self, rules):
        super().__init__(rules)
        self.batches = []

    def write(self, prompts, sampling):
        self.batches.append((list(prompts), sampling))
        return super().write(prompts, sampling)


@pytest.fixture
def recording():
    return Recording
