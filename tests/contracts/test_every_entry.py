"""Every name of every table keeps the contract of its kind."""

import pytest
from support.offenders import offenders

from refladder import registry
from refladder.backends import BACKENDS, connect
from refladder.files.ladder_sets import rated_names
from refladder.loaders import BENCHMARKS, load_benchmark
from refladder.methods.contract import METHODS, EvaluationMethod, method_named
from refladder.prompts import list_templates
from refladder.scoring.modes import MODES
from refladder.scoring.rules import RULES, rule_named
from refladder.testing import (
    check_backend,
    check_benchmark,
    check_estimator,
    check_method,
    check_prompt,
)

# Without a checkpoint or a judge with likelihoods of texts they say what they need.
NEEDS_A_MODEL = {"gptscore", "bertscore", "embedding", "unieval", "nli", "regressor", "reward"}
NEEDS_A_MODEL |= {"questeval", "mqag"}


@pytest.mark.parametrize("name", RULES)
def test_rules(name):
    check_estimator(rule_named(name))


@pytest.mark.parametrize("name", rated_names())
def test_shipped_benchmarks(name):
    check_benchmark(load_benchmark(name))


def test_templates():
    assert offenders(check_prompt, list_templates()) == []


def test_the_backend_that_is_always_there():
    check_backend(connect("builtin"))


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    found = check_method(name, method_named(name))
    assert (found.method is None) == (name in NEEDS_A_MODEL)


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        ("backend", BACKENDS),
        ("benchmark", BENCHMARKS),
        ("method", METHODS),
        ("mode", MODES),
        ("rule", RULES),
    ],
)
def test_every_path_leads_somewhere(kind, table):
    for name in table:
        entry = registry.find(kind, name, table)
        assert isinstance(entry, EvaluationMethod) if kind == "method" else callable(entry)
