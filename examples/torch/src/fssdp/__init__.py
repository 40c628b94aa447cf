# SPDX-License-Identifier: Apache-2.0
"""Placement, plans and token routing for sharded Mixture-of-Experts training.

Every expert's parameters and optimizer state have one owner (a Layout), the busy experts get replicas
for one iteration (a Placement, made by a solver), a TransferPlan says what is sent, a TokenPlan where
tokens go. All of it is computed on the CPU from loads, tokens per expert: equal inputs give equal
results on every rank. Arguments may be numpy arrays, lists, tensors of PyTorch on the CPU or anything
with DLPack. Results are numpy arrays: int64 for whole numbers, structured arrays for several fields.

    import fssdp

    topology = fssdp.Topology(ranks=8, nodes=2)
    layout = fssdp.block_layout(experts=16, ranks=8)
    solve = fssdp.SparseMaterialization(overlap=4, spare_slots=2, topology=topology)
    plan = fssdp.make_plan(layout, solve(loads, layout), topology)
"""

from __future__ import annotations

import importlib
from typing import Any

from . import checkpoint, errors
from ._core import Topology, version as __version__
from .advice import *
from .costs import *
from .errors import *
from .layouts import *
from .placements import *
from .plans import *
from .predictors import *
from .rebalance import *
from .solvers import *
from .tokens import *
from . import advice, costs, layouts, placements, plans, predictors, rebalance, solvers, tokens

__all__ = ["Topology", "__version__", "checkpoint", "errors"]
for _part in (
    advice, costs, errors, layouts, placements, plans, predictors, rebalance, solvers, tokens,
):  # fmt: skip
    __all__ += _part.__all__
for _name in __all__:  # pickles and messages name them without the module that they are built in
    _value = globals()[_name]
    if isinstance(_value, type) and _value.__module__ == "fssdp._core":
        _value.__module__ = "fssdp"


_from_torch = (
    "all_gather_v",
    "combine",
    "dispatch",
    "reduce_scatter_v",
    "shard_experts",
    "sparse_all_gather",
    "sparse_reduce_scatter",
)


def __getattr__(name: str) -> Any:
    """Imports ``fssdp.torch``, which is built for one version of torch, when it is first used; its
    functions are found here, too."""
    if name == "torch" or name in _from_torch:
        try:
            module = importlib.import_module("fssdp.torch")
        except ModuleNotFoundError as error:
            raise AttributeError(f"fssdp.torch is not installed: {error}") from error
        return module if name == "torch" else getattr(module, name)
    raise AttributeError(f"module 'fssdp' has no attribute '{name}'")
