# SPDX-License-Identifier: Apache-2.0
"""What shard_experts makes of modules, and what it refuses."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
import torch
import torch.distributed as dist
from trainer.ranks import run_ranks
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

import fssdp
from fssdp.torch import ShardedExperts, shard_experts
from trainer.model import ListedExperts, Shape, StackedExperts

SHAPE = Shape(width=6, hidden=4, experts=6, layers=2)

TORCH = tuple(int(number) for number in torch.__version__.split(".")[:2])
beside_fully_shard = pytest.mark.skipif(
    TORCH < (2, 9), reason="over Gloo, fully_shard of torch 2.6 fails, that of 2.7 and 2.8 sums gradients"
)


def make(layers: int = 2, stacked: bool = False, dtype: torch.dtype = torch.float64) -> nn.ModuleList:
    """Layers of experts, equal on all ranks, and for both kinds."""
    torch.manual_seed(5)
    kind = StackedExperts if stacked else ListedExperts
    made = nn.ModuleList(kind(SHAPE) for _ in range(layers))
    numbers = [torch.randn(6, 4, 6), torch.randn(6, 6, 4), torch.randn(6, 4, 6)]
    with torch.no_grad():
        for layer in made:
            for e in range(SHAPE.experts):
                own = [layer.w1, layer.w2, layer.w3] if stacked else [*layer[e].parameters()]
                for p, n in zip(own, numbers):
                    (p[e] if stacked else p).copy_(n[e])
    return made.to(dtype)


def choices(rank: int, tokens: int = 5, only: Any = range(6)) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens of a rank, two experts of some for each, and weights."""
    draw = torch.Generator().manual_seed(rank)
    x = torch.randn(tokens, SHAPE.width, generator=draw, dtype=torch.float64)
    pool = torch.tensor(list(only))
    rows = [pool[torch.randperm(len(pool), generator=draw)[:2]] for _ in range(tokens)]
    index = torch.stack(rows) if rows else torch.empty(0, 2, dtype=torch.long)
    return x, index, torch.rand(tokens, 2, generator=draw, dtype=torch.float64)


def together(layers: nn.ModuleList, x: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x, index, weights)
    return x


def expected_gradients(ranks: int, stacked: bool, only: Any = range(6)) -> dict[str, Tensor]:
    """Of the mean over ranks, by a model that nobody has sharded."""
    layers = make(stacked=stacked)
    for rank in range(ranks):
        (together(layers, *choices(rank, only=only)).square().sum() / ranks).backward()
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad
        for name, p in layers.named_parameters()
    }


def close(found: Tensor, expected: Tensor) -> None:
    """But for the order in which sums are formed."""
    largest = float(expected.abs().max()) if expected.numel() > 0 else 0.0
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12 * largest)


def check_gradients(
    layers: nn.ModuleList, experts: ShardedExperts, expected: dict[str, Tensor], rank: int
) -> None:
    for name, p in layers.named_parameters():
        whole = expected[name]
        if p.dim() == 3:
            layout = experts.layouts[int(name.split(".")[0])]
            whole = whole[[int(e) for e, _ in layout.owned(rank)]]
        assert p.grad is not None, name
        close(p.grad, whole)


def one_step(rank: int, ranks: int, stacked: bool, options: dict[str, Any], only: Any) -> None:
    layers = make(stacked=stacked)
    experts = shard_experts(list(layers), **options)
    before = together(make(stacked=stacked), *choices(rank, only=only))
    for _ in range(2):
        after = together(layers, *choices(rank, only=only))
        close(after, before)
        after.square().sum().backward()
        experts.step()
        check_gradients(layers, experts, expected_gradients(ranks, stacked, only), rank)


SOLVERS = {
    "owners": fssdp.OwnersOnly(),
    "sparse": fssdp.SparseMaterialization(overlap=3, spare_slots=2),
    "everywhere": fssdp.Everywhere(),
}


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("solver", SOLVERS)
def test_outputs_and_gradients_are_those_of_the_whole(solver: str, stacked: bool) -> None:
    run_ranks(3, one_step, 3, stacked, {"solver": SOLVERS[solver]}, range(6))


