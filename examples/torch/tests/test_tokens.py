# SPDX-License-Identifier: Apache-2.0
"""Tokens: routings, the rows that ranks send and receive, and their orders."""

import fssdp
import numpy
import pytest
from conftest import zipf

RANKS, EXPERTS = 4, 8


@pytest.fixture
def counts():
    return numpy.random.default_rng(3).integers(0, 50, (RANKS, EXPERTS)) * (zipf(EXPERTS) > 5000)


@pytest.fixture
def where():
    layout = fssdp.block_layout(experts=EXPERTS, ranks=RANKS)
    return fssdp.SparseMaterialization(overlap=4, spare_slots=2)(zipf(EXPERTS), layout)


@pytest.fixture(params=["even", "balanced"])
def routing(request, counts, where):
    if request.param == "even":
        return fssdp.EvenRouting(where)
    return fssdp.BalancedRouting(counts, where)


def test_a_routing_sends_every_token_to_a_holder(counts, where, routing):
    table = fssdp.routing_table(counts, routing)
    sums = numpy.zeros_like(counts)
    numpy.add.at(sums, (table["source"], table["expert"]), table["tokens"])
    assert (sums == counts).all() and (table["tokens"] > 0).all()
    assert where.held[table["expert"], table["to"]].all()
    on_rank = numpy.bincount(table["to"], weights=table["tokens"], minlength=RANKS)
    assert (fssdp.TokenTraffic(counts, routing).on_rank == on_rank).all()
    assert routing.where == where


def test_balanced_routing_is_balanced(counts, where):
    even = fssdp.TokenTraffic(counts, fssdp.EvenRouting(where)).on_rank
    balanced = fssdp.TokenTraffic(counts, fssdp.BalancedRouting(counts, where)).on_rank
    assert fssdp.max_over_mean(balanced) <= fssdp.max_over_mean(even)


@pytest.mark.parametrize("sent", ["by_expert", "by_rank"])
@pytest.mark.parametrize("received", ["by_expert", "by_rank"])
def test_token_plans_of_all_ranks_fit_together(counts, routing, sent, received):
    plans = [
        fssdp.TokenPlan(counts, routing, rank, sent=sent, received=received)
        for rank in range(RANKS)
    ]
    sends = numpy.stack([plan.send_counts for plan in plans])
    assert (sends == numpy.stack([plan.receive_counts for plan in plans]).T).all()
    assert (sends.sum(axis=1) == counts.sum(axis=1)).all()
    assert len({plan.hash_value for plan in plans}) == 1
    for rank, plan in enumerate(plans):
        assert plan.rank == rank and plan.ranks == RANKS
        assert plan.sent_rows == plan.send_counts.sum()
        assert plan.received_rows == plan.receive_counts.sum() == plan.device_loads[rank]
        for segments, order in ((plan.sends, sent), (plan.receives, received)):
            assert (segments["first"] == numpy.cumsum(segments["rows"]) - segments["rows"]).all()
            key = ("expert", "peer") if order == "by_expert" else ("peer", "expert")
            assert (segments == numpy.sort(segments, order=key)).all()
        assert plan.groups["rows"].sum() == plan.received_rows


def test_an_all_to_all_by_hand(counts, routing):
    """Rows that are permuted, sent in one message to each rank, and brought back."""
    generator = numpy.random.default_rng(5)
    choices = [generator.permutation(numpy.repeat(numpy.arange(EXPERTS), row)) for row in counts]
    tokens = [generator.random((len(mine), 3)) for mine in choices]
    plans = [
        fssdp.TokenPlan(counts, routing, rank, sent="by_rank", received="by_rank")
        for rank in range(RANKS)
    ]
    orders = [
        fssdp.ExpertOrder(mine[:, numpy.newaxis], EXPERTS).for_plan(plan)
        for mine, plan in zip(choices, plans)
    ]
    rows = [of[order.token_of_row] for of, order in zip(tokens, orders)]
    split = [
        numpy.split(mine, numpy.cumsum(plan.send_counts)[:-1]) for mine, plan in zip(rows, plans)
    ]
    got = [numpy.concatenate([split[source][rank] for source in range(RANKS)])
           for rank in range(RANKS)]  # fmt: skip
    worked = []
    for rank, plan in enumerate(plans):  # an expert multiplies by its number
        assert len(got[rank]) == plan.received_rows
        worked.append(numpy.empty_like(got[rank]))
        for expert, first, count in plan.groups.tolist():
            worked[rank][first : first + count] = got[rank][first : first + count] * (expert + 1)
    back = [numpy.split(mine, numpy.cumsum(plan.receive_counts)[:-1])
            for mine, plan in zip(worked, plans)]  # fmt: skip
    for rank in range(RANKS):
        mine = numpy.concatenate([back[other][rank] for other in range(RANKS)])
        result = mine[orders[rank].rows[:, 0]]
        assert (result == tokens[rank] * (choices[rank][:, numpy.newaxis] + 1)).all()


def test_expert_order():
    order = fssdp.ExpertOrder([[2, 0], [1, 2], [2, 1]], 4)
    assert (order.tokens, order.per_token) == (3, 2)
    assert order.counts.tolist() == [1, 2, 3, 0]
    assert order.rows.tolist() == [[3, 0], [1, 4], [5, 2]]
    assert order.token_of_row.tolist() == [0, 1, 2, 0, 1, 2]
    with pytest.raises(fssdp.ArgumentError, match="expert 4; expected 0 to 3"):
        fssdp.ExpertOrder([[4]], 4)
    with pytest.raises(fssdp.ArgumentError, match="choices has 1 dimensions; expected 2"):
        fssdp.ExpertOrder([1, 2], 4)


def test_rows_by_expert(counts, where):
    plan = fssdp.TokenPlan(counts, where, 1, sent="by_rank")
    assert sorted(plan.rows_by_expert) == list(range(plan.sent_rows))
    assert (fssdp.TokenPlan(counts, where, 1).rows_by_expert == numpy.arange(plan.sent_rows)).all()


def test_wrong_arguments(counts, where, routing):
    with pytest.raises(fssdp.ArgumentError, match="rank 4; expected 0 to 3"):
        fssdp.TokenPlan(counts, routing, 4)
    with pytest.raises(fssdp.ArgumentError, match="counts of 3 ranks"):
        fssdp.TokenPlan(counts[:3], routing, 0)
    with pytest.raises(fssdp.ArgumentError, match="sent is 'by_row'"):
        fssdp.TokenPlan(counts, routing, 0, sent="by_row")
    with pytest.raises(fssdp.ArgumentError, match="a topology beside a routing"):
        fssdp.TokenPlan(counts, routing, 0, fssdp.Topology(ranks=RANKS))
    with pytest.raises(TypeError, match="expected an EvenRouting or a BalancedRouting"):
        fssdp.routing_table(counts, where)
