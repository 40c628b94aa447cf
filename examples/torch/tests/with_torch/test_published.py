# SPDX-License-Identifier: Apache-2.0
"""Beside published implementations, on the same gradients: PowerSGD is part of torch; DeMo is compared
with its formulas in plain torch and, where one is installed, with the modules `demo` and `detonation`."""

from __future__ import annotations

import functools
import importlib
import math
from typing import Any

import pytest
import torch
import torch._dynamo  # what optimizers import: once, before ranks are forked
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel
from trainer.ranks import run_ranks

from fssdp.torch import Between, GradientExchange, LowRankCompressor, TopDctCompressor, demo

GROUPS = 3


def gradients(shapes: list[tuple[int, ...]], group: int, step: int) -> list[Tensor]:
    """Of one group: in part the same in all, and in all steps."""
    common = torch.Generator().manual_seed(1)
    own = torch.Generator().manual_seed(100 * step + group)
    return [
        torch.randn(shape, generator=common) + torch.randn(shape, generator=own) for shape in shapes
    ]


def zeros(shapes: list[tuple[int, ...]]) -> nn.ParameterList:
    return nn.ParameterList([nn.Parameter(torch.zeros(shape)) for shape in shapes])


def between_of(parameters: nn.ParameterList, method: Any) -> Between:
    """Each rank is a group, and has whole matrices."""
    inside = dist.new_group([dist.get_rank()], use_local_synchronization=True)
    return Between(dist.group.WORLD, method, dense=parameters, whole=True, inside=inside)


def apart(found: Tensor, expected: Tensor) -> float:
    """Over the largest element."""
    return float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30))


def sum_of(tensor: Tensor) -> Tensor:
    total = tensor.clone()
    dist.all_reduce(total)
    return total


class Sum(nn.Module):
    """A loss whose gradients are given."""

    def __init__(self, parameters: nn.ParameterList) -> None:
        super().__init__()
        self.parameters_of = parameters

    def forward(self, gradients: list[Tensor]) -> Tensor:
        return sum((p * g).sum() for p, g in zip(self.parameters_of, gradients, strict=True))


LOW_RANK = [(24, 40), (16, 30), (24, 40), (3, 2), (17,)]


def first_factors(rank: int) -> list[Tensor]:
    """Q of each parameter: [columns, rank]."""
    draw = torch.Generator().manual_seed(9)
    return [torch.randn(shape[-1], rank, generator=draw) for shape in LOW_RANK]


