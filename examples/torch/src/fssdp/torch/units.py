# SPDX-License-Identifier: Apache-2.0
"""What is exchanged between groups, in the form that the C++ exchanges take: float32 in memory of the
host, stacked [owned, elements] for each tensor, layer by layer.

Experts are what shard_experts has sharded. Dense parameters are those that all ranks of a group have,
or DTensors of fully_shard: either cut into a chunk for each rank, or assigned whole to one rank, so
that only one rank of a group sends each element.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from ..layouts import Layout, table_layout
from .communicator import Communicator
from .moves import block

__all__ = ["CutUnits", "ExpertUnits", "Units", "WholeUnits", "dense_units"]


def matrix_of(shape: Sequence[int]) -> tuple[int, int]:
    """[rows, columns]: the first dimension, and all others."""
    if len(shape) < 2:
        return 1, math.prod(shape)
    return shape[0], math.prod(shape[1:])


def host_rows(stacked: Tensor) -> Tensor:
    """[slots, elements] of float32 on the host; not copied if it is that already."""
    rows = stacked.detach().reshape(stacked.shape[0], math.prod(stacked.shape[1:]))
    return rows.to("cpu", torch.float32).contiguous()


def write(value: Tensor, to: Tensor) -> None:
    if value.data_ptr() != to.data_ptr():
        to.copy_(value.view(to.shape))


class Units:
    """Base class of units.

    Attributes:
        layouts: who owns what, of each layer.
        rank: this one, in its group.
        shapes: of each tensor of a chunk: [rows, columns].
        fragments: of each layer, for Staggered.
    """

    layouts: list[Layout]
    rank: int
    shapes: list[tuple[int, int]]
    fragments: list[int]

    def gradients(self, layer: int) -> list[Tensor]:
        raise NotImplementedError

    def put_gradients(self, values: list[list[Tensor]], groups: int) -> None:
        """Writes averages over ``groups`` groups to the gradients: [layers][tensors].

        If gradients are to be sums, they are multiplied by that number.
        """
        raise NotImplementedError

    def hide_gradients(self) -> None:
        """Sets ``.grad`` to None while averages are in flight."""

    def weights(self, layer: int) -> list[Tensor]:
        raise NotImplementedError

    def put_weights(self, values: dict[int, list[Tensor]]) -> None:
        """Writes values to the parameters, of some layers."""
        raise NotImplementedError

    def loads(self) -> list[int] | None:
        """Tokens of each expert of all layers in this group; None if there are no experts."""
        return None


class ExpertUnits(Units):
    """The experts of shard_experts."""

    def __init__(self, experts: Any) -> None:
        self.experts = experts
        self.rank = experts.tokens.rank
        self.shapes = [matrix_of(t.shape) for t in experts.shards.tensors]

    @property
    def layouts(self) -> list[Layout]:
        return self.experts.layouts

    def deal(self, fragments: int) -> None:
        self.fragments = [l % fragments for l in range(len(self.experts.layers))]

    def _gradient(self, layer: int, tensor: int) -> Tensor:
        shards = self.experts.shards
        return shards.gradients[tensor][shards.slots_of(layer)]

    def gradients(self, layer: int) -> list[Tensor]:
        return [host_rows(self._gradient(layer, k)) for k in range(len(self.shapes))]

    def put_gradients(self, values: list[list[Tensor]], groups: int) -> None:
        for l, of_layer in enumerate(values):
            for k, value in enumerate(of_layer):
                write(value, self._gradient(l, k))
        if not self.experts.averages:
            for gradient in self.experts.shards.gradients:
                gradient.mul_(groups)
        self.experts.show_gradients()

    def hide_gradients(self) -> None:
        for p in self.experts.parameters():
            p.grad = None

    def weights(self, layer: int) -> list[Tensor]:
        return [host_rows(self.experts.own_tensor(layer, k)) for k in range(len(self.shapes))]

    def put_weights(self, values: dict[int, list[Tensor]]) -> None:
        shards = self.experts.shards
        for part in shards.parts():
            if part.layer not in values:
                continue
            first = shards.first_slot(part.layer)
            rows = values[part.layer][part.tensor]
            write(rows[part.slots.start - first : part.slots.stop - first], part.parameter)

    def loads(self) -> list[int]:
        zeros = [0] * self.experts.experts
        return [load for of_layer in self.experts.loads for load in of_layer or zeros]


class CutUnits(Units):
    """Dense parameters that are cut into a chunk for each rank: its rows, as fully_shard cuts them,
    padded with zeros; or a run of elements, if there are fewer rows than ranks."""

    def __init__(self, parameters: Sequence[nn.Parameter], inside: Communicator, fragment: int) -> None:
        self.inside, self.rank = inside, inside.rank
        ranks = inside.size
        self.layouts = [table_layout(list(range(ranks)), ranks=ranks)]
        self.fragments = [fragment]
        self.sharded = [p for p in parameters if _is_sharded(p, inside)]
        own = {id(p) for p in self.sharded}
        self.replicated = [p for p in parameters if id(p) not in own]
        self.shapes = [_chunk_of(p, ranks, False) for p in self.replicated]
        self.shapes += [_chunk_of(p, ranks, True) for p in self.sharded]
        sizes = [rows * columns for rows, columns in self.shapes]
        self.flat = torch.zeros(sum(sizes))
        self.chunks = [piece.view(1, -1) for piece in self.flat.split(sizes)]

    def _read(self, tensors: Iterable[Tensor]) -> list[Tensor]:
        self.flat.zero_()
        count = len(self.replicated)
        for k, (tensor, chunk) in enumerate(zip(tensors, self.chunks, strict=True)):
            flat = _local(tensor).reshape(-1)
            mine = flat if k >= count else flat[self.rank * chunk.numel() :][: chunk.numel()]
            chunk[0, : mine.numel()].copy_(mine)
        return self.chunks

    def _put(self, tensors: Sequence[Tensor]) -> None:
        """Writes what has been averaged into the tensors."""
        count = len(self.replicated)
        if count > 0:
            size = sum(chunk.numel() for chunk in self.chunks[:count])
            ranks = self.inside.size
            (all_chunks,) = block(self.inside, [size] * ranks, self.flat[:size], False)
            pieces = all_chunks.view(ranks, size).split([c.numel() for c in self.chunks[:count]], 1)
            for tensor, piece in zip(tensors, pieces):
                tensor.copy_(piece.reshape(-1)[: tensor.numel()].view(tensor.shape))
        for tensor, chunk in zip(tensors[count:], self.chunks[count:], strict=True):
            local = _local(tensor)
            local.copy_(chunk[0, : local.numel()].view(local.shape))

    def gradients(self, layer: int) -> list[Tensor]:
        return self._read([_gradient_of(p) for p in (*self.replicated, *self.sharded)])

    def put_gradients(self, values: list[list[Tensor]], groups: int) -> None:
        with torch.no_grad():
            self._put([_gradient_of(p) for p in (*self.replicated, *self.sharded)])

    def weights(self, layer: int) -> list[Tensor]:
        return self._read([p.detach() for p in (*self.replicated, *self.sharded)])

    def put_weights(self, values: dict[int, list[Tensor]]) -> None:
        self._put([p.detach() for p in (*self.replicated, *self.sharded)])


class WholeUnits(Units):
    """Dense parameters of one shape, each of which is assigned whole to one rank of a group."""

    def __init__(
        self, parameters: Sequence[nn.Parameter], owners: list[int], inside: Communicator, fragment: int
    ) -> None:
        self.inside, self.rank = inside, inside.rank
        self.parameters = parameters
        self.layouts = [table_layout(owners, ranks=inside.size)]
        self.fragments = [fragment]
        self.shapes = [matrix_of(parameters[0].shape)]
        self.owned = [
            [e for e, owner in enumerate(owners) if owner == rank] for rank in range(inside.size)
        ]
        self.rows = torch.zeros(len(self.owned[self.rank]), math.prod(parameters[0].shape))

    def _read(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        for row, e in zip(self.rows, self.owned[self.rank], strict=True):
            row.copy_(tensors[e].reshape(-1))
        return [self.rows]

    def _put(self, tensors: Sequence[Tensor]) -> None:
        counts = [len(owned) for owned in self.owned]
        (rows,) = block(self.inside, counts, self.rows, False)
        order = [e for owned in self.owned for e in owned]
        for e, row in zip(order, rows, strict=True):
            tensors[e].copy_(row.view(tensors[e].shape))

    def gradients(self, layer: int) -> list[Tensor]:
        return self._read([_gradient_of(p) for p in self.parameters])

    def put_gradients(self, values: list[list[Tensor]], groups: int) -> None:
        with torch.no_grad():
            self._put([_gradient_of(p) for p in self.parameters])

    def weights(self, layer: int) -> list[Tensor]:
        return self._read([p.detach() for p in self.parameters])

    def put_weights(self, values: dict[int, list[Tensor]]) -> None:
        self._put([p.detach() for p in self.parameters])


def dense_units(
    parameters: Sequence[nn.Parameter], whole: bool, inside: Communicator, fragments: int
) -> list[Units]:
    """Of all dense parameters that train.

    Raises:
        ArgumentError: that names the parameter which cannot be cut in this way.
    """
    trained = [p for p in parameters if p.requires_grad]
    if not whole:
        dealt = [trained[f::fragments] for f in range(fragments)]
        return [CutUnits(part, inside, f) for f, part in enumerate(dealt) if part]
    by_shape: dict[tuple[int, ...], list[nn.Parameter]] = {}
    for p in trained:
        if hasattr(p, "to_local"):
            raise ArgumentError(
                f"Between: whole=True with a DTensor {list(p.shape)}, of which each rank has a part; "
                "expected whole=False, or tensors that each rank has"
            )
        by_shape.setdefault(tuple(p.shape), []).append(p)
    loads = [0] * inside.size
    units = []
    for i, (_, alike) in enumerate(sorted(by_shape.items())):
        owners = []
        for p in alike:
            owners.append(loads.index(min(loads)))
            loads[owners[-1]] += p.numel()
        units.append(WholeUnits(alike, owners, inside, i % fragments))
    return units


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _gradient_of(p: nn.Parameter) -> Tensor:
    """The gradient of a parameter; if it has none, it gets one of zeros."""
    if p.grad is None:
        p.grad = torch.zeros_like(p)
    return p.grad


def _is_sharded(p: nn.Parameter, inside: Communicator) -> bool:
    if not hasattr(p, "to_local"):
        return False
    mesh, placements = p.device_mesh, p.placements
    if mesh.ndim != 1 or mesh.size() != inside.size or not placements[0].is_shard(0):
        raise ArgumentError(
            f"Between: a DTensor {list(p.shape)}, {placements} over {mesh}; expected fully_shard over "
            "the ranks of a group alone, by rows"
        )
    return True


def _chunk_of(p: nn.Parameter, ranks: int, is_sharded: bool) -> tuple[int, int]:
    """[rows, columns]: of the largest chunk."""
    if p.dim() < 2 or (p.shape[0] < ranks and not is_sharded):
        return 1, -(-p.numel() // ranks)
    return -(-p.shape[0] // ranks), math.prod(p.shape[1:])
