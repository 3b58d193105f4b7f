"""Opening a model and its tokenizer from the Hub, a folder (safetensors only) or a GGUF file, with a fingerprint."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.metadata
import importlib.util
import io
import logging
import os
import re
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.engine.memory import is_out_of_memory, usable_memory
from refladder.engine.transformers_logging import silenced
from refladder.errors import BackendUnavailableError, MissingPackageError, UsageError, option
from refladder.files.folders import cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

DTYPES = "auto", "float32", "bfloat16", "float16"
TEXT_TO_TEXT = "AutoModelForSeq2SeqLM"
ENCODER = "AutoModel"
CLASSIFIER = "AutoModelForSequenceClassification"
MULTIPLE_CHOICE = "AutoModelForMultipleChoice"
_TOKENIZERS = (
    "tokenizer.json",
    "tokenizer.model",
    "spiece.model",
    "vocab.json",
    "vocab.txt",
    "tekken.json",
)
_CONVERT = "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)"
# Number and bytes of the samples of a weights file, for the digest of a folder.
_SAMPLES, _SAMPLE = 64, 2**16
# Times: with less, noise of the measurement could change the dtype, and the fingerprint with it.
_FASTER = 1.5
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class _Named(NamedTuple):
    """A model as the user named it: a prefix such as `hf:`, and a name on the Hub, a folder or a GGUF file."""

    prefix: str
    target: str

    def __str__(self) -> str:
        return f"{self.prefix}{self.target}"

    @property
    def folder(self) -> Path:
        return Path(self.target).expanduser()

    @property
    def is_gguf(self) -> bool:
        return self.folder.suffix == ".gguf" and self.folder.is_file()

    @property
    def source(self) -> str:
        if self.is_gguf:
            return str(self.folder.parent)
        return str(self.folder) if self.folder.is_dir() else self.target


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A model's configuration, tokenizer and generation `settings`, and `load`; `revision` may be a digest."""

    name: str
    config: Any
    tokenizer: Any
    load: Callable[[], Any]
    settings: Callable[[], Any]
    revision: str
    dtype: str
    encoder_decoder: bool

    @cached_property
    def model(self) -> Any:
        """Return the model with its weights, read on first use."""
        return self.load()

    @cached_property
    def default_sampling(self) -> tuple[float, float]:
        """Return temperature and top-p of generation_config.json; 1 if it names none or does not say to sample."""
        given = self.settings()
        if given is None or not given.do_sample:
            return 1.0, 1.0
        return float(given.temperature or 1.0), float(given.top_p or 1.0)

    @property
    def fingerprint(self) -> str:
        """Return name, revision and number format: all properties of a model that can change a number."""
        return f"{self.name.replace('|', '_')}@{self.revision},{self.dtype}"


def parse_memory(text: str) -> int | None:
    """Return the bytes of `8G`, `512M` or a plain number; None for `auto`."""
    if text == "auto":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if match is None or float(match[1]) == 0:
        raise UsageError(f"memory={text}: must be an amount such as 8G or 512M, or auto")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _libraries(name: _Named) -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingPackageError(
            f"{name} needs torch and transformers, and {error.name} is not installed; "
            "run: pip install torch transformers"
        ) from error
    return torch, transformers


def _device(torch: Any, name: str) -> Any:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise UsageError(
            f"device={name}: torch has no such device here; use cpu, cuda or cuda:NUMBER"
        ) from error
    return device


def _dtype(torch: Any, name: str, stored: Any, device: Any, parameters: Callable[[], int]) -> Any:
    """Return the dtype of a name; `auto` is the dtype of the weights (bfloat16 for float16: T5 overflows in it), or float32."""
    if name not in DTYPES:
        raise UsageError(f"dtype={name}: must be one of {', '.join(DTYPES)}")
    if name != "auto":
        return getattr(torch, name)
    if stored is None:
        return torch.float32
    # A T4 emulates bfloat16, slowly.
    if stored is torch.float16 and not (
        device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False)
    ):
        stored = torch.bfloat16
    if device.type == "cpu" and stored is torch.bfloat16:
        rates = {dtype: operations_per_second(dtype) for dtype in ("float32", "bfloat16")}
        if rates["float32"] >= _FASTER * rates["bfloat16"]:
            needed, usable = 4 * parameters(), usable_memory(device)
            ratio = f"matrix products are {rates['float32'] / rates['bfloat16']:.1f} times as fast as in bfloat16 here"
            if needed <= usable:
                log.info("dtype=auto: float32, as %s", ratio)
                return torch.float32
            log.warning(
                "dtype=auto: bfloat16, as float32 needs %.1f GiB and %.1f are usable; with more memory use "
                "dtype=float32: %s",
                needed / 2**30,
                usable / 2**30,
                ratio,
            )
    return stored


