"""The prose of source files: docstrings, comments, and the texts in strings, each with its place."""

from __future__ import annotations

import ast
import io
import re
import tokenize

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# The first words of docstrings. "Returns" and "Reading" are not among them.
IMPERATIVES = frozenset(
    """
    accept acquire add advance allow append apply arrange ask assign attach average await begin bisect build
    calculate call change check choose claim clear close collect combine compare complete
    compute configure connect continue convert copy correct correlate count create cut decide declare decode
    decorate define delete derive describe detect discard divide download draw drop encode end ensure
    enter escape estimate evaluate examine exchange expand explain export extract fail fetch
    fill filter find finish fit flush forget form format gather generate get give group halve
    handle hide hold identify ignore import insert interpret join judge keep label lay leave
    let limit link list load lock log look make map mark match measure merge move name narrow note
    number obtain open order pack pad pair parse pass pause pick place plan post predict prepare
    plot present print produce propose prove publish put raise rank rate read rebuild receive recompute record
    recover reduce refuse register reject release remember remove rename render repair repeat
    replace report request require resample reset resolve restore restrict retry return round
    run sample save say scale score search see select send separate serve set shape shorten show
    shift shuffle sign silence simulate skip solve sort split stack standardise start stop store strip sum
    take test train translate trim try tune turn undo unpack update upload use validate verify
    visit wait walk warn watch wrap write yield
    """.split()  # noqa: SIM905
)


def docstrings(tree):
    """Yield each documented node of a tree with its docstring."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield node, text


def comments(source):
    """Yield line and text of each comment above code, and of each trailing one without a directive."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        words = token.string.lstrip("# ")
        if token.type == tokenize.COMMENT and not re.match(
            r"noqa\b|type:|fmt:|pragma\b|ruff:", words
        ):
            yield token.start[0], words, bool(token.line[: token.start[1]].strip())


def strings(tree):
    """Yield line and text of each string that is no docstring."""
    skipped = {
        id(node.body[0].value) for node, _ in docstrings(tree) if isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in skipped
        ):
            yield node.lineno, node.value


def is_imperative(docstring):
    word = re.match(r"[A-Za-z]+", docstring)
    return word is not None and word[0].lower() in IMPERATIVES and word[0][0].isupper()