@pytest.mark.parametrize("stacked", [False, True])
def test_a_rank_may_own_nothing_and_experts_may_have_no_tokens(stacked: bool) -> None:
    layout = fssdp.table_layout([0, 2, 2, 0, 2, 2], ranks=3)
    options = {"layouts": [layout] * 2, "solver": fssdp.OwnersOnly()}
    run_ranks(3, one_step, 3, stacked, options, [1, 4])


def test_one_process_has_all() -> None:
    run_ranks(1, one_step, 1, False, {"solver": fssdp.Everywhere()}, range(6))


def idle_experts(rank: int, ranks: int) -> None:
    """Two of six have tokens for many steps, then all: as an optimizer of the whole model has it."""
    layers, whole = make(), make()
    experts = shard_experts(list(layers), solver=SOLVERS["sparse"])
    optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (layers, whole)]
    for step in range(12):
        only = [1, 4] if step < 10 else range(6)
        together(layers, *choices(rank, only=only)).square().sum().backward()
        experts.step()
        for r in range(ranks):
            (together(whole, *choices(r, only=only)).square().sum() / ranks).backward()
        for p in whole.parameters():  # as sharded experts have it: no tokens, no gradient but zero
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    expected = dict(whole.named_parameters())
    for name, p in layers.named_parameters():
        torch.testing.assert_close(p, expected[name], rtol=0, atol=1e-9)


def test_experts_may_have_no_tokens_for_many_steps() -> None:
    run_ranks(2, idle_experts, 2)


def no_tokens_here(rank: int) -> None:
    """A rank without a token takes part, and gets its gradients."""
    layers = make()
    experts = shard_experts(list(layers), solver=fssdp.OwnersOnly(), average=False)
    tokens = choices(0) if rank == 0 else choices(1, tokens=0)
    together(layers, *tokens).square().sum().backward()
    experts.step()
    whole = make()
    together(whole, *choices(0)).square().sum().backward()
    expected = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in whole.named_parameters()}
    check_gradients(layers, experts, expected, rank)


def test_a_rank_may_have_no_tokens() -> None:
    run_ranks(2, no_tokens_here)


def only_parameters_train(rank: int) -> None:
    """Gradients reach the experts, though what goes in has none."""
    layers = make(1)
    experts = shard_experts(list(layers))
    x, index, weights = choices(rank)
    assert not x.requires_grad
    layers[0](x, index, weights).sum().backward()
    experts.step()
    assert all(p.grad is not None for p in experts.parameters())


def test_experts_train_when_their_input_needs_no_gradient() -> None:
    run_ranks(2, only_parameters_train)


def frozen(rank: int) -> None:
    layers = make()
    for p in layers.parameters():
        p.requires_grad_(False)
    experts = shard_experts(list(layers), solver=SOLVERS["sparse"])
    x, index, weights = choices(rank)
    x.requires_grad_()
    together(layers, x, index, weights).square().sum().backward()
    experts.step()
    assert x.grad is not None and all(p.grad is None for p in experts.parameters())
    x.grad = None
    experts.requires_grad_()
    together(layers, x, index, weights).square().sum().backward()
    assert experts.step().reduced_bytes >= 0
    check_gradients(layers, experts, expected_gradients(2, False), rank)


def test_frozen_experts_pass_gradients_on() -> None:
    run_ranks(2, frozen)


def partly_frozen(rank: int) -> None:
    layers = make()
    for name, p in layers.named_parameters():
        p.requires_grad_("w2" in name)
    experts = shard_experts(list(layers), solver=SOLVERS["everywhere"])
    together(layers, *choices(rank)).square().sum().backward()
    experts.step()
    expected = expected_gradients(2, False)
    for name, p in layers.named_parameters():
        assert ("w2" in name) == (p.grad is not None)
        if p.grad is not None:
            close(p.grad, expected[name])


def test_some_tensors_of_an_expert_may_be_frozen() -> None:
    run_ranks(2, partly_frozen)


def accumulate(rank: int, sync: bool, interleave: bool) -> None:
    layers = make()
    experts = shard_experts(list(layers), solver=SOLVERS["sparse"], partial_slots=12)
    losses = [together(layers, *choices(rank)).square().sum() for _ in range(2)] if interleave else []
    for n in range(2):
        loss = losses[n] if interleave else together(layers, *choices(rank)).square().sum()
        if sync:
            loss.backward()
        else:
            with experts.no_sync():
                loss.backward()
    experts.step()
    expected = {name: 2 * g for name, g in expected_gradients(2, False).items()}
    check_gradients(layers, experts, expected, rank)


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("interleave", [True, False])
def test_gradients_of_micro_batches_add_up(sync: bool, interleave: bool) -> None:
    run_ranks(2, accumulate, sync, interleave)


