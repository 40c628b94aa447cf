# SPDX-License-Identifier: Apache-2.0
"""The interface of DeepSeek's EPLB, in the place of its module."""

from __future__ import annotations

import sys
from typing import Any

import numpy

from . import _core
from .errors import ArgumentError

__all__ = ["rebalance_experts"]


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
    torch = sys.modules.get("torch")  # whoever has a tensor has imported it
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
