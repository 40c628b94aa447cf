# SPDX-License-Identifier: Apache-2.0
"""What check_on_gpu.py checks: each method of Rank whose name has no underscore in front, in order.
All ranks call the same one together; it returns what is worth knowing, or raises."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import fssdp
import fssdp.torch as ft
from fssdp.torch import communicator
from trainer.model import Model, Shape
from trainer.training import Run, Trainer, train

EXPERTS = 6
SHAPE = Shape()
STEPS = 20
FEW_STEPS = 6  # where the way to train is one of many
OF_BOUND = ("gathers_and_reductions", "rows", "trained_sparse")  # where the group is told its device
OF_THREE = ("first_messages_of_some_ranks", *OF_BOUND)  # where a rank may have no part in an exchange


def names_of() -> list[str]:
    return [n for n, f in vars(Rank).items() if inspect.isfunction(f) and n[0] != "_" and n != "machine"]


def whole(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """The parameters of all experts, equal on all ranks."""
    draw = torch.Generator().manual_seed(len(shape))
    return torch.randn(EXPERTS, *shape, generator=draw).to(dtype)


def same(found: Tensor, expected: Tensor) -> None:
    assert torch.equal(found.cpu(), expected.cpu()), f"{found} is not {expected}"


class Rank:
    def __init__(self, rank: int, ranks: int, device: str) -> None:
        self._rank, self._ranks = rank, ranks
        self._device = torch.device("cuda", 0) if device == "cuda" else torch.device("cpu")
        self._on_gpu = device == "cuda"
        communicator.by_operators = not self._on_gpu
        self._comm = ft.Communicator(self._group(), timeout=15)
        owners = [(e * e) % ranks for e in range(EXPERTS)]
        self._layout = fssdp.table_layout(owners, ranks=ranks)
        where = fssdp.SparseMaterialization(overlap=3, spare_slots=2)([5, 90, 7, 60, 8, 30], self._layout)
        self._plan = fssdp.make_plan(self._layout, where)
        self._own = [int(e) for e, _ in self._layout.owned(rank)]
        self._held = [int(e) for e in self._plan.materialized(rank)]

    @staticmethod
    def _group() -> dist.ProcessGroup:
        return communicator.duplicate_group(dist.group.WORLD)

    def _here(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._device)

    def _wait(self) -> None:
        if self._on_gpu:
            torch.cuda.synchronize()

    def machine(self) -> str:
        return f"torch {torch.__version__}, {torch.cuda.get_device_name(0) if self._on_gpu else 'cpu'}"

    # -- collectives ----------------------------------------------------------------------------

    def first_messages_of_some_ranks(self) -> str:
        """The group's first exchange is one in which the last of three ranks has no part."""
        comm = ft.Communicator(self._group(), timeout=15)
        last = self._ranks - 1
        counts = [[0] * EXPERTS for _ in range(self._ranks)]
        counts[0] = [2 if r < max(last, 1) else 0 for r in self._layout.owners[:, 0]]
        plan = fssdp.TokenPlan(counts, fssdp.OwnersOnly()([1] * EXPERTS, self._layout), self._rank)
        rows = torch.full((plan.sent_rows, 3), 7.0, device=self._device)
        same(ft.dispatch(comm, plan, rows), torch.full((plan.received_rows, 3), 7.0))
        return ""

    def gathers_and_reductions(self) -> str:
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            everything = [whole(3, 4, dtype=dtype), whole(5, dtype=dtype)]
            owned = [self._here(t[self._own]).requires_grad_() for t in everything]
            got = ft.sparse_all_gather(self._comm, self._plan, owned)
            for found, expected in zip(got, everything, strict=True):
                same(found, expected[self._held])
            sum(((self._rank + 1) * g).sum() for g in got).backward()
            for t in owned:
                for i, e in enumerate(self._own):
                    holders = [r for r in range(self._ranks) if e in self._plan.materialized(r)]
                    same(t.grad[i], torch.full_like(t.grad[i], sum(r + 1 for r in holders)))
        half = ft.sparse_all_gather(
            self._comm, self._plan, self._here(whole(3)[self._own]), dtype=torch.bfloat16
        )
        same(half, whole(3, dtype=torch.bfloat16)[self._held])
        return ""

    def blocks(self) -> str:
        counts = [3, 5][: self._ranks]
        first = sum(counts[: self._rank])
        everything = torch.randn(sum(counts), 4, generator=torch.Generator().manual_seed(3))
        mine = slice(first, first + counts[self._rank])
        same(ft.all_gather_v(self._comm, self._here(everything[mine]), counts), everything)
        summed = ft.reduce_scatter_v(self._comm, self._here(everything * (self._rank + 1)), counts)
        expected = functools.reduce(torch.add, [everything * (r + 1) for r in range(self._ranks)])
        same(summed, expected[mine])
        return ""

    def rows(self) -> str:
        counts = torch.randint(0, 9, (self._ranks, EXPERTS), generator=torch.Generator().manual_seed(7))
        plan = fssdp.TokenPlan(counts, self._plan.where, self._rank)
        expert = torch.arange(EXPERTS).repeat_interleave(counts[self._rank])
        sent = torch.stack([torch.full_like(expert, self._rank), expert, torch.arange(len(expert))], 1)
        rows = self._here(sent.float()).requires_grad_()
        received = ft.dispatch(self._comm, plan, rows)
        groups = torch.tensor([int(group["rows"]) for group in plan.groups])
        assert int(groups.sum()) == len(received)
        same(received[:, 1], torch.tensor(self._held).repeat_interleave(groups).float())
        for part in received[:, 0].split(groups.tolist()):
            same(part, part.sort().values)  # by source
        same(ft.combine(self._comm, plan, received), rows)
        (received * 2).sum().backward()
        same(rows.grad, torch.full_like(rows, 2.0))
        table = self._comm.on(self._device).gather_counts(counts[self._rank].tolist(), 1)
        assert list(table.loads()) == counts.sum(0).tolist()
        return f"{len(received)} rows"

    def asynchronous(self) -> str:
        """The host does not wait; memory that is let go is not given to others too early."""
        x = self._here(whole(300, 1000))[self._own]
        expected = 3 * whole(300, 1000)[self._held]

        def start() -> list[ft.Work]:
            works = []
            for _ in range(4):
                works.append(ft.sparse_all_gather(self._comm, self._plan, 3 * x, async_op=True))
                torch.full_like(x, -1.0)  # would get the memory of what has been let go
            return works

        for work in start():  # the plan is agreed on, torch has memory
            work.wait()
        self._wait()
        del work
        begin = time.perf_counter()
        self._busy()
        works = start()
        called = time.perf_counter() - begin
        early = [work.is_completed() for work in works]
        results = [work.wait() for work in works]
        waited = time.perf_counter() - begin
        del works
        sums = [(result * 1).cpu() for result in results]  # after the collectives
        took = time.perf_counter() - begin
        for result in sums:
            same(result, expected)
        if not self._on_gpu:
            return ""
        assert not any(early), "a collective is over before what it waits for"
        assert waited < 0.8 * took, f"the host has waited: {waited:.3f} of {took:.3f} s"
        return f"called in {1e3 * called:.1f} ms, waited {1e3 * waited:.1f} ms, over in {1e3 * took:.0f} ms"

    def asynchronous_between_others(self) -> str:
        x = self._here(whole(50, 60)[self._own])
        expected = whole(50, 60)[self._held]
        plan = fssdp.TokenPlan([[2] * EXPERTS] * self._ranks, self._plan.where, self._rank)
        rows = self._here(torch.arange(2.0 * EXPERTS * 5).view(-1, 5))
        for _ in range(10):
            work = ft.sparse_all_gather(self._comm, self._plan, x, async_op=True)
            back = ft.combine(self._comm, plan, ft.dispatch(self._comm, plan, rows))
            same(back, rows)
            same(work.wait(), expected)
        assert work.is_completed()
        return ""

    def refusals(self) -> str:
        texts = []

        def refused(kind: type[Exception], call: Any) -> None:
            try:
                call()
            except kind as error:
                texts.append(str(error))
            else:
                raise AssertionError(f"no {kind.__name__}")

        bound = ft.Communicator(self._group(), timeout=15, device=self._device)
        refused(fssdp.ArgumentError, lambda: bound.on("meta"))
        free = ft.Communicator(self._group(), timeout=15)
        refused(fssdp.ArgumentError, lambda: free.on("meta"))
        if self._on_gpu:
            gloo = dist.new_group(backend="gloo")
            refused(fssdp.ArgumentError, lambda: ft.Communicator(gloo, device="cuda"))
            refused(fssdp.ArgumentError, lambda: ft.all_gather_v(free, torch.ones(1), [1] * self._ranks))
        if self._ranks > 1:
            other = fssdp.Everywhere() if self._rank == 0 else fssdp.OwnersOnly()
            plan = fssdp.make_plan(self._layout, other([1] * EXPERTS, self._layout))
            x = self._here(whole(3)[self._own])
            refused(fssdp.RanksDisagree, lambda: ft.sparse_all_gather(free, plan, x))
        return f"{len(texts)} errors, as: {texts[0]}"

    def a_rank_that_does_not_come(self) -> str:
        comm = ft.Communicator(self._group(), timeout=2)
        counts = comm.on(self._device).gather_counts
        counts([1] * EXPERTS, 1)
        if self._ranks == 1:
            return "nobody to wait for"
        if self._rank == 1:
            time.sleep(4)
            if self._on_gpu:  # the kernel of the other rank ends when this one comes
                counts([1] * EXPERTS, 1)
            return ""
        begin = time.perf_counter()
        try:
            counts([1] * EXPERTS, 1)
        except fssdp.DeadlineExceeded as error:
            return f"{error} ({time.perf_counter() - begin:.1f} s)"
        raise AssertionError("it has not failed")

    def _busy(self) -> None:
        """Keeps the device busy for about 0.3 s."""
        if self._on_gpu:
            torch.cuda._sleep(int(0.3 * 1.7e9))

    # -- training -------------------------------------------------------------------------------

    @functools.cached_property
    def _alone(self) -> dict[torch.dtype, list[float]]:
        return {
            dtype: train(self._run(way="alone", dtype=dtype)).losses
            for dtype in (torch.float64, torch.float32)
        }

    def _run(self, **options: Any) -> Run:
        fixed = {"shape": SHAPE, "steps": STEPS, "dense": "ddp", "device": self._device.type}
        return Run(**{**fixed, **options})

    def _trained(self, tolerance: float = 1e-5, **options: Any) -> str:
        """As a model that nobody has sharded."""
        run = self._run(**options)
        expected = self._alone[run.dtype]
        begin = time.perf_counter()
        losses = train(run).losses
        step = 1e3 * (time.perf_counter() - begin) / run.steps
        apart = max(abs(a - b) for a, b in zip(losses, expected[: run.steps], strict=True))
        assert apart <= tolerance, f"losses are {apart:.1e} apart; expected {tolerance:.0e}: {losses}"
        return f"{losses[0]:.4f} to {losses[-1]:.4f}, {apart:.0e} apart, {step:.1f} ms a step"

    def alone(self) -> str:
        losses = self._alone[torch.float64]
        assert losses[-1] < losses[0]
        return f"{losses[0]:.4f} to {losses[-1]:.4f}"

    def trained_owners_only(self) -> str:
        return self._trained(way="owners_only")

    def trained_sparse(self) -> str:
        return self._trained(way="sparse")

    def trained_everywhere(self) -> str:
        return self._trained(way="everywhere")

    def trained_sparse_rematerialized(self) -> str:
        return self._trained(way="sparse", rematerialize=True)

    def trained_everywhere_rematerialized(self) -> str:
        return self._trained(way="everywhere", rematerialize=True)

    def trained_stacked(self) -> str:
        return self._trained(
            way="sparse",
            stacked=True,
            rematerialize=True,
            recompute=True,
            micro_batches=2,
            steps=FEW_STEPS,
        )

    def trained_with_owners_that_change(self) -> str:
        return self._trained(way="sparse", reshard_every=2, steps=FEW_STEPS)

    def trained_planned_ahead(self) -> str:
        return self._trained(way="cheapest", plan_ahead=True, steps=FEW_STEPS)

    def trained_calibrated(self) -> str:
        return self._trained(way="sparse", calibrate=True, steps=FEW_STEPS)

    def trained_with_fsdp2(self) -> str:
        return self._trained(way="sparse", dense="fsdp2", steps=FEW_STEPS)

    def trained_in_float32(self) -> str:
        return self._trained(1e-4, way="sparse", dtype=torch.float32)

    def trained_with_bf16_replicas(self) -> str:
        return self._trained(1e-2, way="sparse", dtype=torch.float32, bf16=True)

    def trained_on_another_stream(self) -> str:
        beside = torch.cuda.stream(torch.cuda.Stream()) if self._on_gpu else contextlib.nullcontext()
        with beside:
            return self._trained(way="sparse", steps=FEW_STEPS)

    def the_host_goes_on(self) -> str:
        """Gathers of a layer wait for the device; the host does not."""
        trainer = Trainer(self._run(way="everywhere"))
        for step in range(2):
            trainer.step(step)
        self._wait()
        dist.barrier()
        self._wait()
        begin = time.perf_counter()
        self._busy()
        trainer.experts.prefetch(0)
        prefetched = time.perf_counter() - begin
        self._wait()
        slept = time.perf_counter() - begin
        trainer.step(2)
        if not self._on_gpu:
            return ""
        assert prefetched < 0.5 * slept, f"prefetch takes {prefetched:.3f} of {slept:.3f} s"
        return f"prefetched in {1e3 * prefetched:.1f} ms, of {1e3 * slept:.0f}"

    def state_dicts(self) -> str:
        """Training goes on from them; an unsharded model loads them."""
        trainer = Trainer(self._run(way="sparse"))
        experts = trainer.experts
        for step in range(3):
            trainer.step(step)

        def state() -> list[Tensor]:
            model = trainer.model.state_dict()
            moments = [s for p in trainer.model.parameters() for s in trainer.optimizer.state[p].values()]
            return [*model.values(), *moments]

        saved = [t.clone() for t in state()]
        first = [trainer.step(step)[0] for step in range(3, 6)]
        with torch.no_grad():
            for now, before in zip(state(), saved, strict=True):
                now.copy_(before)
        again = [trainer.step(step)[0] for step in range(3, 6)]
        apart = max(abs(a - b) for a, b in zip(first, again, strict=True))
        assert apart < 1e-9, f"{first} and {again}"
        model = Model(SHAPE).to(self._device, torch.float64)
        module = trainer.model.module
        names = module.state_dict() | experts.full_tensors(module)
        model.load_state_dict({n: names[n] for n in model.state_dict()})
        x, _ = trainer.text.batch(9, self._rank, self._ranks)
        x = x.to(self._device)
        apart = max(apart, float((model(x) - trainer.model(x)).detach().abs().max()))
        experts.step()
        assert apart < 1e-9
        return f"{apart:.0e} apart"

    def memory(self) -> str:
        """Of torch's allocator: pools count, what others own is gone, and it comes back."""
        if not self._on_gpu:
            return "no figures"
        self._tidy()
        before = torch.cuda.memory_allocated()
        experts = 8
        shape = Shape(width=256, hidden=512, experts=experts, layers=2)
        model = Model(shape).to(self._device)
        layers = [block.experts for block in model.blocks]
        each = 3 * 4 * shape.width * shape.hidden
        whole_model = torch.cuda.memory_allocated() - before
        sharded = ft.shard_experts(layers, solver=fssdp.OwnersOnly())
        self._tidy()
        owned = shape.layers * experts // self._ranks
        expected = whole_model + each * (2 * owned - shape.layers * experts)  # and gradients
        pools = each * 2 * (experts // self._ranks)  # partial gradients of two layers
        now = torch.cuda.memory_allocated() - before
        assert 0.98 * (expected + pools) < now < 1.02 * (expected + pools) + 2e6, (
            f"{now} bytes; expected about {expected} and {pools} in pools"
        )
        sizes = []
        for step in range(6):
            x = torch.randint(0, 256, (2, shape.sequence), device=self._device)
            model(x).square().mean().backward()
            sharded.step()
            model.zero_grad()
            sizes.append(torch.cuda.memory_allocated())
        assert sizes[-1] <= sizes[2], f"it grows: {sizes}"
        del sharded, layers, model, x
        self._tidy()
        left = torch.cuda.memory_allocated() - before
        assert left < 2e6, f"{left} bytes are left"
        return f"{now / 1e6:.1f} MB of {whole_model / 1e6:.1f} MB and gradients; {left} bytes left"

    def _tidy(self) -> None:
        gc.collect()
        self._wait()
        torch._C._cuda_clearCublasWorkspaces()