def no_gradient(rank: int) -> None:
    layers = make()
    experts = shard_experts(list(layers), solver=SOLVERS["sparse"])
    layers.eval()
    with torch.no_grad():
        first = together(layers, *choices(rank))
        assert torch.equal(first, together(layers, *choices(rank)))
    assert not first.requires_grad
    assert experts.step().gathers == 2
    assert all(p.grad is None for p in experts.parameters())
    assert experts.expected_loads() == [[0] * 6] * 2


def test_evaluation_leaves_no_gradients_and_no_loads() -> None:
    run_ranks(2, no_gradient)


def late_backward(rank: int) -> str:
    layers = make()
    experts = shard_experts(list(layers))
    loss = together(layers, *choices(rank)).sum()
    experts.step()
    with pytest.raises(fssdp.ArgumentError) as caught:
        loss.backward()
    return str(caught.value)


def test_backward_behind_step_is_refused() -> None:
    assert "before step()" in run_ranks(1, late_backward)[0]


def clipped(rank: int, norm_type: float) -> None:
    layers = make()
    experts = shard_experts(list(layers), solver=SOLVERS["sparse"])
    dense = nn.Parameter(torch.ones(3, dtype=torch.float64))
    (together(layers, *choices(rank)).square().sum()).backward()
    experts.step()
    dense.grad = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    whole = make()
    expected = expected_gradients(2, False)
    for name, p in whole.named_parameters():
        p.grad = expected[name]
    other = nn.Parameter(torch.ones(3, dtype=torch.float64))
    other.grad = dense.grad.clone()
    norm = nn.utils.clip_grad_norm_([*whole.parameters(), other], 0.5, norm_type)
    assert torch.allclose(experts.clip_grad_norm_(0.5, [dense], norm_type), norm, rtol=1e-12)
    check_gradients(layers, experts, {n: p.grad for n, p in whole.named_parameters()}, rank)
    assert torch.allclose(dense.grad, other.grad)


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
def test_clipping_by_the_norm_of_all(norm_type: float) -> None:
    run_ranks(2, clipped, norm_type)


def full(rank: int, stacked: bool) -> None:
    layers = make(stacked=stacked)
    whole = make(stacked=stacked).state_dict()
    experts = shard_experts(list(layers))
    found = experts.full_tensors(layers)
    assert found.keys() == whole.keys()
    assert all(torch.equal(found[name], whole[name]) for name in whole)
    experts.load_full_tensors({name: value + 1 for name, value in whole.items()}, layers)
    again = experts.full_tensors(layers)
    assert all(torch.equal(again[name], whole[name] + 1) for name in whole)


@pytest.mark.parametrize("stacked", [False, True])
def test_full_tensors_go_out_and_in(stacked: bool) -> None:
    run_ranks(3, full, stacked)


