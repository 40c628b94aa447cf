# SPDX-License-Identifier: Apache-2.0
"""Plans: what moves, how long it takes, what no plan can beat."""

import fssdp
import numpy
import pytest
from conftest import zipf


@pytest.fixture
def topology():
    return fssdp.Topology(ranks=8, nodes=2)


@pytest.fixture
def layout():
    return fssdp.block_layout(experts=16, ranks=8)


@pytest.fixture
def where(topology, layout):
    solve = fssdp.SparseMaterialization(overlap=6, spare_slots=2, topology=topology)
    return solve(zipf(16), layout)


def delivered(plan):
    """Who has which piece in the end, by replaying the transfers: [experts, pieces, ranks]."""
    has = numpy.zeros((plan.experts, plan.pieces, plan.ranks), dtype=bool)
    for expert in range(plan.experts):
        has[expert, :, plan.owner(expert)] = True
    for move in plan.transfers:
        assert has[move["expert"], move["piece"], move["source"]]
        assert not has[move["expert"], move["piece"], move["destination"]]
        has[move["expert"], move["piece"], move["destination"]] = True
    return has


def test_a_plan_delivers_what_the_placement_promises(layout, where, topology):
    for plan in (
        fssdp.make_plan(layout, where),
        fssdp.make_plan(layout, where, topology),
        fssdp.schedule(fssdp.make_plan(layout, where, topology), 48_000_000),
        fssdp.schedule(fssdp.make_plan(layout, where, topology), 48_000_000, relay_bytes=0),
    ):
        fssdp.verify(plan)
        has = delivered(plan)
        assert (has >= where.held[:, numpy.newaxis, :]).all()
        assert plan.where == where and plan.layout == layout


def test_what_a_plan_says_of_ranks(layout, where):
    plan = fssdp.make_plan(layout, where)
    for rank in range(8):
        owned = layout.owned(rank)[:, 0]
        held = numpy.flatnonzero(where.held[:, rank])
        assert plan.materialized(rank).tolist() == held.tolist()
        assert plan.remote(rank).tolist() == sorted(set(held) - set(owned))
        assert plan.owned_count(rank) == len(owned)
        assert set(plan.shared(rank)[:, 0]) == {e for e in owned if where.held[e].sum() > 1}
        transfers = plan.transfers
        assert (plan.sends(rank) == transfers[transfers["source"] == rank]).all()
        assert (plan.receives(rank) == transfers[transfers["destination"] == rank]).all()
    assert plan.owner(3) == layout.owner(3) and plan.owner_slot(3) == layout.slot(3)
    assert (plan.feeders == -1).all() and plan.rounds == 1


def test_equal_inputs_give_equal_plans(layout, where, topology):
    plan = fssdp.make_plan(layout, where, topology)
    assert plan == fssdp.make_plan(layout, where, topology)
    assert plan.hash_value == fssdp.make_plan(layout, where, topology).hash_value
    assert plan != fssdp.make_plan(layout, where)
    assert fssdp.TransferPlan(layout, where, plan.transfers, topology) == plan


def test_times(layout, where, topology):
    plan = fssdp.make_plan(layout, where, topology)
    size = 48_000_000
    fast = fssdp.schedule(plan, size)
    bound = fssdp.lower_bound(plan, size)
    took = fssdp.simulate(fast, size)
    assert bound.seconds <= bound.tight_seconds <= took.seconds <= fssdp.simulate(plan, size).seconds
    assert took.seconds == took.arrival.max() and len(took.start) == len(fast.transfers)
    assert (took.start <= took.released).all() and (took.released <= took.arrival).all()
    assert bound.resource.split()[0] in ("device", "node", "network", "NVLink")
    with pytest.raises(fssdp.ArgumentError, match="sums is 'backwards'; expected 'along_trees' or"):
        fssdp.schedule(plan, size, sums="backwards")
    by_rank = fssdp.schedule(plan, size, sums="by_rank")
    assert by_rank.reduction == fssdp.rank_ordered(plan) and fast.reduction == fast


def test_traffic(layout, where, topology):
    plan = fssdp.make_plan(layout, where, topology)
    moved = fssdp.traffic(plan, topology)
    node = topology.node_of
    crossing = node[plan.transfers["source"]] != node[plan.transfers["destination"]]
    assert (moved.between_nodes, moved.inside_nodes) == (crossing.sum(), (~crossing).sum())
    assert moved.into_rank.sum() == moved.out_of_rank.sum() == len(plan.transfers)
    assert moved.into_node.sum() == moved.between_nodes
    assert "between_nodes=" in repr(moved)


def test_verify_refuses_what_does_not_deliver(layout, where):
    transfers = fssdp.make_plan(layout, where).transfers
    with pytest.raises(fssdp.PlanError):
        fssdp.verify(fssdp.TransferPlan(layout, where, transfers[1:]))
    with pytest.raises(fssdp.PlanError):
        fssdp.verify(fssdp.TransferPlan(layout, where, numpy.append(transfers, transfers[-1])))
    for field, value in (("source", 8), ("expert", 16), ("piece", 1)):
        wrong = transfers.copy()
        wrong[field] = value
        with pytest.raises(fssdp.ArgumentError):
            fssdp.TransferPlan(layout, where, wrong)
    with pytest.raises(fssdp.ArgumentError, match="topology has 4 ranks; expected 8"):
        fssdp.make_plan(layout, where, fssdp.Topology(ranks=4))


def test_reshard_plan(layout):
    after = fssdp.cyclic_layout(experts=16, ranks=8)
    plan = fssdp.reshard_plan(layout, after, scratch_slots=1)
    owners = layout.owners[:, 0].copy()
    for move in plan.moves:
        assert owners[move["expert"]] == move["source"]
        owners[move["expert"]] = move["destination"]
    assert (owners == after.owners[:, 0]).all()
    for rank in range(8):
        assert (plan.before(rank) == layout.owned(rank)).all()
        assert (plan.after(rank) == after.owned(rank)).all()
        assert plan.slots(rank) == 2
        received = plan.moves[plan.moves["destination"] == rank]["round"]
        assert len(set(received)) == len(received)  # one scratch slot: one a round
    with pytest.raises(fssdp.ArgumentError, match="scratch_slots is 0"):
        fssdp.reshard_plan(layout, after, scratch_slots=0)