def split_revision(target: str) -> tuple[str, str | None]:
    """Split `ORG/MODEL@REVISION` into (`ORG/MODEL`, `REVISION`); a folder, or a name alone, has no revision."""
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
    dtype: str = "auto",
    device: str = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    kind: str | None = None,
    prefix: str = "hf:",
) -> Opened:
    """Read a model's configuration and tokenizer, but not its weights; messages put `prefix` before its name."""
    if not target:
        raise BackendUnavailableError(
            f"no model was named; pass {prefix}ORG/MODEL or {prefix}FOLDER"
        )
    name = _Named(prefix, target)
    torch, transformers = _libraries(name)
    torch_device = _device(torch, device)
    folder, source = name.folder, name.source
    digest = ""
    common: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    if folder.is_dir():
        _check_folder(name)
    elif name.is_gguf and kind is None:
        _check_packages_of_gguf(name)
        digest = _digest(folder)
        source, settings = _gguf_source(folder, digest)
        common |= settings
    else:
        common["revision"] = revision
    with _explained(name, source):
        config = transformers.AutoConfig.from_pretrained(source, **common)
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **common)
    if "gguf_file" in common and tokenizer.chat_template is None:
        raise BackendUnavailableError(
            f"{name}: this GGUF file holds no chat template, so its model cannot be asked as it was trained; use the "
            "file of an instruct model, or start llama-server with it and --chat-template, and name it openai:MODEL"
        )
    if kind == TEXT_TO_TEXT and not config.is_encoder_decoder:
        raise BackendUnavailableError(
            f"{name} is not an encoder-decoder (T5, BART); name one that is"
        )
    kind = kind or _generator(transformers, config)
    stored = config.get_text_config().dtype or config.dtype

    def parameters() -> int:
        with _explained(name), torch.device("meta"):
            model = getattr(transformers, kind).from_config(
                config, trust_remote_code=trust_remote_code
            )
            return int(model.num_parameters())

    chosen = _dtype(torch, dtype, stored, torch_device, parameters)
    commit = getattr(config, "_commit_hash", None)
    if commit:
        # A later push must not combine other weights with this configuration.
        common["revision"] = commit

    def load() -> Any:
        model = _load(name, kind, torch_device, source, config=config, dtype=chosen, **common)
        if "gguf_file" in common:
            _keep_unpacked(name, model, tokenizer, _unpacked(digest))
        return model

    return Opened(
        name=folder.resolve().name if folder.exists() else target,
        config=config,
        tokenizer=tokenizer,
        load=load,
        settings=lambda: _generation_settings(name, common.get("revision")),
        revision=commit[:12] if commit else digest or _digest(folder),
        dtype=str(chosen).removeprefix("torch."),
        encoder_decoder=bool(config.is_encoder_decoder),
    )


def _generator(transformers: Any, config: Any) -> str:
    """Return the class of transformers that loads a model that generates text."""
    if config.is_encoder_decoder:
        return TEXT_TO_TEXT
    with_images = type(config) in transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
    if with_images and type(config) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        return "AutoModelForImageTextToText"
    return "AutoModelForCausalLM"


def _unpacked(digest: str) -> Path:
    """Return the folder of an unpacked GGUF file; another version of transformers may unpack it in another way."""
    version = importlib.metadata.version("transformers")
    return cache_folder() / "gguf" / f"{digest}-transformers-{version}"


def _gguf_source(file: Path, digest: str) -> tuple[str, dict[str, str]]:
    """Return the folder to open for a GGUF file, and settings: that of the cache if the file was unpacked before."""
    unpacked = _unpacked(digest)
    if unpacked.is_dir():
        return str(unpacked), {}
    # The path is absolute, because transformers prefers a file of this name in the working folder.
    return str(file.parent), {"gguf_file": str(file.resolve())}


