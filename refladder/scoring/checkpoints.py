"""Opens trained models by name or path for the metrics that need one: weights in safetensors only, no remote code."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.errors import BackendError, BackendUnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A loaded model with its tokenizer.

    `fingerprint` is the name it was asked for by and a digest of its configuration and weights. `longest` is how many
    tokens it takes.
    """

    fingerprint: str
    tokenizer: Any
    model: Any
    longest: int


def open_checkpoint(name: str, kind: str, suggestion: str) -> Checkpoint:
    """Load a model in float32, on the GPU where there is one.

    Args:
        name: a folder with a model, or a name on the Hub that can be fetched or lies in its cache.
        kind: class of transformers that loads it, e.g. AutoModel.
        suggestion: what to download, for the error.

    Raises:
        UsageError: no name, or transformers is not installed.
        BackendUnavailableError: there is no such model, its weights are not in safetensors, or it needs code of its
            own.
    """
    if not name:
        raise UsageError(f"no checkpoint was named; {suggestion}")
    try:
        import torch  # noqa: PLC0415  an extra
        import transformers  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(f"checkpoint {name!r} needs torch and transformers; pip install 'refladder[local]'") from error
    transformers.utils.logging.disable_progress_bar()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        model, report = getattr(transformers, kind).from_pretrained(
            name, trust_remote_code=False, use_safetensors=True, dtype=torch.float32, output_loading_info=True
        )
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BackendUnavailableError(f"checkpoint {name!r} cannot be opened ({reason}); {suggestion}") from error
    random = sorted(report["missing_keys"])
    if random and kind != "AutoModel":  # an encoder may lack its unused pooler; a head must have been trained
        raise BackendUnavailableError(
            f"checkpoint {name!r} has no weights for {random[0]} and {len(random) - 1} more, so they would be random; "
            f"{suggestion}"
        )
    model.eval().to("cuda" if torch.cuda.is_available() else "cpu")
    return Checkpoint(
        fingerprint=f"{Path(name).name if Path(name).is_dir() else name}@{_digest(model)}",
        tokenizer=tokenizer,
        model=model,
        longest=_longest(tokenizer, model.config),
    )


def _digest(model: Any) -> str:  # noqa: ANN401  torch is only there when it is used
    state = hashlib.blake2b(digest_size=6)
    for name, weights in model.state_dict().items():
        state.update(name.encode())
        state.update(weights.contiguous().cpu().numpy().tobytes())
    return state.hexdigest()


def _longest(tokenizer: Any, config: Any) -> int:  # noqa: ANN401
    """Tokens that a model takes: what its tokenizer says, unless its position table is shorter."""
    longest = int(tokenizer.model_max_length)
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        if config.model_type in {"roberta", "xlm-roberta", "longformer", "camembert"}:  # positions start after padding
            positions -= config.pad_token_id + 1
        longest = min(longest, positions)
    return longest


def encode(
    checkpoint: Checkpoint, firsts: Sequence[str], seconds: Sequence[str] | None = None
) -> tuple[list[list[int]], list[list[int]] | None, int]:
    """Token numbers of texts (or of pairs of texts, the first cut off where both do not fit), and how many were cut.

    Returns:
        (token numbers, token types or None, texts that were cut off).

    Raises:
        BackendError: not even the second text of a pair fits.
    """
    tokenizer, longest = checkpoint.tokenizer, checkpoint.longest
    given = (list(firsts),) if seconds is None else (list(firsts), list(seconds))
    whole = tokenizer(*given, truncation=False, verbose=False)["input_ids"]
    cut = sum(len(tokens) > longest for tokens in whole)
    if not cut:
        encoded = tokenizer(*given)
        return encoded["input_ids"], encoded.get("token_type_ids"), 0
    try:
        encoded = tokenizer(*given, truncation=True if seconds is None else "only_first", max_length=longest)
    except Exception as error:  # the tokenizers library raises its own plain Exception here
        raise BackendError(
            f"{checkpoint.fingerprint}: a text of more than {longest} tokens leaves no room for its context ({error})"
        ) from error
    return encoded["input_ids"], encoded.get("token_type_ids"), cut


def forward(
    checkpoint: Checkpoint,
    tokens: Sequence[Sequence[int]],
    types: Sequence[Sequence[int]] | None,
    **more: Any,  # noqa: ANN401  arguments of the model; `model` stands for it where only a part of it is wanted
) -> Any:  # noqa: ANN401  what the model returns
    """One pass over a batch of token numbers, padded on the right and masked."""
    import torch  # noqa: PLC0415  an extra

    width = max(map(len, tokens))
    padding = checkpoint.tokenizer.pad_token_id or 0
    model = more.pop("model", checkpoint.model)
    arguments = {
        "input_ids": [[*row, *[padding] * (width - len(row))] for row in tokens],
        "attention_mask": [[1] * len(row) + [0] * (width - len(row)) for row in tokens],
    }
    if types is not None:
        arguments["token_type_ids"] = [[*row, *[0] * (width - len(row))] for row in types]
    more |= {name: torch.tensor(rows, device=model.device) for name, rows in arguments.items()}
    with torch.inference_mode():
        return model(**more)
