"""Every error of a Hub is one clear sentence, nothing is half done, and the token is nowhere."""

from __future__ import annotations

import json
import logging
import sys

import pytest
from hub_server import READER, WRITER

from refladder import publish
from refladder.errors import DataError, UsageError
from refladder.files import hub as hub_files
from refladder.files.ladder_sets import ladder_set_of_rows, load_ladders

constants = pytest.importorskip("huggingface_hub.constants")
SHARD = "data/ladders/00000.parquet"


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


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("hub:mine", "must be hub:ORG/NAME or hub:ORG/NAME@REVISION"),
        ("hub:me/mine@", "after @ must be a commit, a tag or a branch, found ''"),
        ("hub:me/../x", "must be hub:ORG/NAME"),
        ("hub:me/a--b", "must be ORG/NAME in letters"),
        ("hub:me/mine@-b", "after @ must be"),
    ],
)
def test_an_address_that_is_none(hub, failing, address, words):
    assert words in failing(f"show {address}")
    assert hub.requests == []


def test_a_revision_may_be_a_branch_with_a_slash():
    assert str(hub_files.parse_address("hub:me/mine")) == "hub:me/mine"
    assert hub_files.parse_address("hub:me/mine@feature/x").revision == "feature/x"


@pytest.mark.usefixtures("published")
def test_no_such_data_set_or_revision(failing):
    assert failing("show hub:me/nothing@v1") == (
        "hub:me/nothing@v1: no such data set on URL, or it is private and the token may not read it; check the name, "
        "or log in with `hf auth login` (or set HF_TOKEN)"
    )
    assert failing("show hub:me/mine@v9") == (
        "hub:me/mine@v9: no such commit, tag or branch; see the history of the data set on URL"
    )


def test_a_private_set_needs_a_token_that_may_read_it(built, failing, command, monkeypatch):
    assert command(f"publish {built()} me/mine --private --tag v1").code == 0
    monkeypatch.delenv("HF_TOKEN")
    private = "hub:me/mine@v1: no such data set on URL, or it is private"
    assert failing("show hub:me/mine@v1").startswith(private)
    monkeypatch.setenv("HF_TOKEN", READER)
    assert command("show hub:me/mine@v1").code == 0


def test_a_token_that_can_only_read_publishes_nothing(hub, built, failing, monkeypatch):
    folder = built()
    monkeypatch.setenv("HF_TOKEN", READER)
    told = failing(f"publish {folder} me/mine")
    assert told.startswith("me/mine: the token may not write there (status 403)")
    monkeypatch.setenv("HF_TOKEN", "")
    assert failing(f"publish {folder} me/mine").startswith("me/mine: there is no token, or it is")
    assert hub.repositories == {}


def test_without_a_network_a_commit_of_the_cache_is_enough(hub, published, command, failing):
    address = f"hub:me/mine@{published.commit}"
    first = command(f"show {address}")
    before = len(hub.requests)
    assert command(f"show {address}").out == first.out
    assert len(hub.requests) == before
    assert load_ladders("hub:me/mine").name == address
    hub.unplug()
    assert command(f"show {address}").out == first.out
    other = f"hub:me/mine@{'0' * 40}"
    assert failing(f"show {other}") == (
        f"{other}: URL cannot be reached, and this revision is not complete in the cache; check the "
        "network, or name a revision that was used before"
    )
    assert "me/mine: URL cannot be reached" in failing("publish demo/story me/mine")
    with_password = hub.url.replace("//", "//me:secret@")
    told = failing(f"publish demo/story me/mine --endpoint {with_password}")
    assert told.startswith("me/mine: URL cannot be")
    # A branch that was used before is taken from the cache.
    hub_files._report_moving.cache_clear()
    assert load_ladders("hub:me/mine").name == address


def test_a_branch_is_reported_once_and_a_tag_is_not(published, caplog):
    with caplog.at_level(logging.WARNING, "refladder.hub"):
        for _ in range(2):
            load_ladders("hub:me/mine@v1")
            assert load_ladders("hub:me/mine").name == f"hub:me/mine@{published.commit}"
    assert [record.getMessage() for record in caplog.records] == [
        f"hub:me/mine names a branch, which can move; it is now at hub:me/mine@{published.commit}"
    ]


@pytest.mark.usefixtures("published")
def test_a_file_that_was_changed_or_removed(hub, failing):
    stored = hub.repositories["me/mine"]
    files = stored.commits[stored.branches["main"]]
    shard = files.pop(SHARD)
    missing = "a file of it is missing; it is not a ladder set of `refladder publish`"
    assert missing in failing("show hub:me/mine@v1")
    files[SHARD] = shard
    hub.tampered[SHARD] = (hub.blobs / shard).read_bytes()[:-20] + bytes(20)
    message = failing("show hub:me/mine@v1")
    assert f"{SHARD} does not match manifest.json (SHA-256 " in message
    assert "download it again, or name another revision" in message


