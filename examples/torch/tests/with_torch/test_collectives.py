# SPDX-License-Identifier: Apache-2.0
"""The collectives: against plain torch, and each as the transpose of its partner."""

from __future__ import annotations

import pytest
import torch
from trainer.ranks import run_ranks

import fssdp
from fssdp import torch as ft


def plan_for(ranks: int, experts: int = 6, seed: int = 0) -> tuple[fssdp.Layout, fssdp.TransferPlan]:
    draw = torch.Generator().manual_seed(seed)
    owners = torch.randint(0, ranks, (experts,), generator=draw)
    layout = fssdp.table_layout(owners, ranks=ranks)
    loads = torch.randint(1, 100, (experts,), generator=draw)
    where = fssdp.SparseMaterialization(overlap=3, spare_slots=2)(loads, layout)
    return layout, fssdp.make_plan(layout, where)


def whole(experts: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(experts, *shape, generator=draw).to(dtype)


def gather_and_reduce(rank: int, ranks: int) -> None:
    layout, plan = plan_for(ranks)
    comm = ft.Communicator(timeout=20)
    own = [int(e) for e, _ in layout.owned(rank)]
    held = [int(e) for e in plan.materialized(rank)]
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        everything = [whole(6, 3, 4, dtype=dtype), whole(6, 5, dtype=dtype)]
        owned = [t[own].requires_grad_() for t in everything]
        got = ft.sparse_all_gather(comm, plan, owned)
        assert [torch.equal(g, t[held]) for g, t in zip(got, everything)] == [True, True]
        sum(((rank + 1) * g).sum() for g in got).backward()
        for t in owned:
            for i, e in enumerate(own):
                expected = sum(r + 1 for r in range(ranks) if e in plan.materialized(r))
                assert torch.equal(t.grad[i], torch.full_like(t.grad[i], expected))
    half = ft.sparse_all_gather(comm, plan, whole(6, 3)[own], dtype=torch.bfloat16)
    assert torch.equal(half, whole(6, 3, dtype=torch.bfloat16)[held])


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_gather_brings_owners_parameters_and_its_backward_sums(ranks: int) -> None:
    run_ranks(ranks, gather_and_reduce, ranks)


def law(rank: int, ranks: int) -> tuple[float, ...]:
    """<G x, y> and <x, G^T y> on this rank, of every pair of collectives."""
    layout, plan = plan_for(ranks)
    comm = ft.Communicator(timeout=20)
    draw = torch.Generator().manual_seed(rank)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    x = random(len(layout.owned(rank)), 4)
    y = random(len(plan.materialized(rank)), 4)
    found = [(ft.sparse_all_gather(comm, plan, x) * y).sum()]
    found += [(x * ft.sparse_reduce_scatter(comm, plan, y)).sum()]
    counts = [2, 0, 3, 1][:ranks]
    x, y = random(counts[rank], 3), random(sum(counts), 3)
    found += [(ft.all_gather_v(comm, x, counts) * y).sum()]
    found += [(x * ft.reduce_scatter_v(comm, y, counts)).sum()]
    tokens = torch.randint(0, 5, (ranks, 6), generator=torch.Generator().manual_seed(7))
    rows = fssdp.TokenPlan(tokens, plan.where, rank)
    x, y = random(rows.sent_rows, 3), random(rows.received_rows, 3)
    found += [(ft.dispatch(comm, rows, x) * y).sum(), (x * ft.combine(comm, rows, y)).sum()]
    return tuple(float(f) for f in found)


@pytest.mark.parametrize("ranks", [2, 3])
def test_partners_are_transposes(ranks: int) -> None:
    sums = [sum(column) for column in zip(*run_ranks(ranks, law, ranks))]
    for one, other in zip(sums[::2], sums[1::2]):
        assert one == pytest.approx(other, rel=1e-12)


def backwards(rank: int, ranks: int) -> None:
    """Autograd of each collective is its partner, bit by bit."""
    _, plan = plan_for(ranks)
    comm = ft.Communicator(timeout=20)
    draw = torch.Generator().manual_seed(rank)
    counts = [2, 0, 3, 1][:ranks]
    tokens = torch.randint(0, 5, (ranks, 6), generator=torch.Generator().manual_seed(7))
    rows = fssdp.TokenPlan(tokens, plan.where, rank)
    pairs = [
        (lambda x: ft.all_gather_v(comm, x, counts), lambda y: ft.reduce_scatter_v(comm, y, counts)),
        (lambda x: ft.dispatch(comm, rows, x), lambda y: ft.combine(comm, rows, y)),
    ]
    sizes = [(counts[rank], sum(counts)), (rows.sent_rows, rows.received_rows)]
    for (forth, back), (near, far) in zip(pairs, sizes):
        for run, partner, n in ((forth, back, near), (back, forth, far)):
            x = torch.randn(n, 3, generator=draw).requires_grad_()
            result = run(x)
            gradient = torch.randn(result.shape, generator=draw)
            result.backward(gradient)
            assert torch.equal(x.grad, partner(gradient))


def test_autograd_uses_the_partner() -> None:
    run_ranks(3, backwards, 3)


def asynchronous(rank: int, ranks: int) -> None:
    layout, plan = plan_for(ranks)
    comm = ft.Communicator(timeout=20)
    own = [int(e) for e, _ in layout.owned(rank)]
    held = [int(e) for e in plan.materialized(rank)]
    x = whole(6, 3)[own].requires_grad_()
    works = [ft.sparse_all_gather(comm, plan, 2 * x, async_op=True) for _ in range(3)]
    results = [work.wait() for work in works]
    assert all(work.is_completed() for work in works)
    assert all(torch.equal(r, 2 * whole(6, 3)[held]) for r in results)
    results[1].sum().backward()
    again = whole(6, 3)[own].requires_grad_()
    ft.sparse_all_gather(comm, plan, 2 * again).sum().backward()
    assert torch.equal(x.grad, again.grad)


def test_async_op_gives_a_work() -> None:
    run_ranks(2, asynchronous, 2)


def disagreement(rank: int) -> str:
    layout, plan = plan_for(2)
    other = fssdp.make_plan(layout, fssdp.Everywhere()([1] * 6, layout))
    used = other if rank == 0 else plan
    own = layout.owned(rank)
    comm = ft.Communicator(timeout=5)
    try:
        ft.sparse_all_gather(comm, used, whole(6, 3)[[int(e) for e, _ in own]])
    except fssdp.RanksDisagree as error:
        return f"{type(error).__name__} {error.failed_rank}"
    return "nothing"


def test_ranks_with_other_plans_get_an_error() -> None:
    assert run_ranks(2, disagreement) == ["RanksDisagree 1", "RanksDisagree 0"]


def late(rank: int) -> str:
    _, plan = plan_for(2)
    comm = ft.Communicator(timeout=1)
    if rank == 1:
        return ""
    layout, _ = plan_for(2)
    work = ft.sparse_all_gather(
        comm, plan, whole(6, 3)[[int(e) for e, _ in layout.owned(rank)]], async_op=True
    )
    with pytest.raises(fssdp.TransportError) as caught:
        work.wait()
    return type(caught.value).__name__


def test_a_rank_that_does_not_come_is_an_error_of_wait() -> None:
    assert run_ranks(2, late)[0] in ("DeadlineExceeded", "PeerFailed")


def refused(rank: int) -> list[str]:
    layout, plan = plan_for(1)
    comm = ft.Communicator(timeout=5)
    texts = []
    for wrong in (whole(4, 6).t(), whole(5, 3), torch.zeros(6, 3, dtype=torch.int32)):
        with pytest.raises(fssdp.ArgumentError) as caught:
            ft.sparse_all_gather(comm, plan, wrong)
        texts.append(str(caught.value))
    tokens = fssdp.TokenPlan([[1] * 6], plan.where, 0)
    with pytest.raises(fssdp.ArgumentError) as caught:
        ft.dispatch(comm, tokens, whole(5, 3))
    texts.append(str(caught.value))
    with pytest.raises(fssdp.ArgumentError) as caught:
        ft.all_gather_v(comm, whole(5, 3), [4])
    texts.append(str(caught.value))
    return texts


def test_wrong_tensors_are_refused_by_name() -> None:
    contiguous, slots, kind, rows, counts = run_ranks(1, refused)[0]
    assert "owned[0] is not contiguous" in contiguous
    assert "5 slots; expected 6" in slots
    assert "owned[0]: a tensor of Int" in kind
    assert "expected [6, 12]" in rows
    assert "5 rows on rank 0; expected 4" in counts


def traced(rank: int, ranks: int) -> None:
    layout, plan = plan_for(ranks)
    comm = ft.Communicator(timeout=200)
    tokens = torch.randint(1, 5, (ranks, 6), generator=torch.Generator().manual_seed(7))

    def layer(x: torch.Tensor, w: torch.Tensor, rows: ft.Traceable, experts: ft.Traceable) -> torch.Tensor:
        held = ft.sparse_all_gather(comm, experts, w * 2)
        far = ft.dispatch(comm, rows, x.sin()) * held.sum()
        return ft.combine(comm, rows, far.tanh()) + x

    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for step in range(3):
        rows = fssdp.TokenPlan(tokens + step, plan.where, rank)
        handles = ft.traceable(rows, comm), ft.traceable(plan, comm)
        own = [int(e) for e, _ in layout.owned(rank)]
        results = []
        for run in (layer, compiled):
            draw = torch.Generator().manual_seed(rank)
            x = torch.randn(rows.sent_rows, 3, generator=draw).requires_grad_()
            w = whole(6, 2)[own].requires_grad_()
            y = run(x, w, *handles)
            y.square().sum().backward()
            results.append((y.detach(), x.grad, w.grad))
        assert all(torch.equal(a, b) for a, b in zip(*results))


def test_compile_traces_around_them() -> None:
    run_ranks(2, traced, 2, seconds=300)


def test_functions_are_found_in_fssdp_too() -> None:
    for name in fssdp._from_torch:
        assert getattr(fssdp, name) is getattr(ft, name)
