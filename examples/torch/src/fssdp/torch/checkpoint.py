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
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .. import Everywhere, make_plan
from ..errors import ArgumentError
from .collectives import sparse_all_gather
from .shards import StackedShards

__all__ = [
    "announce_shards",
    "gather_state",
    "make_state",
    "moments_of",
    "named_state",
    "saves_rows",
    "spread_state",
    "state_of",
]


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


def state_of(
    optimizers: Sequence[torch.optim.Optimizer], parameters: Sequence[nn.Parameter]
) -> dict[Tensor, dict[str, Any]]:
    """What the optimizers keep of these parameters."""
    return {p: o.state[p] for o in optimizers for p in parameters if o.state.get(p)}


def moments_of(
    experts: Any, optimizers: Sequence[torch.optim.Optimizer]
) -> tuple[list[tuple[int, str]], str]:
    """What optimizers keep for each element of a tensor of an expert: its number, and their name. Then
    what they keep that cannot move with an expert, if anything."""
    state = state_of(optimizers, list(experts.parameters()))
    names = set()
    problem = ""
    for part in experts.shards.parts():
        for name, value in state.get(part.parameter, {}).items():
            if not isinstance(value, Tensor) or value.dim() == 0:
                continue
            if value.shape == part.parameter.shape:
                names.add((part.tensor, name))
            else:
                problem = (
                    f"the optimizer keeps {name} {list(value.shape)} of {part.name} "
                    f"{list(part.parameter.shape)}; expected numbers, and tensors of the same shape"
                )
    return sorted(names), problem


def make_state(optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter]) -> None:
    """Makes an optimizer create the state of parameters of which it has made no step yet. Nothing else
    changes: they count no step, and others keep their state."""
    groups = optimizer.param_groups
    wanted = {id(p) for p in parameters}
    new = [
        p for group in groups for p in group["params"] if id(p) in wanted and not optimizer.state.get(p)
    ]
    if not new:
        return
    rates = [group["lr"] for group in groups]
    gradients = [[p.grad for p in group["params"]] for group in groups]
    made = {id(p) for p in new}
    for group, rate in zip(groups, rates, strict=True):
        group["lr"] = torch.zeros_like(rate) if isinstance(rate, Tensor) else 0.0
        for p in group["params"]:
            p.grad = torch.zeros_like(p) if id(p) in made else None
    optimizer.step()
    for p in new:
        step = optimizer.state[p].get("step")
        if step is not None:
            optimizer.state[p]["step"] = torch.zeros_like(step) if isinstance(step, Tensor) else 0
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


def gather_state(
    experts: Any, optimizer: torch.optim.Optimizer, prefixes: Sequence[str]
) -> dict[str, Tensor]:
    """The same of all experts, on every rank."""
    stacked = isinstance(experts.shards, StackedShards)
    state = state_of([optimizer], list(experts.parameters()))
    found: list[Any] = [None] * experts.tokens.size
    numbers = {
        f"{prefixes[part.layer]}{part.name}.{name}": torch.as_tensor(value).cpu()
        for part in experts.shards.parts()
        for name, value in state.get(part.parameter, {}).items()
        if isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.dim() == 0)
    }
    dist.all_gather_object(found, (moments_of(experts, [optimizer]), numbers), group=experts.group)
    result: dict[str, Tensor] = {}
    for (_, problem), of_rank in found:
        if problem:
            raise ArgumentError(f"full_optimizer_tensors: {problem}")
        result.update(of_rank)
    for k, name in sorted({name for (names, _), _ in found for name in names}):
        for l, layout in enumerate(experts.layouts):
            plan = make_plan(layout, Everywhere()([1] * experts.experts, layout))
            mine = experts.own_rows(l, k, lambda p, name=name: state[p][name])
            whole = sparse_all_gather(experts.tokens, plan, mine)
            t = experts.shards.tensors[k].name
            if stacked:
                result[f"{prefixes[l]}{t}.{name}"] = whole
            else:
                for e in range(experts.experts):
                    result[f"{prefixes[l]}{e}.{t}.{name}"] = whole[e]
    return result


def spread_state(
    experts: Any,
    optimizer: torch.optim.Optimizer,
    prefixes: Sequence[str],
    tensors: Mapping[str, Tensor],
) -> None:
    """Takes this rank's part of what ``gather_state`` has returned."""
    for part in experts.shards.parts():
        state = optimizer.state.get(part.parameter, {})
        for name, value in state.items():
            if not isinstance(value, (int, float, Tensor)):
                continue
            key = f"{prefixes[part.layer]}{part.name}.{name}"
            if key not in tensors:
                raise ArgumentError(f"load_full_optimizer_tensors: {key} is missing; expected it")
            whole = tensors[key]
            if not isinstance(value, Tensor):
                state[name] = type(value)(whole)
            elif value.dim() == 0 or not isinstance(experts.shards, StackedShards):
                value.copy_(whole)
            else:
                value.copy_(whole[_owned(experts, part.layer)])
