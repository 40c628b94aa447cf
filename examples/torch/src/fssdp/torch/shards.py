# SPDX-License-Identifier: Apache-2.0
"""What a rank owns of the experts of all layers, as ordinary parameters.

The shards of all layers are numbered slots: those of layer 0 by expert, then those of layer 1, and so
on. A slot has memory for each tensor of an expert. When owners change, slots get other experts, and
the parameters stay where they are.
"""

from __future__ import annotations

import copy
import types
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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


def device_of(layers: Sequence[nn.Module], device: torch.device | str | None) -> torch.device:
    """Where the parameters of layers are, if they are all where the first one is; if that is the meta
    device, where they are to get memory.

    Raises:
        ArgumentError: if one of the two has to be given and is not, or both are and differ.
    """
    first = next(layers[0].parameters(), None)
    of_layer = torch.device("cpu") if first is None else first.device
    given = of_layer if device is None else torch.empty(0, device=device).device
    if given.type == "meta":
        raise ArgumentError(
            "layer 0 is on the meta device; expected device=, where its experts get memory"
        )
    if of_layer not in (given, torch.device("meta")):
        raise ArgumentError(
            f"device is {device}, and layer 0 on {of_layer}; expected equal ones, or a layer on the meta "
            "device"
        )
    return given


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

    def __getattr__(self, name: str) -> Any:
        if "owner" not in self.__dict__:  # while it is made or copied
            raise AttributeError(name)
        raise AttributeError(
            f"{name} of expert {self.expert}, which is owned by rank {self.owner}; expected an expert "
            "that this rank owns, or full_tensors()"
        )

    def extra_repr(self) -> str:
        return f"expert={self.expert}, owner={self.owner}"


@dataclass
class Known:
    """A parameter as it was when it was sharded.

    Attributes:
        part: which one.
        holder: the parameters of its module, where it has the name `key`.
        address: of its memory.
        version: torch's, when its experts were gathered in this iteration; None before.
    """

    part: Part
    holder: dict[str, Any]
    key: str
    address: int
    version: int | None = None


State = dict[Tensor, dict[str, Any]]  # of optimizers, by parameter
MomentName = tuple[int, str]  # of which tensor of an expert, and the optimizer's name


class Shards:
    """Base class of both kinds of shards.

    Attributes:
        tensors: those of one expert.
        slots: what is in each slot.
        gradients: [slots, ...] for each tensor.
    """

    def __init__(
        self, tensors: list[TensorOf], layouts: Sequence[Layout], rank: int, device: torch.device
    ) -> None:
        self.tensors = [replace(t, device=device) for t in tensors]
        self.layouts = list(layouts)
        self.rank = rank
        self.slots = owned_in(layouts, rank)
        count = len(self.slots)
        self.gradients = [
            torch.zeros((count, *t.shape), dtype=t.dtype, device=device) for t in tensors
        ]

    def first_slot(self, layer: int) -> int:
        return sum(len(layout.owned(self.rank)) for layout in self.layouts[:layer])

    def slots_of(self, layer: int) -> slice:
        first = self.first_slot(layer)
        return slice(first, first + len(self.layouts[layer].owned(self.rank)))

    def remember(self, modules: Sequence[nn.Module], parts: Sequence[Part]) -> None:
        """Takes note of where each parameter is: by its name below one of the modules."""
        self._known: list[list[Known]] = [[] for _ in self.layouts]
        for module, part in zip(modules, parts, strict=True):
            *path, key = self.tensors[part.tensor].name.split(".")
            holder = module.get_submodule(".".join(path))._parameters
            known = Known(part, holder, key, part.parameter.data_ptr())
            self._known[part.layer].append(known)

    @torch.compiler.disable
    def check(self, layer: int) -> None:
        """Raises if the parameters of a layer are no longer what is gathered and trained."""
        for known in self._known[layer]:
            part = known.part
            p, t = part.parameter, self.tensors[part.tensor]
            what = f"layer {layer}: {part.name}"
            if known.holder.get(known.key) is not p:
                raise ArgumentError(
                    f"{what} is another parameter than the one that was sharded; expected values "
                    "written in place, as by load_state_dict without assign=True"
                )
            if p.data_ptr() != known.address or p.dtype != t.dtype:
                raise ArgumentError(
                    f"{what} has other memory than when it was sharded, now {p.dtype} on {p.device}; "
                    "expected .to() and the like before shard_experts, and values written in place"
                )
            if p.requires_grad and not t.trains:
                raise ArgumentError(
                    f"{what} requires a gradient, but did not when it was sharded; expected "
                    "experts.requires_grad_(True)"
                )
            if known.version is None:
                known.version = p._version
            elif known.version != p._version:
                raise ArgumentError(
                    f"{what} was written after its experts were gathered; expected experts.step() "
                    "between a forward pass, also one that evaluates, and a change of parameters"
                )

    def forget_versions(self) -> None:
        """Parameters may be written until their experts are gathered again."""
        for known in (known for of_layer in self._known for known in of_layer):
            known.version = None

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


