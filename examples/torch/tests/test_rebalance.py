# SPDX-License-Identifier: Apache-2.0
"""rebalance_experts beside the published algorithm, written here again from its description."""

import math

import fssdp
import numpy
import pytest
from conftest import zipf


def packed(weights, packs):
    """The heaviest first to the lightest pack that has room: lists of items, equally many."""
    room = len(weights) // packs
    if room == 1:
        return [[item] for item in range(len(weights))]
    lists, sums = [[] for _ in range(packs)], [0.0] * packs
    for item in sorted(range(len(weights)), key=lambda item: -weights[item]):
        pack = min((p for p in range(packs) if len(lists[p]) < room), key=lambda p: sums[p])
        lists[pack].append(item)
        sums[pack] += weights[item]
    return lists


def published(weights, replicas, groups, nodes, gpus):
    """EPLB of one layer: the expert of each slot."""
    if groups % nodes != 0:
        groups, nodes = 1, 1
    size = len(weights) // groups
    group_sums = [sum(weights[g * size : (g + 1) * size]) for g in range(groups)]
    slots = []
    for node in packed(group_sums, nodes):
        experts = [e for group in node for e in range(group * size, (group + 1) * size)]
        copies, count = list(experts), dict.fromkeys(experts, 1)
        while len(copies) < replicas // nodes:  # one more for the largest load per replica
            busiest = max(experts, key=lambda e: weights[e] / count[e])
            copies.append(busiest)
            count[busiest] += 1
        shares = [weights[e] / count[e] for e in copies]
        for gpu in packed(shares, gpus // nodes):
            slots += [copies[copy] for copy in gpu]
    return slots


def imbalance(weights, slots, gpus):
    """The fullest GPU over the average one, if slots of an expert share its load evenly."""
    shares = numpy.asarray(weights, float) / numpy.bincount(slots, minlength=len(weights))
    on_gpu = shares[numpy.asarray(slots)].reshape(gpus, -1).sum(axis=1)
    return on_gpu.max() / on_gpu.mean()


CASES = [(64, 96, 8, 4, 16), (64, 80, 1, 1, 16), (32, 48, 3, 2, 8), (12, 16, 4, 2, 8),
         (256, 288, 8, 4, 32), (16, 16, 1, 1, 4), (8, 64, 2, 2, 8)]  # fmt: skip


@pytest.mark.parametrize("experts, replicas, groups, nodes, gpus", CASES)
def test_as_good_as_the_published_algorithm(experts, replicas, groups, nodes, gpus):
    weight = numpy.stack([zipf(experts, seed=seed) for seed in range(6)])
    physical, _, count = fssdp.rebalance_experts(weight, replicas, groups, nodes, gpus)
    for layer, mine in zip(weight, physical):
        other = published(layer.tolist(), replicas, groups, nodes, gpus)
        assert imbalance(layer, mine, gpus) <= imbalance(layer, other, gpus) * (1 + 1e-9)
    assert (count.sum(axis=1) == replicas).all() and (count >= 1).all()


@pytest.mark.parametrize("experts, replicas, groups, nodes, gpus", CASES)
def test_the_three_maps_agree(experts, replicas, groups, nodes, gpus):
    weight = numpy.stack([zipf(experts, seed=seed) for seed in range(3)]).astype(numpy.float32)
    physical, logical, count = fssdp.rebalance_experts(weight, replicas, groups, nodes, gpus)
    assert physical.dtype == logical.dtype == count.dtype == numpy.int64
    assert logical.shape == (3, experts, count.max())
    for layer in range(3):
        assert (count[layer] == numpy.bincount(physical[layer], minlength=experts)).all()
        for expert in range(experts):
            row = logical[layer, expert]
            assert (row[: count[layer, expert]] == numpy.flatnonzero(physical[layer] == expert)).all()
            assert (row[count[layer, expert] :] == -1).all()


def test_groups_stay_on_their_nodes():
    physical, _, _ = fssdp.rebalance_experts([zipf(16)], 24, 4, 2, 8)
    for group in range(4):
        slots = numpy.flatnonzero(physical[0] // 4 == group)
        assert len(set(slots // 12)) == 1


def test_fractions_are_loads_too():
    whole = numpy.stack([zipf(32)])
    expected = fssdp.rebalance_experts(whole, 48, 4, 2, 8)
    for scale in (2.0**-40, 1 / 1024, 2.0**30):
        for mine, other in zip(fssdp.rebalance_experts(whole * scale, 48, 4, 2, 8), expected):
            assert (mine == other).all()
    shares = whole / whole.sum()
    physical, _, _ = fssdp.rebalance_experts(shares, 48, 4, 2, 8)
    other = published(shares[0].tolist(), 48, 4, 2, 8)
    assert math.isclose(imbalance(shares[0], physical[0], 8), imbalance(shares[0], other, 8),
                        rel_tol=1e-6)  # fmt: skip


def test_tensors_in_tensors_out():
    torch = pytest.importorskip("torch")
    weight = numpy.stack([zipf(16), zipf(16, seed=2)])
    expected = fssdp.rebalance_experts(weight, 24, 4, 2, 8)
    for dtype in (torch.int64, torch.float32, torch.float64):
        maps = fssdp.rebalance_experts(torch.tensor(weight, dtype=dtype), 24, 4, 2, 8)
        for mine, other in zip(maps, expected):
            assert mine.dtype == torch.int64 and (mine.numpy() == other).all()
    small = torch.tensor(weight % 200, dtype=torch.bfloat16, requires_grad=True)
    maps = fssdp.rebalance_experts(small, 24, 4, 2, 8)
    assert maps[2].shape == (2, 16)


@pytest.mark.parametrize("arguments, message", [
    (([1, 2, 3], 4, 1, 1, 2), r"weight is of the shape \[3\]"),
    (([[1, -2]], 4, 1, 1, 2), "weight: -2; expected loads from 0"),
    (([[1, math.nan]], 4, 1, 1, 2), "weight: nan"),
    (([[1, 2, 3]], 5, 1, 1, 2), "5 replicas on 2 ranks; expected equally many"),
    (([[1, 2, 3]], 2, 1, 1, 2), "2 replicas; expected 3 or more"),
    (([[1, 2, 3]], 4, 2, 2, 4), "3 experts in 2 groups"),
    (([[1, 2, 3, 4]], 6, 2, 2, 3), "1 ranks on node 1; expected 2 as on node 0"),
    (([[1, 2]], 4, 1, 1, 0), "0 ranks"),
])  # fmt: skip
def test_wrong_arguments(arguments, message):
    with pytest.raises(fssdp.ArgumentError, match=message):
        fssdp.rebalance_experts(*arguments)


def drifted(weight, seed):
    """The same loads, each a little other."""
    return weight * numpy.random.default_rng(seed).uniform(0.7, 1.3, weight.shape)


def test_a_renewed_map_changes_less_and_is_as_well_balanced():
    weight = numpy.stack([zipf(64, seed=seed) for seed in range(4)])
    before, _, _ = fssdp.rebalance_experts(weight, 96, 1, 1, 16)
    loads = drifted(weight, 7)
    renewed = fssdp.renew_experts(before, loads, 2, 16, balance=1.0)
    made_new, _, _ = fssdp.rebalance_experts(loads, 96, 1, 1, 16)
    assert renewed.shape == before.shape and renewed.dtype == numpy.int64
    for layer in range(4):
        assert imbalance(loads[layer], renewed[layer], 16) <= imbalance(loads[layer], made_new[layer], 16)
    assert (renewed != before).sum() < (made_new != before).sum()
    few = fssdp.renew_experts(before, loads, 2, 16, balance=1.0, most_changes=3)
    assert ((few != before).sum(axis=1) <= 3).all() and (few != before).any()
    assert (fssdp.renew_experts(before, weight, 2, 16, balance=100.0) == before).all()


def test_moves_lead_to_the_new_map():
    weight = zipf(24, seed=3)[None]
    before = fssdp.rebalance_experts(weight, 32, 1, 1, 8)[0][0]
    after = fssdp.rebalance_experts(drifted(weight, 1), 32, 1, 1, 8)[0][0]
    plan = fssdp.slot_moves(before, after, 24, 2, 8, group_size=4)
    slots, waiting = list(before), {}
    for now in range(plan.rounds):
        moves = [move for move in plan.moves if move.round == now]
        peers = {}
        for move in moves:
            assert slots[move.source] == move.expert  # nothing is overwritten before it is sent
            a, b = move.source // 4, move.target // 4
            if a != b:
                assert peers.setdefault(a, b) == b and peers.setdefault(b, a) == a
        for move in moves:
            if move.waits:
                waiting[move.target] = move.expert
            else:
                slots[move.target] = move.expert
        for move in plan.moves:
            if move.waits and move.placed == now:
                slots[move.target] = waiting.pop(move.target)
    assert slots == list(after)
    assert fssdp.slot_moves(before, before, 24, 2, 8).moves == ()


def test_maps_that_do_not_fit_are_named():
    with pytest.raises(fssdp.ArgumentError, match="a map of the shape"):
        fssdp.renew_experts(numpy.zeros(4), numpy.ones((1, 4)), 1, 2)
    with pytest.raises(fssdp.ArgumentError, match="expert 4 in slot 0 of layer 0"):
        fssdp.renew_experts([[4, 1, 2, 3]], numpy.ones((1, 4)), 1, 2)
    with pytest.raises(fssdp.ArgumentError, match="expected 1 or more"):
        fssdp.renew_experts([[0, 1, 2, 3]], numpy.ones((1, 4)), 1, 2, balance=0.5)
    with pytest.raises(fssdp.ArgumentError, match="expert 3 has no slot"):
        fssdp.slot_moves([0, 1, 2, 3], [0, 1, 2, 2], 4, 1, 2)
