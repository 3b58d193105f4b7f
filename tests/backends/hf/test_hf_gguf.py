"""GGUF files, written here from a tiny model; the real one is in tests/integrations."""

import sys

import numpy as np
import pytest
from hf_unit import LABELS

from refladder.backends import connect
from refladder.errors import BackendUnavailableError
from refladder.records import Sampling


@pytest.fixture(scope="module")
def write(folder, tmp_path_factory):
    """A function that writes the tiny model to a GGUF file in a new folder."""
    for package in ("gguf", "accelerate"):
        pytest.importorskip(package)
    import gguf_model

    def to(name, **options):
        path = tmp_path_factory.mktemp("gguf") / name
        gguf_model.save(folder("llama"), path, **options)
        return path

    return to


@pytest.fixture(scope="module")
def file(write):
    return write("tiny.gguf")


def test_a_folder_with_a_gguf_file_is_told_to_name_the_file(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    message = f"for a GGUF model name the file itself, hf:{tmp_path / 'model.gguf'}"
    with pytest.raises(BackendUnavailableError, match=message):
        connect(f"hf:{tmp_path}")


@pytest.mark.usefixtures("folder")
def test_the_packages_that_a_gguf_file_needs_are_named(tmp_path, monkeypatch):
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    for package in ("gguf", "accelerate"):
        monkeypatch.setitem(sys.modules, package, None)
    message = r"tiny.gguf: to read .* run: pip install gguf accelerate$"
    with pytest.raises(BackendUnavailableError, match=message):
        connect(f"hf:{tmp_path / 'tiny.gguf'}")


def test_a_gguf_file_reads_and_writes_as_the_folder_it_was_made_of(file, opened, prompts, capfd):
    by_file, by_folder = connect(f"hf:{file}", memory="2G"), opened("llama")
    readings = [backend.read_labels(prompts, LABELS) for backend in (by_file, by_folder)]
    assert "GGUF" not in capfd.readouterr().err  # no progress bar where there is no terminal
    # Both hold the same float32 weights; 1e-4 nats are the rounding of the rotated queries and keys.
    np.testing.assert_allclose(
        *([reading.logprobs for reading in each] for each in readings), atol=1e-4
    )
    sampling = Sampling(max_tokens=8, seed=3)
    assert by_file.write(prompts[:2], sampling) == by_folder.write(prompts[:2], sampling)


def test_a_gguf_file_is_unpacked_once(write, prompts, monkeypatch, tmp_path, caplog):
    import transformers

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path, opened = write("once.gguf"), []
    read = transformers.AutoConfig.from_pretrained
    monkeypatch.setattr(
        transformers.AutoConfig,
        "from_pretrained",
        lambda *args, **named: opened.append("gguf_file" in named) or read(*args, **named),
    )
    backends = [connect(f"hf:{path}")]
    readings = [backends[0].read_labels(prompts, LABELS)]
    [kept] = (tmp_path / "refladder" / "gguf").iterdir()
    assert f"once.gguf: unpacked once into {kept} (0.0 GB), which later commands" in caplog.text
    backends.append(connect(f"hf:{path}"))
    readings.append(backends[1].read_labels(prompts, LABELS))
    assert opened[0]
    assert not any(opened[1:])
    assert readings[0] == readings[1]
    assert backends[0].fingerprint == backends[1].fingerprint
    assert backends[0].default_sampling == backends[1].default_sampling
    sampling = Sampling(max_tokens=8, seed=3)
    assert backends[0].write(prompts[:2], sampling) == backends[1].write(prompts[:2], sampling)
    # A file with other contents is another model.
    connect(f"hf:{write('once.gguf', scale=2.0)}").load()
    assert len(list(kept.parent.iterdir())) == 2
    for name in ("model.safetensors", "config.json"):
        (kept / name).unlink()
        with pytest.raises(BackendUnavailableError, match=f"copy {kept} is damaged .* delete this"):
            connect(f"hf:{path}").load()


def test_a_gguf_file_that_cannot_be_kept_unpacked_is_open_all_the_same(
    write, prompts, monkeypatch, tmp_path, caplog
):
    import transformers

    def full(*_, **__):
        raise RuntimeError("No space left on device")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(transformers.PreTrainedModel, "save_pretrained", full)
    path = write("full.gguf")
    [reading] = connect(f"hf:{path}").read_labels(prompts[:1], LABELS)
    assert reading.logprobs is not None
    kept = tmp_path / "refladder" / "gguf"
    assert f"full.gguf: not kept unpacked in {kept}: No space left on device" in caplog.text
    assert list(kept.iterdir()) == []


def test_a_gguf_file_in_another_format_is_not_kept(write, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    connect(f"hf:{write('short.gguf')}", dtype="bfloat16").load()
    assert not (tmp_path / "refladder" / "gguf").exists()


def test_a_gguf_file_has_no_sampling_of_its_own(write):
    path = write("alone.gguf")
    of_another_model = '{"do_sample": true, "temperature": 0.2}'
    path.with_name("generation_config.json").write_text(of_another_model)
    assert connect(f"hf:{path}").default_sampling == (1.0, 1.0)


def test_the_fingerprint_holds_the_name_and_the_digest_of_the_file(file, write):
    import hashlib

    digest = hashlib.blake2b(file.read_bytes(), digest_size=6).hexdigest()
    assert connect(f"hf:{file}").fingerprint.startswith(f"hf:tiny.gguf@{digest},float32,template:")
    other = write("tiny.gguf", scale=2.0)
    assert connect(f"hf:{other}").fingerprint != connect(f"hf:{file}").fingerprint


def test_a_file_of_the_same_name_in_the_working_folder_is_not_read(
    file, opened, prompts, write, monkeypatch
):
    monkeypatch.chdir(write("tiny.gguf", scale=2.0).parent)
    readings = [
        backend.read_labels(prompts[:1], LABELS)[0]
        for backend in (connect(f"hf:{file}"), opened("llama"))
    ]
    np.testing.assert_allclose(*(reading.logprobs for reading in readings), atol=1e-4)


def test_a_gguf_file_without_a_chat_template_is_refused_in_one_sentence(write):
    path = write("bare.gguf", template=False)
    message = (
        rf"^hf:{path}: this GGUF file holds no chat template, so its model cannot be asked as it was trained; use the "
        "file of an instruct model, or start llama-server with it and --chat-template, and name it openai:MODEL$"
    )
    with pytest.raises(BackendUnavailableError, match=message):
        connect(f"hf:{path}")


def test_a_damaged_gguf_file_is_an_error_with_the_next_step(file, tmp_path):
    path = tmp_path / "cut.gguf"
    path.write_bytes(file.read_bytes()[:2000])
    message = r"does not load as a model: .*; if it is whole, start llama-ser"
    with pytest.raises(BackendUnavailableError, match=message):
        connect(f"hf:{path}").load()