class ModuleShards(Shards):
    """For layers that are ModuleLists of experts: those of the rank stay modules.

    Attributes:
        templates: of each layer, a module without memory that computes experts of other ranks.
    """

    def __init__(
        self,
        layers: Sequence[nn.ModuleList],
        layouts: Sequence[Layout],
        rank: int,
        device: torch.device,
    ) -> None:
        tensors = [
            TensorOf(name, p.shape, p.dtype, p.requires_grad, p.device)
            for name, p in layers[0][0].named_parameters()
        ]
        _check_modules(layers, tensors)
        self.templates = [copy.deepcopy(layer[0]).to("meta") for layer in layers]
        super().__init__(tensors, layouts, rank, device)
        self.layers = layers
        self.modules = [layers[slot.layer][slot.expert] for slot in self.slots]
        if tensors[0].device != device:
            for module in self.modules:
                _without_values(module.to_empty(device=device).parameters())
        self.parameters = [  # [slots][tensors]; a layer swaps those of its modules while it computes
            [found[t.name] for t in tensors]
            for found in (dict(module.named_parameters()) for module in self.modules)
        ]
        for p in (p for of_slot in self.parameters for p in of_slot):
            p.grad = None
        self._place(layouts)

    def _place(self, layouts: Sequence[Layout]) -> None:
        for layer, layout in zip(self.layers, layouts, strict=True):
            for expert in range(layout.experts):
                layer[expert] = Elsewhere(expert, layout.owner(expert))
        for slot, module in zip(self.slots, self.modules, strict=True):
            self.layers[slot.layer][slot.expert] = module
        parts = [*self.parts()]
        self.remember([self.modules[part.slots.start] for part in parts], parts)

    def weights(self) -> list[tuple[Any, ...]]:
        """As the materializer takes them."""
        return [
            (t.name, [of_slot[k].detach() for of_slot in self.parameters], like.new_empty(t.shape))
            for k, (t, like) in enumerate(zip(self.tensors, self.gradients, strict=True))
        ]

    def parts(self) -> Iterator[Part]:
        for i, (slot, of_slot) in enumerate(zip(self.slots, self.parameters, strict=True)):
            for k, t in enumerate(self.tensors):
                yield Part(f"{slot.expert}.{t.name}", slot.layer, k, slice(i, i + 1), of_slot[k])

    def gradient_of(self, part: Part) -> Tensor:
        return self.gradients[part.tensor][part.slots.start]

    def moments(self, state: State, names: Sequence[MomentName]) -> list[Any]:
        """As reshard takes them."""
        listed = []
        for k, name in names:
            slots = [state[of_slot[k]][name] for of_slot in self.parameters]
            t = self.tensors[k]
            like = slots[0] if slots else self.gradients[k].new_empty(t.shape)
            listed.append((f"{name} of {t.name}", slots, like))
        return listed

    def rearrange(
        self, layouts: Sequence[Layout], state: State, names: Sequence[MomentName]
    ) -> None:
        """Takes note that slots have other experts now."""
        self.layouts = list(layouts)
        self.slots = owned_in(layouts, self.rank)
        self._place(layouts)


