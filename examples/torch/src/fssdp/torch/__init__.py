# SPDX-License-Identifier: Apache-2.0
"""Sharded Mixture-of-Experts training in PyTorch.

``shard_experts`` is to the experts of a model what FSDP2's ``fully_shard`` is to its dense layers.
Below it are the collectives, as differentiable functions over a Communicator.

    import fssdp

    layers = [block.mlp.experts for block in model.blocks]
    experts = fssdp.torch.shard_experts(layers, solver=fssdp.Everywhere())
    optimizer = torch.optim.AdamW(model.parameters())
    ...
    loss.backward()
    experts.step()
    optimizer.step()
"""

from __future__ import annotations

import torch

try:
    from . import _torch
except ImportError as error:
    raise ImportError(
        f"fssdp.torch does not fit torch {torch.__version__}: {error}. Build it for this version: "
        "pip install --no-build-isolation ./examples/torch"
    ) from error

from ._torch import Metrics
from .between import Between
from .collectives import (
    all_gather_v,
    combine,
    dispatch,
    reduce_scatter_v,
    sparse_all_gather,
    sparse_reduce_scatter,
)
from .communicator import Communicator, Work
from .compressors import *
from .experts import ShardedExperts, shard_experts
from .means import mean_of_groups
from .methods import *
from .tracing import Traceable, traceable
from . import compressors, methods

__all__ = [
    "Between",
    "Communicator",
    "Metrics",
    "ShardedExperts",
    "Traceable",
    "Work",
    "all_gather_v",
    "combine",
    "dispatch",
    "mean_of_groups",
    "reduce_scatter_v",
    "shard_experts",
    "sparse_all_gather",
    "sparse_reduce_scatter",
    "traceable",
    *compressors.__all__,
    *methods.__all__,
]
