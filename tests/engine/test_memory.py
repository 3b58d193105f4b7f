"""Memory: free, needed, and running out."""

from types import SimpleNamespace

import pytest

from refladder.engine import memory
from refladder.engine.memory import (
    cache_bytes_per_token,
    halve_until_it_fits,
    tokens_that_fit,
    usable_memory,
)
from refladder.errors import BackendError

CPU = SimpleNamespace(type="cpu")  # as a torch.device


def test_no_memory_at_all_is_an_error_that_says_what_to_do():
    def run(_most):
        raise MemoryError

    message = "a model: out of memory even with 4 at a time; use a smaller model"
    with pytest.raises(BackendError, match=message):
        halve_until_it_fits(run, 16, 3, "a model")

    def fails(_most):
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        halve_until_it_fits(fails, 16, 3, "a model")


def test_keys_and_values_of_a_token():
    config = SimpleNamespace(
        num_hidden_layers=2, num_key_value_heads=2, num_attention_heads=4, head_dim=16
    )
    # 2 (keys, values) * 2 layers * 2 heads of them * 16 wide * 4 bytes
    assert cache_bytes_per_token(config, 4) == 512


def test_layers_that_differ_are_counted_one_by_one():
    layers = [
        SimpleNamespace(num_key_value_heads=2, num_attention_heads=4, head_dim=width)
        for width in (16, 64)
    ]
    config = SimpleNamespace(
        is_heterogeneous=True, per_layer_config=layers, hidden_size=64, vocab_size=300
    )
    # 2 (keys, values) * 2 heads of them * (16 + 64 wide) * 4 bytes
    assert cache_bytes_per_token(config, 4) == 1280
    assert tokens_that_fit(512, 600, 3, config, 2**30) == 512
    inner = [96, 10**9]  # of each layer
    config = SimpleNamespace(num_hidden_layers=2, hidden_size=64, intermediate_size=inner)
    assert tokens_that_fit(512, 600, 3, config, 2**30) == 1


def test_usable_memory_is_below_what_the_machine_has():
    assert 2**20 < usable_memory(CPU) < 2**50


def test_usable_memory_in_a_container_is_below_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    (tmp_path / "memory.current").write_text("1000\n")
    (tmp_path / "memory.max").write_text("3000\n")
    assert usable_memory(CPU) == 1400  # 70 % of 2000
    (tmp_path / "memory.max").write_text("max\n")
    assert usable_memory(CPU) > 2**20
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    assert usable_memory(CPU) > 2**20
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:       4 kB\n")
    assert usable_memory(CPU) == 2867  # 70 % of 4096
    monkeypatch.setenv("REFLADDER_WORKERS", "4")  # on one machine, they share its memory
    assert usable_memory(CPU) == 716
