# SPDX-License-Identifier: Apache-2.0
"""Who gets replicas, and who owns what: solvers are values with options, and are called.

A placement solver is anything that is called as ``solve(loads, layout)`` and returns a Placement;
loads are [experts], tokens of one iteration, at any scale unless a solver says tokens. A sharding
solver is called as ``solve(loads, topology)`` with loads [layers, experts] and returns a Layout for
each layer. All are pure functions: equal inputs give equal results on every rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from . import _core
from ._core import Layout, PhysicalExperts, Placement, Topology
from .costs import LayerRates, MaterializationBudget

__all__ = [
    "CheapestMaterialization",
    "EplbMaterialization",
    "Everywhere",
    "ExpertLoadBalancer",
    "HeterogeneousSharding",
    "LargestOverlap",
    "NeedsBasedMaterialization",
    "OwnersOnly",
    "PlacementSolver",
    "Resharding",
    "ReshardingVerdict",
    "ShardingSolver",
    "SparseMaterialization",
]

PlacementSolver = Callable[[Any, Layout], Placement]
ShardingSolver = Callable[[Any, Topology], Sequence[Layout]]


@dataclass(frozen=True, kw_only=True)
class OwnersOnly:
    """No replicas: expert parallelism (EP)."""

    def __call__(self, loads: ArrayLike, layout: Layout) -> Placement:
        return _core.owners_only(loads, layout)


@dataclass(frozen=True, kw_only=True)
class Everywhere:
    """Every expert on every rank: fully sharded data parallelism (FSDP)."""

    def __call__(self, loads: ArrayLike, layout: Layout) -> Placement:
        return _core.everywhere(loads, layout)


@dataclass(frozen=True, kw_only=True)
class SparseMaterialization:
    """Algorithm 1 of the Hecate paper: replicas for the most loaded experts.

    If there are enough slots (overlap <= spare_slots) every rank gets all of these experts. Otherwise
    the slots of all ranks are divided by load, and each of the experts gets at least one replica.

    Attributes:
        overlap: how many experts can be gathered during other work.
        spare_slots: how many replicas a rank has memory for.
        topology: which rank is on which node; by default all on one.
    """

    overlap: int
    spare_slots: int
    topology: Topology | None = None

    def __call__(self, loads: ArrayLike, layout: Layout) -> Placement:
        return _core.sparse_materialization(
            loads, layout, self.overlap, self.spare_slots, self.topology
        )


@dataclass(frozen=True, kw_only=True)
class EplbMaterialization:
    """EPLB's replicas for experts whose owners stay; they stay in the node of the owner.

    Attributes:
        spare_slots: how many replicas a rank has memory for.
        topology: which rank is on which node; by default all on one.
    """

    spare_slots: int
    topology: Topology | None = None

    def __call__(self, loads: ArrayLike, layout: Layout) -> Placement:
        return _core.eplb_materialization(loads, layout, self.spare_slots, self.topology)


@dataclass(frozen=True, kw_only=True)
class LargestOverlap:
    """SparseMaterialization with the largest overlap that the budget allows.

    Attributes:
        budget: what memory and ports allow, from ``hidden_budget`` or ``paying_budget``.
        topology: which rank is on which node; by default all on one.
    """

    budget: MaterializationBudget
    topology: Topology | None = None

    def __call__(self, loads: ArrayLike, layout: Layout) -> Placement:
        return _core.largest_overlap(loads, layout, self.budget, self.topology)


@dataclass(frozen=True, kw_only=True)
class NeedsBasedMaterialization:
    """Replicas where they are needed, within what every port can carry; for BalancedRouting.

    Every node takes in the experts that it needs most, as many as its ports and slots allow; inside
    a node they get as many replicas as an even load takes.

    Attributes:
        budget: what memory and ports allow, from ``hidden_budget`` or ``paying_budget``.
        topology: which rank is on which node; by default all on one.
    """

    budget: MaterializationBudget
    topology: Topology | None = None

    def __call__(self, loads: ArrayLike, layout: Layout) -> Placement:
        return _core.needs_based_materialization(loads, layout, self.budget, self.topology)


@dataclass(frozen=True, kw_only=True)
class CheapestMaterialization:
    """The cheapest placement of several solvers, refined by a search; for BalancedRouting.

    The solvers are owners only, Algorithm 1, and needs-based materialization with all slots or fewer.
    The result of each is refined, and the cheapest one is returned.

    Attributes:
        budget: what memory and ports allow, from ``hidden_budget`` or ``paying_budget``.
        rates: what tokens and experts cost. Without them no replica pays.
        tokens: of an iteration, over all ranks and experts; 0: gathers are hidden.
        topology: which rank is on which node; by default all on one.
        trials: exchanges that the search looks at, for each of the solvers; 0: none.
    """

    budget: MaterializationBudget
    rates: LayerRates = LayerRates()
    tokens: float = 0.0
    topology: Topology | None = None
    trials: int = 50

    def __call__(self, loads: ArrayLike, layout: Layout) -> Placement:
        return _core.cheapest_materialization(
            loads, layout, self.budget, self.rates, self.tokens, self.topology, self.trials
        )


@dataclass(frozen=True, kw_only=True)
class ExpertLoadBalancer:
    """EPLB, the expert parallelism load balancer of DeepSeek; owners move, too.

    Hierarchical if the groups divide by the nodes: each node gets whole groups. Else global. Called
    with loads alone. ``rebalance_experts`` has the signature of the original.

    Attributes:
        replicas: slots of all ranks together, the first of each expert included.
        groups: of equally many experts.
        topology: the ranks, as many on each node.
    """

    replicas: int
    groups: int = 1
    topology: Topology

    def __call__(self, loads: ArrayLike) -> PhysicalExperts:
        return _core.expert_load_balancer(loads, self.replicas, self.groups, self.topology)


@dataclass(frozen=True, kw_only=True)
class HeterogeneousSharding:
    """Algorithm 2 of the Hecate paper: owners that balance the load of experts without replicas.

    Every rank owns equally many experts over all layers, any number of one layer.

    Attributes:
        overlap: so many of the most loaded experts of a layer get replicas, and do not count.
    """

    overlap: int = 0

    def __call__(self, loads: ArrayLike, topology: Topology) -> list[Layout]:
        return _core.heterogeneous_sharding(loads, topology, self.overlap)


@dataclass(frozen=True)
class ReshardingVerdict:
    """Gain and cost of new owners, and the owners if the change pays.

    Attributes:
        layouts: of each layer; None if all stays as it is.
        gained_seconds: until owners can change again; negative if time is lost.
        moved_seconds: how long the busiest port takes for the move.
        moved_bytes: through that port.
    """

    layouts: list[Layout] | None
    gained_seconds: float
    moved_seconds: float
    moved_bytes: int


@dataclass(frozen=True, kw_only=True)
class Resharding:
    """Asks a sharding solver for new owners, and returns them only if the change pays.

    A layer takes as long as its fullest rank. The gain is how much less that is under the new owners,
    over all layers and iterations. The cost is the time that the busiest port needs for the move.

    Attributes:
        sharding: who chooses the new owners.
        materialization: the placement solver that is used with the old owners and with the new ones.
        seconds_per_row: that an expert takes for one row, forward and backward.
        chunk_bytes: of one expert or slice: all that moves with it.
        iterations: until owners can change again.
    """

    sharding: ShardingSolver = HeterogeneousSharding()
    materialization: PlacementSolver = OwnersOnly()
    seconds_per_row: float = 0.0
    chunk_bytes: int = 0
    iterations: int = 1

    def __call__(
        self, current: Sequence[Layout], loads: ArrayLike, topology: Topology
    ) -> ReshardingVerdict:
        """New owners, if they pay.

        Args:
            current: the layout of each layer.
            loads: [layers, experts], tokens of one iteration.
            topology: where the ranks sit.
        """
        return ReshardingVerdict(
            *_core.resharding(
                list(current),
                loads,
                topology,
                self.sharding,
                self.materialization,
                self.seconds_per_row,
                self.chunk_bytes,
                self.iterations,
            )
        )
