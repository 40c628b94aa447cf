# SPDX-License-Identifier: Apache-2.0
"""A model learns the same, however its experts are sharded: as plain expert parallelism, and as one
process that knows nothing of ranks."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from test_experts import beside_fully_shard
from trainer.ranks import run_ranks

from trainer.model import Shape
from trainer.training import Result, Run, train

SHAPE = Shape(width=16, hidden=16, heads=2, layers=4, experts=8, sequence=16, batch=12)


def body(rank: int, run: Run) -> Result:
    return train(run)


def trained(ranks: int, **options: Any) -> list[Result]:
    return run_ranks(ranks, body, Run(**{"shape": SHAPE, "steps": 5, **options}), seconds=300)


@functools.cache
def alone(stacked: bool) -> list[float]:
    return trained(1, way="alone", stacked=stacked)[0].losses


@functools.cache
def untrained() -> list[float]:
    """Losses of the texts of all steps, with the first weights."""
    options = {"groups": 2, "way": "sparse", "dense": "ddp", "between": "full"}
    return trained(4, learning_rate=0.0, **options)[0].losses


def check(ranks: int, tolerance: float = 1e-12, **options: Any) -> list[Result]:
    results = trained(ranks, **options)
    expected = alone(options.get("stacked", False))
    for result in results:
        assert result.losses == pytest.approx(expected, rel=0, abs=tolerance)
    return results


def test_plain_expert_parallelism_is_what_one_process_does() -> None:
    check(2, way="plain", dense="ddp")


def ways(*options: dict[str, Any]) -> Any:
    return pytest.mark.parametrize(
        "options",
        [pytest.param(o, marks=[beside_fully_shard] if o["dense"] == "fsdp2" else []) for o in options],
        ids=lambda options: "-".join(str(value) for value in options.values()),
    )


@pytest.mark.parametrize("stacked", [False, True])
@ways(
    {"ranks": 2, "way": "owners_only", "dense": "ddp"},
    {"ranks": 2, "way": "sparse", "dense": "fsdp2"},
    {"ranks": 4, "way": "cheapest", "dense": "ddp"},
    {"ranks": 3, "way": "everywhere", "dense": "ddp"},
    {"ranks": 4, "way": "sparse", "dense": "fsdp2", "groups": 2},
    {"ranks": 4, "way": "everywhere", "dense": "ddp", "groups": 2},
    {"ranks": 4, "way": "sparse", "dense": "ddp", "micro_batches": 2},  # of 2 and 1 texts
    {"ranks": 2, "way": "sparse", "dense": "ddp", "recompute": True},
)
def test_losses_are_equal(options: dict[str, Any], stacked: bool) -> None:
    check(**options, stacked=stacked)


@ways(
    {"between": "full", "way": "sparse", "dense": "fsdp2"},
    {"between": "full", "way": "everywhere", "dense": "ddp"},
)
def test_full_gradients_between_groups(options: dict[str, Any]) -> None:
    """They cross in fp32."""
    results = check(4, tolerance=1e-6, groups=2, **options)
    assert results[0].bytes_between > 0


@pytest.mark.parametrize("between", ["demo-2d:8", "powersgd:1", "diloco:2", "co2:2", "terngrad"])
def test_methods_between_groups(between: str) -> None:
    """All ranks have the same losses, and after the last round, the same model."""
    full, less = (
        trained(4, groups=2, way="sparse", dense="ddp", between=name, learning_rate=1e-3)
        for name in ("full", between)
    )
    assert all(result.losses == less[0].losses for result in less)
    assert less[0].losses[-1] < untrained()[-1]  # of the same text
    assert sum(r.bytes_between for r in less) < sum(r.bytes_between for r in full)


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("recompute", [False, True])
def test_replicas_that_are_given_up_between_forward_and_backward(
    stacked: bool, recompute: bool
) -> None:
    """Four layers share slots for two: what autograd has saved must not be what others have now."""
    check(
        2, way="sparse", dense="ddp", rematerialize=True, stacked=stacked, recompute=recompute
    )


@pytest.mark.parametrize("stacked", [False, True])
def test_owners_change_with_their_moments(stacked: bool) -> None:
    results = check(3, way="sparse", dense="ddp", reshard_every=2, stacked=stacked)
    assert results[0].moved > 0


@pytest.mark.parametrize("stacked", [False, True])
def test_planning_ahead_changes_no_bit(stacked: bool) -> None:
    in_time, ahead = (
        trained(3, way="sparse", dense="ddp", stacked=stacked, plan_ahead=ahead)[0]
        for ahead in (False, True)
    )
    assert ahead.losses == in_time.losses


def test_placements_that_are_kept_give_the_same_losses() -> None:
    check(3, way="sparse", dense="ddp", plan_ahead=True, load_tolerance=0.2)


def test_replicas_of_fewer_bits_are_close() -> None:
    float32 = trained(2, way="sparse", dense="ddp", dtype=torch.float32)[0].losses
    bf16 = trained(2, way="sparse", dense="ddp", dtype=torch.float32, bf16=True)[0].losses
    assert bf16 == pytest.approx(float32, rel=0, abs=2e-2)
    assert bf16 != float32


def test_a_rerun_gives_equal_bits() -> None:
    first, second = (trained(3, way="cheapest", dense="ddp")[0] for _ in range(2))
    assert first.losses == second.losses


def test_replicas_even_out_the_ranks() -> None:
    def balance(way: str) -> float:
        return sum(trained(4, way=way, dense="ddp")[0].balance)

    assert balance("everywhere") < balance("cheapest") < balance("owners_only")
