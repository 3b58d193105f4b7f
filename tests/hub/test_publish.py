"""Publishing ladder sets: what goes up, what stays, and how it comes back."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hub_server import WRITER
from huggingface_hub import snapshot_download
from ladders_to_publish import CONTEXTS, RECIPE
from waiting import HANG, until

import refladder
from refladder import publish
from refladder.contest.runs import read_run
from refladder.errors import UsageError
from refladder.files.ladder_sets import load_ladders
from refladder.ladders.release import without_model_path, without_paths
from refladder.records import LadderFailure

FAILURE = LadderFailure(
    context_id="c3", task="story", dimension="wit", level=2, reasons=("too short",), recipe=RECIPE
)


def metadata(card):
    return yaml.safe_load(card.split("---\n")[1])


def address_of(done):
    (line,) = done.out.splitlines()
    return line


def test_only_the_set_goes_up_in_one_commit_and_comes_back_as_it_was(hub, built, command):
    folder = built(failures=[FAILURE])
    done = command(f"publish {folder} me/mine --licence cc-by-4.0 --message First")
    assert done.code == 0, done.err
    shards = [f"data/{name}/00000.parquet" for name in ("contexts", "failures", "ladders")]
    assert hub.files("me/mine") == [".gitattributes", "README.md", *shards, "manifest.json"]
    stored = hub.repositories["me/mine"]
    assert [stored.messages[name] for name in stored.commits] == ["initial commit", "First"]
    address = address_of(done)
    assert address == f"hub:me/mine@{stored.branches['main']}"
    everything = b"".join(path.read_bytes() for path in hub.blobs.iterdir())
    for private in (b"journal", b"/secret", WRITER.encode()):
        assert private not in everything
    local, remote = load_ladders(str(folder)), load_ladders(address)
    assert remote.name == address
    assert remote.failures == local.failures
    assert remote.digests == {context.id: context.digest for context in CONTEXTS}
    assert replace(remote, name="") == replace(local, name="")
    assert list(remote.ladders) == list(local.ladders)
    # The same set again makes no commit.
    assert address_of(command(f"publish {folder} me/mine --licence cc-by-4.0")) == address


def test_scores_from_the_folder_and_from_the_hub_differ_in_the_address_only(
    built, command, outputs
):
    folder = built(failures=[FAILURE])
    address = address_of(command(f"publish {folder} me/mine --tag v1"))
    printed = []
    for ladders in (folder, address, "hub:me/mine@v1"):
        done = command(f"score {outputs} --ladders {ladders}")
        assert done.code == 3, done.err
        printed.append(done.out)
    local, remote, tagged = printed
    assert '"signature": "ladders:mine@' in local
    assert f'"signature": "ladders:{address}@' in remote
    assert local.replace("ladders:mine@", f"ladders:{address}@") == remote == tagged


def test_review_shows_the_rungs_of_the_commit_that_scored_after_the_branch_has_moved(
    built, outputs, command, tmp_path
):
    publish(built(), "me/mine")
    scored = tmp_path / "scored.jsonl"
    command(f"score {outputs} --ladders hub:me/mine --any-judge --out {scored}")
    rungs = read_run(scored).key["rungs"]
    publish(built("changed", last="and nothing"), "me/mine")
    moved = read_run(scored).key
    assert moved.get("rungs") == rungs
    assert not any("rungs" in line for line in moved["warnings"])


def test_every_command_with_a_set_takes_an_address(built, command):
    assert command(f"publish {built()} me/mine --tag v1").code == 0
    assert "c2" in command("show hub:me/mine@v1").out
    assert "bottle" in command("show hub:me/mine@v1 c2").out
    assert command("publish demo/story me/story --tag v1").code == 0
    values = []
    for ladders in ("hub:me/story@v1", "demo/story"):
        done = command(f"evaluate demo/story --methods ladder --rungs 5 --json --ladders {ladders}")
        assert done.code == 0, done.err
        values.append([row["value"] for row in done.rows if row.get("kind") == "agreement"])
    assert values[0] == values[1]


def test_load_dataset_reads_it_and_its_rows_go_back_in(built, command, python, tmp_path):
    folder = built()
    command(f"certify {folder}")
    address = address_of(command(f"publish {folder} me/mine --tag v1"))
    printed = python(
        "import json, sys; from datasets import load_dataset; import refladder\n"
        "rows, texts = (load_dataset('me/mine', name, revision='v1')['train'] for name in ('ladders', 'contexts'))\n"
        "first = next(iter(load_dataset('me/mine', 'ladders', streaming=True)['train']))\n"
        "assert first == rows[0] == load_dataset('me/mine')['train'][0], first\n"
        f"rows.to_parquet({str(tmp_path / 'rows.parquet')!r}); rows.to_json({str(tmp_path / 'rows.jsonl')!r})\n"
        "opened = refladder.ladder_set_of_rows(rows, texts)\n"
        "scored = refladder.score([{'context_id': 'c1', 'output': 'Rocks.'}], ladders=opened)\n"
        "verdict = load_dataset('me/mine', 'certificate')['train']['verdict'][0]\n"
        "print(opened.digest, len(opened.contexts), scored[0]['clarity_score'], verdict)"
    )
    rows = [{"context_id": "c1", "output": "Rocks."}]
    (row,) = refladder.score(rows, ladders=address)
    opened = load_ladders(str(folder))
    verdict = opened.certificate.verdict
    assert printed == f"{opened.digest} 3 {row['clarity_score']} {verdict}\n"
    rows[0] |= {"context": CONTEXTS[0].text, "background": CONTEXTS[0].background}
    for ladders in (folder, tmp_path / "rows.parquet", tmp_path / "rows.jsonl"):
        (scored,) = refladder.score(rows, ladders=ladders)
        assert scored["clarity_score"] == row["clarity_score"]


def test_a_second_publication_keeps_prose_licence_and_other_configs(hub, built, command, python):
    assert command(f"publish {built()} me/mine --licence cc-by-4.0 --tag v1").code == 0
    push = "from datasets import Dataset; Dataset.from_dict({'n': [1, 2]}).push_to_hub('me/mine', 'extra')"
    python(push)
    card = hub.text("me/mine", "README.md").replace("# mine", "# Our ladders")
    hub.change("me/mine", {"README.md": f"{card}\nThanks to everyone.\n"})
    done = command(f"publish {built('mine', last='and nothing')} me/mine --tag v2")
    assert done.code == 0, done.err
    after = hub.text("me/mine", "README.md")
    assert "# Our ladders" in after
    assert after.endswith("\nThanks to everyone.\n")
    assert after.count("refladder: begin") == 1
    assert "hub:me/mine@v2" in after
    assert "hub:me/mine@v1" not in after
    fields = metadata(after)
    assert fields["license"] == "cc-by-4.0"
    names = [config["config_name"] for config in fields["configs"]]
    assert names == ["ladders", "contexts", "extra"]
    assert [info["config_name"] for info in fields["dataset_info"]] == ["extra"]
    loaded = python(
        "from datasets import load_dataset\n"
        "print(load_dataset('me/mine', 'extra')['train']['n'][:], load_dataset('me/mine')['train'].num_rows)"
    )
    assert loaded == "[1, 2] 6\n"
    first, second = load_ladders("hub:me/mine@v1"), load_ladders("hub:me/mine@v2")
    assert first.digest != second.digest


def test_fewer_shards_leave_no_old_ones(hub, built, command):
    assert command(f"publish {built(failures=[FAILURE])} me/mine").code == 0
    done = command(f"publish {built('other')} me/mine --without-contexts --json")
    removed = ["data/contexts/00000.parquet", "data/failures/00000.parquet"]
    assert json.loads(done.out)["removed"] == removed
    assert not {*removed} & {*hub.files("me/mine")}


def test_a_commit_that_comes_first_is_merged(hub, built, command):
    assert command("publish", built(), "me/mine").code == 0
    card = hub.text("me/mine", "README.md")
    changes = {"README.md": f"{card}\nMeanwhile.\n", "notes.txt": "kept"}
    hub.before_commits.append(lambda: hub.change("me/mine", changes))
    done = command("publish", built(last="and nothing"), "me/mine")
    assert done.code == 0, done.err
    assert hub.text("me/mine", "README.md").endswith("\nMeanwhile.\n")
    assert hub.text("me/mine", "notes.txt") == "kept"
    commits = [request for request in hub.requests if "/commit/" in request]
    assert len(commits) == 3


def test_two_commits_that_come_first_end_it_with_nothing_sent(hub, built, fails):
    def again(number=1):
        hub.change("me/mine", {"notes.txt": str(number)})
        hub.before_commits.append(lambda: again(number + 1))

    publish(built(), "me/mine")
    hub.before_commits.append(again)
    before = hub.text("me/mine", "manifest.json")
    assert fails(2, f"publish {built(last='and nothing')} me/mine") == (
        "refladder: me/mine: it was changed twice while it was published, so nothing was sent; run the same command "
        "again\n"
    )
    assert hub.text("me/mine", "manifest.json") == before


def test_two_publishers_at_once_both_succeed_and_the_set_is_whole(hub, built):
    publish(built("first"), "me/mine")
    folders = {name: built(name, last=name) for name in ("one", "two")}
    meeting, errors = threading.Barrier(2, timeout=HANG), []
    hub.before_commits += [meeting.wait] * 2  # so that both begin with the same parent

    def go(folder):
        try:
            publish(folder, "me/mine", message=folder.name)
        except Exception as error:  # noqa: BLE001  shown below
            errors.append(error)

    threads = [threading.Thread(target=go, args=(folder,)) for folder in folders.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    stored = hub.repositories["me/mine"]
    assert sorted(list(stored.messages.values())[2:]) == ["one", "two"]
    assert (
        len([request for request in hub.requests if "/commit/" in request]) == 1 + 2 + 1
    )  # one was stale
    last = stored.messages[stored.branches["main"]]
    opened = load_ladders(f"hub:me/mine@{stored.branches['main']}")
    assert opened.digest == load_ladders(str(folders[last])).digest


def test_after_kill_9_the_old_revision_is_whole_and_the_next_run_succeeds(hub, built, process):
    publish(built(), "me/mine", tag="v1")
    before = hub.repositories["me/mine"].branches["main"]
    hub.slow = HANG
    running = process("publish", built(last="and nothing"), "me/mine")
    until(lambda: hub.requests[-1].startswith("PUT"), running)
    running.kill()
    running.communicate()
    assert hub.repositories["me/mine"].branches["main"] == before
    assert load_ladders("hub:me/mine@v1").rungs == 3
    hub.slow = 0.0
    assert (
        publish(built(last="and nothing"), "me/mine").commit
        == hub.repositories["me/mine"].branches["main"]
        != before
    )


def test_a_dry_run_prints_files_and_card_and_changes_nothing_on_the_hub(hub, built, command):
    folder = built(failures=[FAILURE])
    done = command(f"publish {folder} me/mine --dry-run --tag v1 --licence cc0-1.0")
    assert done.code == 0
    assert "me/mine" not in hub.repositories
    assert "Compared with the published revision:\nnot compared with a published" in done.out
    shards = [f"data/{name}/00000.parquet" for name in ("contexts", "failures", "ladders")]
    listed = [line.split()[0] for line in done.out.splitlines()[:5]]
    assert listed == ["README.md", *shards, "manifest.json"]
    for words in (
        "license: cc0-1.0",
        "| ladders | 6 |",
        "| ladders that failed | 1 |",
        "How witty it is \\| in words.",
        "| `scripted:writer` | `story/best@0123`, `story/worst@4567` | temperature 1, top-p 1, 512 tokens, seed 0 |",
        # "Bottle. c1" has 7 + 3 characters, "A keeper finds a bottle. c1" 24 + 3. The best: "A keeper finds a bottle on
        # the rocks," 37, a space, "and a letter of the sea." 24, " c1" 3.
        "| 1 | 10 | 10 | 10 |",
        "| 2 | 27 | 27 | 27 |",
        "| 3 | 65 | 65 | 65 |",
        "refladder show hub:me/mine@v1",
    ):
        assert words in done.out, words


def test_a_dry_run_says_what_differs_from_the_published_revision(hub, built, command):
    address = address_of(command(f"publish {built()} me/mine --licence mit"))
    done = command(f"publish {built()} me/mine --dry-run")
    assert done.out.endswith(f"revision:\nthe ladders are those of {address}\n")
    done = command("publish", built("changed", last="and nothing"), "me/mine", "--dry-run")
    assert f"revision:\n- {address} (digest " in done.out
    assert "ladders: 0 the same, 6 changed\n" in done.out
    assert done.out.endswith("The sets are different scales: do not compare their scores.\n")
    assert hub.repositories["me/mine"].branches["main"] == address.split("@")[1]


def test_a_licence_is_asked_for_and_never_guessed(built, command):
    done = command("publish", built(), "me/mine", "--dry-run")
    assert done.err.startswith(
        "no licence is stated, so others may not know what they may do; add --licence ID\n"
    )
    assert "| licence | not stated by the publisher |" in done.out
    assert "license:" not in done.out


def test_several_licences_of_a_card_are_kept(hub, built, command):
    assert command(f"publish {built()} me/mine --licence mit").code == 0
    card = hub.text("me/mine", "README.md").replace("license: mit", "license:\n- mit\n- cc0-1.0")
    hub.change("me/mine", {"README.md": card})
    assert command(f"publish {built()} me/mine").code == 0
    card = hub.text("me/mine", "README.md")
    assert metadata(card)["license"] == ["mit", "cc0-1.0"]
    assert "| licence | mit, cc0-1.0 |" in card


def test_ladders_of_the_built_in_writer_are_a_baseline_or_nothing(hub, built, fails, command):
    folder = built(recipe=replace(RECIPE, backend="builtin/1"))
    advice = "add --baseline if they are meant as a baseline"
    assert advice in fails(2, f"publish {folder} me/mine")
    assert hub.requests == []
    with pytest.raises(UsageError, match="or add baseline if they are meant as a baseline"):
        publish(folder, "me/mine")
    done = command(f"publish {folder} me/mine --baseline --dry-run")
    assert "**This set is a baseline.**" in done.out
    other = "not of the built-in writer; leave out --baseline"
    assert other in fails(2, f"publish {built('x')} me/x --baseline")


def test_without_contexts_a_table_brings_the_texts_and_they_are_checked(hub, built, command):
    folder = built()
    address = address_of(command(f"publish {folder} me/mine --without-contexts"))
    everything = b"".join(path.read_bytes() for path in hub.blobs.iterdir())
    assert not [context for context in CONTEXTS if context.text.encode() in everything]
    assert "not included" in hub.text("me/mine", "README.md")
    text = {"output": "A bottle.", "context": CONTEXTS[0].text, "background": "é"}
    rows = [text | {"context_id": name} for name in ("c1", "c2")]
    first, second = refladder.score(rows, ladders=address)
    assert first["clarity_score"] == refladder.score(rows, ladders=folder)[0]["clarity_score"]
    assert second["clarity_score"] is None
    assert second["clarity_note"] == (
        f"context 'c2' has another text or background in this row than the ladder set {address} was written for"
    )


def test_paths_of_this_machine_stay_here(built, command):
    assert without_model_path("hf:/home/me/models/llama@abc,float32") == "hf:llama@abc,float32"
    assert without_model_path("a|backend:hf:../llama/@abc|b@c") == "a|backend:hf:llama@abc|b@c"
    assert without_model_path("hf:org/llama@abc") == "hf:org/llama@abc"
    assert without_model_path(r"hf:C:\models\llama@abc") == "hf:llama@abc"
    assert without_paths(f"{Path.cwd()}/x.gguf, {Path.home()}/y") == "./x.gguf, ~/y"
    folder = built(recipe=replace(RECIPE, backend="hf:/home/me/models/llama@abc,float32"))
    done = command("publish", folder, "me/mine")
    assert "paths of this machine are left out of the recipes" in done.err
    opened = load_ladders(address_of(done))
    assert {ladder.recipe.backend for ladder in opened.ladders.values()} == {"hf:llama@abc,float32"}


def test_what_was_downloaded_is_a_folder_to_score_with_and_to_publish(built, command, tmp_path):
    first = address_of(command("publish", built(), "me/mine", "--without-contexts"))
    copy = tmp_path / "copy"
    snapshot_download("me/mine", repo_type="dataset", local_dir=copy)
    second = address_of(command("publish", copy, "me/copy"))
    opened = [load_ladders(str(name)) for name in (first, copy, second)]
    assert opened[0].digests == opened[1].digests == opened[2].digests
    assert len(opened[0].digests) == 3
    assert len({each.digest for each in opened}) == 1


@pytest.mark.usefixtures("hub")
def test_the_same_command_with_its_tag_publishes_nothing_new(built, command):
    arguments = "publish", built(), "me/mine", "--licence", "cc0-1.0", "--tag", "v1"
    first, again = address_of(command(*arguments)), address_of(command(*arguments))
    assert first == again


class TestTheCertificate:
    def test_it_stays_with_the_same_ladders_and_goes_with_others(self, hub, built, command):
        folder = built()
        command("certify", folder)
        assert command("publish", folder, "me/mine").code == 0
        (folder / "certificate.json").unlink()
        kept = command("publish", folder, "me/mine", "--licence", "cc0-1.0")
        assert "certificate of the last publication kept" in kept.err
        assert load_ladders(address_of(kept)).certificate is not None
        gone = command("publish", built("other", last="x"), "me/mine")
        assert "certificate of the earlier ladders removed; certify the new ladders" in gone.err
        assert [path for path in hub.files("me/mine") if "certificate" in path] == []

    def test_it_is_a_table_of_the_card_and_part_of_signatures(
        self, built, command, hub, write_jsonl
    ):
        folder = built()
        command("certify", folder)
        certificate = json.loads((folder / "certificate.json").read_text("utf-8"))
        address = address_of(command("publish", folder, "me/mine"))
        card = hub.text("me/mine", "README.md")
        assert f"| clarity | **{certificate['dimensions'][0]['verdict']}** | ladders " in card
        assert "| clarity level 1 | **" in card
        assert certificate["verdict"] == "untested"  # 2 ladders are too few to tell
        said = "**Not certified: the verdict is untested**, see Certificate."
        assert said in card[: card.index("## Use")]
        table = write_jsonl([{"context_id": "c1", "output": "A bottle."}])
        local, remote = (
            command(f"score {table} --ladders {name}").rows[0] for name in (folder, address)
        )
        assert f"|certificate:{certificate['digest']}|" in local["signature"]
        assert remote["signature"] == local["signature"].replace(
            f"ladders:{folder.name}@", f"ladders:{address}@"
        )
        assert {**remote, "signature": ""} == {**local, "signature": ""}


class TestWithoutANetwork:
    ARGUMENTS = ("me/mine", "--licence", "cc-by-4.0", "--tag", "v1")

    def test_the_folder_holds_the_files_and_the_card_of_the_commit(
        self, hub, built, command, tmp_path, outputs
    ):
        folder, out = built(failures=[FAILURE]), tmp_path / "release"
        done = command("publish", folder, *self.ARGUMENTS, "--out", out)
        assert (done.code, done.out) == (0, "")
        assert done.err.endswith(f"{out} holds the 5 files of the release; nothing was sent\n")
        assert hub.requests == []
        assert command("publish", folder, *self.ARGUMENTS).code == 0
        copy = tmp_path / "copy"
        snapshot_download("me/mine", repo_type="dataset", local_dir=copy, revision="v1")
        written = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
        assert written == set(hub.files("me/mine")) - {".gitattributes"}
        for path in written:
            assert (out / path).read_bytes() == (copy / path).read_bytes(), path
        # The folder is a ladder set, as a download of the commit is.
        assert load_ladders(str(out)).digest == load_ladders(str(folder)).digest
        assert command("score", outputs, "--ladders", out, "--dry-run").code == 0

    def test_the_call_writes_it_too(self, built, tmp_path):
        done = refladder.publish(built(), "me/mine", out=tmp_path / "release")
        assert (done.commit, done.address) == (None, None)
        assert {
            path: (tmp_path / "release" / path).stat().st_size for path in done.files
        } == done.files
        assert (tmp_path / "release" / "README.md").read_text("utf-8") == done.card

    def test_nothing_is_written_over(self, built, fails, tmp_path):
        folder = built()
        (tmp_path / "file").write_text("mine", "utf-8")
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "mine").touch()
        for out in (tmp_path / "full", tmp_path / "file"):
            assert fails(2, "publish", folder, "me/mine", "--out", out) == (
                f"refladder: --out {out}: exists already; name a new or empty folder\n"
            )
        same = f"refladder: {folder}: SET and --out must be different files\n"
        assert fails(2, "publish", folder, "me/mine", "--out", folder) == same
        assert "--out writes the release, and --dry-run writes nothing; give one of them" in fails(
            2, f"publish {folder} me/mine --out {tmp_path}/new --dry-run"
        )
        assert (tmp_path / "file").read_text("utf-8") == "mine"

    @pytest.mark.parametrize("option", [("--dry-run",), ("--out", "new"), ()])
    @pytest.mark.parametrize(
        ("missing", "words"),
        [
            (["pyarrow"], "pyarrow"),
            (["yaml"], "PyYAML"),
            (["pyarrow", "yaml"], "pyarrow and PyYAML"),
        ],
    )
    def test_missing_packages_are_named_with_their_extra(
        self, fails, monkeypatch, option, missing, words
    ):
        for module in missing:
            monkeypatch.setitem(sys.modules, module, None)
        assert fails(2, "publish", "demo/story", "me/mine", *option) == (
            f"refladder: publish needs {words}; pip install '.[hub]'\n"
        )

    def test_only_sending_needs_the_package_of_the_hub(self, fails, command, monkeypatch, tmp_path):
        monkeypatch.setitem(sys.modules, "huggingface_hub", None)
        assert command("publish", "demo/story", "me/mine", "--dry-run").code == 0
        assert command("publish", "demo/story", "me/mine", "--out", tmp_path / "new").code == 0
        assert "publish needs huggingface_hub; pip install '.[hub]'" in fails(
            2, "publish demo/story me/mine"
        )