def power_sgd(group: int, rank: int) -> dict[str, float]:
    theirs, ours = zeros(LOW_RANK), zeros(LOW_RANK)
    start = {id(p): q for p, q in zip(theirs, first_factors(rank), strict=True)}
    order: list[Tensor] = []
    state = PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=2)

    def compressed(p: Tensor) -> bool:
        return p.dim() == 2 and 2 * rank * sum(p.shape) < p.numel()

    @functools.wraps(powerSGD_hook)  # torch looks at its annotations
    def hook(of: PowerSGDState, bucket: dist.GradBucket) -> Any:
        """Theirs, which begins with the given factors: in its order, by shape."""
        order[:] = bucket.parameters()
        if of.iter == of.start_powerSGD_iter:
            by_shape: dict[Any, list[Tensor]] = {}
            for p in bucket.parameters():
                if compressed(p):
                    by_shape.setdefault(tuple(p.shape), []).append(p)
            listed = [p for alike in by_shape.values() for p in alike]
            of.p_memory_dict[bucket.index()] = torch.zeros(sum(rank * p.shape[0] for p in listed))
            of.q_memory_dict[bucket.index()] = torch.cat([start[id(p)].reshape(-1) for p in listed])
        return powerSGD_hook(of, bucket)

    parallel = DistributedDataParallel(Sum(theirs))
    parallel.register_comm_hook(state, hook)
    method = GradientExchange(compressor=LowRankCompressor(rank=rank, least_saving=2))
    between = between_of(ours, method)
    saved = between.state_dict()
    by_shape = sorted(set(LOW_RANK))
    for shape, part in zip(by_shape, saved["parts"], strict=True):
        alike = [q for q, s in zip(first_factors(rank), LOW_RANK, strict=True) if s == shape]
        if part["memory"][1].numel() > 0:
            part["memory"][1] = torch.stack([q.reshape(-1) for q in alike])
    between.load_state_dict(saved)

    largest = {"average": 0.0, "residual": 0.0, "left out": math.inf}
    for step in range(12):
        given = gradients(LOW_RANK, group, step)
        for p in theirs:
            p.grad = None
        parallel(given).backward()
        if step < 2:  # theirs averages in full
            continue
        for p, g in zip(ours, given, strict=True):
            p.grad = g.clone()
        between.average()
        for a, b in zip(ours, theirs, strict=True):
            largest["average"] = max(largest["average"], apart(a.grad, b.grad))
    (errors,) = state.error_dict.values()
    owed = dict(zip(map(id, order), errors.split([p.numel() for p in order]), strict=True))
    for shape, part in zip(by_shape, between.state_dict()["parts"], strict=True):
        alike = [p for p in theirs if tuple(p.shape) == shape]
        for p, mine in zip(alike, part["memory"][0], strict=True):
            if not compressed(p):  # theirs has what differs between groups, which adds up to nothing
                assert mine.numel() == 0
                continue
            expected = sum_of(owed[id(p)])
            largest["residual"] = max(largest["residual"], apart(sum_of(mine), expected))
            largest["left out"] = min(largest["left out"], float(expected.norm()))
    return largest


@pytest.mark.parametrize("rank", [1, 3])
def test_power_sgd_is_that_of_torch(rank: int) -> None:
    """Averages are equal. A group keeps another residual, by its own Q; the sum over groups, which is all
    that enters an average, is the same."""
    for found in run_ranks(GROUPS, power_sgd, rank):
        assert found["average"] < 1e-5
        assert found["residual"] < 1e-5
        assert found["left out"] > 1  # something is: the comparison is not one of full averages


DCT = [(128, 192), (64, 128), (256,)]
KEPT, SIDE, DECAY, RATE = 8, 64, 0.999, 0.01


