# SPDX-License-Identifier: Apache-2.0
"""A small language model of bytes whose layers are mixtures of experts. It knows nothing of ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class Shape:
    """How large the model is."""

    width: int = 32
    hidden: int = 64
    heads: int = 2
    layers: int = 4
    experts: int = 8
    per_token: int = 2
    sequence: int = 32
    batch: int = 12  # over all ranks


class Expert(nn.Module):
    """One expert: [rows, width] -> [rows, width]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.w1 = nn.Linear(shape.width, shape.hidden, bias=False)
        self.w2 = nn.Linear(shape.hidden, shape.width, bias=False)
        self.w3 = nn.Linear(shape.width, shape.hidden, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(rows)) * self.w3(rows))


class ListedExperts(nn.ModuleList):
    """The experts of a layer, each with parameters of its own."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(Expert(shape) for _ in range(shape.experts))

    def forward(self, tokens: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        result = torch.zeros_like(tokens)
        for e, expert in enumerate(self):
            token, choice = torch.where(experts == e)
            rows = expert(tokens[token]) * weights[token, choice, None]
            result = result.index_add(0, token, rows)
        return result


class StackedExperts(nn.Module):
    """The experts of a layer in three parameters [experts, ...], as transformers have them."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.num_experts = shape.experts
        self.w1 = nn.Parameter(torch.empty(shape.experts, shape.hidden, shape.width))
        self.w2 = nn.Parameter(torch.empty(shape.experts, shape.width, shape.hidden))
        self.w3 = nn.Parameter(torch.empty(shape.experts, shape.hidden, shape.width))

    def forward(self, tokens: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        result = torch.zeros_like(tokens)
        every = zip(self.w1.unbind(), self.w2.unbind(), self.w3.unbind(), strict=True)
        for e, (w1, w2, w3) in enumerate(every):
            token, choice = torch.where(experts == e)
            inner = F.silu(F.linear(tokens[token], w1)) * F.linear(tokens[token], w3)
            rows = F.linear(inner, w2) * weights[token, choice, None]
            result = result.index_add(0, token, rows)
        return result


class Block(nn.Module):
    """Attention, and a layer of experts."""

    def __init__(self, shape: Shape, experts: nn.Module) -> None:
        super().__init__()
        self.shape = shape
        self.norm1, self.norm2 = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.gate = nn.Linear(shape.width, shape.experts, bias=False)
        self.experts = experts

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, self.shape.heads, -1)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        tokens = self.norm2(x).view(-1, width)
        best = self.gate(tokens).topk(self.shape.per_token)
        tokens = self.experts(tokens, best.indices, best.values.softmax(-1))
        return x + tokens.view_as(x)


class Model(nn.Module):
    """Bytes [batch, sequence] -> logits of the next ones [batch, sequence, 256]."""

    def __init__(self, shape: Shape, *, stacked: bool = False, recompute: bool = False) -> None:
        super().__init__()
        kind: Callable[[Shape], nn.Module] = StackedExperts if stacked else ListedExperts
        self.recompute = recompute
        self.embed = nn.Embedding(256, shape.width)
        self.place = nn.Parameter(torch.empty(shape.sequence, shape.width))
        self.blocks = nn.ModuleList(Block(shape, kind(shape)) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, 256)
        self._fill()

    def _fill(self) -> None:
        """Fills both kinds of experts with equal weights: each expert has its own random numbers."""
        draw = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for name, p in self.named_parameters():
                if name.endswith("bias"):
                    p.zero_()
                elif ".experts." not in name and p.dim() > 1:
                    p.normal_(0, p.shape[-1] ** -0.5, generator=draw)
            for l, block in enumerate(self.blocks):
                for e in range(block.shape.experts):
                    for n, p in enumerate(_expert(block.experts, e)):
                        draw.manual_seed(1000 * l + 10 * e + n + 7)
                        p.normal_(0, p.shape[-1] ** -0.5, generator=draw)

    def forward(self, text: Tensor) -> Tensor:
        x = self.embed(text) + self.place
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(self.norm(x))


def _expert(layer: nn.Module, e: int) -> list[Tensor]:
    if isinstance(layer, ListedExperts):
        return [layer[e].w1.weight, layer[e].w2.weight, layer[e].w3.weight]
    return [layer.w1[e], layer.w2[e], layer.w3[e]]


class Text:
    """Batches of the sources of this package: the same on every rank."""

    def __init__(self, shape: Shape) -> None:
        folder = Path(__file__).parent.parent
        files = sorted([*folder.glob("src/fssdp/*.py"), *folder.glob("trainer/*.py")])
        text = b"".join(file.read_bytes() for file in files)
        self.shape = shape
        self.bytes = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()

    def batch(self, step: int, rank: int, ranks: int) -> tuple[Tensor, Tensor]:
        """A rank's part of the batch of a step: bytes, and for each the next one."""
        draw = torch.Generator().manual_seed(step)
        length = self.shape.sequence
        at = torch.randint(0, len(self.bytes) - length - 1, (self.shape.batch,), generator=draw)
        share = self.shape.batch // ranks
        mine = at[rank * share : (rank + 1) * share]
        x = torch.stack([self.bytes[i : i + length] for i in mine])
        y = torch.stack([self.bytes[i + 1 : i + length + 1] for i in mine])
        return x, y