def _check_modules(layers: Sequence[nn.ModuleList], tensors: list[TensorOf]) -> None:
    names_of: dict[int, str] = {}  # of parameters, by identity
    for l, layer in enumerate(layers):
        for e, expert in enumerate(layer):
            if isinstance(expert, nn.ModuleList):
                raise ArgumentError(
                    f"layer {l}: expert {e} is a ModuleList; expected a module that maps rows to rows, "
                    "and several layers as a list: shard_experts(list(layers))"
                )
            if any(True for _ in expert.buffers()):
                raise ArgumentError(f"layer {l}: expert {e} has buffers; expected parameters alone")
            found = dict(expert.named_parameters(remove_duplicate=False))
            for name, p in found.items():
                if id(p) in names_of:
                    raise ArgumentError(
                        f"layer {l}: {name} of expert {e} is the same parameter as "
                        f"{names_of[id(p)]}; expected parameters that are not shared"
                    )
                names_of[id(p)] = f"{name} of expert {e} in layer {l}"
            if list(found) != [t.name for t in tensors]:
                raise ArgumentError(
                    f"layer {l}: expert {e} has the parameters {', '.join(found)}; expected "
                    f"{', '.join(t.name for t in tensors)}, as expert 0 of layer 0"
                )
            for t in tensors:
                _check_like(f"layer {l}: {t.name} of expert {e}", found[t.name], t.shape, t)
            _check_structure(f"layer {l}: expert {e}", expert, layer[0])


def _check_structure(name: str, expert: nn.Module, like: nn.Module) -> None:
    """Any rank may compute an expert of another one, with a module like expert 0."""
    if expert is like:
        return
    found, expected = dict(expert.named_modules()), dict(like.named_modules())
    if list(found) != list(expected):
        raise ArgumentError(
            f"{name} has the modules {', '.join(filter(None, found))}; expected "
            f"{', '.join(filter(None, expected))}, as expert 0"
        )
    for path, module in found.items():
        where = f"{name}{path and ', ' + path}"
        if _classes(module) != _classes(expected[path]):
            raise ArgumentError(
                f"{where} is a {type(module).__name__}; expected a {type(expected[path]).__name__}, as in "
                "expert 0"
            )
        ours, theirs = _settings(module), _settings(expected[path])
        for key in sorted(ours.keys() | theirs.keys()):
            if ours.get(key) != theirs.get(key):
                raise ArgumentError(
                    f"{where}: {key} is {ours.get(key)}; expected {theirs.get(key)}, as in expert 0"
                )


def _classes(module: nn.Module) -> list[str]:
    """By name: a module with parametrizations has a class of its own."""
    return [kind.__qualname__ for kind in type(module).__mro__]


def _settings(module: nn.Module) -> dict[str, Any]:
    """What a module computes with besides its parameters, as far as it can be compared. Numbers of
    layers and experts, and their names, may differ."""
    result: dict[str, Any] = {}
    for key, value in vars(module).items():
        if key.startswith("_") or key == "training":
            continue
        if isinstance(value, types.FunctionType):
            result[key] = value.__qualname__
        elif isinstance(value, (bool, float, type, types.BuiltinFunctionType)):
            result[key] = value
    return result


