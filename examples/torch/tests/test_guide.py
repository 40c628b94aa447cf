# SPDX-License-Identifier: Apache-2.0
"""The Python blocks of README.md that need no torch are run; all are compiled."""

import fssdp
import numpy
from guide_blocks import blocks, compiled, run


def test_every_block_compiles():
    assert len(blocks()) >= 10
    for line, text in blocks():
        assert compiled(line, text) is not None


def test_a_placement_a_plan_and_token_messages(capsys):
    first = run("import fssdp\n\nloads = ")
    assert first["plan"].ranks == 4
    assert len(first["plan"].transfers) > 0
    assert len(first["fast"].transfers) >= len(first["plan"].transfers)
    assert "TransferPlan" in capsys.readouterr().out

    draw = numpy.random.default_rng(1)
    choices = draw.integers(0, 8, (4, 64, 2))  # [ranks, tokens, per_token]
    counts = numpy.stack([numpy.bincount(of.ravel(), minlength=8) for of in choices])
    then = run(
        "counts = ...",
        fssdp=fssdp,
        where=first["where"],
        topology=first["topology"],
        counts=counts,
        choices=choices[2],
        hidden=draw.random((64, 16)),
        rank=2,
    )
    assert then["tokens"].send_counts.sum() == 64 * 2
    assert then["rows"].shape == (64 * 2, 16)


def test_the_load_balancer_of_an_engine():
    weight = numpy.random.default_rng(2).integers(1, 1000, (2, 16))
    sizes = {"num_replicas": 24, "num_groups": 4, "num_nodes": 2, "num_gpus": 8}
    maps = run("from fssdp import rebalance_experts", weight=weight, **sizes)
    assert maps["physical_to_logical_map"].shape == (2, 24)
    assert (maps["expert_count"].sum(axis=1) == 24).all()

    drifted = weight * numpy.random.default_rng(3).integers(67, 134, weight.shape)
    moved = run(
        "from fssdp import renew_experts",
        before=maps["physical_to_logical_map"],
        weight=drifted,
        num_nodes=2,
        num_gpus=8,
        num_experts=16,
    )
    assert numpy.asarray(moved["after"]).shape == (2, 24)
