# SPDX-License-Identifier: Apache-2.0
"""What a layer of sharded experts does in the forward and in the backward pass."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ..errors import ArgumentError
from . import _torch
from .communicator import Communicator
from .moves import move
from .shards import Elsewhere, TensorOf

__all__ = ["Compute", "LayerState", "ShardedLayer"]

Compute = Callable[[dict[str, Tensor], Tensor, list[int]], Tensor]


def is_in_backward() -> bool:
    """Whether a forward pass runs again because of activation checkpointing."""
    return torch._C._current_graph_task_id() != -1


class _Dispatch(Function):
    """Sends rows to their experts."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, comm: Communicator, plan: Any) -> Tensor:
        ctx.rest = comm, plan
        return move(comm, plan, rows, False)[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        comm, plan = ctx.rest
        return move(comm, plan, gradient, True)[0], None, None


class _Combine(Function):
    """Brings rows back to their tokens.

    It saves a tensor even where it needs none. Activation checkpointing runs a forward pass again only
    until it has all tensors that were saved. This is the last function of a layer, so every rank takes
    part in all exchanges of the layer again, also a rank without rows, which saves nothing else.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, comm: Communicator, plan: Any) -> Tensor:
        ctx.rest = comm, plan
        ctx.save_for_backward(rows.new_empty(0))
        return move(comm, plan, rows, True)[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        comm, plan = ctx.rest
        return move(comm, plan, gradient, False)[0], None, None


class _Enter(Function):
    """Identity, recorded before the experts: its backward runs after theirs.

    Autograd runs backward functions in reverse order of recording, so the gradients of the experts'
    parameters are complete when this one runs.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, anchor: Tensor, visit: Visit) -> Tensor:
        ctx.visit = visit
        return rows.view_as(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        ctx.visit.after_backward()
        return gradient, None, None


class _Leave(Function):
    """Identity, recorded after the experts: its backward runs before theirs."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, visit: Visit) -> Tensor:
        ctx.visit = visit
        return rows.view_as(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        ctx.visit.before_backward()
        return gradient, None


class LayerState:
    """The experts of one layer that a rank has materialized, as tensors.

    Their storages outlive the memory: when the layer is released, its storages become empty; when its
    experts are gathered again, the same storages point to the new memory. Tensors that autograd has
    saved share these storages, and so find the experts wherever they are.

    Attributes:
        held: the experts, ascending.
        reduced: whether there are gradients of this iteration.
        waiting: whether gradients have been added up that wait for a reduction.
        seen: whether a forward pass of this iteration has used the layer.
        loads: tokens of each expert in forward passes that train, of all ranks; empty if there are none.
    """

    def __init__(
        self,
        index: int,
        device: torch.device,
        materializer: Any,
        tensors: Sequence[TensorOf],
        replica_types: Sequence[torch.dtype],
        partial_types: Sequence[torch.dtype],
        in_one_piece: bool,
        releases: bool,
    ) -> None:
        self.index = index
        self.device = device
        self.materializer = materializer
        self.tensors = tensors
        self.replica_types = replica_types
        self.in_one_piece = in_one_piece
        self.releases = releases
        self.held: list[int] = []
        self.reduced = False
        self.waiting = False
        self.seen = False
        self.loads: list[int] = []
        self._users = 0
        self._numbers = itertools.count()
        self._storages: list[torch.UntypedStorage] = []
        self._experts: list[list[Tensor]] = []
        self._partial_storages = [self._storage() for _ in tensors]
        self._partial_types = partial_types

    def acquire(self, number: int, backward: bool) -> None:
        """Waits for the experts."""
        self.materializer.acquire(self.index, number, backward)
        self._users += 1
        self.look()

    @torch.inference_mode(False)  # the views are for later passes, too
    def look(self) -> None:
        """Looks up where the experts are now."""
        held = self.materializer.held(self.index)
        rows = (1 if held else 0) if self.in_one_piece else len(held)
        while len(self._storages) < rows * len(self.tensors):
            self._storages.append(self._storage())
        self.materializer.bind_experts(self.index, self._storages[: rows * len(self.tensors)])
        if len(held) == len(self.held) and self._experts:
            self.held = held
            return
        self.held = held
        self._experts = []
        for row in range(rows):
            views = []
            for k, (t, dtype) in enumerate(zip(self.tensors, self.replica_types, strict=True)):
                shape = (len(held), *t.shape) if self.in_one_piece else tuple(t.shape)
                storage = self._storages[row * len(self.tensors) + k]
                views.append(_view(storage, dtype, shape))
            self._experts.append(views)

    def release(self, number: int) -> None:
        self.materializer.release(self.index, number)
        self._users -= 1
        if self._users == 0 and self.releases:
            _torch.unbind(self._storages)

    def leaves(self, train: bool) -> list[list[Tensor]]:
        """[held, tensors], or [1, tensors] in one piece: what experts compute with."""
        return [
            [
                view.detach().requires_grad_(train and t.trains)
                for view, t in zip(views, self.tensors, strict=True)
            ]
            for views in self._experts
        ]

    def partials(self) -> list[Tensor]:
        """Where gradients add up: [held, ...] for each tensor."""
        self.materializer.bind_partials(self.index, self._partial_storages)
        return [
            _view(storage, dtype, (len(self.held), *t.shape))
            for storage, dtype, t in zip(
                self._partial_storages, self._partial_types, self.tensors, strict=True
            )
        ]

    def reduce(self) -> None:
        """Begins to sum the gradients at their owners."""
        self.materializer.reduce(self.index)
        self.reduced, self.waiting = True, False

    def _storage(self) -> torch.UntypedStorage:
        return torch.UntypedStorage(0, device=self.device)

    def next_number(self) -> int:
        return next(self._numbers)

    def add_loads(self, loads: list[int]) -> None:
        before = self.loads or [0] * len(loads)
        self.loads = [a + b for a, b in zip(before, loads, strict=True)]

    def forget(self) -> None:
        """Ends the iteration."""
        self.reduced = self.waiting = self.seen = False
        self.loads = []
        _torch.unbind(self._storages)


def _view(storage: torch.UntypedStorage, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    strides = torch.empty(shape, device="meta").stride()
    return torch.empty(0, dtype=dtype, device=storage.device).set_(storage, 0, shape, strides)


class Visit:
    """One forward pass through a layer, and the backward pass that belongs to it."""

    def __init__(self, layer: ShardedLayer, trains: bool) -> None:
        self.layer, self.trains = layer, trains
        self.state = layer.fssdp.state
        self.iteration = layer.fssdp.shared.iteration
        self.number = self.state.next_number()
        self.leaves: list[list[Tensor]] = []
        self.hooks: list[Any] = []

    def before_backward(self) -> None:
        shared = self.layer.fssdp.shared
        if self.iteration != shared.iteration:
            raise ArgumentError(
                f"layer {self.state.index}: a backward pass of a forward pass before step(); "
                "expected it before"
            )
        self.state.acquire(self.number, backward=True)
        if not self.trains:
            return
        partials = self.state.partials()
        for i, leaves in enumerate(self.leaves):
            for leaf, partial in zip(leaves, partials, strict=True):
                if leaf.requires_grad:
                    self._add_up_in(leaf, partial if self.state.in_one_piece else partial[i])

    def after_backward(self) -> None:
        for leaf in (leaf for leaves in self.leaves for leaf in leaves):
            leaf.grad = None
        for hook in self.hooks:
            hook.remove()
        self.hooks = []
        self.state.release(self.number)
        if not self.trains:
            return
        self.state.waiting = True
        if self.layer.fssdp.shared.reduces:
            self.state.reduce()


    def _add_up_in(self, leaf: Tensor, partial: Tensor) -> None:
        """Makes autograd add the gradient of a leaf to this memory, in this backward pass."""
        if leaf.dtype == partial.dtype:
            leaf.grad = partial
            return

        def add(of: Tensor) -> None:
            partial.add_(of.grad)
            of.grad = None

        self.hooks.append(leaf.register_post_accumulate_grad_hook(add))


class LayerLinks:
    """What a layer needs besides its parameters.

    Attributes:
        shared: what all layers have in common.
        state: of this layer.
        template: computes an expert of another rank, for a ModuleList; None for stacked parameters.
        compute: given by the user, or None.
    """

    def __init__(self, shared: Any, state: LayerState, template: Any, compute: Compute | None) -> None:
        self.shared, self.state, self.template, self.compute = shared, state, template, compute


class ShardedLayer(nn.Module):
    """A layer whose experts are sharded; shard_experts makes it.

    Call it with tokens and the router's choices, or ``on_rows`` with rows that are sorted.
    """

    fssdp: LayerLinks

    def forward(self, tokens: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        """The weighted sum of the outputs of the chosen experts for each token.

        Args:
            tokens: [tokens, width].
            experts: [tokens, per_token], which ones the router has chosen.
            weights: [tokens, per_token], of each chosen expert.

        Returns:
            [tokens, width].

        Raises:
            ArgumentError: shapes that do not fit, experts that do not exist.
        """
        self._check_choices(tokens, experts, weights)
        per_token = experts.shape[1]
        chosen = experts.reshape(-1)
        order = chosen.argsort(stable=True)
        counts = self._counts_of(chosen)
        rows = self.on_rows(tokens[order // per_token], counts)
        back = torch.empty_like(order)
        back[order] = torch.arange(order.numel(), device=order.device)
        rows = rows[back].view(*experts.shape, rows.shape[1])
        return (rows * weights.unsqueeze(-1)).sum(1).to(tokens.dtype)

    def __deepcopy__(self, memo: Any) -> Any:
        raise ArgumentError(
            f"layer {self.fssdp.state.index} is sharded and cannot be copied; expected a copy made before "
            "shard_experts, or of what full_tensors() returns"
        )

    def _check_choices(self, tokens: Tensor, experts: Tensor, weights: Tensor) -> None:
        layer = f"layer {self.fssdp.state.index}"
        if tokens.dim() != 2:
            raise ArgumentError(
                f"{layer}: tokens are {list(tokens.shape)}; expected [tokens, width], as by flatten(0, -2)"
            )
        if experts.dim() != 2 or experts.shape[0] != tokens.shape[0]:
            raise ArgumentError(
                f"{layer}: the chosen experts are {list(experts.shape)}; expected "
                f"[{tokens.shape[0]}, per_token]"
            )
        if experts.is_floating_point() or experts.dtype == torch.bool:
            raise ArgumentError(
                f"{layer}: the chosen experts are of {experts.dtype}; expected whole numbers"
            )
        if weights.shape != experts.shape:
            raise ArgumentError(
                f"{layer}: the weights are {list(weights.shape)}; expected {list(experts.shape)}, one for "
                "each chosen expert"
            )

    @torch.compiler.disable
    def _counts_of(self, chosen: Tensor) -> Tensor:
        """Rows of each expert."""
        expected = f"expected numbers from 0 to {self.fssdp.shared.experts - 1}"
        try:
            counts = chosen.bincount(minlength=self.fssdp.shared.experts)
        except RuntimeError as error:
            raise ArgumentError(
                f"layer {self.fssdp.state.index}: expert {int(chosen.min())} is chosen; {expected}, and "
                "the weight 0 for tokens that are dropped"
            ) from error
        if counts.numel() > self.fssdp.shared.experts:
            raise ArgumentError(
                f"layer {self.fssdp.state.index}: expert {counts.numel() - 1} is chosen; {expected}"
            )
        return counts

    @torch.compiler.disable  # the sizes of messages are learned on the way
    def on_rows(self, rows: Tensor, counts: Tensor | Sequence[int]) -> Tensor:
        """The outputs of the experts for rows.

        Args:
            rows: [rows, width], sorted by expert.
            counts: rows of each expert: [experts].

        Returns:
            [rows, width], in the same order and of the same type.

        Raises:
            ArgumentError: counts that do not fit the experts or the rows.
            RanksDisagree: the ranks have different placements.
            TransportError: another rank has failed.
        """
        shared, state = self.fssdp.shared, self.fssdp.state
        numbers = counts.tolist() if isinstance(counts, Tensor) else list(counts)
        if len(numbers) != shared.experts:
            raise ArgumentError(f"rows of {len(numbers)} experts; expected {shared.experts}")
        if sum(numbers) != rows.shape[0]:
            raise ArgumentError(f"{rows.shape[0]} rows; expected {sum(numbers)}, as the counts say")
        shared.shards.check(state.index)
        dtype = rows.dtype
        if shared.compute_type is not None:
            rows = rows.to(shared.compute_type)
        trains = shared.trains and torch.is_grad_enabled()
        visit = Visit(self, trains)
        again = is_in_backward()
        placement = state.materializer.prefetch(state.index)
        all_counts = shared.tokens.on(shared.device).gather_counts(numbers, placement)
        state.acquire(visit.number, backward=again)
        try:
            if shared.calibrates and not state.seen:
                if state.materializer.calibrate(state.index, all_counts):
                    state.look()
            state.seen = True
            plan = _torch.plan_tokens(
                all_counts,
                state.materializer.where(state.index),
                shared.tokens.rank,
                shared.routing,
                shared.topology,
            )
            counts_loads = (self.training or torch.is_grad_enabled()) and not again
            if counts_loads:  # reentrant checkpoints train without gradients at first
                state.materializer.record(state.index, all_counts.loads(), plan.device_loads)
            if shared.between is not None and shared.trains and counts_loads:
                state.add_loads(all_counts.loads())
            visit.leaves = state.leaves(trains)
            received = _Dispatch.apply(rows, shared.tokens, plan)
            anchor = shared.anchor if trains else received.new_empty(0)
            entered = _Enter.apply(received, anchor, visit)
            done = self._compute(visit.leaves, entered, _torch.group_rows(plan))
            if done.shape != entered.shape:
                raise ArgumentError(
                    f"layer {state.index}: the experts made {list(done.shape)} of rows "
                    f"{list(entered.shape)}; expected the same shape"
                )
            left = _Leave.apply(done.to(entered.dtype), visit)  # which other ranks know, too
        finally:
            state.release(visit.number)
        return _Combine.apply(left, shared.tokens, plan).to(dtype)

    def _compute(self, leaves: list[list[Tensor]], rows: Tensor, counts: list[int]) -> Tensor:
        if rows.shape[0] == 0:
            return rows
        names = [t.name for t in self.fssdp.state.tensors]
        if self.fssdp.compute is not None:
            return self.fssdp.compute(dict(zip(names, leaves[0], strict=True)), rows, counts)
        if self.fssdp.template is None:
            return self._as_before(dict(zip(names, leaves[0], strict=True)), rows, counts)
        done = []
        self._set_modes()
        held = self.fssdp.state.held
        for expert, part, of_expert in zip(held, rows.split(counts), leaves, strict=True):
            if part.shape[0] > 0:
                own = self[expert]  # type: ignore[index]  # a ModuleList
                module = self.fssdp.template if isinstance(own, Elsewhere) else own
                with _Swapped(module, names) as swapped:
                    done.append(swapped(of_expert, part))
        return torch.cat(done)

    def _set_modes(self) -> None:
        """Experts of other ranks train or evaluate as those of this rank."""
        own = next((e for e in self.children() if not isinstance(e, Elsewhere)), None)
        if own is None:
            self.fssdp.template.train(self.training)
            return
        for module, like in zip(self.fssdp.template.modules(), own.modules(), strict=True):
            module.training = like.training

    def _as_before(self, tensors: dict[str, Tensor], rows: Tensor, counts: list[int]) -> Tensor:
        """Calls the original forward of the module, with the experts that this rank holds."""
        numbers = torch.arange(len(counts), device=rows.device)
        index = numbers.repeat_interleave(
            torch.tensor(counts, device=rows.device), output_size=rows.shape[0]
        )
        ones = torch.ones_like(index, dtype=rows.dtype)
        number = getattr(self, "num_experts", None)
        try:
            if number is not None:
                self.num_experts = len(counts)
            with _Swapped(self, list(tensors)) as swapped:
                swapped.put(list(tensors.values()))
                return super().forward(rows, index[:, None], ones[:, None])
        finally:
            if number is not None:
                self.num_experts = number


class _Swapped:
    """A module that computes with other tensors than its parameters for a while."""

    def __init__(self, module: nn.Module, names: Sequence[str]) -> None:
        self.module = module
        self.places = []
        for name in names:
            *path, last = name.split(".")
            self.places.append((module.get_submodule(".".join(path))._parameters, last))

    def __enter__(self) -> _Swapped:
        self.own = [parameters[last] for parameters, last in self.places]
        return self

    def __exit__(self, *_: object) -> None:
        self.put(self.own)

    def put(self, tensors: Sequence[Tensor]) -> None:
        for (parameters, last), tensor in zip(self.places, tensors, strict=True):
            parameters[last] = tensor  # type: ignore[assignment]

    def __call__(self, tensors: Sequence[Tensor], rows: Tensor) -> Tensor:
        self.put(tensors)
        return self.module(rows)
