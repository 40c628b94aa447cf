# SPDX-License-Identifier: Apache-2.0
"""What a rank owns of the experts of all layers, as ordinary parameters.

The shards of all layers are numbered slots: those of layer 0 by expert, then those of layer 1, and so
on. A slot has memory for each tensor of an expert. When owners change, slots get other experts, and
the parameters stay where they are.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from ..layouts import Layout

__all__ = ["ModuleShards", "Owned", "Part", "StackedShards", "TensorOf", "device_of", "make_shards"]


@dataclass(frozen=True)
class TensorOf:
    """One tensor of an expert.

    Attributes:
        name: of the parameter, below the expert or the layer.
        shape: of one expert.
        dtype: of the parameter.
        trains: whether it requires a gradient.
        device: where it is.
    """

    name: str
    shape: torch.Size
    dtype: torch.dtype
    trains: bool
    device: torch.device


@dataclass(frozen=True)
class Owned:
    """The expert in a slot."""

    layer: int
    expert: int


@dataclass(frozen=True)
class Part:
    """A parameter of this rank, and which experts it has.

    Attributes:
        name: below the layer: "3.w1.weight" of expert 3, or "w1" of all that the rank owns.
        layer: of which layer.
        tensor: which tensor of an expert.
        slots: the slots whose memory it is.
        parameter: [...] of one expert, or [owned, ...].
    """

    name: str
    layer: int
    tensor: int
    slots: slice
    parameter: nn.Parameter


def device_of(layers: Sequence[nn.Module]) -> torch.device:
    """Where the parameters of layers are, if they are all where the first one is."""
    first = next(layers[0].parameters(), None)
    return torch.device("cpu") if first is None else first.device


def owned_in(layouts: Sequence[Layout], rank: int) -> list[Owned]:
    """The expert in each slot of a rank."""
    return [
        Owned(layer, int(expert))
        for layer, layout in enumerate(layouts)
        for expert, _ in layout.owned(rank)
    ]


class Elsewhere(nn.Module):
    """Replaces an expert that another rank owns."""

    def __init__(self, expert: int, owner: int) -> None:
        super().__init__()
        self.expert, self.owner = expert, owner

    def forward(self, *_: Any, **__: Any) -> Any:
        raise ArgumentError(
            f"expert {self.expert} is owned by rank {self.owner}; expected a call of the layer, "
            "which brings rows to where their experts are"
        )

    def extra_repr(self) -> str:
        return f"expert={self.expert}, owner={self.owner}"


class Shards:
    """Base class of both kinds of shards.

    Attributes:
        tensors: those of one expert.
        slots: what is in each slot.
        gradients: [slots, ...] for each tensor.
    """

    def __init__(self, tensors: list[TensorOf], layouts: Sequence[Layout], rank: int) -> None:
        self.tensors = tensors
        self.layouts = list(layouts)
        self.rank = rank
        self.slots = owned_in(layouts, rank)
        count = len(self.slots)
        self.gradients = [
            torch.zeros((count, *t.shape), dtype=t.dtype, device=t.device) for t in tensors
        ]

    def first_slot(self, layer: int) -> int:
        return sum(len(layout.owned(self.rank)) for layout in self.layouts[:layer])

    def slots_of(self, layer: int) -> slice:
        first = self.first_slot(layer)
        return slice(first, first + len(self.layouts[layer].owned(self.rank)))

    def named_gradients(self) -> list[tuple[str, Tensor]]:
        return [
            (f"gradient of {t.name}", g)
            for t, g in zip(self.tensors, self.gradients, strict=True)
        ]

    def require_room(self, layouts: Sequence[Layout]) -> None:
        """Raises unless every rank owns as many experts as before."""
        for rank in range(self.layouts[0].ranks):
            now = len(owned_in(self.layouts, rank))
            then = len(owned_in(layouts, rank))
            if now != then:
                raise ArgumentError(
                    f"reshard: rank {rank} would own {then} experts; expected {now}, as it has now"
                )


def moments_of(parameters: Sequence[nn.Parameter], optimizer: torch.optim.Optimizer) -> list[str]:
    """The names of the state that an optimizer has for each element of a parameter."""
    names = {
        name
        for p in parameters
        for name, value in optimizer.state.get(p, {}).items()
        if isinstance(value, Tensor) and value.shape == p.shape and value.dim() > 0
    }
    return sorted(names)


class ModuleShards(Shards):
    """For layers that are ModuleLists of experts: those of the rank stay modules."""

    def __init__(self, layers: Sequence[nn.ModuleList], layouts: Sequence[Layout], rank: int) -> None:
        first = layers[0][0]
        tensors = [
            TensorOf(name, p.shape, p.dtype, p.requires_grad, p.device)
            for name, p in first.named_parameters()
        ]
        _check_modules(layers, tensors)
        self.template = copy.deepcopy(first).to("meta")
        super().__init__(tensors, layouts, rank)
        self.layers = layers
        self.modules = [layers[slot.layer][slot.expert] for slot in self.slots]
        for p in (p for module in self.modules for p in module.parameters()):
            p.grad = None
        self._place(layouts)

    def _place(self, layouts: Sequence[Layout]) -> None:
        for layer, layout in zip(self.layers, layouts, strict=True):
            for expert in range(layout.experts):
                layer[expert] = Elsewhere(expert, layout.owner(expert))
        for slot, module in zip(self.slots, self.modules, strict=True):
            self.layers[slot.layer][slot.expert] = module

    def weights(self) -> list[tuple[Any, ...]]:
        """As the materializer takes them."""
        listed = []
        for t, like in zip(self.tensors, self.gradients, strict=True):
            slots = [dict(module.named_parameters())[t.name].detach() for module in self.modules]
            listed.append((t.name, slots, like.new_empty(t.shape)))
        return listed

    def parts(self) -> Iterator[Part]:
        for i, (slot, module) in enumerate(zip(self.slots, self.modules, strict=True)):
            parameters = dict(module.named_parameters())
            for k, t in enumerate(self.tensors):
                name = f"{slot.expert}.{t.name}"
                yield Part(name, slot.layer, k, slice(i, i + 1), parameters[t.name])

    def gradient_of(self, part: Part) -> Tensor:
        return self.gradients[part.tensor][part.slots.start]

    def moments(self, optimizer: torch.optim.Optimizer, names: Sequence[str]) -> list[Any]:
        """As reshard takes them."""
        listed = []
        for k, t in enumerate(self.tensors):
            for name in names:
                parts = [part for part in self.parts() if part.tensor == k]
                slots = [optimizer.state[part.parameter][name] for part in parts]
                like = slots[0] if slots else self.gradients[k].new_empty(t.shape)
                listed.append((f"{name} of {t.name}", slots, like))
        return listed

    def rearrange(self, layouts: Sequence[Layout], optimizer: Any, names: Sequence[str]) -> None:
        """Takes note that slots have other experts now."""
        self.layouts = list(layouts)
        self.slots = owned_in(layouts, self.rank)
        self._place(layouts)


def _check_modules(layers: Sequence[nn.ModuleList], tensors: list[TensorOf]) -> None:
    for l, layer in enumerate(layers):
        for e, expert in enumerate(layer):
            if any(True for _ in expert.buffers()):
                raise ArgumentError(f"layer {l}: expert {e} has buffers; expected parameters alone")
            found = dict(expert.named_parameters())
            if list(found) != [t.name for t in tensors]:
                raise ArgumentError(
                    f"layer {l}: expert {e} has the parameters {', '.join(found)}; expected "
                    f"{', '.join(t.name for t in tensors)}, as expert 0 of layer 0"
                )
            for t in tensors:
                _check_like(f"layer {l}: {t.name} of expert {e}", found[t.name], t.shape, t)


def _check_like(name: str, p: nn.Parameter, shape: torch.Size, t: TensorOf) -> None:
    if p.shape != shape or p.dtype != t.dtype:
        raise ArgumentError(
            f"{name} is {list(p.shape)} of {p.dtype}; expected {list(shape)} of {t.dtype}, as in "
            "expert 0 of layer 0"
        )
    if p.requires_grad != t.trains:
        raise ArgumentError(
            f"{name} has requires_grad={p.requires_grad}; expected {t.trains}, as in expert 0 of "
            "layer 0"
        )
    if p.device != t.device:
        raise ArgumentError(
            f"{name} is on {p.device}; expected {t.device}, as in expert 0 of layer 0"
        )
    if not p.is_contiguous():
        raise ArgumentError(
            f"{name} is not contiguous: sizes {list(p.shape)}, strides {list(p.stride())}; expected "
            ".contiguous()"
        )


class StackedShards(Shards):
    """For layers with parameters [experts, ...], of which the rows of the rank's experts remain."""

    def __init__(self, layers: Sequence[nn.Module], layouts: Sequence[Layout], rank: int) -> None:
        experts = layouts[0].experts
        first = dict(layers[0].named_parameters())
        for name, p in first.items():
            if p.dim() < 1 or p.shape[0] != experts:
                raise ArgumentError(
                    f"layer 0: {name} is {list(p.shape)}; expected [{experts}, ...], a slot for "
                    "each expert"
                )
        tensors = [
            TensorOf(n, p.shape[1:], p.dtype, p.requires_grad, p.device) for n, p in first.items()
        ]
        for l, layer in enumerate(layers):
            found = dict(layer.named_parameters())
            if list(found) != list(first):
                raise ArgumentError(
                    f"layer {l} has the parameters {', '.join(found)}; expected {', '.join(first)}, "
                    "as layer 0"
                )
            for t in tensors:
                shape = torch.Size((experts, *t.shape))
                _check_like(f"layer {l}: {t.name}", found[t.name], shape, t)
        super().__init__(tensors, layouts, rank)
        self.layers = layers
        self.arenas = [torch.empty_like(g) for g in self.gradients]
        self.parameters = [[self._cut(l, k) for k in range(len(tensors))] for l in range(len(layers))]

    def _cut(self, l: int, k: int) -> nn.Parameter:
        """Replaces a parameter of all experts by one of the experts that the rank owns."""
        *path, name = self.tensors[k].name.split(".")
        owner = self.layers[l].get_submodule(".".join(path))
        whole = getattr(owner, name)
        part = self.arenas[k][self.slots_of(l)]
        for i, (expert, _) in enumerate(self.layouts[l].owned(self.rank)):
            part[i].copy_(whole.detach()[int(expert)])
        parameter = nn.Parameter(part, requires_grad=whole.requires_grad)
        setattr(owner, name, parameter)
        return parameter

    def weights(self) -> list[tuple[Any, ...]]:
        return [(t.name, a) for t, a in zip(self.tensors, self.arenas, strict=True)]

    def parts(self) -> Iterator[Part]:
        for l, of_layer in enumerate(self.parameters):
            for k, p in enumerate(of_layer):
                yield Part(self.tensors[k].name, l, k, self.slots_of(l), p)

    def gradient_of(self, part: Part) -> Tensor:
        return self.gradients[part.tensor][part.slots]

    def moments(self, optimizer: torch.optim.Optimizer, names: Sequence[str]) -> list[Any]:
        listed = []
        for k, t in enumerate(self.tensors):
            for name in names:
                listed.append((f"{name} of {t.name}", self._arena(optimizer, k, name)))
        return listed

    def _arena(self, optimizer: torch.optim.Optimizer, k: int, name: str) -> Tensor:
        """The moments of all layers in one piece; they are not copied if they already are."""
        parts = [optimizer.state[of_layer[k]][name] for of_layer in self.parameters]
        arena = torch.cat(parts)
        for l, of_layer in enumerate(self.parameters):
            optimizer.state[of_layer[k]][name] = arena[self.slots_of(l)]
        return arena

    def rearrange(self, layouts: Sequence[Layout], optimizer: Any, names: Sequence[str]) -> None:
        moved = [
            (of_layer[k], name, optimizer.state[of_layer[k]][name]._base)
            for of_layer in self.parameters
            for k in range(len(self.tensors))
            for name in names
        ]
        self.layouts = list(layouts)
        self.slots = owned_in(layouts, self.rank)
        where = {}
        for l, of_layer in enumerate(self.parameters):
            for k, p in enumerate(of_layer):
                where[p] = self.slots_of(l)
                p.grad = None
                p.data = self.arenas[k][where[p]]
        for p, name, arena in moved:
            optimizer.state[p][name] = arena[where[p]]


def make_shards(
    layers: Sequence[nn.Module], layouts: Sequence[Layout], rank: int
) -> ModuleShards | StackedShards:
    """Shards the experts of all layers.

    Raises:
        ArgumentError: that names the parameter which is not like the others, or not contiguous.
    """
    kinds = {isinstance(layer, nn.ModuleList) for layer in layers}
    if len(kinds) != 1:
        raise ArgumentError(
            "layers of both kinds, ModuleLists of experts and modules of stacked parameters; "
            "expected one kind"
        )
    return (ModuleShards if kinds.pop() else StackedShards)(layers, layouts, rank)
