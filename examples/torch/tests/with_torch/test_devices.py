# SPDX-License-Identifier: Apache-2.0
"""Tensors of a device, by torch's operators: here the CPU is the device. Whatever is computed has the
bits of the host's own way. On a GPU: tests/gpu/check_on_gpu.py."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from trainer.ranks import run_ranks

import fssdp
from fssdp import torch as ft
from fssdp.torch import communicator
from test_collectives import plan_for, whole
from test_experts import SOLVERS, choices, make, together
from trainer.model import Shape
from trainer.training import Result, Run, train

sys.path.append(str(Path(__file__).parents[1] / "gpu"))
from gpu_checks import Rank, names_of

SHAPE = Shape(width=16, hidden=16, heads=2, layers=4, experts=8, sequence=16, batch=12)
OWN_CHECKS = [n for n in names_of() if not n.startswith(("trained", "alone"))]


def checked(rank: int, ranks: int) -> list[str]:
    of = Rank(rank, ranks, "cpu")
    return [getattr(of, name)() for name in OWN_CHECKS]


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_is_checked_on_a_gpu_holds_here(ranks: int) -> None:
    assert len(OWN_CHECKS) > 8
    run_ranks(ranks, checked, ranks)


def both_ways(rank: int, ranks: int) -> None:
    layout, plan = plan_for(ranks)
    own = [int(e) for e, _ in layout.owned(rank)]
    held = [int(e) for e in plan.materialized(rank)]
    tokens = fssdp.TokenPlan([[3, 0, 2, 1, 5, 2]] * ranks, plan.where, rank)
    counts = [2, 0, 3, 1][:ranks]
    draw = torch.Generator().manual_seed(rank)
    results: list[list[torch.Tensor]] = []
    rows = torch.randn(sum(counts), 5, generator=draw)
    sent = torch.randn(tokens.sent_rows, 5, generator=draw)
    partials = torch.randn(len(held), 7, generator=draw)
    for operators in (False, True):
        comm = ft.Communicator(dist.new_group(), timeout=20, operators=operators)
        found = [ft.reduce_scatter_v(comm, rows.to(t), counts) for t in (torch.float64, torch.float16)]
        found.append(ft.all_gather_v(comm, rows[: counts[rank]], counts))
        found.append(ft.dispatch(comm, tokens, sent))
        found.append(ft.combine(comm, tokens, found[-1]))
        for dtype in (torch.float32, torch.bfloat16):
            found.append(ft.sparse_all_gather(comm, plan, whole(6, 3)[own], dtype=dtype))
            found.append(ft.sparse_reduce_scatter(comm, plan, partials.to(dtype), dtype=torch.float32))
        results.append(found)
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("ranks", [1, 3])
def test_operators_give_the_bits_of_the_host(ranks: int) -> None:
    run_ranks(ranks, both_ways, ranks)


def trained(rank: int, operators: bool, run: Run) -> Result:
    communicator.by_operators = operators
    return train(run)


@pytest.mark.parametrize(
    "options",
    [
        {"way": "owners_only", "stacked": True},
        {"way": "sparse", "rematerialize": True},
        {"way": "cheapest", "stacked": True, "rematerialize": True, "recompute": True},
        {"way": "everywhere", "bf16": True, "dtype": torch.float32},
        {"way": "sparse", "reshard_every": 2, "micro_batches": 2, "calibrate": True},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_losses_are_those_of_the_host(options: dict[str, Any]) -> None:
    run = Run(**{"shape": SHAPE, "steps": 4, "dense": "ddp", **options})
    host, device = (
        run_ranks(2, trained, operators, run, seconds=300)[0] for operators in (False, True)
    )
    assert device.losses == host.losses
    assert device.moved == host.moved


def several(rank: int) -> list[str]:
    texts = []

    def refused(*arguments: Any, **options: Any) -> None:
        with pytest.raises(fssdp.ArgumentError) as caught:
            ft.Communicator(*arguments, **options)
        texts.append(str(caught.value))

    refused(device="cuda")
    refused(device="meta")
    refused(device="nowhere")
    refused(timeout=-1.0)
    comm = ft.Communicator(device="cpu", timeout=20)
    assert comm.device == torch.device("cpu") and "device=cpu" in repr(comm)
    with pytest.raises(fssdp.ArgumentError) as caught:
        ft.all_gather_v(comm, torch.ones(1, device="meta"), [1])
    texts.append(str(caught.value))
    layers = make(1)
    layers[0][3].w2.to("meta")
    with pytest.raises(fssdp.ArgumentError) as caught:
        ft.shard_experts(list(layers))
    texts.append(str(caught.value))
    return texts


def test_devices_that_do_not_fit_are_refused_by_name() -> None:
    expected = [
        "tensors on cuda over Gloo",
        "without a back end for tensors on meta",
        "device 'nowhere'",
        "a timeout of -1 s",
        "tensors on meta; expected cpu",
        "w2.weight of expert 3 is on meta; expected cpu",
    ]
    for text, wanted in zip(run_ranks(1, several)[0], expected, strict=True):
        assert wanted in text


def let_go(rank: int, operators: bool) -> bool:
    communicator.by_operators = operators
    layers = make()
    experts = ft.shard_experts(list(layers), solver=SOLVERS["everywhere"])
    together(layers, *choices(rank)).square().sum().backward()
    experts.step()
    materializer = weakref.ref(experts.states[0])
    del experts, layers
    gc.collect()
    return materializer() is None


@pytest.mark.parametrize("operators", [False, True])
def test_memory_is_given_back_with_the_layers(operators: bool) -> None:
    assert run_ranks(2, let_go, operators) == [True, True]
