# SPDX-License-Identifier: Apache-2.0
"""Plans: what is sent, how long it takes, and lower bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy
from numpy.typing import NDArray

from . import _core
from ._core import Layout, Placement, ReshardPlan, Topology, TransferPlan
from ._text import members

__all__ = [
    "PortTraffic",
    "ReshardPlan",
    "Simulation",
    "TimeBound",
    "TransferPlan",
    "lower_bound",
    "make_plan",
    "rank_ordered",
    "reshard_plan",
    "schedule",
    "simulate",
    "traffic",
    "verify",
]


def make_plan(layout: Layout, where: Placement, topology: Topology | None = None) -> TransferPlan:
    """The transfers of whole chunks that realise a placement.

    Every chunk enters a node once and spreads from there. Where that may be slower, its owner sends
    it to all other holders.

    Args:
        layout: who owns what.
        where: who is to hold what; it contains the layout.
        topology: which rank is on which node; by default all on one.
    """
    return _core.make_plan(layout, where, topology)


def schedule(
    plan: TransferPlan,
    chunk_bytes: int,
    *,
    piece_bytes: int = 0,
    least_bytes: int = 256 << 10,
    relay_bytes: int | None = None,
    sums: Literal["along_trees", "by_rank"] = "along_trees",
    effort: int = 30_000,
) -> TransferPlan:
    """The same placement in pieces, ordered so that ports are busy all the time.

    Args:
        plan: as ``make_plan`` makes it.
        chunk_bytes: bytes of the largest chunk, as it is sent.
        piece_bytes: approximate size of a piece; 0: chosen for chunk, placement and topology.
        least_bytes: smallest size of a piece, unless the chunk is smaller.
        relay_bytes: memory that a rank may use for pieces that it only relays; 0: no rank relays;
            None: no limit.
        sums: the order of a reduction: 'along_trees' forms partial sums on the way to the owner;
            'by_rank' sums all at the owner, with the same bits for every schedule.
        effort: sizes of pieces other than a coarse one are tried, which have fewer than this many
            transfers together; 0: only the coarse one.
    """
    return _core.schedule(plan, chunk_bytes, piece_bytes, least_bytes, relay_bytes, sums, effort)


def verify(plan: TransferPlan) -> None:
    """Replays a plan.

    Raises:
        PlanError: if a holder would lack a piece, or a rank would send what it does not have.
    """
    _core.verify(plan)


def rank_ordered(plan: TransferPlan) -> TransferPlan:
    """The same placement by whole chunks straight from their owners.

    Its reduction adds up in rank order at the owner, so that the bits are the same for every
    schedule: ``fast.reduced_by(rank_ordered(fast))``.
    """
    return _core.rank_ordered(plan)


@dataclass(frozen=True, eq=False)
class Simulation:
    """Times of all transfers, in seconds from the start of the gather.

    Attributes:
        seconds: the last arrival.
        start: [transfers], in canonical order: both ports begin.
        released: [transfers]: both ports are free again.
        arrival: [transfers]: the destination has the piece and can pass it on.
    """

    seconds: float
    start: NDArray[numpy.float64]
    released: NDArray[numpy.float64]
    arrival: NDArray[numpy.float64]

    def __repr__(self) -> str:
        return f"Simulation(seconds={self.seconds:.6g}; {len(self.start)} transfers)"


def simulate(plan: TransferPlan, chunk_bytes: int) -> Simulation:
    """How long a gather takes on ideal ports; the reduction of as many bytes takes as long.

    Args:
        plan: that ``verify`` accepts.
        chunk_bytes: bytes of every chunk, as it is sent.
    """
    return Simulation(*_core.simulate(plan, chunk_bytes))


@dataclass(frozen=True)
class TimeBound:
    """Lower bounds of the time of a gather.

    Attributes:
        seconds: bytes over bandwidth, of the port that binds.
        tight_seconds: with latency, what a message costs, filling and emptying.
        resource: what binds ``seconds``: 'device in 3', 'node out 0', ...
    """

    seconds: float
    tight_seconds: float
    resource: str


def lower_bound(
    plan: TransferPlan, chunk_bytes: int, *, least_piece_bytes: int = 256 << 10
) -> TimeBound:
    """Lower bounds of the time of any plan of the same placement.

    Args:
        plan: of it, only layout, placement and topology matter.
        chunk_bytes: bytes of every chunk, as it is sent.
        least_piece_bytes: the tight bound holds for plans of no smaller pieces.
    """
    return TimeBound(*_core.lower_bound(plan, chunk_bytes, least_piece_bytes))


@dataclass(frozen=True, eq=False)
class PortTraffic:
    """Transfers of one gather through ports: times the bytes of a piece, these are bytes.

    Attributes:
        between_nodes: how many cross from node to node.
        inside_nodes: how many stay in theirs.
        out_of_node: [nodes].
        into_node: [nodes].
        out_of_rank: [ranks], inside and between nodes together.
        into_rank: [ranks].
    """

    between_nodes: int
    inside_nodes: int
    out_of_node: NDArray[numpy.int64]
    into_node: NDArray[numpy.int64]
    out_of_rank: NDArray[numpy.int64]
    into_rank: NDArray[numpy.int64]

    __repr__ = members


def traffic(plan: TransferPlan, topology: Topology | None = None) -> PortTraffic:
    """What a plan moves through the ports of a topology; by default all ranks on one node."""
    return PortTraffic(*_core.traffic(plan, topology))


def reshard_plan(before: Layout, after: Layout, *, scratch_slots: int = 2) -> ReshardPlan:
    """The moves that turn one layout into another.

    Args:
        before: who owns what.
        after: who is to own what.
        scratch_slots: how many more chunks than its shard a rank has room for.
    """
    return _core.reshard_plan(before, after, scratch_slots)
