# SPDX-License-Identifier: Apache-2.0
"""Collectives as differentiable functions: the backward of each is its partner.

With ``async_op`` they return a Work, whose ``wait`` returns the result. In code that torch.compile
traces, plans are what ``traceable`` has made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from .. import TokenPlan, TransferPlan
from .communicator import Communicator, Work, all_of
from .moves import block, move, sparse
from .tracing import Traceable, block_rows, is_traced, move_rows, plan_of, sparse_rows

__all__ = [
    "all_gather_v",
    "combine",
    "dispatch",
    "reduce_scatter_v",
    "sparse_all_gather",
    "sparse_reduce_scatter",
]


class _Linear(Function):
    """A collective as a linear map between ranks; its backward is the transposed collective."""

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Any], back: bool, *tensors: Tensor) -> Any:
        ctx.run, ctx.back = run, back
        ctx.dtypes = [t.dtype for t in tensors]
        return tuple(run(tensors, back))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        transposed = _Linear.apply(ctx.run, not ctx.back, *(g.contiguous() for g in gradients))
        return None, None, *(g.to(t) for g, t in zip(transposed, ctx.dtypes, strict=True))


class _Attached(Function):
    """Puts a result that already exists into the graph of the tensors it was made from."""

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Any], back: bool, results: Any, *tensors: Tensor) -> Any:
        ctx.run, ctx.back = run, back
        ctx.dtypes = [t.dtype for t in tensors]
        return tuple(r.view_as(r) for r in results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, *_Linear.backward(ctx, *gradients)


def _linear(
    run: Callable[..., Any], back: bool, tensors: Sequence[Tensor], async_op: bool
) -> tuple[Tensor, ...] | Work:
    if not async_op:
        return _Linear.apply(run, back, *tensors)
    work = run(tensors, back, async_op=True)
    results = work._result()
    work._result = lambda: _Attached.apply(run, back, results, *tensors)
    return work


def _rows(comm: Communicator, plan: Any, rows: Tensor, back: bool, async_op: bool) -> Any:
    if is_traced():
        return move_rows(rows, comm.key, plan.key, plan.near, plan.far, back)
    kept = plan_of(plan)

    def run(tensors: Sequence[Tensor], back: bool, async_op: bool = False) -> Any:
        return move(comm, kept, tensors[0], back, async_op)

    return _single(_linear(run, back, (rows,), async_op))


def _single(results: Any) -> Any:
    if not isinstance(results, Work):
        return results[0]
    result = results._result
    results._result = lambda: result()[0]
    return results


def dispatch(
    comm: Communicator, plan: TokenPlan | Traceable, rows: Tensor, *, async_op: bool = False
) -> Tensor:
    """Sends rows to the ranks that compute them. Its backward is ``combine``.

    Args:
        comm: every rank calls with its plan of the same counts.
        plan: says which rows go where.
        rows: [sent, ...], as ``plan.sends`` says: by expert.

    Returns:
        [received, ...], as ``plan.receives`` says: by expert, then by source.
    """
    return _rows(comm, plan, rows, False, async_op)


def combine(
    comm: Communicator, plan: TokenPlan | Traceable, rows: Tensor, *, async_op: bool = False
) -> Tensor:
    """Brings computed rows back. Its backward is ``dispatch``.

    Args:
        comm: as in ``dispatch``.
        plan: as in ``dispatch``.
        rows: [received, ...].

    Returns:
        [sent, ...].
    """
    return _rows(comm, plan, rows, True, async_op)


def _experts(
    comm: Communicator,
    plan: Any,
    tensors: Any,
    back: bool,
    dtype: torch.dtype | None,
    async_op: bool,
) -> Any:
    given = all_of(tensors)
    if is_traced():
        results: Any = sparse_rows(list(given), comm.key, plan.key, plan.near, plan.far, back)
    else:
        kept = plan_of(plan)
        own = [t.dtype for t in given]

        def run(tensors: Sequence[Tensor], way: bool, async_op: bool = False) -> Any:
            dtypes = own if way != back else [dtype or t for t in own]
            return sparse(comm, kept, tensors, way, dtypes, async_op)

        results = _linear(run, back, given, async_op)
    return results if isinstance(tensors, (list, tuple)) else _single(results)


def sparse_all_gather(
    comm: Communicator,
    plan: TransferPlan | Traceable,
    owned: Tensor | Sequence[Tensor],
    *,
    dtype: torch.dtype | None = None,
    async_op: bool = False,
) -> Any:
    """Copies experts from their owners to all ranks that hold them. Its backward is the reduction.

    Args:
        comm: every rank calls with an equal plan.
        plan: says who owns and who holds what; of whole experts, not slices.
        owned: [owned, ...] in slot order, for each tensor of an expert.
        dtype: the type to send; the owner converts once.

    Returns:
        For each tensor [held, ...], ascending experts, the rank's own among them.
    """
    return _experts(comm, plan, owned, False, dtype, async_op)


def sparse_reduce_scatter(
    comm: Communicator,
    plan: TransferPlan | Traceable,
    held: Tensor | Sequence[Tensor],
    *,
    dtype: torch.dtype | None = None,
    async_op: bool = False,
) -> Any:
    """Sums partial gradients of all holders of an expert at its owner. Its backward is the gather.

    Args:
        comm: as in ``sparse_all_gather``.
        plan: as in ``sparse_all_gather``.
        held: [held, ...], ascending experts, for each tensor of an expert.
        dtype: of the sums, which are formed in float32 or, of float64, in float64.

    Returns:
        For each tensor [owned, ...] in slot order.
    """
    return _experts(comm, plan, held, True, dtype, async_op)


def _blocks(
    comm: Communicator, counts: Sequence[int], rows: Tensor, back: bool, async_op: bool
) -> Any:
    if is_traced():
        return block_rows(rows, comm.key, list(counts), comm.rank, back)
    kept = [int(count) for count in counts]

    def run(tensors: Sequence[Tensor], back: bool, async_op: bool = False) -> Any:
        return block(comm, kept, tensors[0], back, async_op)

    return _single(_linear(run, back, (rows,), async_op))


def all_gather_v(
    comm: Communicator, rows: Tensor, counts: Sequence[int], *, async_op: bool = False
) -> Tensor:
    """Every rank gets the rows of all. Its backward is ``reduce_scatter_v``.

    Args:
        comm: every rank calls with equal counts.
        rows: [counts[rank], ...].
        counts: rows of each rank: [ranks].

    Returns:
        [sum(counts), ...], by rank.
    """
    return _blocks(comm, counts, rows, False, async_op)


def reduce_scatter_v(
    comm: Communicator, rows: Tensor, counts: Sequence[int], *, async_op: bool = False
) -> Tensor:
    """Sums rows over all ranks, in rank order; each gets its part. Its backward: ``all_gather_v``.

    Args:
        comm: every rank calls with equal counts.
        rows: [sum(counts), ...].
        counts: rows of each rank: [ranks].

    Returns:
        [counts[rank], ...].
    """
    return _blocks(comm, counts, rows, True, async_op)
