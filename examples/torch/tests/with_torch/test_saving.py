# SPDX-License-Identifier: Apache-2.0
"""Experts in checkpoints of torch.distributed.checkpoint: from any ranks to any ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from trainer.ranks import run_ranks
from test_experts import SOLVERS, choices, make, together

from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

import fssdp
from fssdp.torch import shard_experts
from fssdp.torch.checkpoint import saves_rows


class Training:
    """Layers of experts that learn from the same tokens on however many ranks."""

    def __init__(self, rank: int, ranks: int, stacked: bool) -> None:
        self.rank, self.ranks = rank, ranks
        self.layers = make(stacked=stacked)
        self.experts = shard_experts(list(self.layers), solver=SOLVERS["sparse"], replica_slots=24)
        self.optimizer = torch.optim.AdamW(self.experts.parameters(), lr=0.01)

    def step(self) -> float:
        """The loss of all tokens, of which this rank has some."""
        x, index, weights = choices(7, tokens=12)
        mine = slice(12 * self.rank // self.ranks, 12 * (self.rank + 1) // self.ranks)
        out = together(self.layers, x[mine], index[mine], weights[mine]) - 1
        loss = out.square().sum() * 0.01 * self.ranks
        loss.backward()
        self.experts.step()
        self.optimizer.step()
        total = loss.detach() / self.ranks
        torch.distributed.all_reduce(total)
        return float(total)

    def state(self) -> dict[str, Any]:
        return {
            "model": self.layers.state_dict(),
            "optimizer": self.experts.optimizer_tensors(self.optimizer, self.layers),
        }


def save(rank: int, ranks: int, stacked: bool, folder: str) -> list[float]:
    training = Training(rank, ranks, stacked)
    for _ in range(2):
        training.step()
    training.experts.reshard(
        training.optimizer,
        [fssdp.cyclic_layout(experts=6, ranks=ranks), fssdp.block_layout(experts=6, ranks=ranks)],
    )
    dcp.save(training.state(), checkpoint_id=folder)
    return [training.step() for _ in range(3)]


def load(rank: int, ranks: int, stacked: bool, folder: str) -> list[float]:
    training = Training(rank, ranks, stacked)
    for p in training.experts.parameters():
        p.detach().zero_()
    dcp.load(training.state(), checkpoint_id=folder)
    return [training.step() for _ in range(3)]


def load_whole(rank: int, stacked: bool, folder: str) -> dict[str, torch.Tensor]:
    state = make(stacked=stacked).state_dict()
    dcp.load({"model": state}, checkpoint_id=folder)
    return state


rows_are_saved = pytest.mark.skipif(
    not saves_rows(), reason="this torch cannot save a tensor of which each rank has some rows"
)
both_kinds = pytest.mark.parametrize("stacked", [False, pytest.param(True, marks=rows_are_saved)])


def refused(rank: int) -> str:
    with pytest.raises(fssdp.ArgumentError) as caught:
        Training(rank, 1, True).state()
    return str(caught.value)


@pytest.mark.skipif(saves_rows(), reason="this torch can save it")
def test_rows_of_one_rank_are_not_saved_for_those_of_all() -> None:
    assert "full_tensors()" in run_ranks(1, refused)[0]


@both_kinds
def test_training_goes_on_with_other_ranks(tmp_path: Path, stacked: bool) -> None:
    folder = str(tmp_path / "saved")
    expected = run_ranks(3, save, 3, stacked, folder)[0]
    for ranks in (1, 2, 4):
        found = run_ranks(ranks, load, ranks, stacked, folder)[0]
        assert found == pytest.approx(expected, rel=1e-12)


@both_kinds
def test_a_model_that_is_not_sharded_loads_it(tmp_path: Path, stacked: bool) -> None:
    folder = str(tmp_path / "saved")
    run_ranks(2, save, 2, stacked, folder)
    whole = run_ranks(1, load_whole, stacked, folder)[0]
    first = make(stacked=stacked).state_dict()
    assert whole.keys() == first.keys()
    assert all((whole[name] - first[name]).abs().amin() > 0.001 for name in whole)


def whole_model(rank: int, ranks: int, folder: str, begins: bool) -> list[float]:
    """A dense layer and experts, whose states torch names. Returns losses after saving, or loading."""
    torch.manual_seed(11)
    model = nn.ModuleDict({"dense": nn.Linear(6, 6).double(), "layers": make()})
    experts = shard_experts(list(model["layers"]), solver=SOLVERS["sparse"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step() -> float:
        x, index, weights = choices(7, tokens=12)
        mine = slice(12 * rank // ranks, 12 * (rank + 1) // ranks)
        out = together(model["layers"], model["dense"](x[mine]), index[mine], weights[mine])
        loss = out.square().sum() * 0.01 * ranks
        loss.backward()
        experts.step()
        for p in model["dense"].parameters():
            torch.distributed.all_reduce(p.grad)
            p.grad /= ranks
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach() / ranks
        torch.distributed.all_reduce(total)
        return float(total)

    if begins:
        for _ in range(2):
            step()
    states = get_state_dict(model, optimizer)
    if begins:
        dcp.save(dict(zip(("model", "optimizer"), states)), checkpoint_id=folder)
    else:
        for p in model.parameters():
            p.detach().zero_()
        dcp.load(dict(zip(("model", "optimizer"), states)), checkpoint_id=folder)
        set_state_dict(model, optimizer, model_state_dict=states[0], optim_state_dict=states[1])
    return [step() for _ in range(3)]


def test_model_and_optimizer_go_to_other_ranks_by_torchs_names(tmp_path: Path) -> None:
    folder = str(tmp_path / "saved")
    expected = run_ranks(2, whole_model, 2, folder, True)[0]
    for ranks in (1, 3):
        found = run_ranks(ranks, whole_model, ranks, folder, False)[0]
        assert found == pytest.approx(expected, rel=1e-12)
