# SPDX-License-Identifier: Apache-2.0
"""Trains a mixture-of-experts model of the library transformers with sharded experts.

    python transformers_moe.py --ranks 2 --model mixtral   # or qwen3: small, with random weights

It takes three calls: shard_experts, step, clip_grad_norm_. The losses equal those of the unsharded
model, which is trained first.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import fssdp
from fssdp.torch import shard_experts
from trainer.ranks import run_ranks


def small_model(kind: str) -> torch.nn.Module:
    from transformers import MixtralConfig, MixtralForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

    sizes = {
        "vocab_size": 96,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_experts_per_tok": 2,
        "tie_word_embeddings": False,
    }
    torch.manual_seed(0)
    if kind == "mixtral":
        return MixtralForCausalLM(MixtralConfig(**sizes, num_local_experts=8))
    sizes |= {"num_experts": 8, "moe_intermediate_size": 48, "head_dim": 8}
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(**sizes))


def tokens_of(step: int, rank: int, ranks: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(step)
    return torch.randint(0, 96, (12, 24), generator=draw).chunk(ranks)[rank]


def train(rank: int, kind: str, sharded: bool, steps: int) -> list[float]:
    ranks = dist.get_world_size()
    model = small_model(kind)
    if sharded:
        layers = [layer.mlp.experts for layer in model.model.layers]
        solver = fssdp.SparseMaterialization(overlap=4, spare_slots=2)
        experts = shard_experts(layers, solver=solver)
        ignored = experts.names_in(model)
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ignored)
    dense = [p for p in model.parameters() if not sharded or p not in set(experts.parameters())]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    replica = DistributedDataParallel(model)
    losses = []
    for step in range(steps):
        ids = tokens_of(step, rank, ranks)
        optimizer.zero_grad()
        loss = replica(input_ids=ids, labels=ids).loss
        loss.backward()
        if sharded:
            experts.step()
            experts.clip_grad_norm_(1.0, dense)
        else:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(float(total) / ranks)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--model", choices=("mixtral", "qwen3"), default="mixtral")
    parser.add_argument("--steps", type=int, default=10)
    given = parser.parse_args()
    arguments: tuple[Any, ...] = (given.model,)
    as_it_is = run_ranks(given.ranks, train, *arguments, False, given.steps)[0]
    sharded = run_ranks(given.ranks, train, *arguments, True, given.steps)[0]
    apart = max(abs(a - b) for a, b in zip(as_it_is, sharded, strict=True))
    print(f"{given.model}: loss {sharded[0]:.6f} -> {sharded[-1]:.6f}, apart {apart:.1e}")


if __name__ == "__main__":
    main()
