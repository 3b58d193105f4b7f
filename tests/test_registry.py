from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from refladder import registry
from refladder.errors import UnknownNameError, UsageError

TABLE = {"inner": registry.Entry("refladder.scoring.rules:ladder_scores", "")}


@pytest.fixture
def registered(monkeypatch):
    def register(name, value):
        points = [EntryPoint(name=name, value=value, group="refladder.rule")]
        monkeypatch.setattr(
            registry, "entry_points", lambda group: [one for one in points if one.group == group]
        )
        registry._registered.cache_clear()

    yield register
    registry._registered.cache_clear()


def test_built_in_and_registered_names(registered):
    registered("outer", "refladder.scoring.rules:hard_votes")
    assert registry.names("rule", TABLE) == ["inner", "outer"]
    about = registry.describe("rule", TABLE)["outer"]
    assert about == "plug-in of another package: refladder.scoring.rules:hard_votes"
    assert registry.find("rule", "inner", TABLE).__name__ == "ladder_scores"
    assert registry.find("rule", "outer", TABLE).__name__ == "hard_votes"
    with pytest.raises(
        UnknownNameError, match=r"^unknown rule 'outr'; did you mean 'outer'\? Known: inner, outer$"
    ):
        registry.find("rule", "outr", TABLE)


def test_a_clash_is_refused(registered):
    registered("inner", "elsewhere:rule")
    message = "^rule 'inner' is built in, and 'elsewhere:rule' registers the same name; uninstall that package or rename"
    with pytest.raises(UsageError, match=message):
        registry.find("rule", "inner", TABLE)


@pytest.mark.parametrize("value", ["no_such_package:rule", "refladder.scoring.rules:no_such_rule"])
def test_a_package_that_cannot_be_loaded_is_named(registered, value):
    registered("outer", value)
    message = f"^rule 'outer': the package that registers it cannot be loaded from '{value}' \\(.+\\); repair or uninstall"
    with pytest.raises(UsageError, match=message):
        registry.find("rule", "outer", TABLE)


def test_a_long_list_of_names_is_cut():
    error = UnknownNameError("context", "c", [f"n{number:03}" for number in range(100)])
    assert str(error).startswith("unknown context 'c'. Known: n000, n001, ")
    assert str(error).endswith(", n039, and 60 more")
