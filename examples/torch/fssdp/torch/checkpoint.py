# SPDX-License-Identifier: Apache-2.0
"""Sharded experts in checkpoints of torch.distributed.checkpoint, from any ranks to any ranks.

Experts of a ModuleList need nothing: each is saved by the rank that owns it, under its own name. Of
a stacked parameter, whose name all ranks share, each rank has some of the rows: it is saved as one
tensor [experts, ...], which an unsharded model can load, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .shards import StackedShards

__all__ = ["announce_shards", "optimizer_tensors"]


def _announce(tensor: Tensor, experts: int, owned: Sequence[int]) -> Tensor:
    """Tells torch.distributed.checkpoint which rows of what a tensor has (CheckpointableTensor)."""
    zeros = (0,) * (tensor.dim() - 1)
    tensor.global_shape = (experts, *tensor.shape[1:])
    tensor.global_offsets = tuple((e, *zeros) for e in owned)
    tensor.local_offsets = tuple((i, *zeros) for i in range(len(owned)))
    tensor.local_sizes = tuple((1, *tensor.shape[1:]) for _ in owned)
    return tensor


def _owned(experts: Any, layer: int) -> list[int]:
    return [int(e) for e, _ in experts.layouts[layer].owned(experts.tokens.rank)]


def announce_shards(experts: Any) -> None:
    """Has ``state_dict`` of the layers say what their tensors are of."""
    if not isinstance(experts.shards, StackedShards):
        return
    for l, layer in enumerate(experts.layers):
        if hasattr(layer, "_fssdp_hook"):
            layer._fssdp_hook.remove()

        def announce(module: Any, state: dict[str, Any], prefix: str, _: Any, l: int = l) -> None:
            for t in experts.shards.tensors:
                _announce(state[prefix + t.name], experts.experts, _owned(experts, l))

        layer._fssdp_hook = layer._register_state_dict_hook(announce)
