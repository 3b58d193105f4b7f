"""Documents, help texts and the prose of the code use the words of the field.

Code, in backticks or blocks, is not prose and is left out.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import click
import pytest
from support import prose

from refladder.commands.main import COMMANDS, cli, command_of

ROOT = Path(__file__).resolve().parent.parent
# Files with texts that are no messages.
LITERATURE = ("backends/builtin/drafts.py", "backends/hf/tokens.py")
SOURCES = {
    path.relative_to(ROOT / "refladder").as_posix(): path.read_text("utf-8")
    for path in sorted((ROOT / "refladder").rglob("*.py"))
}
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# What to avoid, and what to write instead.
AVOID = {
    r"circles?": "intransitive triples",
    r"flips?": "inconsistent pairs",
    r"the first place": "position bias, P(first)",
    r"faint": "low label mass",
    r"unread(able)?": "unparsed",
    r"doubt(s|ful)?": "spread of one reading; unreliable",
    r"rivals?": "other methods, baselines",
    r"stands?": "is, appears, is in",
    r"what (is there|there is)|(is|are|was|were) there( already| anyway)?(?=[.,;:)]|$)": "available, exists",
    r"tells?(?! apart)|told": "reports, prints",
    r"nobody": "no one, with the subject that acts",
    r"save for|that which": "except for; what",
    r"so many": "a number, or 'this many'",
    r"goes on|go on|went on": "resumes, continues",
    r"thrown? away": "discard",
}
ANY = re.compile(rf"\b(?:{'|'.join(AVOID)})\b", re.IGNORECASE)
BLOCKS = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`]+`|<!--.*?-->|\]\([^)]*\)")


def avoided(text):
    """Words to avoid in a text, each with what to write instead."""
    prose = " ".join(CODE.sub("", BLOCKS.sub("", text)).split())
    if not ANY.search(prose):
        return {}
    return {
        found[0].lower(): better
        for words, better in AVOID.items()
        for found in re.finditer(rf"\b(?:{words})\b", prose, re.IGNORECASE)
    }


def helps(command):
    """The help text of a command with those of its options; of a group, also those of its commands."""
    yield from filter(None, [command.help, command.short_help, command.epilog])
    yield from (
        option.help for option in command.params if isinstance(option, click.Option) and option.help
    )
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        yield from helps(inner)


def test_a_word_to_avoid_is_seen_and_code_is_not():
    assert set(avoided("A judgment is Faint,\nand nobody `told` it.\n```\nflips\n```\n")) == {
        "faint",
        "nobody",
    }
    assert set(avoided("Keep what is\nthere. The standard deviation is outstanding.")) == {
        "what is there"
    }


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_documents_use_the_words_of_the_field(path):
    assert avoided(path.read_text("utf-8")) == {}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_uses_the_words_of_the_field(name):
    texts = list(helps(command_of(name)))
    assert texts
    assert {text: words for text in texts if (words := avoided(text))} == {}


def test_help_of_the_program_uses_the_words_of_the_field():
    assert avoided("\n".join(helps(cli))) == {}


def test_docstrings_of_functions_begin_with_an_imperative():
    offenders = {
        f"{path}:{node.lineno}": text.splitlines()[0]
        for path, source in SOURCES.items()
        for node, text in prose.docstrings(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not prose.is_imperative(text)
    }
    assert offenders == {}


def test_docstrings_say_what_they_mean_without_another_docstring():
    refers_back = re.compile(r"(?:^|[.:] )(?:The same\b|Likewise\b|As above\b|As before\b)")
    offenders = {
        f"{path}:{getattr(node, 'lineno', 1)}": text
        for path, source in SOURCES.items()
        for node, text in prose.docstrings(ast.parse(source))
        if refers_back.search(" ".join(text.split()))
    }
    assert offenders == {}


def test_comments_are_above_what_they_explain():
    offenders = [
        f"{path}:{line}: {words}"
        for path, source in SOURCES.items()
        for line, words, trails in prose.comments(source)
        if trails or re.match(r"(Of|That of|Those of|Which|Whose|Likewise)\b", words)
    ]
    assert offenders == []


def test_docstrings_comments_and_messages_use_the_words_of_the_field():
    offenders = {}
    for path, source in SOURCES.items():
        tree = ast.parse(source)
        texts = [(getattr(node, "lineno", 1), text) for node, text in prose.docstrings(tree)]
        texts += [(line, words) for line, words, _ in prose.comments(source)]
        if path not in LITERATURE:
            texts += prose.strings(tree)
        for line, text in texts:
            if words := avoided(re.sub(r"\bstand[- ]in\b", "", text)):
                offenders[f"{path}:{line}"] = words
    assert offenders == {}


def test_the_checks_of_prose_see_what_is_wrong():
    source = (
        'X = 1  # of it\n\ndef f():\n    """The sum."""\n    return "nobody"  # noqa: X  reason\n'
    )
    tree = ast.parse(source)
    assert list(prose.comments(source)) == [(1, "of it", True)]
    assert [text for _, text in prose.docstrings(tree)] == ["The sum."]
    assert not prose.is_imperative("The sum.")
    assert not prose.is_imperative("Returns it.")
    assert prose.is_imperative("Return it.")
    assert [text for _, text in prose.strings(tree)] == ["nobody"]
