"""The examples of docs/how-to/integrations.md run, with small models in place of the named ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "integrations.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
POLICY, MODEL = "Qwen/Qwen2.5-0.5B-Instruct", "openai/gpt-4o-mini"


@pytest.fixture
def run_example(tmp_path, monkeypatch):
    """Run the example of a package; `here` has names that it may use, `replaced` texts for others."""
    monkeypatch.chdir(tmp_path)

    def run(package, replaced=None, **here):
        pytest.importorskip(
            package, reason=f"{package} is not installed; run make test-integrations"
        )
        (example,) = (text for text in EXAMPLES if f"from {package}" in text)
        for old, new in (replaced or {}).items():
            assert old in example
            example = example.replace(old, new)
        exec(example, here)  # noqa: S102  the page's own text
        return here

    return run


def test_the_example_of_trl(run_example, tmp_path):
    pytest.importorskip("trl", reason="trl is not installed; run make test-integrations")
    import tiny_models

    folder = tiny_models.save("llama", tmp_path / "policy")
    more = 'output_dir="grpo", use_cpu=True, report_to="none", max_completion_length=8, '
    here = run_example("trl", {POLICY: str(folder), 'output_dir="grpo", ': more})
    (logged, _) = here["trainer"].state.log_history
    assert -15 <= logged["rewards/reward_coherence/mean"] <= 15
    assert logged["refladder/unscored"] == 0


def test_the_example_of_inspect(run_example, capsys):
    pytest.importorskip(
        "inspect_ai", reason="inspect_ai is not installed; run make test-integrations"
    )
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    outputs = [ModelOutput.from_content("mockllm", "A dragon sneezed at gold.") for _ in range(2)]
    for output in outputs:
        output.usage = ModelUsage()  # otherwise a tokenizer is downloaded, to count tokens
    model = get_model("mockllm/model", custom_outputs=outputs, memoize=False)
    run_example("inspect_ai", {f'"{MODEL}"': 'model, display="none"'}, model=model)
    assert "1 scored, 1 unscored" in capsys.readouterr().out


def test_the_example_of_scores_for_a_log(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (example,) = (text for text in EXAMPLES if "refladder.score(answers" in text)
    exec(example, {})  # noqa: S102  the page's own text
    assert capsys.readouterr().out.endswith("1 record\n")
    scorer = pytest.importorskip(
        "inspect_ai.scorer", reason="inspect_ai is not installed; run make test-integrations"
    )
    scorer.precomputed_scores("scores.jsonl", metrics=[scorer.mean(), scorer.stderr()])


def test_the_example_of_datatrove(run_example, capsys, tmp_path):
    run_example("datatrove")
    printed = capsys.readouterr().out
    assert re.findall(r"^(\w+ \d+)$", printed, re.MULTILINE) == [
        "forwarded 1",
        "dropped 2",
        "dropped_below_minimum 1",
        "dropped_unscored 1",
    ]
    assert (
        len(list((tmp_path / "kept").iterdir())) == len(list((tmp_path / "dropped").iterdir())) == 1
    )


def test_importing_refladder_imports_none_of_them():
    code = "import refladder, refladder.commands.main, refladder.integrations, sys; refladder.Scorer; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"trl", "inspect_ai", "datatrove"} & set(done.stdout.split())
