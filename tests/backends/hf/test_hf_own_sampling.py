"""A writer's own temperature and top-p: those of its generation_config.json, else 1, unless others are given."""

import json
import shutil

import pytest

from refladder.backends import connect
from refladder.backends.cache.cached import write_keys
from refladder.errors import BackendUnavailableError
from refladder.prompts import load_template
from refladder.records import Sampling
from refladder.scoring.asker import run_of

pytest.importorskip("torch")

OWN = {"do_sample": True, "temperature": 0.2, "top_p": 0.9, "top_k": 40, "repetition_penalty": 1.1}


@pytest.fixture
def model(folder, tmp_path):
    """A function from the content of generation_config.json to the folder of a model that has it."""

    def made(settings, name="model"):
        copy = shutil.copytree(folder("llama"), tmp_path / name)
        path = copy / "generation_config.json"
        path.unlink(missing_ok=True)
        if settings is not None:
            path.write_text(settings if isinstance(settings, str) else json.dumps(settings))
        return copy

    return made


@pytest.mark.parametrize(
    ("settings", "own"),
    [
        (OWN, (0.2, 0.9)),
        ({"do_sample": True, "temperature": 0.6}, (0.6, 1.0)),
        ({"do_sample": True}, (1.0, 1.0)),
        ({"temperature": 0.2, "top_p": 0.9}, (1.0, 1.0)),  # transformers would not sample at all
        (None, (1.0, 1.0)),
    ],
)
def test_texts_are_drawn_as_the_models_own_settings_say(model, prompts, settings, own):
    backend = connect(f"hf:{model(settings)}", dtype="float32", memory="2G")
    assert backend.default_sampling == own

    def texts(**given):
        return backend.write(prompts[:3], Sampling(max_tokens=12, seed=4, **given))

    assert texts() == texts(temperature=own[0], top_p=own[1])
    assert (texts() == texts(temperature=1.0, top_p=1.0)) == (own == (1.0, 1.0))
    # what is given wins, and only that
    assert texts(temperature=1.0) == texts(temperature=1.0, top_p=own[1])
    assert texts(temperature=0.0) != texts()


def test_what_is_drawn_is_in_the_keys_of_the_store_and_votes_stay_at_1(model, prompts):
    backend = connect(f"hf:{model(OWN)}")
    keys = [
        write_keys(backend, prompts[:1], Sampling(temperature=one, top_p=two))
        for one, two in ((None,) * 2, (0.2, 0.9))
    ]
    assert (
        keys[0] == keys[1] != write_keys(backend, prompts[:1], Sampling(temperature=1.0, top_p=1.0))
    )
    template = load_template("summarization", "compare")
    signature = run_of(backend, template, answers=3, sampling=Sampling(seed=2)).recipe.signature
    assert "|sampling:max512,t1,p1,seed2|" in signature


def test_a_damaged_file_is_named(model):
    backend = connect(f"hf:{model('{')}")
    message = r"^hf:\S+/model: this folder does not load as a model: .*JSON"
    with pytest.raises(BackendUnavailableError, match=message):
        _ = backend.default_sampling


def test_a_build_records_what_it_draws_and_never_mixes_two(model, tmp_path, command):
    own, plain = model(OWN), model(None, "plain")
    table, task = tmp_path / "table.jsonl", tmp_path / "task.toml"
    table.write_text('{"context": "A dog runs home."}\n')
    task.write_text('task = "story"\n[[dimensions]]\nname = "coherence"\ndescription = "x"\n')

    def build(folder, *more):
        out = ("--task-file", task, "--out", tmp_path / f"{folder.name}-out")
        limits = ("--rungs", 2, "--max-tokens", 8)
        done = command("build", table, *out, "--writer", f"hf:{folder}", *limits, *more)
        return done.out + done.err

    told = "texts are drawn with temperature 0.2, top-p 0.9, the model's own where --temperature and --top-p name no "
    assert told in build(own, "--dry-run")
    assert "temperature" not in build(plain, "--dry-run")
    for folder, drawn in ((own, (0.2, 0.9)), (plain, (1.0, 1.0))):
        build(folder)
        journal = (tmp_path / f"{folder.name}-out" / "build.journal.jsonl").read_text()
        sampling = json.loads(journal.splitlines()[0])["sampling"]
        # the bytes of a build by a version that always drew with temperature 1 and top-p 1
        expected = {"max_tokens": 8, "temperature": drawn[0], "top_p": drawn[1], "seed": 0}
        assert sampling == expected
    assert "begun by another build (other sampling)" in build(own, "--temperature", "1")
    assert "begun by another" not in build(own, "--temperature", "0.2")
    assert "begun by another" not in build(plain, "--temperature", "1", "--top-p", "1")
