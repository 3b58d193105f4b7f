"""Every error of a Hub is one clear sentence, nothing is half done, and the token is nowhere."""

from __future__ import annotations

import json
import logging
import sys

import pytest
from hub_server import READER, WRITER

from refladder import publish
from refladder.errors import DataError, UsageError
from refladder.files.hub import parse_address
from refladder.files.ladder_sets import ladder_set_of_rows, load_ladders

constants = pytest.importorskip("huggingface_hub.constants")


@pytest.fixture
def published(built):
    return publish(built(), "me/mine", tag="v1")


@pytest.fixture
def failing(fails, hub):
    """Run a command that fails with one sentence, which quotes no token; returns the sentence with URL for the hub."""

    def go(*arguments):
        message = fails(2, *arguments)
        (line,) = message.splitlines()
        assert WRITER not in line
        assert READER not in line
        return line.removeprefix("refladder: ").replace(hub.url, "URL")

    return go


def test_no_such_data_set(failing):
    assert failing("show", "hub:me/nothing@v1") == (
        "hub:me/nothing@v1: no such data set on URL, or it is private and the token may not read it; check the name, "
        "or log in with `hf auth login` (or set HF_TOKEN)"
    )


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("hub:mine", "must be hub:ORG/NAME or hub:ORG/NAME@REVISION"),
        ("hub:me/mine@", "after @ must be a commit, a tag or a branch, found ''"),
        ("hub:me/../x", "must be hub:ORG/NAME"),
        ("hub:me/a--b", "must be ORG/NAME in letters"),
        ("hub:me/mine@a b", "after @ must be"),
    ],
)
def test_an_address_that_is_none(hub, failing, address, words):
    assert words in failing("show", address)
    assert hub.requests == []


def test_a_private_set_needs_a_token_that_may_read_it(built, failing, command, monkeypatch):
    assert command("publish", built(), "me/mine", "--private", "--tag", "v1").code == 0
    monkeypatch.delenv("HF_TOKEN")
    assert failing("show", "hub:me/mine@v1").startswith(
        "hub:me/mine@v1: no such data set on URL, or it is private"
    )
    monkeypatch.setenv("HF_TOKEN", READER)
    assert command("show", "hub:me/mine@v1").code == 0


@pytest.mark.usefixtures("published")
def test_no_such_revision(failing):
    assert failing("show", "hub:me/mine@v9") == (
        "hub:me/mine@v9: no such commit, tag or branch; see the history of the data set on URL"
    )


def test_a_token_that_can_only_read_publishes_nothing(hub, built, failing, monkeypatch):
    for token, words in (
        (READER, "the token may not write there (status 403)"),
        ("", "there is no token, or it is"),
    ):
        monkeypatch.setenv("HF_TOKEN", token)
        assert failing("publish", built(), "me/mine").startswith(f"me/mine: {words}")
    assert hub.repositories == {}


def test_without_a_network_a_commit_of_the_cache_is_enough(hub, published, command, failing):
    address = f"hub:me/mine@{published.commit}"
    first = command("show", address)
    before = len(hub.requests)
    assert command("show", address).out == first.out
    assert len(hub.requests) == before
    hub.unplug()
    assert command("show", address).out == first.out
    assert failing("show", f"hub:me/mine@{'0' * 40}") == (
        f"hub:me/mine@{'0' * 40}: URL cannot be reached, and this revision is not complete in the cache; check the "
        "network, or name a revision that was used before"
    )
    assert "me/mine: URL cannot be reached" in failing("publish", "demo/story", "me/mine")
    with_password = hub.url.replace("//", "//me:secret@")
    assert failing("publish", "demo/story", "me/mine", "--endpoint", with_password).startswith(
        "me/mine: URL cannot be"
    )


def test_a_branch_that_was_used_before_is_taken_from_the_cache(hub, published, command):
    assert command("show", "hub:me/mine").code == 0
    hub.unplug()
    from refladder.files import hub as module

    module._report_moving.cache_clear()
    assert load_ladders("hub:me/mine").name == f"hub:me/mine@{published.commit}"


def test_a_branch_is_reported_once_and_a_tag_is_not(published, caplog):
    with caplog.at_level(logging.WARNING, "refladder.hub"):
        for _ in range(2):
            load_ladders("hub:me/mine@v1")
            assert load_ladders("hub:me/mine").name == f"hub:me/mine@{published.commit}"
    assert [record.getMessage() for record in caplog.records] == [
        f"hub:me/mine names a branch, which can move; it is now at hub:me/mine@{published.commit}"
    ]


@pytest.mark.usefixtures("published")
def test_a_file_that_was_changed_does_not_match_the_manifest(hub, failing):
    path = "data/ladders/00000.parquet"
    stored = hub.repositories["me/mine"]
    right = (hub.blobs / stored.commits[stored.branches["main"]][path]).read_bytes()
    hub.tampered[path] = right[:-20] + bytes(20)
    message = failing("show", "hub:me/mine@v1")
    assert f"{path} does not match manifest.json (SHA-256 " in message
    assert "download it again, or name another revision" in message


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"schema": "ladder-release/9"},
            "of another version of refladder, and this version reads 'ladder-release/2'",
        ),
        (
            {"schema": "x/1"},
            "has the schema 'x/1', not 'ladder-release/2'; name a set of `refladder publish`",
        ),
        (
            {"rungs": "3"},
            "manifest.json field 'rungs': Input should be a valid integer; publish the set again",
        ),
        ({"more": 1}, "manifest.json field 'more': Unexpected keyword argument"),
        *(
            (
                {
                    "files": [
                        {"path": path, "config": "ladders", "rows": 1, "bytes": 1, "sha256": ""}
                    ]
                },
                f"names the file {path!r}, which no set may have; do not use this set",
            )
            for path in (
                "../x",
                "/x",
                r"..\..\x",
                r"data\ladders.parquet",
                "C:x",
                "x\0y",
                "",
                ".",
                "data//x",
            )
        ),
    ],
)
def test_a_manifest_that_is_wrong(hub, failing, changes, words):
    manifest = json.loads(hub.text("me/mine", "manifest.json"))
    hub.change("me/mine", {"manifest.json": json.dumps({**manifest, **changes})})
    assert words in failing("show", "hub:me/mine@main")


