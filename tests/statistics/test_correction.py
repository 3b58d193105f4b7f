from __future__ import annotations

import pytest

from refladder.errors import UsageError
from refladder.statistics.correction import holm, permutations_for


def test_holm_by_hand():
    # sorted .01 .02 .03 .04: times 4, 3, 2, 1 = .04 .06 .06 .04, the last not below the one before
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]  # 2 * .8 is more than any p-value
    assert holm([]) == []


def test_permutations_let_every_test_be_significant():
    assert permutations_for(0) == permutations_for(2) == 1000
    assert permutations_for(51) == 20400  # 20 * 51 / 0.05
    for tests in (1, 51, 400):
        assert holm([1 / (permutations_for(tests) + 1)] * tests)[0] <= 0.05 / 20


def test_what_is_no_p_value_is_refused():
    with pytest.raises(UsageError, match=r"p-values must be between 0 and 1, found \[1\.5\]"):
        holm([1.5])
