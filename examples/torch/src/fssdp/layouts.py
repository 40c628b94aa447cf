# SPDX-License-Identifier: Apache-2.0
"""Who owns what."""

from __future__ import annotations

from collections.abc import Sequence

import numpy
from numpy.typing import ArrayLike

from . import _core
from ._core import Layout

__all__ = ["Layout", "block_layout", "cyclic_layout", "layer_stack", "table_layout"]


def block_layout(*, experts: int, ranks: int, slices: int = 1) -> Layout:
    """Consecutive chunks share an owner: what expert parallelism uses.

    Blocks are as equal as they can be; the first chunks % ranks of them have one chunk more.

    Args:
        experts: how many experts there are.
        ranks: how many ranks own them.
        slices: how many slices every expert is divided into.
    """
    return _core.block_layout(experts, ranks, slices)


def cyclic_layout(*, experts: int, ranks: int, slices: int = 1) -> Layout:
    """Slice s of expert e belongs to rank (e + s) mod ranks.

    With as many slices as ranks every rank owns a slice of each expert: fully sharded experts.

    Args:
        experts: how many experts there are.
        ranks: how many ranks own them.
        slices: how many slices every expert is divided into.
    """
    return _core.cyclic_layout(experts, ranks, slices)


def table_layout(owners: ArrayLike, *, ranks: int, slices: int = 1) -> Layout:
    """Any owner for any chunk; a rank may own any number, none included.

    Args:
        owners: [experts * slices] or [experts, slices], the rank that owns each chunk.
        ranks: how many there are.
        slices: how many slices every expert is divided into.
    """
    return _core.table_layout(numpy.ravel(owners), ranks, slices)


def layer_stack(layers: Sequence[Layout]) -> Layout:
    """The layouts of all layers as one: expert e of layer l is expert l * experts + e.

    Args:
        layers: of equally many experts, slices and ranks each.
    """
    return _core.layer_stack(list(layers))