def _keep_unpacked(name: _Named, model: Any, tokenizer: Any, unpacked: Path) -> None:
    """Keep the model of a GGUF file as a folder in the cache, which opens without unpacking.

    Weights that were rounded to a shorter format are not kept, as another run may want all of their digits.
    """
    if str(model.dtype) != "torch.float32":
        return
    size = sum(each.numel() * each.element_size() for each in model.parameters())
    try:
        unpacked.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(unpacked.parent).free < 2 * size:
            return
        with tempfile.TemporaryDirectory(dir=unpacked.parent) as made, silenced(bars=False):
            whole = Path(made) / "whole"
            model.save_pretrained(whole)
            tokenizer.save_pretrained(whole)
            # Another command may have made it meanwhile.
            if not unpacked.exists():
                whole.rename(unpacked)
    except Exception as error:  # noqa: BLE001  libraries raise errors of every type, and the model is open all the same
        log.warning("%s: not kept unpacked in %s: %s", name, unpacked.parent, error)
        return
    log.warning(
        "%s: unpacked once into %s (%.1f GB), which later commands open", name, unpacked, size / 1e9
    )


def _load(name: _Named, kind: str, device: Any, source: str, **settings: Any) -> Any:
    """Read a model's weights, and refuse a model whose files do not hold all of them."""
    _, transformers = _libraries(name)
    if device.type == "cpu":
        tune_allocators()
    # Without this, kernels could change the numbers.
    if "gguf_file" in settings and hasattr(transformers, "GgufConfig"):
        settings["quantization_config"] = transformers.GgufConfig(dequantize=True)
    bars = sys.stderr.isatty()
    # The messages below replace its report on weights.
    with ExitStack() as stack:
        stack.enter_context(silenced(bars=bars))
        if "gguf_file" in settings and not bars:
            # The reader of GGUF files always draws a bar.
            stack.enter_context(redirect_stderr(io.StringIO()))
        stack.enter_context(_explained(name, source))
        model, loading = getattr(transformers, kind).from_pretrained(
            source,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **settings,
        )
        model.eval().requires_grad_(requires_grad=False).to(device)
    mismatched = []
    for key in loading["mismatched_keys"]:
        # transformers 5 returns the name with both shapes, and 4.57 returns the name alone.
        mismatched.append(key if isinstance(key, str) else str(key[0]))
    if mismatched:
        raise BackendUnavailableError(
            f"{name}: the shapes of its weights ({len(mismatched)}, such as {min(mismatched)}) do not match config.json; "
            "files of different models are mixed: copy or download them again"
        )
    missing = sorted(loading["missing_keys"])
    # The pooler may be missing, as it is not used here.
    if kind == ENCODER:
        missing = [weight for weight in missing if not weight.startswith("pooler.")]
    if missing:
        raise BackendUnavailableError(
            f"{name}: weights are missing from its files ({len(missing)}, such as {missing[0]}), so it would answer at "
            "random; download it again, or use a model that was trained for this"
        )
    # Without the model's own penalties and limits: Sampling alone determines the draw.
    if model.can_generate():
        stored = {}
        for token in ("bos", "eos", "pad", "decoder_start", "forced_bos"):
            name_of_id = f"{token}_token_id"
            stored[name_of_id] = getattr(model.generation_config, name_of_id)
        model.generation_config = transformers.GenerationConfig(**stored)
    return model


def _generation_settings(name: _Named, revision: str | None) -> Any:
    """Return the model's generation_config.json; None without one. A GGUF file has none."""
    _, transformers = _libraries(name)
    in_folder = name.folder.is_dir()
    if name.is_gguf or (in_folder and not (name.folder / "generation_config.json").is_file()):
        return None
    with silenced(), _explained(name):
        try:
            return transformers.GenerationConfig.from_pretrained(
                name.source, revision=revision, trust_remote_code=False
            )
        except OSError:
            if in_folder:
                raise
            # The Hub has no such file.
            return None


@contextmanager
def _explained(name: _Named, source: str = "") -> Iterator[None]:
    """Turn any error while reading a model into one sentence: its libraries raise errors of every type.

    `source` is what is read, if that is another place than the name says.
    """
    try:
        yield
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        first = (lines[0] if lines else type(error).__name__).rstrip(".")
        if name.is_gguf and source not in {"", name.source}:
            raise BackendUnavailableError(
                f"{name}: its unpacked copy {source} is damaged ({first}); delete this folder, and it is unpacked again"
            ) from error
        reason = _common_reason(name, error, first) or _of_its_place(name, first)
        raise BackendUnavailableError(f"{name}: {reason}") from error


def _check_packages_of_gguf(name: _Named) -> None:
    missing = []
    for package in ("gguf", "accelerate"):
        if importlib.util.find_spec(package) is None:
            missing.append(package)
    if missing:
        raise MissingPackageError(
            f"{name}: to read a GGUF file, transformers needs {' and '.join(missing)}; run: "
            f"pip install {' '.join(missing)}"
        )


