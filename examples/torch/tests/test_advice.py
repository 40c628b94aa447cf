# SPDX-License-Identifier: Apache-2.0
"""advise: whether replicas pay, and how many."""

import fssdp
import numpy
import pytest
from conftest import zipf

RATES = fssdp.LayerRates(
    forward_seconds_per_row=2e-7, token_bytes=2048, expert_bytes=4_000_000, window_seconds=5e-4
)


def test_replicas_pay_where_loads_are_skewed():
    loads = [[zipf(16, seed=layer) for layer in range(2)] for _ in range(3)]
    found = fssdp.advise(loads, fssdp.Topology(ranks=8, nodes=2), RATES)
    assert found.pays and found.slots == found.best.slots > 0
    assert [one.slots for one in found.by_slots] == [0, 1, 2, 3, 4, 6, 8, 12]
    fastest = min(one.seconds for one in found.by_slots)
    assert found.best.seconds <= 1.01 * fastest
    assert all(one.seconds > 1.01 * fastest for one in found.by_slots[: found.chosen])
    assert found.speedup_over_no_slots > 1.2 and found.best.load.mean < found.ep.load.mean
    assert found.ep.speedup_over_ep == 1 and found.experts.max > 3
    assert str(found).startswith("Replication pays: with ")


def test_replicas_do_not_pay_where_loads_are_even():
    dear = fssdp.LayerRates(forward_seconds_per_row=2e-7, token_bytes=2048, expert_bytes=400_000_000)
    found = fssdp.advise(numpy.full((2, 16), 1000), fssdp.Topology(ranks=8), dear)
    assert not found.pays and found.slots == 0 and found.experts.max == 1
    assert str(found).startswith("Replication does not pay here")


def test_options():
    loads = zipf(16).reshape(1, 1, 16)
    topology = fssdp.Topology(ranks=4)
    slow = fssdp.advise(loads, topology, RATES, non_moe_seconds=1000.0)
    assert not slow.pays and slow.best.seconds > 1000
    assert fssdp.advise(loads, topology, RATES, objective="balance").best.load.max < 1.05
    whole = fssdp.advise(loads, topology, RATES, layers=10)
    one = fssdp.advise(loads, topology, RATES)
    assert whole.ep.seconds == pytest.approx(10 * one.ep.seconds)
    for wrong, message in (
        (dict(layers=0), "layers is 0; expected at least"),
        (dict(objective="beauty"), "objective is 'beauty'"),
    ):
        with pytest.raises(fssdp.ArgumentError, match=message):
            fssdp.advise(loads, topology, RATES, **wrong)
    with pytest.raises(fssdp.ArgumentError, match="loads has 1 dimensions; expected 3"):
        fssdp.advise(zipf(16), topology, RATES)
    with pytest.raises(fssdp.ArgumentError, match="expected 1 or more of each"):
        fssdp.advise(numpy.zeros((0, 1, 16)), topology, RATES)
