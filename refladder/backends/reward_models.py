"""Open `reward:MODEL`, on a server with `base_url`, else with transformers on this machine."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from refladder.backends.hf.backend import open_hf
from refladder.backends.hf.reward_backend import open_local
from refladder.backends.openai.reward_backend import open_served
from refladder.errors import UsageError

if TYPE_CHECKING:
    from refladder.backends.protocol import Backend


def open_reward(target: str, **given: Any) -> Backend:
    """Open a reward model: on the server of the option `base_url`, or on this machine with the options of hf."""
    if not target:
        raise UsageError(
            "reward needs a model: reward:ORG/MODEL, reward:FOLDER, or with base_url its name on a server"
        )
    served = bool(given.get("base_url"))
    options = _SERVED if served else _LOCAL
    for name in given:
        if name not in options:
            where = "not with base_url" if served else "only with base_url"
            raise UsageError(f"reward:{target} takes the option {name} {where}; leave it out")
    return open_served(target, **given) if served else open_local(target, **given)


# The keyword-only parameters of the function are the options of the backend.
_LOCAL = dict(inspect.signature(open_hf).parameters)
del _LOCAL["prefix"]
_SERVED = inspect.signature(open_served).parameters
open_reward.__signature__ = inspect.Signature(list({**_LOCAL, **_SERVED}.values()))  # type: ignore[attr-defined]