@pytest.mark.usefixtures("published")
def test_a_file_that_the_manifest_promises_and_the_data_set_lacks(hub, failing):
    stored = hub.repositories["me/mine"]
    del stored.commits[stored.branches["main"]]["data/ladders/00000.parquet"]
    assert "a file of it is missing; it is not a ladder set of `refladder publish`" in failing(
        "show", "hub:me/mine@v1"
    )


def test_a_data_set_that_is_no_ladder_set(hub, built, failing):
    publish(built(), "me/mine")
    stored = hub.repositories["me/mine"]
    commit = stored.commit({"x.csv": hub.store(b"a,b\n")}, "another data set")
    assert failing("show", f"hub:me/mine@{commit}").startswith(
        f"hub:me/mine@{commit}: no manifest.json"
    )


class TestNothingIsSent:
    """Errors of `publish` that leave the repository as it was."""

    @pytest.fixture
    def refused(self, hub, published, built, failing):
        assert published.commit in hub.repositories["me/mine"].commits

        def go(*arguments):
            before = dict(hub.repositories["me/mine"].branches)
            message = failing("publish", built(last="and nothing"), "me/mine", *arguments)
            assert hub.repositories["me/mine"].branches == before
            return message

        return go

    def test_a_tag_that_exists(self, published, refused):
        assert refused("--tag", "v1") == (
            f"me/mine: tag 'v1' exists already, for commit {published.commit[:12]}; choose another"
        )

    def test_private_asked_of_a_public_data_set(self, refused):
        assert refused("--private") == (
            "me/mine: it exists already and is public; make it private on its page first, or leave out --private"
        )

    def test_two_configs_of_one_name(self, hub, refused):
        card = hub.text("me/mine", "README.md")
        twice = card.replace("configs:\n", "configs:\n- config_name: extra\n- config_name: extra\n")
        hub.change("me/mine", {"README.md": twice})
        assert (
            refused()
            == "me/mine: README.md has two configs named 'extra'; rename or remove one on the Hub"
        )

    def test_yaml_that_cannot_be_read(self, hub, refused):
        hub.change("me/mine", {"README.md": "---\na: [\n---\n"})
        assert (
            refused()
            == "me/mine: the YAML at the top of README.md cannot be read; correct it on the Hub"
        )

    def test_a_server_without_xet(self, refused, monkeypatch):
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", False)
        assert refused() == (
            "me/mine: URL has no Xet service, and nothing was sent; set the environment variable HF_HUB_DISABLE_XET=1 "
            "and run the same command again"
        )

    def test_files_of_somebody_else_in_a_folder_of_ours(self, hub, refused):
        hub.change("me/mine", {"data/ladders/more.parquet": "x"})
        assert refused().startswith(
            "me/mine: data/ladders/more.parquet is not a file of refladder and would be read"
        )

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (
                ("hub:me/mine", "me/other"),
                "it is published already; name a folder of `refladder build`",
            ),
            (("demo/story", "story"), "repository 'story' must be ORG/NAME"),
            (("demo/story", "me/x", "--tag", "a b"), "--tag 'a b' must be letters"),
            (("demo/nothing", "me/x"), "unknown ladder set"),
        ],
    )
    def test_a_call_that_is_wrong(self, hub, failing, arguments, words):
        assert words in failing("publish", *arguments)
        assert hub.requests == []


def test_a_config_of_our_name_with_other_files_is_kept(hub, built, failing):
    publish(built(), "me/other")
    other = hub.repositories["me/other"]
    card = "---\nconfigs:\n- config_name: contexts\n  data_files: mine.csv\n---\nMine.\n"
    other.commit({"README.md": hub.store(card.encode()), "mine.csv": hub.store(b"a\n")}, "by hand")
    assert failing("publish", built(), "me/other") == (
        "me/other: README.md has a config named 'contexts' with other files already; rename it on the Hub, or publish "
        "to another repository"
    )


def test_a_set_that_is_wrong_is_not_published(hub, built, failing):
    folder = built()
    lines = (folder / "ladders.jsonl").read_text("utf-8").splitlines(keepends=True)
    (folder / "ladders.jsonl").write_text("".join([*lines, lines[0]]), "utf-8")
    assert (
        failing("publish", folder, "me/mine")
        == "mine: the clarity ladder of context 'c1' appears twice; remove one"
    )
    assert hub.requests == []


def test_rows_that_are_no_ladders():
    row = {"context_id": "c1", "task": "story", "dimension": "wit", "rungs": [], "recipe": None}
    with pytest.raises(DataError, match=r"^rows:1: ladder/1 field 'recipe': "):
        ladder_set_of_rows([row])
    with pytest.raises(UsageError, match="no ladders in it"):
        ladder_set_of_rows([])


def test_an_address_has_a_repository_and_a_revision():
    assert str(parse_address("hub:me/mine")) == "hub:me/mine"
    assert parse_address("hub:me/mine@feature/x").revision == "feature/x"


def test_without_the_package(failing, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert failing("show", "hub:me/mine@v1") == (
        "the Hub needs the package huggingface_hub; pip install huggingface_hub pyarrow"
    )
