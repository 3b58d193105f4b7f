"""Opens `reward:MODEL`: with `base_url` on a server, else with transformers here."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from refladder.backends.hf.reward_model import open_local
from refladder.backends.openai.reward_server import open_served
from refladder.errors import UsageError

if TYPE_CHECKING:
    from refladder.backends.protocol import Backend


def open_reward(target: str, **given: Any) -> Backend:  # noqa: ANN401  texts, as on the command line
    """Open a reward model; with the option `base_url` it is on that server, and else its options are those of hf."""
    if not target:
        raise UsageError("reward needs a model: reward:ORG/MODEL, reward:FOLDER, or with base_url its name on a server")
    opened = open_served if given.get("base_url") else open_local
    for name in given:
        if name not in inspect.signature(opened).parameters:
            where = "only with base_url" if opened is open_local else "not with base_url"
            raise UsageError(f"reward:{target} takes the option {name} {where}; leave it out")
    return opened(target, **given)


# What opens backends knows their options by the keyword-only parameters of the function.
open_reward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    list(
        {
            name: parameter
            for opener in (open_local, open_served)
            for name, parameter in inspect.signature(opener).parameters.items()
        }.values()
    )
)
