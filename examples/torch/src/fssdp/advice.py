# SPDX-License-Identifier: Apache-2.0
"""Do replicas pay, and how many?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy
from numpy.typing import ArrayLike, NDArray

from . import _core
from ._core import Topology
from .costs import LayerRates

__all__ = ["Advice", "SlotsResult", "Spread", "advise"]


@dataclass(frozen=True)
class Spread:
    """The distribution of values: their mean, percentiles, and the largest."""

    mean: float
    p50: float
    p95: float
    p99: float
    max: float

    @staticmethod
    def of(values: ArrayLike) -> Spread:
        """The spread of some values; if there are none, that of a single 0."""
        array = numpy.asarray(values, dtype=float)
        if array.size == 0:
            array = numpy.zeros(1)
        percentiles = numpy.percentile(array, [50, 95, 99, 100])
        return Spread(float(array.mean()), *(float(value) for value in percentiles))


@dataclass(frozen=True)
class SlotsResult:
    """The result for a number of slots.

    Attributes:
        slots: replicas that a rank has memory for.
        seconds: of an iteration.
        speedup_over_ep: over experts at their owners, in blocks.
        load: the fullest device over the mean of all devices, over all layers and iterations.
        memory_bytes: for experts, on the device that needs the most.
    """

    slots: int
    seconds: float
    speedup_over_ep: float
    load: Spread
    memory_bytes: float


@dataclass(frozen=True)
class Advice:
    """Whether replicas pay; ``print(advice)`` shows it as a table.

    Attributes:
        ep: experts at their owners, in blocks, without replicas.
        by_slots: the library's best policy with 0, 1, 2, ... slots.
        chosen: the fewest slots that are within 1 % of the fastest, by position.
        experts: loads of experts over the mean of their layer.
    """

    ep: SlotsResult
    by_slots: list[SlotsResult]
    chosen: int
    experts: Spread

    @property
    def best(self) -> SlotsResult:
        """The result of the number of slots that is advised."""
        return self.by_slots[self.chosen]

    @property
    def slots(self) -> int:
        """How many slots are advised; 0 if replicas do not pay."""
        return self.best.slots

    @property
    def pays(self) -> bool:
        """Whether replicas pay."""
        return self.chosen > 0

    @property
    def speedup_over_no_slots(self) -> float:
        """What replicas add to owners that are placed by load."""
        return self.by_slots[0].seconds / self.best.seconds

    def __str__(self) -> str:
        best = self.best
        if self.pays:
            more = max(0.0, best.memory_bytes - self.by_slots[0].memory_bytes) / 1e9
            lines = [
                f"Replication pays: with {best.slots} slot{'s' if best.slots > 1 else ''} per rank "
                f"an iteration is {self.speedup_over_no_slots:.2f}x as fast as without, "
                f"{best.speedup_over_ep:.2f}x over EP,",
                f"for {more:.3f} GB more on the rank that has most.",
            ]
        else:
            lines = [
                "Replication does not pay here: without it, owners by load are within 1% of the "
                f"best, {best.speedup_over_ep:.2f}x over EP.",
            ]
        lines += ["", "  slots | over EP | max/mean      p95 | iteration us |   GB/rank"]
        for one in self.by_slots:
            lines.append(
                f"{'>' if one is best else ' '} {one.slots:5} | {one.speedup_over_ep:7.3f} | "
                f"{one.load.mean:8.3f} {one.load.p95:8.3f} | {one.seconds * 1e6:12.0f} | "
                f"{one.memory_bytes / 1e9:9.3f}"
            )
        return "\n".join(lines)


def advise(
    loads: ArrayLike,
    topology: Topology,
    rates: LayerRates,
    *,
    non_moe_seconds: float = 0.0,
    layers: int | None = None,
    stale: int | None = None,
    objective: Literal["time", "balance"] = "time",
) -> Advice:
    """Says whether replicas pay, and with how many slots, as ``fssdp_sim --advise`` does.

    Iterations are simulated by the cost model with 0, 1, 2, 3, 4, 6, 8, 12 and 16 slots, as far as
    there are experts, under CheapestMaterialization, HeterogeneousSharding every 100 iterations, and
    the cheaper of balanced and even routing.

    Args:
        loads: [iterations, layers, experts], or [layers, experts] of one iteration: tokens over all
            ranks, a token that goes to k experts counted k times.
        topology: the ranks.
        rates: what a token and an expert cost, and the computation that hides gathers.
        non_moe_seconds: time of an iteration outside of experts, forward and backward.
        layers: layers of the model, if loads are of some of them only.
        stale: placements are made from loads of so many iterations before; 0: from those of the
            iteration itself; None: from the mean of the last 5.
        objective: 'time', or 'balance': as if links were free.

    Raises:
        ArgumentError: on loads of another shape, or numbers that a solver refuses.
    """
    array = numpy.asarray(loads)
    found = _core.advise(
        array[numpy.newaxis] if array.ndim == 2 else array,
        topology,
        rates,
        non_moe_seconds,
        layers,
        stale,
        objective,
    )
    ep, by_slots, chosen, experts = found
    ep_seconds = ep[1]
    return Advice(
        _result(ep, ep_seconds),
        [_result(each, ep_seconds) for each in by_slots],
        chosen,
        Spread.of(experts),
    )


def _result(of: tuple[int, float, NDArray[Any], float], ep_seconds: float) -> SlotsResult:
    slots, seconds, loads, memory_bytes = of
    return SlotsResult(slots, seconds, ep_seconds / seconds, Spread.of(loads), memory_bytes)

