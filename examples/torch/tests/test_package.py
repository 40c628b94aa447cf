# SPDX-License-Identifier: Apache-2.0
"""The package as a whole: what it imports, what it says of errors, what is pickled."""

import copy
import pathlib
import pickle
import re
import subprocess
import sys

import fssdp
import numpy
import pytest
from conftest import zipf


def run(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_torch_is_not_imported():
    program = "import sys, fssdp; print(any(m.split('.')[0] == 'torch' for m in sys.modules))"
    assert run(program) == "False"


def test_what_needs_torch_is_imported_when_it_is_used():
    assert run("import sys, fssdp; print('fssdp.torch' in sys.modules)") == "False"
    with pytest.raises(AttributeError, match="has no attribute 'jax'"):
        fssdp.jax


def test_the_first_plan_of_the_readme(capsys):
    readme = pathlib.Path(__file__).parent.parent / "README.md"
    program = re.search(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.S)[1]
    names = {}
    exec(program, names)
    fssdp.verify(names["fast"])
    assert capsys.readouterr().out.startswith("TransferPlan(experts=8, slices=1, ranks=4, nodes=2;")


def test_all_public_names_are_there_and_explained():
    assert len(set(fssdp.__all__)) == len(fssdp.__all__)
    for name in fssdp.__all__:
        value = getattr(fssdp, name)
        if callable(value) and name not in ("PlacementSolver", "ShardingSolver"):
            assert value.__doc__, name
            assert value.__module__.split(".")[0] == "fssdp", name


def test_errors_are_one_family():
    assert issubclass(fssdp.ArgumentError, (fssdp.Error, ValueError))
    assert issubclass(fssdp.ArgumentError, ValueError)
    for name in fssdp.errors.__all__:
        assert issubclass(getattr(fssdp, name), fssdp.Error)
    for name in ("PeerFailed", "DeadlineExceeded", "RanksDisagree"):
        error = getattr(fssdp, name)("rank 3 has left", 3)
        assert isinstance(error, fssdp.TransportError)
        assert (str(error), error.failed_rank) == ("rank 3 has left", 3)
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.failed_rank) == ("rank 3 has left", 3)


def test_the_library_s_errors_name_what_is_wrong():
    with pytest.raises(ValueError, match="block_layout: 0 ranks; expected 1 or more") as caught:
        fssdp.block_layout(experts=4, ranks=0)
    assert type(caught.value) is fssdp.ArgumentError
    with pytest.raises(TypeError):
        fssdp.block_layout(experts=4, ranks="two")
    with pytest.raises(TypeError):
        fssdp.block_layout(4, 2)  # options have names


def test_arguments_are_read_as_what_they_are(loads):
    layout = fssdp.block_layout(experts=16, ranks=4)
    solve = fssdp.SparseMaterialization(overlap=4, spare_slots=2)
    expected = solve(loads, layout)
    for same in (
        list(map(int, loads)), loads.astype(numpy.uint8 if loads.max() < 256 else numpy.uint32),
        loads.astype(float), loads.astype(numpy.int32), numpy.repeat(loads, 2)[::2],
    ):  # fmt: skip
        assert solve(same, layout) == expected

    class KnowsDlpack:
        def __dlpack__(self, **options):
            return loads.__dlpack__(**options)

        def __dlpack_device__(self):
            return loads.__dlpack_device__()

    assert solve(KnowsDlpack(), layout) == expected
    for wrong, message in (
        (-loads, r"loads\[0\] is -\d+; expected a whole number from 0"),
        (loads + 0.5, r"loads\[0\] is \d+\.5; expected a whole number"),
        (numpy.where(loads == loads[3], numpy.nan, loads), r"loads\[3\] is nan"),
        (loads.reshape(4, 4), "loads has 2 dimensions; expected 1"),
        (["a"] * 16, "loads is of dtype str32; expected whole numbers"),
        (loads[:15], "loads of 15 experts; expected 16"),
    ):
        with pytest.raises(fssdp.ArgumentError, match=message):
            solve(wrong, layout)


def test_tensors_are_read(loads):
    torch = pytest.importorskip("torch")
    layout = fssdp.block_layout(experts=16, ranks=4)
    solve = fssdp.SparseMaterialization(overlap=4, spare_slots=2)
    assert solve(torch.from_numpy(loads), layout) == solve(loads, layout)
    held = torch.from_dlpack(solve(loads, layout).held)
    assert held.dtype == torch.bool and held.shape == (16, 4)


def values():
    topology = fssdp.Topology(
        node_of=[0, 1, 0, 1], between_bytes_per_second=[1e9, 2e9, 3e9, 4e9], port_seconds=1e-6
    )
    layout = fssdp.cyclic_layout(experts=6, ranks=4, slices=2)
    where = fssdp.SparseMaterialization(overlap=3, spare_slots=1, topology=topology)(
        [5, 90, 2, 40, 1, 7], layout
    )
    plan = fssdp.make_plan(layout, where, topology)
    fast = fssdp.schedule(plan, 10_000_000)
    return [
        topology, layout, where, plan, fast, fast.reduced_by(fssdp.rank_ordered(fast)),
        fssdp.PhysicalExperts([0, 1, 1, 2], experts=3, ranks=2),
        fssdp.SparseMaterialization(overlap=1, spare_slots=2, topology=topology),
    ]  # fmt: skip


@pytest.mark.parametrize("which", range(len(values())))
def test_values_can_be_pickled(which):
    value = values()[which]
    again = pickle.loads(pickle.dumps(value))
    assert again == value and type(again) is type(value)
    assert copy.deepcopy(value) == value
    if isinstance(value, fssdp.TransferPlan):
        assert again.reduction == value.reduction
        assert again.hash_value == value.hash_value and hash(again) == hash(value)


@pytest.mark.parametrize("which", range(len(values())))
def test_values_show_themselves(which):
    value = values()[which]
    assert repr(value).startswith(type(value).__name__ + "(") and "object at" not in repr(value)


def test_reprs_teach():
    layout = fssdp.block_layout(experts=4, ranks=2)
    where = fssdp.Everywhere()([1, 1, 1, 1], layout)
    assert repr(layout) == "Layout(experts=4, ranks=2, slices=1; owners: 0 0 1 1)"
    assert repr(where) == "Placement(experts=4, ranks=2; 4 replicas, at most 4 experts on a rank)"
    plan = repr(fssdp.make_plan(layout, where))
    assert plan.startswith("TransferPlan(experts=4, slices=1, ranks=2, nodes=1; 4 transfers of whole ")
    assert repr(fssdp.Topology(ranks=4, nodes=2)) == (
        "Topology(ranks=4, nodes=2, inside_bytes_per_second=4e+11, "
        "between_bytes_per_second=5e+10, network='per_rank')"
    )


def test_loads_of_this_test_are_skewed():
    assert fssdp.max_over_mean(zipf(16)) > 3
    assert fssdp.max_over_mean([5, 5]) == fssdp.max_over_mean([0, 0]) == 1
