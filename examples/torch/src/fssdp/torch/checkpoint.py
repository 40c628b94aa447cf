# SPDX-License-Identifier: Apache-2.0
"""Sharded experts in checkpoints of torch.distributed.checkpoint, from any ranks to any ranks.

Experts of a ModuleList need nothing: each is saved by the rank that owns it, under its own name. Of
a stacked parameter, whose name all ranks share, each rank has some of the rows: it is saved as one
tensor [experts, ...], which an unsharded model can load, too. That needs a torch in which tensors can
say which part of a larger one they are (CheckpointableTensor).
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from .shards import StackedShards

__all__ = ["announce_shards", "make_state", "named_state", "saves_rows"]


@functools.cache
def saves_rows() -> bool:
    """Whether torch.distributed.checkpoint can save a tensor of which each rank has only some rows."""
    return importlib.util.find_spec("torch.distributed.checkpoint.protocol") is not None


def _announce(tensor: Tensor, experts: int, owned: Sequence[int]) -> Tensor:
    """Tells torch.distributed.checkpoint which rows of which whole tensor this one has."""
    if not saves_rows():
        raise ArgumentError(
            f"state_dict of stacked experts with torch {torch.__version__}, which would save the rows "
            "of one rank for those of all; expected a newer torch, or full_tensors()"
        )
    zeros = (0,) * (tensor.dim() - 1)
    tensor.global_shape = (experts, *tensor.shape[1:])
    tensor.global_offsets = tuple((e, *zeros) for e in owned)
    tensor.local_offsets = tuple((i, *zeros) for i in range(len(owned)))
    tensor.local_sizes = tuple((1, *tensor.shape[1:]) for _ in owned)
    return tensor


def _owned(experts: Any, layer: int) -> list[int]:
    return [int(e) for e, _ in experts.layouts[layer].owned(experts.tokens.rank)]


def announce_shards(experts: Any) -> None:
    """Makes the tensors in ``state_dict`` of the layers say which rows of the whole they are."""
    if not isinstance(experts.shards, StackedShards):
        return
    for l, layer in enumerate(experts.layers):

        def announce(_: Any, state: dict[str, Any], prefix: str, __: Any, l: int = l) -> None:
            for t in experts.shards.tensors:
                _announce(state[prefix + t.name], experts.experts, _owned(experts, l))

        layer.register_state_dict_post_hook(announce)


def make_state(optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter]) -> None:
    """Makes an optimizer that has not made a step yet create its state. Nothing else changes."""
    if all(optimizer.state.get(p) for p in parameters):
        return
    groups = optimizer.param_groups
    rates = [group["lr"] for group in groups]
    gradients = [[p.grad for p in group["params"]] for group in groups]
    own = {id(p) for p in parameters}
    for group, rate in zip(groups, rates, strict=True):
        group["lr"] = torch.zeros_like(rate) if isinstance(rate, Tensor) else 0.0
        for p in group["params"]:
            p.grad = torch.zeros_like(p) if id(p) in own and not optimizer.state.get(p) else None
    optimizer.step()
    for group, rate, of_group in zip(groups, rates, gradients, strict=True):
        group["lr"] = rate
        for p, gradient in zip(group["params"], of_group, strict=True):
            p.grad = gradient


def named_state(
    experts: Any, optimizer: torch.optim.Optimizer, prefixes: Sequence[str]
) -> dict[str, Tensor]:
    """The tensors of the state, by the name of their parameter and their own name."""
    result = {}
    for part in experts.shards.parts():
        for name, value in sorted(optimizer.state[part.parameter].items()):
            if not isinstance(value, Tensor):
                continue
            if value.dim() > 0 and isinstance(experts.shards, StackedShards):
                value = _announce(value.detach(), experts.experts, _owned(experts, part.layer))
            result[f"{prefixes[part.layer]}{part.name}.{name}"] = value
    return result
