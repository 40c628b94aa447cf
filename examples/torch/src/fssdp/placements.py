# SPDX-License-Identifier: Apache-2.0
"""Placements: which rank holds which experts, also as slots of inference engines."""

from __future__ import annotations

from typing import Literal

from numpy.typing import ArrayLike

from . import _core
from ._core import Layout, PhysicalExperts, Placement

__all__ = [
    "PhysicalExperts",
    "Placement",
    "fit_slots",
    "layout_of",
    "max_over_mean",
    "physical_of",
    "placement_of",
]


def max_over_mean(loads: ArrayLike) -> float:
    """The fullest part over the average part: 1 is perfect balance; 1 as well if all is empty.

    Args:
        loads: [parts], whole numbers.
    """
    return _core.max_over_mean(loads)


def fit_slots(
    where: Placement,
    layout: Layout,
    loads: ArrayLike,
    slots: int,
    *,
    use: Literal["remote", "materialized"] = "remote",
) -> Placement:
    """The placement with at most ``slots`` used on every rank: each keeps its busiest replicas.

    Args:
        where: made for this layout.
        layout: who owns what.
        loads: [experts], tokens of one iteration.
        slots: that every rank has.
        use: which experts take one: 'remote', those that a rank does not own whole, or
            'materialized', all that it holds.
    """
    return _core.fit_slots(where, layout, loads, slots, use)


def layout_of(slots: PhysicalExperts) -> Layout:
    """Owners for given slots: an expert is owned by the rank of its first slot."""
    return _core.layout_of(slots)


def placement_of(slots: PhysicalExperts, layout: Layout) -> Placement:
    """Who holds what; several slots of one rank for the same expert count once.

    Args:
        slots: the expert of each slot.
        layout: the owners: those of ``layout_of(slots)``, or others.

    Raises:
        ArgumentError: if the sizes differ or an owner has no slot for its expert.
    """
    return _core.placement_of(slots, layout)


def physical_of(
    where: Placement, layout: Layout, slots_per_rank: int | None = None
) -> PhysicalExperts:
    """The slots of a placement: on each rank the experts owned there, then its replicas.

    Args:
        where: made for this layout.
        layout: who owns what.
        slots_per_rank: extra slots repeat experts of the rank; by default there are none, and all
            ranks hold equally many experts.
    """
    return _core.physical_of(where, layout, slots_per_rank)
