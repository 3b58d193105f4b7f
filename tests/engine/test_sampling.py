"""Sampling: batch sizes that change no bit, draws, random streams."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from refladder.engine.sampling import (  # noqa: E402
    _sampled_tokens,
    common_prefix,
    random_stream,
    reproducible_batch_sizes,
)


class Uneven(torch.nn.Linear):
    """A product that comes out otherwise when it has few rows; of zeros, as rounding would add to that."""

    def forward(self, states):
        return super().forward(0 * states) + (0.5 if len(states) < self.out_features else 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_of_the_same_bits_are_tried_out_with_every_kind_of_product(folder, dtype):
    def model_of(name):
        return transformers.AutoModelForCausalLM.from_pretrained(folder(name))

    small, large = Uneven(6, 3).to(dtype), Uneven(6, 5).to(dtype)
    assert reproducible_batch_sizes(small, 32) == [4, 8, 16, 32]
    assert reproducible_batch_sizes(torch.nn.Sequential(small, large), 32) == [8, 16, 32]
    assert reproducible_batch_sizes(Uneven(6, 32).to(dtype), 32) == [32]
    assert reproducible_batch_sizes(model_of("gpt2"), 32)[-1] == 32
    assert reproducible_batch_sizes(model_of("gpt-oss"), 32) == [32]  # experts


def test_draws_follow_the_probabilities_and_top_p():
    # p = .5 .3 .2: u below .5 is token 0, below .8 token 1, else token 2; top_p .7 leaves 0 and 1, as .625 and .375.
    scores = torch.log(torch.tensor([[0.5, 0.3, 0.2]])).repeat(6, 1)
    uniform = torch.tensor([0.0, 0.49, 0.51, 0.79, 0.81, 0.999], dtype=torch.float64)
    assert _sampled_tokens(scores, 1.0, 1.0, uniform).tolist() == [0, 0, 1, 1, 2, 2]
    assert _sampled_tokens(scores, 1.0, 0.7, uniform).tolist() == [0, 0, 0, 1, 1, 1]
    # Temperature .5 squares them: .25 .09 .04 of .38, so the bounds are .658 and .895.
    assert _sampled_tokens(scores, 0.5, 1.0, uniform).tolist() == [0, 0, 0, 1, 1, 2]
    assert _sampled_tokens(scores, 1.0, 0.0, uniform).tolist() == [0] * 6


def test_streams_differ_by_prompt_and_by_seed():
    draws = {
        random_stream(prompt, seed).random()
        for prompt in ([1, 2], [1, 2, 0], [2, 1])
        for seed in (0, 1, -1)
    }
    assert len(draws) == 9
    assert random_stream([1, 2], 0).random() == random_stream(np.array([1, 2]), 0).random()


def test_what_two_prompts_begin_with():
    assert common_prefix([1, 2, 3], [1, 2, 4, 5]) == 2
    assert common_prefix([1, 2], [1, 2]) == 2
    assert common_prefix([1, 2, 3], [1, 2]) == 2
    assert common_prefix([1, 2], [2, 2]) == 0
