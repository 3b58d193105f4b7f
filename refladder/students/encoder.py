"""A pretrained encoder with one output, trained by the Trainer of transformers: the student for a GPU."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from refladder.backends.hf.opening import CLASSIFIER, ENCODER, open_model, split_revision
from refladder.backends.hf.readers import longest_text
from refladder.engine.quiet import quiet
from refladder.errors import DataError, UsageError, option
from refladder.files.jsonl import read_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.arrays import FloatArray
    from refladder.records import Progress

FOLDER = "encoder"
DEFAULTS = {"epochs": 3.0, "learning_rate": 5e-5, "batch": 16.0, "max_tokens": 512.0, "seed": 0.0}
_STEP = 32  # texts that are read at a time


class EncoderStudent:
    """Estimates scores with a sequence classifier of one output, which was trained on standardised scores."""

    kind: Literal["ngrams", "encoder"] = "encoder"

    def __init__(self, model: Any, tokenizer: Any, name: str, settings: Mapping[str, float]) -> None:  # noqa: ANN401
        self._network, self._tokenizer = model, tokenizer
        self.model = name
        self.settings: Mapping[str, float] = dict(settings)

    def estimate(self, texts: Sequence[tuple[str, str]]) -> FloatArray:
        """As `NgramStudent.estimate`. Texts of similar length are read together; padding is masked."""
        import torch  # noqa: PLC0415  an extra

        encoded = _encoded(self._tokenizer, texts, int(self.settings["max_tokens"]))
        order = sorted(range(len(texts)), key=lambda row: len(encoded[row]["input_ids"]))
        values = np.empty(len(texts))
        with torch.inference_mode():
            for start in range(0, len(order), _STEP):
                rows = order[start : start + _STEP]
                batch = self._tokenizer.pad([encoded[row] for row in rows], return_tensors="pt")
                answer = self._network(**batch.to(self._network.device)).logits[:, 0]
                values[rows] = answer.double().cpu().numpy()
        return values * self.settings["spread"] + self.settings["middle"]

    def save(self, folder: Path) -> str:
        """Write model and tokenizer; returns the digest of their files."""
        with quiet(bars=False):
            self._network.save_pretrained(folder / FOLDER, safe_serialization=True)
        self._tokenizer.save_pretrained(folder / FOLDER)
        return _digest(folder / FOLDER)

    @classmethod
    def load(cls, folder: Path, name: str, settings: Mapping[str, float]) -> tuple[EncoderStudent, str]:
        """Read model and tokenizer, and the digest of their files."""
        if not (folder / FOLDER).is_dir():
            raise DataError(f"{folder / FOLDER}: no such folder; distil again")
        opened = open_model(str(folder / FOLDER), dtype="float32", kind=CLASSIFIER)
        return cls(opened.model, opened.tokenizer, name, settings), _digest(folder / FOLDER)


def settings_of(given: Mapping[str, str]) -> dict[str, float]:
    """The settings of a training, with the defaults of the Trainer for those that are not given."""
    settings = dict(DEFAULTS)
    for key, text in given.items():
        name = key.replace("-", "_")
        if name not in DEFAULTS:
            raise UsageError(f"{option('model-option')} {key}: unknown; choose from {', '.join(DEFAULTS)}")
        whole = name in {"batch", "max_tokens", "seed"}
        try:
            value = float(int(text) if whole else float(text))
        except ValueError:
            value = -1.0
        if not (0 < value < np.inf or (name == "seed" and value == 0)):
            raise UsageError(f"{option('model-option')} {key}={text}: must be a {'whole ' * whole}number above 0")
        settings[name] = value
    return settings


def fit_encoder(
    target: str,
    texts: Sequence[tuple[str, str]],
    scores: FloatArray,
    settings: Mapping[str, float],
    progress: Progress | None = None,
) -> EncoderStudent:
    """Train an encoder (`ORG/MODEL` or a folder) with a new output on standardised scores, by mean squared error."""
    name, revision = split_revision(target)
    opened = open_model(name, dtype="float32", revision=revision, kind=ENCODER)
    import torch  # noqa: PLC0415  an extra
    import transformers  # noqa: PLC0415  an extra

    try:
        import accelerate  # noqa: F401, PLC0415  the Trainer needs it
    except ImportError as error:
        raise UsageError("training an encoder needs accelerate; pip install accelerate") from error
    if opened.tokenizer.pad_token_id is None:
        raise UsageError(
            f"hf:{target}: its tokenizer has no padding token; choose an encoder such as BERT or ModernBERT"
        )
    middle, spread = float(scores.mean()), float(scores.std())
    transformers.set_seed(int(settings["seed"]))  # before the new output is drawn
    folder = Path(name).expanduser()
    with quiet(bars=False):  # that the new output is not in the files is no news
        network = transformers.AutoModelForSequenceClassification.from_pretrained(
            str(folder) if folder.is_dir() else name,
            revision=revision or "main",
            num_labels=1,
            problem_type="regression",
            use_safetensors=True,
            trust_remote_code=False,
        )
    longest = min(int(settings["max_tokens"]), longest_text(opened.tokenizer, opened.config.get_text_config()))
    encoded = _encoded(opened.tokenizer, texts, longest)
    rows = [{**row, "labels": float(score)} for row, score in zip(encoded, (scores - middle) / spread, strict=True)]
    with tempfile.TemporaryDirectory(prefix="refladder-distil-") as scratch:
        arguments = transformers.TrainingArguments(
            output_dir=scratch,
            num_train_epochs=settings["epochs"],
            learning_rate=settings["learning_rate"],
            per_device_train_batch_size=int(settings["batch"]),
            seed=int(settings["seed"]),
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=torch.cuda.is_available(),
        )
        trainer = transformers.Trainer(
            model=network,
            args=arguments,
            train_dataset=rows,
            data_collator=transformers.DataCollatorWithPadding(opened.tokenizer),
        )
        trainer.remove_callback(transformers.PrinterCallback)  # standard output is for results
        if progress is not None:
            trainer.add_callback(_reporting(progress))
        trainer.train()
    network.eval()
    trained = {**settings, "max_tokens": float(longest), "middle": middle, "spread": spread}
    return EncoderStudent(network, opened.tokenizer, f"{opened.name}@{opened.revision}", trained)


def _reporting(progress: Progress) -> Any:  # noqa: ANN401  of transformers
    from transformers import TrainerCallback  # noqa: PLC0415  an extra

    class Reporting(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, _arguments: object, state: Any, _control: object, **_: object) -> None:  # noqa: ANN401
            progress(state.global_step, state.max_steps)

    return Reporting()


def _encoded(tokenizer: Any, texts: Sequence[tuple[str, str]], longest: int) -> list[dict[str, list[int]]]:  # noqa: ANN401
    """Token ids of each row: the output and, if any, its context; the longer of the two is cut."""
    encoded: list[dict[str, list[int]]] = [{} for _ in texts]
    for paired in (True, False):
        rows = [row for row, (context, _) in enumerate(texts) if bool(context) is paired]
        if not rows:
            continue
        outputs = [texts[row][1] for row in rows]
        contexts = [texts[row][0] for row in rows] if paired else None
        ids = tokenizer(outputs, contexts, truncation="longest_first", max_length=longest)
        for number, row in enumerate(rows):
            encoded[row] = {key: ids[key][number] for key in ids}
    return encoded


def _digest(folder: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.iterdir()):
        digest.update(f"{path.name}\0".encode())
        digest.update(hashlib.blake2b(read_bytes(path)).digest())
    return digest.hexdigest()
