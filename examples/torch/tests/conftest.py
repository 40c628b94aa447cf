# SPDX-License-Identifier: Apache-2.0
"""What the tests share."""

import numpy
import pytest


def zipf(experts: int, *, tokens: int = 100_000, exponent: float = 1.1, seed: int = 1):
    """Loads as a router gives them: [experts], shuffled, the busiest with many times the mean."""
    shares = 1.0 / numpy.arange(1, experts + 1) ** exponent
    loads = numpy.random.default_rng(seed).multinomial(tokens, shares / shares.sum())
    return numpy.random.default_rng(seed + 1).permutation(loads)


@pytest.fixture
def loads():
    return zipf(16)
