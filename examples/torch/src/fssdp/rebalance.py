# SPDX-License-Identifier: Apache-2.0
"""The interface of DeepSeek's EPLB; incremental maps; and the moves between maps."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy

from . import _core
from .errors import ArgumentError

__all__ = ["SlotMove", "SlotMoves", "rebalance_experts", "renew_experts", "slot_moves"]


def rebalance_experts(
    weight: Any, num_replicas: int, num_groups: int, num_nodes: int, num_gpus: int
) -> tuple[Any, Any, Any]:
    """Slots for experts and their replicas, evenly loaded: EPLB's function of this name.

    Hierarchical if the groups divide by the nodes: each node gets whole groups of consecutive
    experts. Else global. Experts are taken to share their load evenly among their slots.

    Args:
        weight: [layers, num_logical_experts], the load statistics: an array, or a tensor of
            PyTorch, of any number type, from 0.
        num_replicas: slots of all GPUs together, the first of each expert included; a multiple of
            ``num_gpus``.
        num_groups: of equally many experts.
        num_nodes: server nodes.
        num_gpus: if hierarchical, a multiple of ``num_nodes``.

    Returns:
        physical_to_logical_map: [layers, num_replicas], the expert of each slot, GPU by GPU.
        logical_to_physical_map: [layers, num_logical_experts, X], the slots of each expert,
            ascending, X being the most that any has; filled up with -1.
        expert_count: [layers, num_logical_experts], how many slots each expert has.

        All of int64 on the CPU, tensors if ``weight`` is one, else arrays of numpy.

    Raises:
        ArgumentError: if the numbers do not divide, or a weight is negative or no number.
    """
    torch = sys.modules.get("torch")  # a caller with a tensor has imported it
    if torch is None or not isinstance(weight, torch.Tensor):
        return _maps(weight, num_replicas, num_groups, num_nodes, num_gpus)
    array = weight.detach().to(device="cpu", dtype=torch.float64).numpy()
    slots, rows, counts = _maps(array, num_replicas, num_groups, num_nodes, num_gpus)
    return torch.from_numpy(slots), torch.from_numpy(rows), torch.from_numpy(counts)


def _maps(weight: Any, replicas: int, groups: int, nodes: int, gpus: int) -> tuple[Any, Any, Any]:
    array = numpy.ascontiguousarray(weight, dtype=numpy.float64)
    if array.ndim != 2 or array.size == 0:
        raise ArgumentError(
            f"rebalance_experts: weight is of the shape {list(array.shape)}; expected "
            "[layers, num_logical_experts]"
        )
    slots, rows, counts = _core.rebalance_experts(array, replicas, groups, nodes, gpus)
    return slots, rows, counts


def renew_experts(
    physical_to_logical_map: Any, weight: Any, num_nodes: int, num_gpus: int, *,
    num_groups: int = 1, balance: float = 1.02, most_changes: int | None = None,
) -> Any:
    """A new map of the slots, made from the current one with few changes.

    ``rebalance_experts`` makes every map from scratch, and most experts have to be sent. Here slots
    change one by one until the balance is good enough. The change that lowers the load of the
    fullest GPU most comes first.

    Args:
        physical_to_logical_map: [layers, num_replicas], the expert of each slot now, GPU by GPU.
        weight: [layers, num_logical_experts], the load statistics, of any number type, from 0.
        num_nodes: server nodes.
        num_gpus: GPUs, as many on each node.
        num_groups: of equally many experts. Where several divide by the nodes, each stays whole on
            a node, and maps are those of ``rebalance_experts`` with GPUs renamed.
        balance: the load of the fullest GPU over the mean that is good enough.
        most_changes: slots of a layer that may change at most.

    Returns:
        [layers, num_replicas], int64: a tensor on the CPU if the map is one, else an array of numpy.

    Raises:
        ArgumentError: if shapes do not fit, an expert has no slot, or a weight is no load.
    """
    slots, is_tensor = _array(physical_to_logical_map, numpy.int64)
    loads, _ = _array(weight, numpy.float64)
    if slots.ndim != 2 or loads.ndim != 2 or len(slots) != len(loads) or loads.size == 0:
        raise ArgumentError(
            f"renew_experts: a map of the shape {list(slots.shape)} and weights of the shape "
            f"{list(loads.shape)}; expected [layers, num_replicas] and [layers, num_logical_experts]"
        )
    changes = slots.shape[1] if most_changes is None else most_changes
    renewed = _core.renew_experts(slots, loads, num_groups, num_nodes, num_gpus, balance, changes)
    return sys.modules["torch"].from_numpy(renewed) if is_tensor else renewed


@dataclass(frozen=True)
class SlotMove:
    """An expert that moves into a slot.

    Attributes:
        expert: which one.
        source: a slot that has it before all moves; slots count GPU by GPU.
        target: the slot that it moves into.
        round: the round in which it is sent, or copied if both slots are on one GPU.
        placed: at the end of this round it may be written to its slot: from then on no rank needs
            the old content of the slot.
        waits: whether it is received into scratch memory until then; otherwise it is received into
            its slot.
    """

    expert: int
    source: int
    target: int
    round: int
    placed: int
    waits: bool


@dataclass(frozen=True)
class SlotMoves:
    """The moves from one map to another, by round. In a round a GPU exchanges with one other.

    Attributes:
        moves: by round.
        rounds: how many.
        scratch_slots: experts that a GPU needs additional room for, at most.
    """

    moves: tuple[SlotMove, ...]
    rounds: int
    scratch_slots: int


def slot_moves(
    before: Any, after: Any, num_experts: int, num_nodes: int, num_gpus: int, *,
    group_size: int = 32, scratch_slots: int = 2,
) -> SlotMoves:
    """What has to be sent to change the map of a layer in place, and in which order.

    Args:
        before: [num_replicas], the expert of each slot now, GPU by GPU: a row of
            ``physical_to_logical_map``.
        after: [num_replicas], the expert of each slot then.
        num_experts: logical experts.
        num_nodes: server nodes; experts come from their own node where that has them.
        num_gpus: GPUs, as many on each node.
        group_size: sends and receives of a GPU in one round, at most.
        scratch_slots: experts that a GPU may keep in scratch memory, if possible.

    Raises:
        ArgumentError: if the maps are no rows of equal length, or an expert has no slot.
    """
    maps = [_array(row, numpy.int64)[0] for row in (before, after)]
    for row in maps:
        if row.ndim != 1 or row.size == 0:
            raise ArgumentError(
                f"slot_moves: a map of the shape {list(row.shape)}; expected [num_replicas]"
            )
    rows, rounds, scratch = _core.slot_moves(
        maps[0][None], maps[1][None], num_experts, num_nodes, num_gpus, group_size, scratch_slots
    )
    return SlotMoves(
        tuple(SlotMove(*(int(value) for value in row[:5]), bool(row[5])) for row in rows),
        rounds, scratch,
    )  # fmt: skip


def _array(values: Any, dtype: Any) -> tuple[Any, bool]:
    """Contiguous, on the CPU, and whether it was a tensor."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        return numpy.ascontiguousarray(values.detach().cpu().numpy(), dtype=dtype), True
    return numpy.ascontiguousarray(values, dtype=dtype), False