def test_a_data_set_that_is_no_ladder_set(hub, published, built, failing):
    stored = hub.repositories["me/mine"]
    assert published.commit == stored.branches["main"]
    card = "---\nconfigs:\n- config_name: contexts\n  data_files: mine.csv\n---\nMine.\n"
    files = {"README.md": hub.store(card.encode()), "mine.csv": hub.store(b"a\n")}
    address = f"hub:me/mine@{stored.commit(files, 'another data set')}"
    assert failing(f"show {address}").startswith(f"{address}: no manifest.json")
    # A config of our name with other files is kept.
    assert failing(f"publish {built()} me/mine") == (
        "me/mine: README.md has a config named 'contexts' with other files already; rename it on the Hub, or publish "
        "to another repository"
    )


PATHS = ("../x", "/x", r"..\..\x", r"data\ladders.parquet", "C:x", "x\0y", "", ".", "data//x")


@pytest.mark.usefixtures("published")
def test_a_manifest_that_is_wrong(hub, failing):
    manifest = json.loads(hub.text("me/mine", "manifest.json"))

    def told(**changes):
        hub.change("me/mine", {"manifest.json": json.dumps({**manifest, **changes})})
        return failing("show hub:me/mine@main")

    another = "of another version of refladder, and this version reads 'ladder-release/2'"
    assert another in told(schema="ladder-release/9")
    other = "has the schema 'x/1', not 'ladder-release/2'; name a set of `refladder publish`"
    assert other in told(schema="x/1")
    integer = "manifest.json: ladder-release/2 field 'rungs': Input should be a valid integer, found '3'; publish"
    assert integer in told(rungs="3")
    assert "manifest.json: ladder-release/2 field 'more': Unexpected keyword argument" in told(
        more=1
    )
    shard = {"config": "ladders", "rows": 1, "bytes": 1, "sha256": ""}
    for path in PATHS:
        words = f"names the file {path!r}, which no set may have; do not use this set"
        assert words in told(files=[{**shard, "path": path}])


# What is done to a published set, and what publishing another one in its place says.
REFUSED = {
    "a tag that exists": (
        {},
        "--tag v1",
        "me/mine: tag 'v1' exists already, for commit COMMIT; choose another",
    ),
    "private, and it is public": (
        {},
        "--private",
        "me/mine: it exists already and is public; make it private on its page first, or leave out --private",
    ),
    "two configs of one name": (
        {"README.md": "---\nconfigs:\n- config_name: extra\n- config_name: extra\n---\n"},
        "",
        "me/mine: README.md has two configs named 'extra'; rename or remove one on the Hub",
    ),
    "YAML that cannot be read": (
        {"README.md": "---\na: [\n---\n"},
        "",
        "me/mine: the YAML at the top of README.md cannot be read; correct it on the Hub",
    ),
    "files of somebody else in a folder of ours": (
        {"data/ladders/more.parquet": "x"},
        "",
        "me/mine: data/ladders/more.parquet is not a file of refladder and would be read",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_leaves_the_repository_as_it_was(hub, published, built, failing, case):
    changes, options, words = REFUSED[case]
    if changes:
        hub.change("me/mine", changes)
    before = dict(hub.repositories["me/mine"].branches)
    told = failing(f"publish {built(last='and nothing')} me/mine {options}")
    assert told.startswith(words.replace("COMMIT", published.commit[:12]))
    assert hub.repositories["me/mine"].branches == before


@pytest.mark.usefixtures("published")
def test_a_server_without_xet(hub, built, failing, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", False)
    before = dict(hub.repositories["me/mine"].branches)
    assert failing(f"publish {built(last='and nothing')} me/mine") == (
        "me/mine: URL has no Xet service, and nothing was sent; set the environment variable HF_HUB_DISABLE_XET=1 "
        "and run the same command again"
    )
    assert hub.repositories["me/mine"].branches == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "hub:me/mine me/other",
            "it is published already; name a folder of `refladder build`",
        ),
        ("demo/story story", "repository 'story' must be ORG/NAME"),
        ("demo/story me/x --tag -b", "--tag '-b' must be letters"),
        ("demo/nothing me/x", "unknown ladder set"),
    ],
)
def test_a_call_that_is_wrong(hub, failing, words, message):
    assert message in failing(f"publish {words}")
    assert hub.requests == []


def test_a_set_that_is_wrong_is_not_published(hub, built, failing):
    folder = built()
    lines = (folder / "ladders.jsonl").read_text("utf-8").splitlines(keepends=True)
    (folder / "ladders.jsonl").write_text("".join([*lines, lines[0]]), "utf-8")
    twice = "mine: the clarity ladder of context 'c1' appears twice; remove one"
    assert failing(f"publish {folder} me/mine") == twice
    assert hub.requests == []


def test_rows_that_are_no_ladders():
    row = {"context_id": "c1", "task": "story", "dimension": "wit", "rungs": [], "recipe": None}
    with pytest.raises(DataError, match=r"^rows:1: ladder/1 field 'recipe': "):
        ladder_set_of_rows([row])
    with pytest.raises(UsageError, match="no ladders in it"):
        ladder_set_of_rows([])


def test_without_the_package(failing, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert failing("show hub:me/mine@v1") == (
        "the Hub needs the package huggingface_hub; pip install huggingface_hub pyarrow"
    )