def _check_folder(name: _Named) -> None:
    if not (name.folder / "config.json").is_file():
        gguf = min(name.folder.glob("*.gguf"), default=None)
        advice = ""
        if gguf is not None:
            advice = f"; for a GGUF model name the file itself, {name.prefix}{gguf}"
        raise BackendUnavailableError(
            f"{name}: this folder has no config.json, so it does not hold a model saved by save_pretrained{advice}"
        )
    if not any(name.folder.glob("*.safetensors")):
        raise BackendUnavailableError(
            f"{name}: this folder has no .safetensors file, and other formats are not loaded; convert the model: "
            f"{_CONVERT}"
        )


def _common_reason(name: _Named, error: Exception, first: str) -> str | None:
    if type(error).__name__ == "SafetensorError":
        return f"the weights are damaged or cut off ({first}); download or copy them again"
    if is_out_of_memory(error):
        return (
            f"out of memory while reading the weights ({first:.80}); use a smaller model, dtype=bfloat16, or a "
            "machine with more memory"
        )
    if "trust_remote_code" in str(error):
        code = "this model needs Python files of its own to be run"
        if name.prefix not in {"hf:", "reward:"}:
            return f"{code}, which is not allowed here; use another model"
        judge, writer = option("judge-option"), option("writer-option")
        return f"{code}; if you trust them, pass {judge} trust_remote_code=true ({writer} for a writer)"
    if isinstance(error, ModuleNotFoundError):
        return f"this model needs a package that is not installed: {first}"
    return None


def _of_its_place(name: _Named, first: str) -> str:
    """Return what is wrong with the folder or the name."""
    folder = name.folder
    if folder.is_file() and folder.suffix == ".gguf":
        return (
            f"this GGUF file does not load as a model: {first}; if it is whole, start llama-server with it and name it "
            "openai:MODEL"
        )
    if folder.is_file():
        return "this is a file, and hf opens a folder with config.json or a .gguf file; pass its folder"
    if folder.exists() and not any((folder / file).is_file() for file in _TOKENIZERS):
        return (
            f"this folder has no tokenizer ({_TOKENIZERS[0]} or similar); save the tokenizer next to the weights with "
            "its save_pretrained"
        )
    if folder.exists():
        return f"this folder does not load as a model: {first}"
    if name.target.startswith(("/", ".", "~")) or name.target.count("/") > 1:
        return f"no such folder; pass {name.prefix}FOLDER or {name.prefix}ORG/MODEL"
    return (
        f"no folder has this name, and the Hub did not return it: {first}; check the spelling of "
        f"{name.prefix}ORG/MODEL, the network, and for a gated model run: hf auth login"
    )


def _digest(place: Path) -> str:
    """Return twelve hexadecimal digits of a model folder, or of a whole GGUF file."""
    if place.is_dir():
        return folder_digest(place)
    with place.open("rb") as data:
        return hashlib.file_digest(data, lambda: hashlib.blake2b(digest_size=6)).hexdigest()


def folder_digest(folder: Path) -> str:
    """Return twelve hexadecimal digits for the contents of a folder; of large files, size and samples are hashed."""
    state = hashlib.blake2b(digest_size=6)
    for path in sorted(folder.iterdir()):
        if path.suffix not in {".json", ".safetensors", ".model", ".jinja", ".txt", ".py"}:
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


# Rows and columns: large enough for the units that multiply matrices, and a few milliseconds a product.
_SIZE = 512
_REPEATS = 5


@functools.cache
def operations_per_second(dtype: str) -> float:
    """Return the rate of matrix products on the CPU, the best of a few; measured once in a process."""
    import torch

    generator = torch.Generator().manual_seed(0)
    pair = torch.randn(2, _SIZE, _SIZE, generator=generator).to(getattr(torch, dtype))
    left, right = pair.unbind()
    seconds = []
    # The first product allocates memory, so its time does not count.
    for _ in range(_REPEATS + 1):
        start = time.perf_counter()
        torch.nn.functional.linear(left, right)
        seconds.append(time.perf_counter() - start)
    return 2 * _SIZE**3 / min(seconds[1:])


# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_HUGE_PAGES = "THP_MEM_ALLOC_ENABLE"


def tune_allocators() -> None:
    """Keep freed memory in the process, and let torch use huge pages (figures: bench/results/local_tree.md)."""
    os.environ.setdefault(_HUGE_PAGES, "1")
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_MAX, 0)
    # Never return memory to the kernel.
    mallopt(_M_TRIM_THRESHOLD, -1)
