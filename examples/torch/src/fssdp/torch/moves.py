# SPDX-License-Identifier: Apache-2.0
"""The collectives without autograd: each makes the tensors that it fills, and returns a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .communicator import Communicator, Work


def _finish(begun: Any, results: list[Tensor], async_op: bool) -> Any:
    return Work(begun, lambda: results) if async_op else results


def move(
    comm: Communicator, plan: Any, rows: Tensor, back: bool, async_op: bool = False
) -> Any:
    """dispatch; combine if `back`."""
    count = plan.sent_rows if back else plan.received_rows
    result = rows.new_empty((count, *rows.shape[1:]))
    part = comm.on(rows.device)
    run = part.combine if back else part.dispatch
    return _finish(run(plan, rows.detach().contiguous(), result, async_op), [result], async_op)


def sparse(
    comm: Communicator,
    plan: Any,
    tensors: Sequence[Tensor],
    back: bool,
    dtypes: Sequence[torch.dtype] | None = None,
    async_op: bool = False,
) -> Any:
    """sparse_all_gather; sparse_reduce_scatter if `back`."""
    count = plan.owned_count(comm.rank) if back else len(plan.materialized(comm.rank))
    results = [
        t.new_empty((count, *t.shape[1:]), dtype=None if dtypes is None else dtypes[k])
        for k, t in enumerate(tensors)
    ]
    inputs = [t.detach() for t in tensors]
    part = comm.on(inputs[0].device if inputs else comm.device or "cpu")
    if back:
        begun = part.sparse_reduce_scatter(plan, inputs, results, 1.0, async_op)
    else:
        begun = part.sparse_all_gather(plan, inputs, results, async_op)
    return _finish(begun, results, async_op)


def block(
    comm: Communicator, counts: list[int], rows: Tensor, back: bool, async_op: bool = False
) -> Any:
    """all_gather_v; reduce_scatter_v if `back`."""
    count = counts[comm.rank] if back else sum(counts)
    result = rows.new_empty((count, *rows.shape[1:]))
    part = comm.on(rows.device)
    run = part.reduce_scatter_v if back else part.all_gather_v
    return _finish(run(counts, rows.detach().contiguous(), result, async_op), [result], async_op)
