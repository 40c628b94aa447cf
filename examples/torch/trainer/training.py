# SPDX-License-Identifier: Apache-2.0
"""One training loop for a model whose experts are not sharded, or by plain expert parallelism, FSDP2 or
fssdp. The dense part is sharded by FSDP2, or replicated by DistributedDataParallel."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import fssdp
from fssdp.torch import Between, ShardedExperts, shard_experts

from .between import is_signed, method_of
from .deepspeed_experts import DeepSpeedExperts
from .expert_parallel import ExpertParallel
from .model import Model, Shape, Text


@dataclass(frozen=True)
class Run:
    """What is trained, and how.

    Attributes:
        way: 'alone' (one process), 'plain' and 'deepspeed' (expert parallelism without fssdp, the
            second by DeepSpeed's layer), 'fsdp2', or a solver of fssdp: 'owners_only', 'sparse', 'cheapest', 'everywhere'.
        dense: 'fsdp2' or 'ddp'.
        groups: how many groups the ranks form. Each shards all experts among its ranks; gradients are
            averaged over all groups.
        between: the method by which groups exchange instead: see METHODS.
        learning_rate: of AdamW; of SGD, with weight decay, where gradients become signs.
        reshard_every: new owners after so many steps.
        micro_batches: how many there are in a step; their gradients are added up.
        slots: replicas that a rank has room for in one layer.
        device: 'cpu', or 'cuda': the current device of each rank.
        dtype: of all parameters. Runs whose sums are formed in other orders stay together in
            float64; in float32, rounding may change which expert a router chooses where two are almost
            equal.
    """

    way: str = "sparse"
    dense: str = "fsdp2"
    groups: int = 1
    between: str = ""
    learning_rate: float = 2e-3
    shape: Shape = field(default_factory=Shape)
    steps: int = 40
    stacked: bool = False
    recompute: bool = False
    rematerialize: bool = False
    bf16: bool = False
    calibrate: bool = False
    reshard_every: int = 0
    micro_batches: int = 1
    slots: int = 2
    plan_ahead: bool = False
    load_tolerance: float = 0.0
    device: str = "cpu"
    dtype: torch.dtype = torch.float64


@dataclass
class Result:
    """What one rank reports.

    Attributes:
        losses: of each step, over all ranks.
        seconds: of each step.
        balance: rows of the fullest rank over the average, of each step.
        bytes_sent: by this rank for experts: tokens, parameters, gradients.
        exposed: seconds that the caller has waited for parameters and gradients.
        moved: how often experts have changed their owners.
        bytes_between: sent by this rank to other groups.
        host: where the rank is: ranks of one host have the same.
        wire_bytes: sent by the host in this time, with headers and with the dense part.
    """

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    balance: list[float] = field(default_factory=list)
    bytes_sent: int = 0
    exposed: float = 0.0
    moved: int = 0
    bytes_between: int = 0
    host: str = ""
    wire_bytes: int = 0


def bytes_on_wire() -> int:
    """Sent by this host so far, over the interface that Gloo uses."""
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    figure = Path(f"/sys/class/net/{interface}/statistics/tx_bytes")
    return int(figure.read_text()) if figure.exists() else 0


def solver_of(run: Run) -> Any:
    """Who gets replicas."""
    shape = run.shape
    if run.way == "owners_only":
        return fssdp.OwnersOnly()
    if run.way == "everywhere":
        return fssdp.Everywhere()
    if run.way == "sparse":
        return fssdp.SparseMaterialization(overlap=run.slots + 2, spare_slots=run.slots)
    expert_bytes = 12 * shape.width * shape.hidden
    return fssdp.CheapestMaterialization(
        budget=fssdp.MaterializationBudget(
            experts_in=run.slots + 2, experts_out=run.slots + 2, spare_slots=run.slots
        ),
        rates=fssdp.LayerRates(
            forward_seconds_per_row=6e-9 * shape.width * shape.hidden,
            token_bytes=4 * shape.width,
            expert_bytes=expert_bytes,
        ),
    )


class Trainer:
    """A model, its optimizer, and the communication between ranks."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.alone = run.way == "alone"
        self.without_fssdp = run.way in ("plain", "deepspeed")
        self.rank = 0 if self.alone else dist.get_rank()
        self.ranks = 1 if self.alone else dist.get_world_size()
        self.model: nn.Module = Model(run.shape, stacked=run.stacked, recompute=run.recompute)
        self.model.to(run.device, run.dtype)
        self.text = Text(run.shape)
        self.mesh = None if self.alone else self._make_mesh()
        self.blocks = list(self.model.blocks)
        self.experts: ShardedExperts | None = None
        self.between: Between | None = None
        if run.between:
            if run.groups == 1:
                raise ValueError(f"between '{run.between}' with one group; expected 2 or more")
            self.between = Between(self.mesh["replicate"], method_of(run.between))
        self._shard_experts()
        own = self._own_parameters()
        dense = [p for p in self.model.parameters() if id(p) not in own]
        if not self.alone:
            self._shard_dense([p for p in self.model.parameters() if id(p) in own])
            dense = [p for p in self.model.parameters() if id(p) not in own]
        self.dense = dense
        self.own = [p for p in self.model.parameters() if id(p) in own]
        groups = [{"params": ps} for ps in (self.dense, self.own) if ps]
        if self.between is not None:
            self.between.add_dense(self.dense)
        self.signed = self.between is not None and is_signed(self.between.method)
        optimizer = torch.optim.SGD if self.signed else torch.optim.AdamW
        self.optimizer = optimizer(groups, lr=run.learning_rate, weight_decay=0.1)

    def _make_mesh(self) -> DeviceMesh:
        """Of all ranks, or of groups of ranks: [groups, ranks of a group]."""
        groups = self.run.groups
        if self.ranks % groups != 0:
            raise ValueError(f"{groups} groups of {self.ranks} ranks; expected a divisor")
        if groups == 1:
            return init_device_mesh(self.run.device, (self.ranks,))
        shape = (groups, self.ranks // groups)
        return init_device_mesh(self.run.device, shape, mesh_dim_names=("replicate", "shard"))

    @property
    def inside(self) -> DeviceMesh | None:
        """The ranks over which the dense part is averaged: with ``between`` those of a group, else all."""
        return self.mesh["shard"] if self.between is not None else self.mesh

    def wait_for_all(self) -> None:
        if not self.alone:
            dist.barrier()

    def _shard_experts(self) -> None:
        run, layers = self.run, [block.experts for block in self.blocks]
        if run.way in ("alone", "fsdp2"):
            return
        if run.way == "plain":
            for block in self.blocks:
                block.experts = ExpertParallel(block.experts)
            return
        if run.way == "deepspeed":
            for block in self.blocks:
                block.experts = DeepSpeedExperts(block)
            return
        self.experts = shard_experts(
            layers,
            self.inside,
            between=self.between,
            solver=solver_of(run),
            rematerialize=run.rematerialize,
            plan_ahead=run.plan_ahead,
            load_tolerance=run.load_tolerance,
            param_dtype=torch.bfloat16 if run.bf16 else None,
            calibrate=run.calibrate,
            seconds_per_row=1e-3 if run.calibrate else 0.0,
            replica_slots=_room(run, self.ranks) if run.reshard_every else None,
            partial_slots=_partial_room(run),
        )

    def _own_parameters(self) -> set[int]:
        """The ids of the parameters that no other rank has."""
        if self.without_fssdp:
            return {id(p) for block in self.blocks for p in block.experts.own.parameters()}
        return {id(p) for p in self.experts.parameters()} if self.experts else set()

    def _shard_dense(self, own: list[nn.Parameter]) -> None:
        if self.run.dense == "fsdp2":
            for module in (*self.blocks, self.model):
                fully_shard(module, mesh=self.inside, ignored_params=set(own))
            return
        names = [name for name, p in self.model.named_parameters() if any(p is q for q in own)]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self.model, names)
        group = None if self.between is None else self.inside.get_group()
        self.model = DistributedDataParallel(self.model, process_group=group)

    def step(self, step: int) -> tuple[float, float]:
        """Trains on one batch; the loss over all ranks, and how even the ranks were."""
        x, y = (t.to(self.run.device) for t in self.text.batch(step, self.rank, self.ranks))
        parts = list(zip(x.chunk(self.run.micro_batches), y.chunk(self.run.micro_batches), strict=True))
        loss = torch.zeros((), dtype=torch.float64, device=self.run.device)
        self.optimizer.zero_grad(set_to_none=True)
        for n, (some, following) in enumerate(parts):
            with self._not_yet(n < len(parts) - 1):
                logits = self.model(some)
                logits = logits.flatten(0, 1).double()  # the losses of ways are compared
                part = F.cross_entropy(logits, following.flatten()) * (len(some) / len(x))
                part.backward()
                loss += part.detach()
        balance = self._finish_gradients()
        if self.between is None:
            self._clip()
        elif self.signed:  # each group clips its own gradients, before they enter its momentum
            self._clip()
            self.between.average(self.run.learning_rate)
        else:
            self.between.average()
            self._clip()
        self.optimizer.step()
        if self.between is not None:
            self.between.synchronize(self.run.learning_rate)
        if not self.alone:
            dist.all_reduce(loss)
        return float(loss) / self.ranks, balance

    def _not_yet(self, more: bool) -> Any:
        """Keeps the gradients of the dense part on the rank until the last micro-batch. Those of experts
        are summed at their owners after each."""
        if self.alone or not more:
            if self.run.dense == "fsdp2" and not self.alone:
                self.model.set_requires_gradient_sync(True)
            return contextlib.nullcontext()
        if self.run.dense == "ddp":
            return self.model.no_sync()
        self.model.set_requires_gradient_sync(False)
        return contextlib.nullcontext()

    def _finish_gradients(self) -> float:
        if self.experts is not None:
            metrics = self.experts.step(exchange=False)
            self.exposed += metrics.exposed_seconds
            return metrics.load_max_over_mean
        if not self.without_fssdp:
            return 1.0
        for p in self.own:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad / self.ranks
        if self.run.way == "deepspeed":  # which does not count the rows of all ranks
            return 0.0
        ratios = [max(b.experts.loads) * self.ranks / sum(b.experts.loads) for b in self.blocks]
        return sum(ratios) / len(ratios)

    exposed = 0.0

    def _clip(self) -> None:
        if self.experts is not None:
            self.experts.clip_grad_norm_(1.0, self.dense)
        elif not self.without_fssdp:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        else:
            self._clip_plain()

    def _clip_plain(self) -> None:
        dense = [p for p in self.dense if p.requires_grad]
        norm = nn.utils.get_total_norm([p.grad for p in dense])
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        none = torch.zeros((), dtype=torch.double, device=self.run.device)
        squares = sum((p.grad.double().square().sum() for p in self.own), none)
        dist.all_reduce(squares)
        norm = (norm.double().square() + squares).sqrt()
        factor = (1.0 / (norm + 1e-6)).clamp(max=1.0)
        for p in (*dense, *self.own):
            p.grad.mul_(factor.to(p.grad.dtype))


def _room(run: Run, ranks: int) -> int:
    """If owners change, a rank may come to hold all experts of a layer."""
    return run.shape.experts * (2 if run.rematerialize else run.shape.layers)


def _partial_room(run: Run) -> int | None:
    return 2 * run.shape.experts if run.reshard_every else None


def train(run: Run) -> Result:
    """Trains, and reports what this rank has seen."""
    torch.manual_seed(0)
    trainer = Trainer(run)
    result = Result(host=os.readlink("/proc/self/ns/net"))
    trainer.wait_for_all()
    before = bytes_on_wire()
    for step in range(run.steps):
        trainer.wait_for_all()
        begin = time.perf_counter()
        loss, balance = trainer.step(step)
        if run.reshard_every and step % run.reshard_every == run.reshard_every - 1:
            result.moved += trainer.experts.reshard(trainer.optimizer)
        result.seconds.append(time.perf_counter() - begin)
        result.losses.append(loss)
        result.balance.append(balance)
    trainer.wait_for_all()
    result.wire_bytes = bytes_on_wire() - before
    result.exposed = trainer.exposed
    if trainer.experts is not None:
        of = trainer.experts
        if trainer.between is not None:
            result.bytes_between = trainer.between.communicator.bytes_sent
        result.bytes_sent = of.tokens.bytes_sent + of.communicator.bytes_sent
    elif run.way == "plain":
        result.bytes_sent = sum(block.experts.bytes_sent for block in trainer.blocks)
    return result