def two_dimensions(rank: int) -> None:
    """Two groups of two ranks: each shares experts, and gradients are averaged over all four."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "experts"))
    layers = make()
    experts = shard_experts(list(layers), mesh, solver=SOLVERS["sparse"])
    together(layers, *choices(rank)).square().sum().backward()
    experts.step()
    check_gradients(layers, experts, expected_gradients(4, False), mesh.get_local_rank(1))


def test_a_mesh_of_groups_that_share_experts() -> None:
    run_ranks(4, two_dimensions)


def grouped(rank: int) -> None:
    """Products of all experts at once, over tensors in one piece."""

    def compute(tensors: dict[str, Tensor], rows: Tensor, counts: list[int]) -> Tensor:
        longest = max(counts)
        padded = torch.stack(
            [nn.functional.pad(part, (0, 0, 0, longest - len(part))) for part in rows.split(counts)]
        )
        w1, w2, w3 = tensors["w1.weight"], tensors["w2.weight"], tensors["w3.weight"]
        inner = nn.functional.silu(padded.bmm(w1.mT)) * padded.bmm(w3.mT)
        done = inner.bmm(w2.mT)
        return torch.cat([part[:count] for part, count in zip(done, counts)])

    layers = make()
    experts = shard_experts(list(layers), solver=SOLVERS["sparse"], compute=compute)
    together(layers, *choices(rank)).square().sum().backward()
    experts.step()
    check_gradients(layers, experts, expected_gradients(2, False), rank)


def test_compute_in_one_piece() -> None:
    run_ranks(2, grouped)


def grouped_by_torch(rank: int) -> None:
    """torch._grouped_mm over the experts of a rank, in one piece; bits of a product may differ."""

    def product(rows: Tensor, weights: Tensor, counts: list[int]) -> Tensor:
        ends = torch.tensor(counts).cumsum(0).to(torch.int32)
        return torch._grouped_mm(rows, weights.mT, offs=ends)

    def compute(tensors: dict[str, Tensor], rows: Tensor, counts: list[int]) -> Tensor:
        inner = nn.functional.silu(product(rows, tensors["w1.weight"], counts))
        inner = inner * product(rows, tensors["w3.weight"], counts)
        return product(inner, tensors["w2.weight"], counts)

    shape = Shape(width=8, hidden=16, experts=6)
    torch.manual_seed(5)
    layer, whole = ListedExperts(shape), ListedExperts(shape)
    whole.load_state_dict(layer.state_dict())
    experts = shard_experts(layer, solver=SOLVERS["sparse"], compute=compute)
    for r in range(2):
        draw = torch.Generator().manual_seed(r)
        x = torch.randn(20, shape.width, generator=draw)
        index = torch.stack([torch.randperm(6, generator=draw)[:2] for _ in range(20)])
        weights = torch.rand(20, 2, generator=draw)
        expected = whole(x, index, weights)
        (expected.square().sum() / 2).backward()
        if r == rank:
            found = layer(x, index, weights)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
            found.square().sum().backward()
    experts.step()
    gradients = dict(whole.named_parameters())
    for name, p in layer.named_parameters():
        torch.testing.assert_close(p.grad, gradients[name].grad, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="this torch has no _grouped_mm")
def test_grouped_products_of_torch() -> None:
    run_ranks(2, grouped_by_torch)


def calibrated(rank: int) -> int:
    layers = make()
    experts = shard_experts(
        list(layers),
        solver=fssdp.SparseMaterialization(overlap=2, spare_slots=2),
        calibrate=True,
        seconds_per_row=1.0,
        replica_slots=16,
    )
    accepted = 0
    for only in ([0, 1], [4, 5]):
        together(layers, *choices(rank, only=only)).square().sum().backward()
        accepted += experts.step().calibrations_accepted
        check_gradients(layers, experts, expected_gradients(2, False, only), rank)
    return accepted


def test_replicas_are_added_when_the_router_has_chosen() -> None:
    assert run_ranks(2, calibrated)[0] > 0


def refusals(rank: int) -> list[str]:
    def refused(layers: Any, **options: Any) -> str:
        with pytest.raises(fssdp.ArgumentError) as caught:
            shard_experts(layers, **options)
        return str(caught.value)

    texts = []
    layers = make()
    layers[1][2].w2.weight = nn.Parameter(torch.zeros(4, 6, dtype=torch.float64).t())
    texts.append(refused(list(layers)))
    layers = make(stacked=True)
    layers[1].w1 = nn.Parameter(torch.zeros(6, 4, 7, dtype=torch.float64))
    texts.append(refused(list(layers)))
    layers = make()
    layers[0][3].w1.weight.requires_grad_(False)
    texts.append(refused(list(layers)))
    layers = make()
    layers[1][4].register_buffer("scale", torch.ones(1))
    texts.append(refused(list(layers)))
    texts.append(refused([make()[0], make(stacked=True)[0]]))
    texts.append(refused([]))
    texts.append(refused(list(make()), param_dtype=torch.int8))
    texts.append(refused(list(make()), solver=lambda loads, layout: None))
    texts.append(refused(list(make()), layouts=[fssdp.block_layout(experts=6, ranks=1)]))
    texts.append(refused(list(make()), replica_slots=0, param_dtype=torch.bfloat16, timeout=-1.0))
    return texts


def test_what_does_not_fit_is_refused_by_name() -> None:
    expected = [
        "layer 1: w2.weight of expert 2 is not contiguous: sizes [6, 4], strides [1, 6]",
        "layer 1: w1 is [6, 4, 7] of torch.float64; expected [6, 4, 6]",
        "layer 0: w1.weight of expert 3 has requires_grad=False; expected True",
        "layer 1: expert 4 has buffers",
        "layers of both kinds",
        "0 layers",
        "param_dtype is torch.int8",
        "does not say how many it asks for",
        "layouts of 1 layers; expected 2",
        "a timeout of -1 s",
    ]
    for text, wanted in zip(run_ranks(1, refusals)[0], expected, strict=True):
        assert wanted in text


def wrong_calls(rank: int) -> list[str]:
    layers = make(1)
    shard_experts(list(layers))
    texts = []
    for rows, counts in ((torch.zeros(3, 6), [1, 1, 1]), (torch.zeros(3, 6), [1] * 6)):
        with pytest.raises(fssdp.ArgumentError) as caught:
            layers[0].on_rows(rows.double(), counts)
        texts.append(str(caught.value))
    return texts


def test_wrong_rows_are_refused() -> None:
    few, many = run_ranks(1, wrong_calls)[0]
    assert few == "rows of 3 experts; expected 6"
    assert many == "3 rows; expected 6, as the counts say"


def others_experts(rank: int) -> str:
    layers = make(1)
    shard_experts(list(layers))
    assert isinstance(layers[0], ListedExperts) and len(layers[0]) == 6
    with pytest.raises(fssdp.ArgumentError) as caught:
        layers[0][0 if rank == 1 else 5](torch.zeros(1, 6))
    return str(caught.value)


def test_an_expert_elsewhere_says_where() -> None:
    assert "expert 5 is owned by rank 1" in run_ranks(2, others_experts)[0]


def dies(rank: int) -> Any:
    layers = make()
    experts = shard_experts(list(layers), solver=SOLVERS["everywhere"], timeout=5.0)
    if rank == 1:
        os._exit(3)
    begin = time.monotonic()
    with pytest.raises(fssdp.TransportError) as caught:
        for _ in range(3):
            together(layers, *choices(rank)).square().sum().backward()
            experts.step()
    return time.monotonic() - begin, caught.value.failed_rank


def test_a_process_that_dies_is_an_error_on_the_others() -> None:
    seconds, failed = run_ranks(2, dies)[0]
    assert seconds < 10 and failed == 1


def killed(rank: int, backward: bool) -> Any:
    """Rank 1 is killed while it computes, in the third iteration."""
    computed = 0

    def compute(tensors: dict[str, Tensor], rows: Tensor, counts: list[int]) -> Tensor:
        nonlocal computed
        computed += 1
        if rank == 1 and computed == 6 and not backward:
            os.kill(os.getpid(), signal.SIGKILL)
        parts = zip(rows.split(counts), tensors["w1.weight"], tensors["w2.weight"])
        return torch.cat([part @ w1.mT @ w2.mT for part, w1, w2 in parts])

    layers = make()
    experts = shard_experts(list(layers), solver=SOLVERS["everywhere"], compute=compute, timeout=30.0)
    begin = time.monotonic()
    with pytest.raises(fssdp.TransportError) as caught:
        for iteration in range(5):
            loss = together(layers, *choices(rank)).square().sum()
            if rank == 1 and iteration == 2:
                loss.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
            loss.backward()
            experts.step()
    return iteration, time.monotonic() - begin, caught.value.failed_rank


@pytest.mark.parametrize("backward", [False, True])
def test_a_process_that_is_killed_is_named_by_all_others(backward: bool) -> None:
    results = run_ranks(3, killed, backward)
    assert results[1] is None
    for iteration, seconds, failed in (results[0], results[2]):
        assert (iteration, failed) == (2, 1) and seconds < 15


def other_solvers(rank: int) -> tuple[float, int, str]:
    layers = make()
    solver = SOLVERS["owners" if rank == 0 else "everywhere"]
    shard_experts(list(layers), solver=solver, timeout=30.0)
    begin = time.monotonic()
    with pytest.raises(fssdp.RanksDisagree) as caught:
        together(layers, *choices(rank)).sum().backward()
    return time.monotonic() - begin, caught.value.failed_rank, str(caught.value)


def test_ranks_with_other_placements_disagree_at_once() -> None:
    for rank, (seconds, failed, text) in enumerate(run_ranks(2, other_solvers)):
        assert seconds < 10 and failed == 1 - rank
        assert "their placements differ; expected equal solvers" in text
