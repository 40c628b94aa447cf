# SPDX-License-Identifier: Apache-2.0
"""Expert parallelism by DeepSpeed, to compare with, where DeepSpeed is installed."""

from __future__ import annotations

import importlib.util
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .model import Block, Expert


def has_deepspeed() -> bool:
    return importlib.util.find_spec("deepspeed") is not None


class DeepSpeedExperts(nn.Module):
    """The experts of a block in deepspeed.moe.layer.MoE. Its gate is a copy of the block's router, and
    chooses the same experts with the same weights: no token is dropped, and nothing is random."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
        import deepspeed
        from deepspeed.moe.layer import MoE

        if not deepspeed.comm.is_initialized():
            deepspeed.init_distributed(dist.get_backend(), verbose=False)
        shape, rank, ranks = block.shape, dist.get_rank(), dist.get_world_size()
        if shape.experts % ranks != 0:
            raise ValueError(f"{shape.experts} experts on {ranks} ranks; DeepSpeed expects a multiple")
        self.layer = MoE(
            shape.width,
            Expert(shape),
            num_experts=shape.experts,
            ep_size=ranks,
            k=shape.per_token,
            drop_tokens=False,
            use_rts=False,
            top2_2nd_expert_sampling=False,
        )
        self.layer.set_deepspeed_parallelism()
        first = rank * (shape.experts // ranks)
        for i, expert in enumerate(self.own):
            expert.load_state_dict(block.experts[first + i].state_dict())
        gate = self.layer.deepspeed_moe.gate.wg
        with torch.no_grad():
            gate.weight.copy_(block.gate.weight)
        block.gate.requires_grad_(False)  # its choices are not used

    @property
    def own(self) -> nn.ModuleList:
        return self.layer.deepspeed_moe.experts.deepspeed_experts

    def forward(self, tokens: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        return self.layer(tokens)[0]
