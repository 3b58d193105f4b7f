"""The inference strategy of every architecture of transformers that generates text, from its default configuration.

    python bench/architectures.py --markdown bench/results/architectures.md
    python bench/architectures.py llama gemma4_text        # some of them

A strategy is proved on a small copy of the configuration, as when a model is opened; see
docs/explanation/local-inference.md. Default configurations differ from those of published models, in the kinds of
layers above all, so a published model may have another strategy. An architecture without a proof has its strategies
compared on its own weights when it is opened. Each proof may take a minute.
"""

# ruff: noqa: BLE001  an architecture may fail in its own way, which is reported
from __future__ import annotations

import argparse
import logging
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers

from refladder.engine.causal import STRATEGIES
from refladder.engine.self_check import prove

LONGEST = 60  # seconds
WITHOUT, UNBUILT, SLOW = (
    "no proof",
    "no model from the default configuration",
    f"more than {LONGEST} s",
)


class TooSlow(BaseException):
    """A proof takes too long; no error of an architecture, which the proof would catch."""


def proved(architecture: str) -> tuple[str, str]:
    """The strategy of an architecture, or why there is none, and the seconds of the proof."""
    try:
        config: Any = transformers.AutoConfig.for_model(architecture)
        with torch.device("meta"):  # the whole model, without memory
            model = transformers.AutoModelForCausalLM.from_config(config)
    except Exception:
        return UNBUILT, ""
    type(model).device = torch.device("cpu")  # where the small copy is made
    begun = time.perf_counter()
    try:
        proof = prove(model)
    except TooSlow:
        return SLOW, ""
    seconds = f"{time.perf_counter() - begun:.1f}"
    if proof is None:
        return WITHOUT, seconds
    return f"`{proof}`", seconds


def too_slow(*_signal: object) -> None:
    """End a proof."""
    raise TooSlow


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("architectures", nargs="*")
    parser.add_argument("--markdown", type=Path, help="file for the table")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, too_slow)
    names = arguments.architectures or list(
        transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    )
    rows, counts = [], Counter[str]()
    for name in names:
        signal.alarm(LONGEST)
        strategy, seconds = proved(name)
        signal.alarm(0)
        counts[strategy.partition(",")[0]] += 1
        rows.append(f"| {name} | {strategy} | {seconds} |")
        print(rows[-1], flush=True)
    known = [f"`{name}`" for name in STRATEGIES] + [WITHOUT, SLOW, UNBUILT]
    summary = ", ".join(f"{counts[kind]} {kind}" for kind in known if counts[kind])
    lines = [
        f"{len(names)} architectures of transformers {transformers.__version__}, torch {torch.__version__}: {summary}.",
        "",
        "| architecture | strategy | seconds of the proof |",
        "|---|---|---|",
        *rows,
    ]
    print(f"\n{lines[0]}")
    if arguments.markdown:
        head = "# Strategies by architecture\n\nMade by `python bench/architectures.py`, which says what this is.\n\n"
        arguments.markdown.write_text(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
