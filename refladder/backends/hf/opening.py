"""Opening a model and its tokenizer: from the Hub or a folder, safetensors only, pinned in a fingerprint."""

from __future__ import annotations

import hashlib
import logging
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.engine.memory import ask_for_huge_pages, is_out_of_memory
from refladder.errors import BackendUnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

DTYPES = ("auto", "float32", "bfloat16", "float16")
TEXT_TO_TEXT = "AutoModelForSeq2SeqLM"
ENCODER = "AutoModel"
CLASSIFIER = "AutoModelForSequenceClassification"
MULTIPLE_CHOICE = "AutoModelForMultipleChoice"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt", "tekken.json")
_CONVERT = "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)"
_SAMPLES, _SAMPLE = 64, 2**16  # of every weights file, for the digest of a folder


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A model that was found: its configuration and tokenizer, and `load`, which reads the weights.

    `revision` is a commit of the Hub, or the digest of a folder. `load` raises BackendUnavailableError.
    """

    name: str
    config: Any
    tokenizer: Any
    load: Callable[[], Any]
    revision: str
    dtype: str
    encoder_decoder: bool

    @cached_property
    def model(self) -> Any:  # noqa: ANN401  of transformers
        """The model with its weights, read when it is first asked for."""
        return self.load()

    @property
    def fingerprint(self) -> str:
        """Name, revision and number format: what of a model can change a number."""
        return f"{self.name.replace('|', '_')}@{self.revision},{self.dtype}"


def _libraries(asked: str) -> tuple[Any, Any]:
    ask_for_huge_pages()
    try:
        import torch  # noqa: PLC0415  optional
        import transformers  # noqa: PLC0415  optional
    except ImportError as error:
        raise BackendUnavailableError(
            f"{asked} needs torch and transformers, and {error.name} is not installed; "
            "run: pip install 'refladder[local]'"
        ) from error
    return torch, transformers


def _device(torch: Any, asked: str) -> Any:  # noqa: ANN401
    if asked == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(asked)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise UsageError(f"device={asked}: torch has no such device here; use cpu, cuda or cuda:NUMBER") from error
    return device


def _dtype(torch: Any, asked: str, stored: Any, device: Any) -> Any:  # noqa: ANN401
    """What was asked for; else what the weights are stored in, but bfloat16 for float16 (T5 overflows in it)."""
    if asked not in DTYPES:
        raise UsageError(f"dtype={asked}: must be one of {', '.join(DTYPES)}")
    if asked != "auto":
        return getattr(torch, asked)
    if stored is None:
        return torch.float32
    if stored is torch.float16 and not (device.type == "cuda" and not torch.cuda.is_bf16_supported()):
        return torch.bfloat16
    return stored


def split_revision(target: str) -> tuple[str, str | None]:
    """`ORG/MODEL@REVISION` as (`ORG/MODEL`, `REVISION`); a folder, or a name alone, has no revision.

    Raises:
        UsageError: a revision stands after a folder.
    """
    name, _, revision = target.rpartition("@")
    if not name or Path(target).expanduser().is_dir():
        return target, None
    if Path(name).expanduser().is_dir():
        raise UsageError(
            f"{target}: a folder has no revision {revision!r}; name it without, or pass ORG/MODEL@REVISION"
        )
    return name, revision


def open_model(
    target: str,
    *,
    dtype: str,
    device: str,
    revision: str | None,
    trust_remote_code: bool,
    kind: str | None = None,
    prefix: str = "hf:",
) -> Opened:
    """Find a model, and read all of it but its weights.

    Args:
        target: `ORG/MODEL` on the Hub, or a folder.
        dtype: one of DTYPES; `auto` is what the weights are stored in, with bfloat16 for float16.
        device: `auto` (a GPU where there is one), `cpu`, `cuda`, `cuda:1`, ...
        revision: a commit, tag or branch of the Hub; None is the newest.
        trust_remote_code: whether Python files that come with the model may be run.
        kind: the class of transformers to load it with, such as CLASSIFIER; None is a model that writes.
        prefix: what the user typed before the name, for messages.

    Raises:
        UsageError: dtype or device is not there.
        BackendUnavailableError: a library is missing, there is no such model, or it has no weights that are loaded.
    """
    asked = f"{prefix}{target}"
    if not target:
        raise BackendUnavailableError(f"no model was named; pass {prefix}ORG/MODEL or {prefix}FOLDER")
    torch, transformers = _libraries(asked)
    place = _device(torch, device)
    folder = Path(target).expanduser()
    where = str(folder) if folder.is_dir() else target
    common: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    if folder.is_dir():
        _check_folder(asked, folder)
    else:
        common["revision"] = revision
    with _explained(prefix, target, folder):
        config = transformers.AutoConfig.from_pretrained(where, **common)
        tokenizer = transformers.AutoTokenizer.from_pretrained(where, **common)
    if kind == TEXT_TO_TEXT and not config.is_encoder_decoder:
        raise BackendUnavailableError(f"{asked} is no encoder-decoder (T5, BART), and one is needed here")
    kind = kind or (TEXT_TO_TEXT if config.is_encoder_decoder else "AutoModelForCausalLM")
    chosen = _dtype(torch, dtype, config.get_text_config().dtype or config.dtype, place)
    commit = getattr(config, "_commit_hash", None)
    if commit:
        common["revision"] = commit  # the weights of the configuration that was read, whatever is pushed meanwhile
    return Opened(
        name=folder.resolve().name if folder.is_dir() else target,
        config=config,
        tokenizer=tokenizer,
        load=lambda: _load(kind, prefix, target, place, config=config, dtype=chosen, **common),
        revision=commit[:12] if commit else folder_digest(folder),
        dtype=str(chosen).removeprefix("torch."),
        encoder_decoder=bool(config.is_encoder_decoder),
    )


def _load(kind: str, prefix: str, target: str, device: Any, **settings: Any) -> Any:  # noqa: ANN401
    """A model with its weights, all of them."""
    _, transformers = _libraries(f"{prefix}{target}")
    folder = Path(target).expanduser()
    quiet = transformers.utils.logging.is_progress_bar_enabled() and not sys.stderr.isatty()
    if quiet:
        transformers.utils.logging.disable_progress_bar()
    verbosity = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()  # instead of its report on weights, the sentences below
    try:
        with _explained(prefix, target, folder):
            model, found = getattr(transformers, kind).from_pretrained(
                str(folder) if folder.is_dir() else target,
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                **settings,
            )
            model.eval().requires_grad_(requires_grad=False).to(device)
    finally:
        transformers.utils.logging.set_verbosity(verbosity)
        if quiet:
            transformers.utils.logging.enable_progress_bar()
    # transformers 5 gives the name with both shapes, 4.57 the name
    wrong = sorted(one if isinstance(one, str) else str(one[0]) for one in found["mismatched_keys"])
    if wrong:
        raise BackendUnavailableError(
            f"{prefix}{target}: {len(wrong)} of its weights have another shape than config.json says (such as "
            f"{wrong[0]}); files of different models are mixed: copy or download them again"
        )
    missing = sorted(found["missing_keys"])
    if kind == ENCODER:  # it may lack the pooler, which nothing here reads
        missing = [name for name in missing if not name.startswith("pooler.")]
    if missing:
        raise BackendUnavailableError(
            f"{prefix}{target}: {len(missing)} of its weights are not in its files (such as {missing[0]}), and it "
            "would answer at random; it was not trained for this, or its files are not complete"
        )
    if model.can_generate():  # without penalties and limits: texts are drawn as Sampling says and no other way
        kept = model.generation_config
        model.generation_config = transformers.GenerationConfig(
            bos_token_id=kept.bos_token_id,
            eos_token_id=kept.eos_token_id,
            pad_token_id=kept.pad_token_id,
            decoder_start_token_id=kept.decoder_start_token_id,
            forced_bos_token_id=kept.forced_bos_token_id,
        )
    return model


@contextmanager
def _explained(prefix: str, target: str, folder: Path) -> Iterator[None]:
    """Turn whatever goes wrong in reading a model into one sentence.

    The libraries that read its files raise errors of every type, bare `Exception` among them.
    """
    try:
        yield
    except Exception as error:
        raise _unavailable(prefix, target, folder, error) from error


def _check_folder(asked: str, folder: Path) -> None:
    if not (folder / "config.json").is_file():
        other = "; for a GGUF model start llama-server with it, and name it openai:MODEL" if _gguf(folder) else ""
        raise BackendUnavailableError(
            f"{asked}: no config.json in this folder, so it is no model as save_pretrained writes it{other}"
        )
    if not any(folder.glob("*.safetensors")):
        raise BackendUnavailableError(
            f"{asked}: no .safetensors file in this folder, and nothing else is loaded; convert the model first: "
            f"{_CONVERT}"
        )


def _gguf(folder: Path) -> bool:
    return any(folder.glob("*.gguf"))


def _unavailable(prefix: str, target: str, folder: Path, error: Exception) -> BackendUnavailableError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = (lines[0] if lines else type(error).__name__).rstrip(".")
    reason = _known_reason(prefix, error, first)
    if reason is None:
        reason = _not_a_model(folder, first) if folder.exists() else _not_there(prefix, target, first)
    return BackendUnavailableError(f"{prefix}{target}: {reason}")


def _known_reason(prefix: str, error: Exception, first: str) -> str | None:
    if type(error).__name__ == "SafetensorError":
        return f"the weights are damaged or cut off ({first}); download or copy them again"
    if is_out_of_memory(error):
        return (
            f"out of memory while the weights were read ({first:.80}); use a smaller model, dtype=bfloat16, or a "
            "machine with more memory"
        )
    if "trust_remote_code" in str(error):
        code = "this model comes with Python files that would have to be run"
        if prefix != "hf:":
            return f"{code}, and here they are not; use another"
        return f"{code}; if you trust them, pass --judge-option trust_remote_code=true (--writer-option for a writer)"
    if isinstance(error, ModuleNotFoundError):
        return f"this model needs a package that is not installed: {first}"
    return None


def _not_a_model(folder: Path, first: str) -> str:
    if folder.is_file():
        how = "start llama-server with it and name it openai:MODEL" if folder.suffix == ".gguf" else "pass its folder"
        return f"this is a file, and hf opens a folder with config.json; {how}"
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        return (
            f"no tokenizer in this folder ({_TOKENIZERS[0]} or the like); copy the tokenizer's files to the weights, "
            "as save_pretrained of the tokenizer writes them"
        )
    return f"this folder does not load as a model: {first}"


def _not_there(prefix: str, target: str, first: str) -> str:
    if target.startswith(("/", ".", "~")) or target.count("/") > 1:
        return f"no such folder; pass {prefix}FOLDER or {prefix}ORG/MODEL"
    return (
        f"no folder of this name, and the Hub did not give it: {first}; check the spelling of "
        f"{prefix}ORG/MODEL, the network, and for a gated model run: hf auth login"
    )


def folder_digest(folder: Path) -> str:
    """Twelve hexadecimal digits that stand for a model folder.

    Small files count whole; of every weights file the size, the first 64 KiB and 64 samples over its length, so that
    a large model is not read twice.
    """
    state = hashlib.blake2b(digest_size=6)
    for path in sorted(folder.iterdir()):
        if path.suffix not in {".json", ".safetensors", ".model", ".jinja", ".txt"}:
            continue
        size = path.stat().st_size
        state.update(f"{path.name}:{size}:".encode())
        with path.open("rb") as data:
            if path.suffix != ".safetensors" or size <= _SAMPLES * _SAMPLE:
                state.update(data.read())
                continue
            for number in range(_SAMPLES):
                data.seek(number * (size - _SAMPLE) // (_SAMPLES - 1))
                state.update(data.read(_SAMPLE))
    return state.hexdigest()
