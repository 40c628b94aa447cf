# SPDX-License-Identifier: Apache-2.0
"""Expert parallelism in plain torch, for comparison: only its owner has an expert."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


class _AllToAll(torch.autograd.Function):
    """Rows from all ranks to all ranks; its backward sends them back."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, into: list[int], out: list[int]) -> Tensor:
        ctx.splits = into, out
        result = rows.new_empty(sum(into), rows.shape[1])
        dist.all_to_all_single(result, rows.contiguous(), into, out)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        into, out = ctx.splits
        return _AllToAll.apply(gradient, out, into), None, None


class ExpertParallel(nn.Module):
    """The experts of a layer, of which this rank keeps a block."""

    def __init__(self, experts: nn.ModuleList) -> None:
        super().__init__()
        self.count = len(experts)
        rank, ranks = dist.get_rank(), dist.get_world_size()
        owners = [e * ranks // self.count for e in range(self.count)]
        self.owned_by = torch.tensor([owners.count(r) for r in range(ranks)])
        self.own = nn.ModuleList(e for e, owner in zip(experts, owners) if owner == rank)
        self.loads = [0] * ranks
        self.bytes_sent = 0

    def forward(self, tokens: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        chosen = experts.flatten()
        order = chosen.argsort(stable=True)
        counts = chosen.bincount(minlength=self.count)
        every = [torch.empty_like(counts) for _ in self.owned_by]
        dist.all_gather(every, counts)
        table = torch.stack(every)  # [source, expert]
        first = int(self.owned_by[: dist.get_rank()].sum())
        mine = table[:, first : first + len(self.own)]  # [source, own expert]
        out = [int(part.sum()) for part in counts.split(self.owned_by.tolist())]
        into = mine.sum(1).tolist()
        self.loads = [int(part.sum()) for part in table.sum(0).split(self.owned_by.tolist())]
        row_bytes = tokens.shape[1] * tokens.element_size()
        moved = sum(out) + sum(into) - 2 * out[dist.get_rank()]
        self.bytes_sent += 2 * row_bytes * moved  # forward and backward
        rows = _AllToAll.apply(tokens[order // experts.shape[1]], into, out)
        own = torch.arange(len(self.own), device=rows.device)
        expert = own.repeat(len(every)).repeat_interleave(mine.flatten())
        by_expert = expert.argsort(stable=True)
        parts = rows[by_expert].split(mine.sum(0).tolist())
        done = [e(part) for e, part in zip(self.own, parts, strict=True)]
        rows = torch.cat(done) if done else rows
        rows = _AllToAll.apply(rows[_inverse(by_expert)], out, into)[_inverse(order)]
        return (rows.view(*experts.shape, -1) * weights.unsqueeze(-1)).sum(1)


def _inverse(order: Tensor) -> Tensor:
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(len(order), device=order.device)
    return inverse
