# SPDX-License-Identifier: Apache-2.0
"""Where tokens go."""

from __future__ import annotations

import numpy
from numpy.typing import ArrayLike, NDArray

from . import _core
from ._core import BalancedRouting, EvenRouting, ExpertOrder, TokenPlan, TokenTraffic

__all__ = [
    "BalancedRouting",
    "EvenRouting",
    "ExpertOrder",
    "TokenPlan",
    "TokenTraffic",
    "routing_table",
]


def routing_table(
    counts: ArrayLike, routing: EvenRouting | BalancedRouting
) -> NDArray[numpy.void]:
    """A routing as a table, for dispatchers of other frameworks.

    The first tokens of a source for an expert go to the first receiver, the next ones to the second,
    and so on.

    Args:
        counts: [ranks, experts], tokens of every rank for every expert.
        routing: which holder of an expert gets which rank's tokens.

    Returns:
        A structured array with the fields source, expert, to, tokens, sorted by them. No entry has
        zero tokens, and those of a source and an expert add up to its count.
    """
    return _core.routing_table(counts, routing)
