"""How many prompt tokens a server had to read, where it tells what it had cached."""

import pytest
from asked import LABELS, questions, to
from toy_server import OPENAI, ToyServer

from refladder.backends.openai.errors import Tally


class Caching(ToyServer):
    """Tells with each answer of a chat that three tokens of its prompt were cached; or nothing, as some servers do."""

    told = True

    def _chat(self, body):
        answer = super()._chat(body)
        if self.told:
            answer["usage"]["prompt_tokens_details"] = {"cached_tokens": 3}
        return answer


def test_what_the_server_had_cached_was_not_read():
    with Caching(OPENAI) as server:
        backend = to(server)
        backend.read_labels(questions(4), LABELS)
        counts = backend.counts
        assert counts["requests"] >= 4
        assert backend.usage.run_tokens == counts["prompt tokens"] - counts["cached prompt tokens"]
        assert counts["cached prompt tokens"] >= 3 * 4  # those of the handshake too
        server.told = False
        backend.read_labels(questions(4), LABELS)
        assert backend.usage.run_tokens is None


@pytest.mark.parametrize("details", [None, "3", {}, {"cached_tokens": None}, {"cached_tokens": 11}])
def test_a_count_that_cannot_be_is_not_known(details):
    tally = Tally()
    assert (
        tally.used({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": details})
        == 12
    )
    assert tally.counts["prompt tokens of unknown cache"] == 10
    assert tally.counts["cached prompt tokens"] == 0


def test_a_count_is_believed_up_to_the_prompt():
    tally = Tally()
    tally.used(
        {
            "prompt_tokens": 10,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 10},
        }
    )
    assert (
        tally.counts["cached prompt tokens"],
        tally.counts["prompt tokens of unknown cache"],
    ) == (10, 0)