class Formulas:
    """m = decay m + rate g; of each block the largest coefficients C X C^T are sent, and leave m; at each
    coefficient the mean of those who have sent it; back, and its sign."""

    def __init__(self, parameters: nn.ParameterList) -> None:
        self.parameters = parameters
        self.momenta = [torch.zeros_like(p) for p in parameters]
        n, j = torch.arange(SIDE).double()[None, :], torch.arange(SIDE).double()[:, None]
        table = torch.cos(math.pi * (n + 0.5) * j / SIDE) * math.sqrt(2 / SIDE)
        table[0] /= math.sqrt(2)
        self.table = table.float()

    def _blocks(self, x: Tensor) -> Tensor:
        """[blocks, rows, columns]: of coefficients."""
        if x.dim() == 1:
            return (x.view(-1, SIDE) @ self.table.T)[:, None]
        rows, columns = x.shape
        blocks = x.view(rows // SIDE, SIDE, columns // SIDE, SIDE).transpose(1, 2)
        return (self.table @ blocks @ self.table.T).reshape(-1, SIDE, SIDE)

    def _back(self, blocks: Tensor, like: Tensor) -> Tensor:
        if like.dim() == 1:
            return (blocks[:, 0] @ self.table).view(like.shape)
        rows, columns = like.shape
        x = (self.table.T @ blocks @ self.table).view(rows // SIDE, columns // SIDE, SIDE, SIDE)
        return x.transpose(1, 2).reshape(rows, columns)

    def step(self) -> list[Tensor]:
        """The signs."""
        signs = []
        for p, m in zip(self.parameters, self.momenta, strict=True):
            m.mul_(DECAY).add_(p.grad, alpha=RATE)
            blocks = self._blocks(m)
            flat = blocks.flatten(1)
            at = flat.abs().topk(KEPT, dim=1).indices
            sent = torch.zeros_like(flat).scatter_(1, at, flat.gather(1, at))
            marks = torch.zeros_like(flat).scatter_(1, at, 1.0)
            m.sub_(self._back(sent.view(blocks.shape), m))
            mean = sum_of(sent) / sum_of(marks).clamp(min=1)
            signs.append(self._back(mean.view(blocks.shape), m).sign())
        return signs


class Published:
    """An optimizer that has been published; its sign is what becomes of the gradient."""

    def __init__(self, name: str, parameters: nn.ParameterList) -> None:
        self.parameters = list(parameters)
        groups = {}
        if name != "demo":
            inside = dist.new_group([dist.get_rank()], use_local_synchronization=True)
            groups["sharding_parallel_group"] = inside
            groups["replication_parallel_group"] = dist.group.WORLD
        self.optimizer = importlib.import_module(name).DeMo(
            self.parameters, lr=RATE, compression_decay=DECAY, compression_topk=KEPT,
            compression_chunk=SIDE, **groups,
        )  # fmt: skip

    @property
    def momenta(self) -> list[Tensor]:
        if hasattr(self.optimizer, "demo_state"):
            return [self.optimizer.demo_state[p]["delta"] for p in self.parameters]
        return [self.optimizer.state[p]["demo_delta"] for p in self.parameters]

    def step(self) -> list[Tensor]:
        self.optimizer.step()
        return [p.grad.clone() for p in self.parameters]


def demo_beside(group: int, published: str | None) -> dict[str, float]:
    theirs, ours, signed = zeros(DCT), zeros(DCT), zeros(DCT)
    other = Formulas(theirs) if published is None else Published(published, theirs)
    compressor = TopDctCompressor(rows=SIDE, columns=SIDE, kept=KEPT)
    method = GradientExchange(compressor=compressor, memory="momentum", decay=DECAY)
    between, with_sign = between_of(ours, method), between_of(signed, demo(compressor, decay=DECAY))
    result = {"momentum": 0.0, "signs": 0, "elements": 0, "smallest": 0}
    for step in range(10):
        for of in (theirs, ours, signed):
            for p, g in zip(of, gradients(DCT, group, step), strict=True):
                p.grad = g.clone()
        signs = other.step()
        between.average(RATE)
        with_sign.average(RATE)
        for u, mine, sign in zip(ours, signed, signs, strict=True):
            assert torch.equal(mine.grad, u.grad.sign())
            is_clear = u.grad.abs() > 1e-6 * u.grad.abs().max()
            differ = mine.grad != sign
            result["elements"] += u.numel()
            result["signs"] += int((differ & is_clear).sum())
            result["smallest"] += int((differ & ~is_clear).sum())
        kept = [part["memory"][0] for part in between.state_dict()["parts"]]
        expected = dict(zip(DCT, other.momenta, strict=True))
        for shape, memory in zip(sorted(DCT), kept, strict=True):
            found = memory[0].view(shape)
            result["momentum"] = max(result["momentum"], apart(found, expected[shape]))
    return result


def check_demo(published: str | None) -> None:
    for found in run_ranks(GROUPS, demo_beside, published):
        assert found["momentum"] < 1e-5
        assert found["signs"] == 0  # but where it is about zero
        assert found["smallest"] < 1e-3 * found["elements"]


def test_demo_is_its_formulas() -> None:
    check_demo(None)


@pytest.mark.parametrize("name", ["demo", "detonation.optim.demo"])
def test_demo_is_the_published_optimizer(name: str) -> None:
    """`demo` is a file of the authors of DeMo, `detonation` a package of those of FlexDeMo."""
    if not hasattr(pytest.importorskip(name), "DeMo"):
        pytest.skip(f"module {name} is another one")
    check_demo(name)
