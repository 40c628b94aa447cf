# SPDX-License-Identifier: Apache-2.0
"""The cost of placements, and the budgets that ports and memory allow."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from . import _core
from ._core import LayerCost, PortLoads, Topology

__all__ = [
    "LayerCost",
    "LayerRates",
    "MaterializationBudget",
    "PortLoads",
    "break_even_tokens",
    "check_within",
    "gather_seconds",
    "hidden_budget",
    "paying_budget",
]


@dataclass(frozen=True, kw_only=True)
class LayerRates:
    """What the cost model needs to know of a layer. Equal on all ranks.

    Attributes:
        forward_seconds_per_row: seconds that an expert takes for one row in the forward pass:
            measure it with many rows and divide. Backward counts twice that.
        token_bytes: bytes of one row on its way to an expert, or back.
        expert_bytes: bytes of the parameters of an expert as they are sent; as many of gradients.
        window_seconds: seconds of computation that hide a gather in the forward pass, such as the
            attention of a layer. Backward counts twice that.
    """

    forward_seconds_per_row: float = 0.0
    token_bytes: int = 0
    expert_bytes: int = 0
    window_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class MaterializationBudget:
    """Limits of a placement: memory is a hard limit, ports limit what can be hidden.

    Attributes:
        experts_in: experts that may enter a node.
        experts_out: experts of those owned on a node that may leave it.
        spare_slots: replicas that a rank has memory for.
    """

    experts_in: int = 0
    experts_out: int = 0
    spare_slots: int = 0

    def allows(self, ports: PortLoads) -> bool:
        """Whether a placement with these loads is within the budget."""
        return _core.allows(self, ports)


def check_within(ports: PortLoads, budget: MaterializationBudget) -> None:
    """Refuses a placement beyond a budget.

    Raises:
        ArgumentError: that names the budget, the node or rank, and both numbers.
    """
    _core.check_within(ports, budget)


def hidden_budget(
    rates: LayerRates, topology: Topology, *, experts: int, spare_slots: int
) -> MaterializationBudget:
    """Allows as many experts as can be gathered within ``rates.window_seconds``, while something else
    computes, so that no rank waits for them.

    Args:
        rates: of a layer: the window, and the bytes of an expert.
        topology: with ranks.
        experts: of a layer; the upper limit.
        spare_slots: replicas that a rank has memory for.
    """
    return _budget(_core.hidden_budget(rates, topology, experts, spare_slots))


def paying_budget(
    loads: ArrayLike, rates: LayerRates, topology: Topology, *, spare_slots: int
) -> MaterializationBudget:
    """The hidden budget, and also experts that are worth a wait, as so many tokens stay on their node.

    Args:
        loads: [experts], tokens of one iteration.
        rates: what a token and an expert cost.
        topology: with ranks.
        spare_slots: replicas that a rank has memory for.
    """
    return _budget(_core.paying_budget(loads, rates, topology, spare_slots))


def break_even_tokens(rates: LayerRates) -> float:
    """The tokens of one node for one expert above which it pays to gather the expert there."""
    return _core.break_even_tokens(rates)


def gather_seconds(
    ports: PortLoads, topology: Topology, expert_bytes: int, *, piece_bytes: int = 256 << 10
) -> float:
    """How long the busiest port takes for a placement, including the filling of its pipeline.

    Args:
        ports: what the placement moves.
        topology: the same as that of the ports.
        expert_bytes: the parameters of an expert.
        piece_bytes: experts are sent in pieces of so many bytes.
    """
    return _core.gather_seconds(ports, topology, expert_bytes, piece_bytes)


def _budget(counts: tuple[int, int, int]) -> MaterializationBudget:
    return MaterializationBudget(
        experts_in=counts[0], experts_out=counts[1], spare_slots=counts[2]
    )
