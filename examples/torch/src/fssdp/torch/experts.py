# SPDX-License-Identifier: Apache-2.0
"""The experts of a model, sharded: what fully_shard is for dense layers."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .. import Everywhere, HeterogeneousSharding, Layout, OwnersOnly, Topology, make_plan
from .. import table_layout
from ..errors import ArgumentError
from ..solvers import PlacementSolver, ShardingSolver
from . import _torch
from .between import Between
from .checkpoint import (
    announce_shards,
    gather_state,
    make_state,
    moments_of,
    named_state,
    spread_state,
    state_of,
)
from .collectives import sparse_all_gather
from .communicator import Communicator, duplicate_group
from .layer import Compute, LayerLinks, LayerState, ShardedLayer
from .shards import ModuleShards, MomentName, StackedShards, State, device_of, make_shards

__all__ = ["ShardedExperts", "shard_experts"]

_names = {
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
}


def shard_experts(
    layers: nn.Module | Sequence[nn.Module],
    group: dist.ProcessGroup | dist.DeviceMesh | None = None,
    *,
    solver: PlacementSolver | None = None,
    layouts: Sequence[Layout] | None = None,
    param_dtype: torch.dtype | None = None,
    reduce_dtype: torch.dtype | None = None,
    rematerialize: bool = False,
    in_one_piece: bool | None = None,
    compute: Compute | None = None,
    routing: str = "balanced",
    calibrate: bool = False,
    average: bool = True,
    replicas: int | None = None,
    replica_slots: int | None = None,
    partial_slots: int | None = None,
    prefetch_distance: int = 1,
    plan_ahead: bool = False,
    load_tolerance: float = 0.0,
    window: int = 5,
    seconds_per_row: float = 0.0,
    topology: Topology | None = None,
    between: Between | None = None,
    device: torch.device | str | None = None,
    timeout: float = 60.0,
) -> ShardedExperts:
    """Shards the experts of MoE layers: each rank keeps those that it owns.

    The parameters that are left in the modules are the rank's own: ordinary parameters, for any
    optimizer. In each iteration the busy experts get replicas on other ranks, as the solver says;
    tokens go to where their experts are. A layer is changed in place and is called with
    (tokens [tokens, width], experts [tokens, per_token], weights [tokens, per_token]), as those of
    transformers are; or call its ``on_rows``.

    Args:
        layers: the experts of each layer, in the order of the forward pass: ModuleLists of experts,
            or modules whose parameters are [experts, ...]. All layers have the same shapes. All
            ranks pass equal parameters, on the device that the rank computes with.
        group: the ranks that share the experts, by default all. Of a mesh with two dimensions this
            is the second one. Over the first one gradients are averaged, unless ``between`` says
            otherwise.
        solver: chooses replicas from the expected loads. By default there are none
            (``OwnersOnly``): expert parallelism.
        layouts: who owns which experts in each layer; by default blocks, as even as possible.
        param_dtype: the type that experts are computed with. The owner converts and sends it.
        reduce_dtype: the type in which gradients are summed and sent; by default float32, or
            float64 for float64.
        rematerialize: frees replicas after the forward pass, and gathers them again for the
            backward pass.
        in_one_piece: a layer computes with tensors [held, ...]. Always so for stacked parameters.
        compute: called as compute({name: [held, ...]}, rows, counts). Rows are sorted by expert,
            and counts has how many rows each expert has. Returns rows. By default each module of a
            list is called, or the original forward of the stacked module.
        routing: which replica gets which tokens: 'balanced', or 'even' as in the paper.
        calibrate: add replicas once the router has chosen, if that pays; see ``seconds_per_row``.
        average: gradients are divided by the number of ranks, as fully_shard and
            DistributedDataParallel do.
        replicas: the most replicas of a layer that a rank has room for; by default what the solver
            asks for.
        replica_slots: room for replicas of all layers together, in experts.
        partial_slots: room for gradients until their owners have them, in experts, for all layers
            together. The default is enough for two layers: for each, the most experts that a rank
            owns and the most replicas that it may hold. ``no_sync`` needs room for all layers.
        prefetch_distance: how many layers are gathered ahead.
        plan_ahead: a thread makes the placements and plans of the next iteration, from the first
            reduction on. No result depends on it.
        load_tolerance: a layer keeps its placement while at most this share of its tokens goes to
            other experts than when the solver chose it. 0.015 is below the noise of most routers.
        window: over how many iterations loads are averaged.
        seconds_per_row: seconds that an expert takes for a row, forward and backward; for
            ``calibrate``.
        topology: which rank is on which node, and how fast links are; by default one node.
        between: what crosses between groups of ranks, each of which shards all experts.
        device: where experts on the meta device get memory, each on its owner alone. They are NaN until
            they are loaded, as by ``load_full_tensors``.
        timeout: seconds that a rank waits for another.

    Raises:
        ArgumentError: names the value and what was expected.
    """
    listed = [layers] if isinstance(layers, nn.Module) else list(layers)
    return ShardedExperts(
        listed,
        group,
        solver=solver or OwnersOnly(),
        layouts=layouts,
        param_dtype=param_dtype,
        reduce_dtype=reduce_dtype,
        rematerialize=rematerialize,
        in_one_piece=in_one_piece,
        compute=compute,
        routing=routing,
        calibrate=calibrate,
        average=average,
        replicas=replicas,
        replica_slots=replica_slots,
        partial_slots=partial_slots,
        prefetch_distance=prefetch_distance,
        plan_ahead=plan_ahead,
        load_tolerance=load_tolerance,
        window=window,
        seconds_per_row=seconds_per_row,
        topology=topology,
        between=between,
        device=device,
        timeout=timeout,
    )


class ShardedExperts:
    """The experts of all layers; made by ``shard_experts``.

    An iteration is: forward and backward passes, ``step``, ``clip_grad_norm_`` if you like, the
    optimizer's step. Several micro-batches may come before ``step``: their gradients add up.

    Attributes:
        layers: the modules.
        layouts: who owns what, of each layer.
        device: where their parameters are.
        communicator: carries parameters and gradients.
        tokens: carries counts and rows.
        between: what crosses between groups, if anything.
    """

    def __init__(self, layers: list[nn.Module], group: Any, **options: Any) -> None:
        if not layers:
            raise ArgumentError("shard_experts: 0 layers; expected 1 or more")
        self.group, self.replicate_group = _groups_of(group)
        self.between: Between | None = options["between"]
        timeout = options["timeout"]
        self.device = device_of(layers, options["device"])
        self.communicator, self.tokens = (
            Communicator(
                duplicate_group(self.group, timeout), timeout=timeout, device=self.device
            )
            for _ in range(2)
        )
        rank, ranks = self.tokens.rank, self.tokens.size
        self.experts = _experts_of(layers[0])
        layouts = options["layouts"] or even_blocks(len(layers), self.experts, ranks)
        _check_layouts(layouts, len(layers), self.experts, ranks)
        self.layers = layers
        self.shards: ModuleShards | StackedShards = make_shards(
            layers, layouts, rank, self.device
        )
        self.trains = any(t.trains for t in self.shards.tensors)
        self.routing, self.topology = options["routing"], options["topology"]
        self.calibrates = options["calibrate"]
        self.compute_type = options["param_dtype"]
        self.averages = options["average"]
        self.iteration = 0
        self.reduces = True
        self.anchor = torch.zeros(0, device=self.device, requires_grad=True)
        one_piece = options["in_one_piece"]
        is_stacked = isinstance(self.shards, StackedShards)
        if one_piece is None:
            one_piece = is_stacked or options["compute"] is not None
        if not one_piece and (is_stacked or options["compute"] is not None):
            raise ArgumentError(
                "in_one_piece is False; expected True: stacked parameters, and compute, take "
                "[held, ...]"
            )
        self._make_materializer(options, one_piece)
        self._link(options, one_piece)
        announce_shards(self)
        _watch_optimizers(self)
        if self.between is not None:
            self.between.add_experts(self)

    def _make_materializer(self, options: dict[str, Any], one_piece: bool) -> None:
        shards = self.shards
        own_types = [t.dtype for t in shards.tensors]
        replica = options["param_dtype"]
        partial = options["reduce_dtype"]
        for name, dtype in (("param_dtype", replica), ("reduce_dtype", partial)):
            if dtype is not None and dtype not in _names:
                raise ArgumentError(f"{name} is {dtype}; expected one of {', '.join(map(str, _names))}")
        self.replica_types = [replica or t for t in own_types]
        self.partial_types = [
            partial or (torch.float64 if t == torch.float64 else torch.float32)
            for t in self.replica_types
        ]
        in_place = not one_piece and self.replica_types == own_types
        most_owned = max(int(max(layout.owned_counts)) for layout in shards.layouts)
        added = _replicas_for(options["solver"], options["replicas"], self.experts)
        held = min(added + most_owned, self.experts)
        per_layer = held - most_owned if in_place else held
        layers = len(self.layers)
        kept = min(layers, 1 + options["prefetch_distance"]) if options["rematerialize"] else layers
        slots, partial_slots = options["replica_slots"], options["partial_slots"]
        self.materializer = _torch.Materializer(
            self.communicator.on(self.device),
            list(shards.layouts),
            shards.weights(),
            shards.named_gradients(),
            [math.prod(t.shape) for t in shards.tensors],
            options["solver"],
            options["window"],
            None if replica is None else _names[replica],
            None if partial is None else _names[partial],
            options["rematerialize"],
            one_piece,
            options["prefetch_distance"],
            kept * per_layer if slots is None else slots,
            min(layers, 2) * held if partial_slots is None else partial_slots,
            options["seconds_per_row"],
            self.routing,
            self.topology,
            options["plan_ahead"],
            options["load_tolerance"],
        )

    def _link(self, options: dict[str, Any], one_piece: bool) -> None:
        self.states = []
        for index, layer in enumerate(self.layers):
            template = self.shards.templates[index] if isinstance(self.shards, ModuleShards) else None
            state = LayerState(
                index,
                self.device,
                self.materializer,
                self.shards.tensors,
                self.replica_types,
                self.partial_types,
                one_piece,
                options["rematerialize"],
            )
            self.states.append(state)
            kind = type(layer)
            layer.__class__ = type(f"Sharded{kind.__name__}", (ShardedLayer, kind), {})
            object.__setattr__(layer, "fssdp", LayerLinks(self, state, template, options["compute"]))

    def check_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Raises if a step of this optimizer would pass over experts that have gradients."""
        stepped = [p for group in optimizer.param_groups for p in group["params"]]
        if isinstance(self.shards, StackedShards) and any(map(self.shards.replaced, stepped)):
            raise ArgumentError(
                "the optimizer has parameters of experts from before shard_experts; expected one that is "
                "made afterwards"
            )
        if not self._has_gradients():
            return
        own = {id(p) for p in self.parameters()}
        if any(id(p) in own for p in stepped):
            raise ArgumentError(
                "a step of the optimizer, while gradients of experts are not with their owners; expected "
                "experts.step() before it"
            )

    def _has_gradients(self) -> bool:
        """Whether there were backward passes since the last step."""
        return any(state.waiting or state.reduced for state in self.states)

    @property
    def layouts(self) -> list[Layout]:
        return list(self.shards.layouts)

    def parameters(self) -> Iterator[nn.Parameter]:
        """The parameters that this rank owns. ``fully_shard`` takes them as ``ignored_params``."""
        return (part.parameter for part in self.shards.parts())

    def names_in(self, model: nn.Module) -> list[str]:
        """Names of the experts' parameters in a model; DistributedDataParallel is told to ignore them."""
        own = {id(p) for p in self.parameters()}
        return [name for name, p in model.named_parameters() if id(p) in own]

    def prefetch(self, layer: int = 0) -> None:
        """Begins to gather a layer: before the forward pass, while something else is computed."""
        self.materializer.prefetch(layer)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in this context add up gradients on the rank. The next one outside of it, or
        ``step``, sums them at the owners. All ranks use it alike. It concerns experts only: the dense
        part has ``no_sync`` of DistributedDataParallel, or ``set_requires_gradient_sync``."""
        before, self.reduces = self.reduces, False
        try:
            yield
        finally:
            self.reduces = before

    def step(self, *, rate: float = 1.0, exchange: bool = True) -> Any:
        """Ends the iteration: parameters have their gradients, and may be written.

        Args:
            rate: the learning rate, for a momentum between groups (``demo``).
            exchange: whether gradients are averaged between groups, too; else ``between.average`` does
                it, so that a group may clip its own before.

        Returns:
            Metrics of the iteration.

        Raises:
            TransportError: what has gone wrong in gathers and reductions.
            RanksDisagree: as ``Between.average``.
        """
        for state in reversed(self.states):
            if state.waiting:
                state.reduce()
        metrics = self.materializer.step()
        self.shards.forget_versions()
        self.iteration += 1
        if any(state.reduced for state in self.states):
            self._finish_gradients()
        self.reduced = [state.reduced for state in self.states]
        self.loads = [state.loads for state in self.states]
        self.show_gradients()
        for state in self.states:
            state.forget()
        if self.between is not None and exchange:
            self.between.average(rate)
        return metrics

    def show_gradients(self) -> None:
        """Sets ``.grad`` of the parameters to the gradients of the last iteration."""
        for part in self.shards.parts():
            gradient = None
            if self.reduced[part.layer] and part.parameter.requires_grad:
                gradient = self.shards.gradient_of(part)
            part.parameter.grad = gradient

    def _finish_gradients(self) -> None:
        summed = self.tokens.size
        if self.replicate_group is not None and self.between is None:
            summed *= self.replicate_group.size()
            for gradient in self.shards.gradients:
                dist.all_reduce(gradient, group=self.replicate_group)
        if self.averages and summed != 1:
            for gradient in self.shards.gradients:
                gradient.mul_(1 / summed)

    def requires_grad_(self, trains: bool = True) -> ShardedExperts:
        """Freezes all experts, or makes them trainable again. Every rank calls it alike."""
        for part in self.shards.parts():
            part.parameter.requires_grad_(trains)
        self.trains = trains
        self.shards.tensors[:] = [replace(t, trains=trains) for t in self.shards.tensors]
        return self

    def clip_grad_norm_(
        self, max_norm: float, others: Iterable[Tensor] = (), norm_type: float = 2.0
    ) -> Tensor:
        """Clips the gradients of all experts and of other parameters by the norm of all together.

        torch's own function would take a norm of each rank's experts, another one on each rank.

        Args:
            max_norm: of the gradients of all ranks' experts and of the others.
            others: parameters that every rank has, or DTensors: the dense part of the model. Experts
                among them count once, so ``model.parameters()`` will do.
            norm_type: as in torch.nn.utils.clip_grad_norm_.

        Returns:
            The norm before.
        """
        experts = {id(p) for p in self.parameters()}
        own = [p for p in self.parameters() if p.grad is not None]
        listed = [others] if isinstance(others, Tensor) else others
        others = [p for p in listed if p.grad is not None and id(p) not in experts]
        infinite = math.isinf(norm_type)
        mine = _power_of_norm([p.grad for p in own], norm_type, self.device)
        dist.all_reduce(
            mine, dist.ReduceOp.MAX if infinite else dist.ReduceOp.SUM, group=self.group
        )
        dense = torch.nn.utils.get_total_norm([p.grad for p in others], norm_type)
        if hasattr(dense, "full_tensor"):
            dense = dense.full_tensor()
        dense = dense.to(mine)
        total = (
            torch.maximum(mine, dense)
            if infinite
            else (mine + dense**norm_type) ** (1 / norm_type)
        )
        factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for p in (*own, *others):
            p.grad.mul_(factor.to(p.grad.dtype))
        return total

    def expected_loads(self) -> list[list[int]]:
        """The loads that the next iteration is planned with: [layers, experts]."""
        return [self.materializer.expected_loads(l) for l in range(len(self.layers))]

    def reshard(
        self,
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
        layouts: Sequence[Layout] | None = None,
        *,
        solver: ShardingSolver = HeterogeneousSharding(),
    ) -> bool:
        """Moves experts to other owners, with their optimizer state, after the optimizer's step.

        Parameters stay the same objects, and hold other experts afterwards.

        Args:
            optimizer: the one of the experts, or several; None if it keeps nothing, as SGD without
                momentum: otherwise experts would get the momentum of others.
            layouts: of each layer; by default what the solver says about the expected loads.
            solver: who owns what.

        Returns:
            Whether any expert has moved.

        Raises:
            ArgumentError: if a rank would own more or fewer experts than now, or the optimizer keeps
                something that is neither a number nor of the shape of its parameter.
        """
        if layouts is None:
            topology = self.topology or Topology(ranks=self.tokens.size)
            layouts = solver(self._loads_of_all_groups(), topology)
        _check_layouts(layouts, len(self.layers), self.experts, self.tokens.size)
        self.shards.require_room(layouts)
        if list(layouts) == self.layouts:
            return False
        optimizers = _listed(optimizer)
        names = self._moments(optimizers)
        state = state_of(optimizers, list(self.parameters()))
        moved = self.shards.weights()
        if names:
            moved += self.shards.moments(state, names)
        if self.between is not None:
            moved += self.between.memory_of_experts(self.device)
        self.materializer.reshard(list(layouts), moved)
        self.shards.rearrange(layouts, state, names)
        if self.between is not None:
            self.between.take_memory_of_experts(layouts)
        return True

    def _loads_of_all_groups(self) -> list[list[int]]:
        """Summed over all groups, as all groups have to choose the same owners."""
        loads = self.expected_loads()
        if self.between is None:
            return loads
        flat = self.between.sum_counts([load for of_layer in loads for load in of_layer])
        return [flat[l * self.experts : (l + 1) * self.experts] for l in range(len(loads))]

    def _moments(self, optimizers: Sequence[torch.optim.Optimizer]) -> list[MomentName]:
        """What the optimizers keep for each element of a tensor of an expert, on any rank. Parameters
        that have no state yet, of a tensor of which others have it, get one."""
        found: list[Any] = [None] * self.tokens.size
        dist.all_gather_object(found, moments_of(self, optimizers), group=self.group)
        names = sorted({name for of_rank, _ in found for name in of_rank})
        for of_rank, (_, problem) in enumerate(found):
            if problem:
                raise ArgumentError(f"reshard: {problem}, on rank {of_rank}")
        tensors = {tensor for tensor, _ in names}
        used = [part.parameter for part in self.shards.parts() if part.tensor in tensors]
        for optimizer in optimizers:
            make_state(optimizer, used)
        return names

    def full_tensors(self, model: nn.Module | None = None) -> dict[str, Tensor]:
        """All experts, on every rank, by the names that they had before sharding.

        Args:
            model: whose names; by default those of the layers, "0.", "1.", ...
        """
        result = {}
        prefixes = self.prefixes(model)
        for l, layout in enumerate(self.layouts):
            loads = [1] * self.experts
            plan = make_plan(layout, Everywhere()(loads, layout))
            for k, t in enumerate(self.shards.tensors):
                whole = sparse_all_gather(self.tokens, plan, self.own_tensor(l, k))
                if isinstance(self.shards, StackedShards):
                    result[f"{prefixes[l]}{t.name}"] = whole
                else:
                    for e in range(self.experts):
                        result[f"{prefixes[l]}{e}.{t.name}"] = whole[e]
        return result

    def load_full_tensors(self, tensors: Mapping[str, Tensor], model: nn.Module | None = None) -> None:
        """Loads this rank's experts from ``full_tensors`` or the state of an unsharded model. Every rank
        calls it, between iterations; after forward passes that evaluate it ends theirs. It asks for one
        tensor after the other, so a mapping may read them from files.

        Raises:
            ArgumentError: between a backward pass and ``step``.
        """
        if self._has_gradients():
            raise ArgumentError(
                "load_full_tensors between a backward pass and step(); expected it after step()"
            )
        if any(state.seen for state in self.states):  # what was gathered is no longer right
            self.step(exchange=False)
        prefixes = self.prefixes(model)
        with torch.no_grad():
            for part in self.shards.parts():
                prefix = prefixes[part.layer]
                if isinstance(self.shards, StackedShards):
                    whole = tensors[prefix + part.name]
                    for i, (expert, _) in enumerate(self.layouts[part.layer].owned(self.tokens.rank)):
                        part.parameter[i].copy_(whole[int(expert)])
                else:
                    part.parameter.copy_(tensors[prefix + part.name])

    def optimizer_tensors(
        self, optimizer: torch.optim.Optimizer, model: nn.Module | None = None
    ) -> dict[str, Tensor]:
        """What an optimizer keeps of the experts, for torch.distributed.checkpoint to save, or to load
        in place. An optimizer that has made no step yet gets a state first.

        Args:
            optimizer: the one of the experts.
            model: whose names; by default those of the layers, "0.", "1.", ...
        """
        make_state(optimizer, list(self.parameters()))
        return named_state(self, optimizer, self.prefixes(model))

    def full_optimizer_tensors(
        self, optimizer: torch.optim.Optimizer, model: nn.Module | None = None
    ) -> dict[str, Tensor]:
        """What an optimizer keeps of all experts, on every rank, by the names of ``full_tensors`` and
        its own: "w1.exp_avg". Numbers are those of the rank that owns an expert.

        Args:
            optimizer: the one of the experts.
            model: whose names; by default those of the layers, "0.", "1.", ...
        """
        make_state(optimizer, list(self.parameters()))
        return gather_state(self, optimizer, self.prefixes(model))

    def load_full_optimizer_tensors(
        self,
        tensors: Mapping[str, Tensor],
        optimizer: torch.optim.Optimizer,
        model: nn.Module | None = None,
    ) -> None:
        """Loads what an optimizer keeps of this rank's experts from ``full_optimizer_tensors``, also of
        another number of ranks."""
        make_state(optimizer, list(self.parameters()))
        spread_state(self, optimizer, self.prefixes(model), tensors)

    def own_tensor(self, layer: int, tensor: int) -> Tensor:
        """[owned, ...], not copied where parameters are stacked."""
        return self.own_rows(layer, tensor, lambda p: p.detach())

    def own_rows(self, layer: int, tensor: int, value: Callable[[nn.Parameter], Tensor]) -> Tensor:
        """[owned, ...] of a value that is shaped as its parameter."""
        parts = [p for p in self.shards.parts() if (p.layer, p.tensor) == (layer, tensor)]
        if isinstance(self.shards, StackedShards):
            return value(parts[0].parameter)
        t = self.shards.tensors[tensor]
        if not parts:
            return torch.empty((0, *t.shape), dtype=t.dtype, device=self.device)
        return torch.stack([value(p.parameter) for p in parts])

    def prefixes(self, model: nn.Module | None) -> list[str]:
        if model is None:
            return [f"{l}." for l in range(len(self.layers))]
        names = {id(module): name for name, module in model.named_modules()}
        found = [names.get(id(layer)) for layer in self.layers]
        if None in found:
            raise ArgumentError(f"layer {found.index(None)} is not a module of this model")
        return [f"{name}." if name else "" for name in found]


def _watch_optimizers(experts: ShardedExperts) -> None:
    """Any optimizer may have the experts' parameters: each tells before it makes a step."""
    watching = weakref.ref(experts)

    @torch.compiler.disable
    def check(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        found = watching()
        if found is not None:
            found.check_optimizer(optimizer)

    weakref.finalize(experts, register_optimizer_step_pre_hook(check).remove)


def _listed(optimizer: Any) -> list[torch.optim.Optimizer]:
    if optimizer is None:
        return []
    return [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else list(optimizer)


def even_blocks(layers: int, experts: int, ranks: int) -> list[Layout]:
    """Blocks of each layer. Experts that do not divide evenly go to the ranks in turn, so that over all
    layers no rank owns two more than another, as under sharding solvers."""
    each, left = divmod(experts, ranks)
    made = []
    for layer in range(layers):
        more = {(layer * left + i) % ranks for i in range(left)}
        owners = [r for r in range(ranks) for _ in range(each + (r in more))]
        made.append(table_layout(owners, ranks=ranks))
    return made


def _groups_of(group: Any) -> tuple[dist.ProcessGroup, dist.ProcessGroup | None]:
    if isinstance(group, dist.DeviceMesh):
        if group.ndim > 2:
            raise ArgumentError(f"a mesh of {group.ndim} dimensions; expected 1 or 2")
        shard = group.get_group(group.ndim - 1)
        return shard, group.get_group(0) if group.ndim == 2 else None
    return (dist.group.WORLD if group is None else group), None


def _experts_of(layer: nn.Module) -> int:
    if isinstance(layer, nn.ModuleList):
        return len(layer)
    first = next(layer.parameters(), None)
    if first is None or first.dim() == 0:
        raise ArgumentError("layer 0 has no parameter [experts, ...]; expected one")
    return first.shape[0]


def _check_layouts(layouts: Sequence[Layout], layers: int, experts: int, ranks: int) -> None:
    if len(layouts) != layers:
        raise ArgumentError(f"layouts of {len(layouts)} layers; expected {layers}")
    for l, layout in enumerate(layouts):
        if (layout.experts, layout.ranks, layout.slices) != (experts, ranks, 1):
            raise ArgumentError(
                f"layout {l} is of {layout.experts} experts in {layout.slices} slices on "
                f"{layout.ranks} ranks; expected {experts} in 1 on {ranks}"
            )


def _replicas_for(solver: Any, replicas: int | None, experts: int) -> int:
    """The most replicas of a layer on a rank."""
    if replicas is not None:
        return replicas
    if isinstance(solver, OwnersOnly):
        return 0
    if isinstance(solver, Everywhere):
        return experts
    asked = getattr(solver, "spare_slots", None)
    if asked is None:
        asked = getattr(getattr(solver, "budget", None), "spare_slots", None)
    if asked is None:
        raise ArgumentError(
            f"replicas: {solver!r} does not say how many it asks for; expected a number"
        )
    return asked


def _power_of_norm(gradients: list[Tensor], norm_type: float, device: torch.device) -> Tensor:
    """The norm to the power of its type, in float64."""
    norm = torch.zeros((), dtype=torch.float64, device=device)
    if gradients:
        norms = [torch.linalg.vector_norm(g, norm_type, dtype=torch.float64) for g in gradients]
        norm = torch.linalg.vector_norm(torch.stack(norms), norm_type)
    return norm if math.isinf(norm_type) else norm**norm_type
