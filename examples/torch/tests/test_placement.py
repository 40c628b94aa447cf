# SPDX-License-Identifier: Apache-2.0
"""Topologies, layouts, placements and solvers."""

import itertools

import fssdp
import numpy
import pytest
from conftest import zipf


def test_topology():
    topology = fssdp.Topology(ranks=5, nodes=2, between_bytes_per_second=1e9, network="per_node")
    assert topology.node_of.tolist() == [0, 0, 0, 1, 1]
    assert topology.ranks_on(1).tolist() == [3, 4]
    assert topology.same_node(0, 2) and not topology.same_node(2, 3)
    assert topology.interface_of(4) == 3 and topology.node_bandwidth(0) == 1e9
    assert topology.inside_bytes_per_second.tolist() == [400e9] * 5
    assert fssdp.Topology(node_of=[0, 0, 0, 1, 1], between_bytes_per_second=1e9,
                          network="per_node") == topology  # fmt: skip
    for wrong, message in (
        (dict(ranks=2, nodes=3), "3 nodes for 2 ranks"),
        (dict(ranks=2, node_of=[0, 0]), "expected either ranks"),
        (dict(), "expected either ranks"),
        (dict(node_of=[0, 2]), "node 2 for 2 ranks"),
        (dict(ranks=2, network="wifi"), "network is 'wifi'; expected 'per_rank' or 'per_node'"),
        (dict(ranks=3, inside_bytes_per_second=[1e9, 2e9]), "2 ports for 3 ranks"),
    ):
        with pytest.raises(fssdp.ArgumentError, match=message):
            fssdp.Topology(**wrong)
    with pytest.raises(fssdp.ArgumentError, match="node 2; expected 0 to 1"):
        topology.ranks_on(2)


def test_layouts():
    block = fssdp.block_layout(experts=5, ranks=2)
    assert block.owners.tolist() == [[0], [0], [0], [1], [1]]
    assert block.owned(1).tolist() == [[3, 0], [4, 0]] and block.slot(4) == 1
    assert block.owned_counts.tolist() == [3, 2]
    table = fssdp.table_layout([0, 0, 0, 1, 1], ranks=2)
    assert table == block and hash(table) == hash(block)
    cyclic = fssdp.cyclic_layout(experts=3, ranks=2, slices=2)
    assert cyclic.owners.tolist() == [[0, 1], [1, 0], [0, 1]] and cyclic.owner(1, 1) == 0
    assert fssdp.table_layout(cyclic.owners, ranks=2, slices=2) == cyclic
    stack = fssdp.layer_stack([block, block])
    assert stack.experts == 10 and stack.owned_counts.tolist() == [6, 4]
    for expert, slice_ in ((3, 0), (-1, 0), (0, 2)):
        with pytest.raises(fssdp.ArgumentError, match="; expected 0 to"):
            cyclic.owner(expert, slice_)


def test_placements():
    layout = fssdp.block_layout(experts=3, ranks=3)
    where = fssdp.Placement(layout)
    assert (where.held == numpy.eye(3, dtype=bool)).all()
    other = where.copy()
    other.add(0, 2)
    assert other != where and other.holders(0).tolist() == [0, 2] and other.holds(2, 0)
    assert other.held_counts.tolist() == [1, 1, 2]
    assert fssdp.Placement(layout, other.held) == other
    other.remove(0, 2)
    assert other == where
    with pytest.raises(TypeError):
        hash(where)
    with pytest.raises(fssdp.ArgumentError, match=r"held is not of the shape \[3, 3\]"):
        fssdp.Placement(layout, numpy.eye(4))
    with pytest.raises(fssdp.ArgumentError, match="expert 0 is not held by rank 0, which owns it"):
        fssdp.Placement(layout, [[0, 1, 0], [0, 1, 0], [0, 0, 1]])
    with pytest.raises(fssdp.ArgumentError, match="rank 3; expected 0 to 2"):
        where.holds(3, 0)


RATES = fssdp.LayerRates(
    forward_seconds_per_row=2e-8, token_bytes=4096, expert_bytes=9_000_000, window_seconds=1e-3
)