def _check_like(name: str, p: nn.Parameter, shape: torch.Size, t: TensorOf) -> None:
    if hasattr(p, "device_mesh"):
        raise ArgumentError(f"{name} is a DTensor; expected shard_experts before fully_shard")
    if p.shape != shape or p.dtype != t.dtype:
        raise ArgumentError(
            f"{name} is {list(p.shape)} of {p.dtype}; expected {list(shape)} of {t.dtype}, as in "
            "expert 0 of layer 0"
        )
    if p.requires_grad != t.trains:
        raise ArgumentError(
            f"{name} has requires_grad={p.requires_grad}; expected {t.trains}, as in expert 0 of "
            "layer 0, or a call of shard_experts for each kind of layer"
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

    def __init__(
        self,
        layers: Sequence[nn.Module],
        layouts: Sequence[Layout],
        rank: int,
        device: torch.device,
    ) -> None:
        experts = layouts[0].experts
        first = dict(layers[0].named_parameters())
        for l, layer in enumerate(layers):
            for name, b in layer.named_buffers():
                if b.dim() > 0 and b.shape[0] == experts:
                    raise ArgumentError(
                        f"layer {l}: the buffer {name} is {list(b.shape)}, which has a row for each "
                        "expert; expected parameters alone"
                    )
        for name, p in first.items():
            if p.dim() < 1 or p.shape[0] != experts:
                raise ArgumentError(
                    f"layer 0: {name} is {list(p.shape)}; expected [{experts}, ...], a slot for "
                    "each expert"
                )
        tensors = [
            TensorOf(n, p.shape[1:], p.dtype, p.requires_grad, p.device) for n, p in first.items()
        ]
        seen: set[int] = set()
        for l, layer in enumerate(layers):
            found = dict(layer.named_parameters(remove_duplicate=False))
            for name, p in found.items():
                if id(p) in seen:
                    raise ArgumentError(
                        f"layer {l}: {name} is a parameter of this or another layer by another name, "
                        "too; expected parameters that are not shared"
                    )
                seen.add(id(p))
            if list(found) != list(first):
                raise ArgumentError(
                    f"layer {l} has the parameters {', '.join(found)}; expected {', '.join(first)}, "
                    "as layer 0"
                )
            for t in tensors:
                shape = torch.Size((experts, *t.shape))
                _check_like(f"layer {l}: {t.name}", found[t.name], shape, t)
        super().__init__(tensors, layouts, rank, device)
        self.layers = layers
        self._wholes: dict[int, weakref.ref[Tensor]] = {}  # parameters of all experts, by identity
        self.arenas = [torch.empty_like(g) for g in self.gradients]
        self.parameters = [[self._cut(l, k) for k in range(len(tensors))] for l in range(len(layers))]
        self._remember()

    def _remember(self) -> None:
        parts = [*self.parts()]
        self.remember([self.layers[part.layer] for part in parts], parts)

    def _cut(self, l: int, k: int) -> nn.Parameter:
        """Replaces a parameter of all experts by one of the experts that the rank owns."""
        *path, name = self.tensors[k].name.split(".")
        owner = self.layers[l].get_submodule(".".join(path))
        whole = getattr(owner, name)
        part = self.arenas[k][self.slots_of(l)]
        if whole.is_meta:
            _without_values([part])
        else:
            for i, (expert, _) in enumerate(self.layouts[l].owned(self.rank)):
                part[i].copy_(whole.detach()[int(expert)])
        parameter = nn.Parameter(part, requires_grad=whole.requires_grad)
        setattr(owner, name, parameter)
        self._wholes[id(whole)] = weakref.ref(whole)
        return parameter

    def replaced(self, p: Tensor) -> bool:
        """Whether it was a parameter of all experts until they were sharded."""
        whole = self._wholes.get(id(p))
        return whole is not None and whole() is p

    def weights(self) -> list[tuple[Any, ...]]:
        return [(t.name, a) for t, a in zip(self.tensors, self.arenas, strict=True)]

    def parts(self) -> Iterator[Part]:
        for l, of_layer in enumerate(self.parameters):
            for k, p in enumerate(of_layer):
                yield Part(self.tensors[k].name, l, k, self.slots_of(l), p)

    def gradient_of(self, part: Part) -> Tensor:
        return self.gradients[part.tensor][part.slots]

    def moments(self, state: State, names: Sequence[MomentName]) -> list[Any]:
        return [
            (f"{name} of {self.tensors[k].name}", self._arena(state, k, name)) for k, name in names
        ]

    def _arena(self, state: State, k: int, name: str) -> Tensor:
        """The moments of all layers in one piece."""
        arena = torch.cat([state[of_layer[k]][name] for of_layer in self.parameters])
        for l, of_layer in enumerate(self.parameters):
            state[of_layer[k]][name] = arena[self.slots_of(l)]
        return arena

    def rearrange(
        self, layouts: Sequence[Layout], state: State, names: Sequence[MomentName]
    ) -> None:
        moved = [
            (of_layer[k], name, state[of_layer[k]][name]._base)
            for of_layer in self.parameters
            for k, name in names
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
            state[p][name] = arena[where[p]]
        self._remember()


@torch.no_grad()
def _without_values(tensors: Iterable[Tensor]) -> None:
    """Makes it visible that nothing has been loaded yet."""
    for t in tensors:
        t.fill_(float("nan"))


def make_shards(
    layers: Sequence[nn.Module], layouts: Sequence[Layout], rank: int, device: torch.device
) -> ModuleShards | StackedShards:
    """Shards the experts of all layers. Those on the meta device get memory on this device.

    Raises:
        ArgumentError: that names the parameter which is not like the others, or not contiguous.
    """
    for l, layer in enumerate(layers):
        if hasattr(layer, "fssdp"):
            raise ArgumentError(f"layer {l} is sharded already; expected layers that are not")
    if len({id(layer) for layer in layers}) != len(layers):
        raise ArgumentError("a module is listed as two layers; expected each once")
    kinds = {isinstance(layer, nn.ModuleList) for layer in layers}
    if len(kinds) != 1:
        raise ArgumentError(
            "layers of both kinds, ModuleLists of experts and modules of stacked parameters; "
            "expected one kind"
        )
    return (ModuleShards if kinds.pop() else StackedShards)(layers, layouts, rank, device)
