# SPDX-License-Identifier: Apache-2.0
"""The collectives as operators of torch, so that torch.compile traces around them.

Operators take tensors and numbers only. A plan is therefore passed as a number, which is valid as long as
the Traceable exists: keep it until the backward pass has finished.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any, List

import torch
from torch import Tensor

from .. import TokenPlan, TransferPlan
from .communicator import Communicator, communicator_of
from .moves import block, move, sparse

__all__ = ["Traceable", "traceable"]

_keys = itertools.count(1)
_known: weakref.WeakValueDictionary[int, Traceable] = weakref.WeakValueDictionary()


class Traceable:
    """A plan as compiled code takes it: a number, and how many rows go in and come out.

    Attributes:
        plan: a TokenPlan or a TransferPlan.
        near: rows that a rank sends; experts that it owns.
        far: rows that it receives; experts that it holds.
    """

    def __init__(self, plan: Any, near: int, far: int) -> None:
        self.plan = plan
        self.near = near
        self.far = far
        self.key = next(_keys)
        _known[self.key] = self


def traceable(plan: TokenPlan | TransferPlan, comm: Communicator) -> Traceable:
    """What compiled code passes to a collective instead of a plan.

    Args:
        plan: made outside of that code.
        comm: over which it will be used.
    """
    if isinstance(plan, TokenPlan):
        return Traceable(plan, plan.sent_rows, plan.received_rows)
    return Traceable(plan, plan.owned_count(comm.rank), len(plan.materialized(comm.rank)))


def plan_of(plan: Any) -> Any:
    return plan.plan if isinstance(plan, Traceable) else plan


def is_traced() -> bool:
    return torch.compiler.is_compiling()


@torch.library.custom_op("fssdp::move_rows", mutates_args=())
def move_rows(rows: Tensor, comm: int, plan: int, near: int, far: int, back: bool) -> Tensor:
    return move(communicator_of(comm), _known[plan].plan, rows, back)[0]


@move_rows.register_fake
def _(rows: Tensor, comm: int, plan: int, near: int, far: int, back: bool) -> Tensor:
    return rows.new_empty((near if back else far, *rows.shape[1:]))


def _keep_rest(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.rest = inputs[1:]


def _move_back(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    *same, back = ctx.rest
    return move_rows(gradient.contiguous(), *same, not back), *(None,) * 5


move_rows.register_autograd(_move_back, setup_context=_keep_rest)


# torch 2.6 reads the types of operators, and knows List only
@torch.library.custom_op("fssdp::sparse", mutates_args=())
def sparse_rows(
    tensors: Sequence[Tensor], comm: int, plan: int, near: int, far: int, back: bool
) -> List[Tensor]:
    return sparse(communicator_of(comm), _known[plan].plan, tensors, back)


@sparse_rows.register_fake
def _(
    tensors: Sequence[Tensor], comm: int, plan: int, near: int, far: int, back: bool
) -> list[Tensor]:
    return [t.new_empty((near if back else far, *t.shape[1:])) for t in tensors]


def _sparse_back(ctx: Any, gradients: list[Tensor]) -> tuple[Any, ...]:
    *same, back = ctx.rest
    return sparse_rows([g.contiguous() for g in gradients], *same, not back), *(None,) * 5


sparse_rows.register_autograd(_sparse_back, setup_context=_keep_rest)


@torch.library.custom_op("fssdp::block", mutates_args=())
def block_rows(rows: Tensor, comm: int, counts: Sequence[int], rank: int, back: bool) -> Tensor:
    return block(communicator_of(comm), list(counts), rows, back)[0]


@block_rows.register_fake
def _(rows: Tensor, comm: int, counts: Sequence[int], rank: int, back: bool) -> Tensor:
    return rows.new_empty((counts[rank] if back else sum(counts), *rows.shape[1:]))


def _block_back(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    *same, back = ctx.rest
    return block_rows(gradient.contiguous(), *same, not back), *(None,) * 4


block_rows.register_autograd(_block_back, setup_context=_keep_rest)