def solvers(topology, slots):
    budget = fssdp.MaterializationBudget(experts_in=5, experts_out=4, spare_slots=slots)
    return [
        fssdp.OwnersOnly(),
        fssdp.SparseMaterialization(overlap=6, spare_slots=slots, topology=topology),
        fssdp.EplbMaterialization(spare_slots=slots, topology=topology),
        fssdp.LargestOverlap(budget=budget, topology=topology),
        fssdp.NeedsBasedMaterialization(budget=budget, topology=topology),
        fssdp.CheapestMaterialization(budget=budget, rates=RATES, topology=topology),
        fssdp.CheapestMaterialization(budget=budget, rates=RATES, tokens=1e5, topology=topology),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_solvers_keep_their_promises(seed):
    topology = fssdp.Topology(ranks=8, nodes=2)
    layout = fssdp.block_layout(experts=24, ranks=8)
    loads = zipf(24, seed=seed)
    owned = layout.owners == numpy.arange(8)
    for solve in solvers(topology, 2):
        where = solve(loads, layout)
        assert where.held[owned].all(), solve
        assert (where.held & ~owned).sum(axis=0).max() <= 2, solve
        assert where == solve(loads, layout)
        if hasattr(solve, "budget"):
            ports = fssdp.PortLoads(where, layout, topology)
            assert solve.budget.allows(ports)
            fssdp.check_within(ports, solve.budget)
            assert ports.busiest_rank == ports.into_rank.max()
    assert fssdp.Everywhere()(loads, layout).held.all()


def test_algorithm_1_as_the_paper_says():
    layout = fssdp.block_layout(experts=8, ranks=4)
    where = fssdp.SparseMaterialization(overlap=2, spare_slots=2)([3, 90, 5, 2, 40, 1, 7, 2], layout)
    assert where.held[[1, 4]].all() and where.held.sum() == 8 - 2 + 2 * 4


def test_cheapest_is_cheapest():
    topology = fssdp.Topology(ranks=8, nodes=2, between_bytes_per_second=2e9)
    layout = fssdp.block_layout(experts=24, ranks=8)
    loads = zipf(24, tokens=80_000)
    counts = numpy.tile(loads // 8, (8, 1))
    budget = fssdp.paying_budget(loads, RATES, topology, spare_slots=3)

    def cost(where):
        tokens = fssdp.TokenTraffic(counts, fssdp.BalancedRouting(counts, where, topology), topology)
        ports = fssdp.PortLoads(where, layout, topology)
        return fssdp.LayerCost(tokens, ports, RATES, topology).seconds

    best = fssdp.CheapestMaterialization(
        budget=budget, rates=RATES, tokens=float(counts.sum()), topology=topology
    )(loads, layout)
    needs = fssdp.NeedsBasedMaterialization(budget=budget, topology=topology)(loads, layout)
    assert cost(best) <= cost(needs) * 1.001
    assert cost(best) < 0.7 * cost(fssdp.Placement(layout))


def test_costs():
    topology = fssdp.Topology(ranks=4, nodes=2)
    layout = fssdp.block_layout(experts=4, ranks=4)
    ports = fssdp.PortLoads(fssdp.Everywhere()([1] * 4, layout), layout, topology)
    assert ports.into_node.tolist() == [2, 2] == ports.out_of_node.tolist()
    assert ports.into_rank.tolist() == [3] * 4 and ports.between_nodes == 4
    assert fssdp.gather_seconds(ports, topology, 50_000_000) > 2 * 50e6 / 100e9
    hidden = fssdp.hidden_budget(RATES, topology, experts=4, spare_slots=1)
    assert hidden == fssdp.MaterializationBudget(experts_in=4, experts_out=4, spare_slots=1)
    assert fssdp.break_even_tokens(RATES) == 2 * 9_000_000 / (4 * 4096)
    small = fssdp.MaterializationBudget(experts_in=2, experts_out=1, spare_slots=3)
    assert not small.allows(ports)
    with pytest.raises(fssdp.ArgumentError, match="experts_out of node 0 is 2; expected at most 1"):
        fssdp.check_within(ports, small)
    with pytest.raises(fssdp.ArgumentError, match="token_bytes"):
        fssdp.break_even_tokens(fssdp.LayerRates(token_bytes=-1))


def test_sharding(loads):
    topology = fssdp.Topology(ranks=4)
    layers = numpy.stack([loads, loads[::-1], zipf(16, seed=5)])
    layouts = fssdp.HeterogeneousSharding(overlap=2)(layers, topology)
    assert len(layouts) == 3 and sum(layout.owned_counts for layout in layouts).tolist() == [12] * 4
    current = [fssdp.block_layout(experts=16, ranks=4)] * 3
    solve = fssdp.Resharding(seconds_per_row=1e-6, chunk_bytes=1000, iterations=10)
    verdict = solve(current, layers, topology)
    assert verdict.layouts is not None and verdict.gained_seconds > verdict.moved_seconds > 0
    assert solve(verdict.layouts, layers, topology).layouts is None
    dear = fssdp.Resharding(seconds_per_row=1e-6, chunk_bytes=10**12)
    assert dear(current, layers, topology).layouts is None


def test_solvers_of_yours(loads):
    topology = fssdp.Topology(ranks=4)
    calls = []

    def to_all_but_the_last(loads, layout):
        calls.append(loads)
        held = layout.owners == numpy.arange(layout.ranks)
        held[numpy.argmax(loads), :-1] = True
        return fssdp.Placement(layout, held)

    def round_robin(loads, topology):
        experts = len(loads[0])
        return [fssdp.cyclic_layout(experts=experts, ranks=topology.ranks) for _ in loads]

    solve = fssdp.Resharding(
        sharding=round_robin, materialization=to_all_but_the_last, seconds_per_row=1.0
    )
    verdict = solve([fssdp.block_layout(experts=16, ranks=4)], [loads], topology)
    assert len(calls) == 2 and (calls[0] == loads).all()
    assert (verdict.layouts is not None) == (verdict.gained_seconds > 0)

    def broken(loads, layout):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fssdp.Resharding(materialization=broken)([layout_of_one()], [loads], topology)


def layout_of_one():
    return fssdp.block_layout(experts=16, ranks=4)


def test_fit_slots(loads):
    layout = fssdp.block_layout(experts=16, ranks=4)
    where = fssdp.fit_slots(fssdp.Everywhere()(loads, layout), layout, loads, 3)
    for rank in range(4):
        remote = sorted(set(range(16)) - set(layout.owned(rank)[:, 0]), key=lambda e: -loads[e])
        replicas = set(numpy.flatnonzero(where.held[:, rank])) - set(layout.owned(rank)[:, 0])
        assert replicas == set(remote[:3])
    with pytest.raises(fssdp.ArgumentError, match="use is 'both'"):
        fssdp.fit_slots(where, layout, loads, 3, use="both")


def test_physical_experts(loads):
    layout = fssdp.block_layout(experts=16, ranks=4)
    where = fssdp.SparseMaterialization(overlap=4, spare_slots=2)(loads, layout)
    slots = fssdp.physical_of(where, layout, 8)
    assert slots.slots_per_rank == 8 and slots.physical_to_logical.shape == (32,)
    assert fssdp.placement_of(slots, layout) == where
    assert (slots.logical_count == numpy.bincount(slots.physical_to_logical)).all()
    for expert in range(16):
        found = slots.logical_to_physical(expert)
        assert (slots.physical_to_logical[found] == expert).all()
    assert fssdp.placement_of(slots, fssdp.layout_of(slots)).experts == 16


def test_predictors():
    window = fssdp.LoadWindow(3, length=2)
    assert window.predict().tolist() == [0, 0, 0]
    for loads in ([1, 5, 9], [2, 6, 10], [4, 8, 12]):
        window.push(loads)
    assert window.predict().tolist() == [3, 7, 11]
    again = fssdp.LoadWindow(3, length=2)
    again.recall(window.memory())
    for predictor in (window, again):
        predictor.push([6, 8, 20])
        assert predictor.predict().tolist() == [5, 8, 16]
    average = fssdp.LoadAverage(2, alpha=(1, 2))
    average.push([10, 0])
    average.push([0, 2**40])
    assert average.predict().tolist() == [5, 2**39]
    again = fssdp.LoadAverage(2, alpha=(1, 2))
    again.recall(average.memory())
    assert again == average and again.predict().tolist() == [5, 2**39]
    average.resize(3)
    assert average.predict()[2] == (5 + 2**39 + 1) // 2
    with pytest.raises(fssdp.ArgumentError, match="alpha is 3 / 2"):
        fssdp.LoadAverage(2, alpha=(3, 2))
    with pytest.raises(fssdp.ArgumentError, match="push of 2 loads; expected 3"):
        window.push([1, 2])
