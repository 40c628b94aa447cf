# SPDX-License-Identifier: Apache-2.0
"""Groups of ranks: each has all parameters, sharded inside; between groups crosses what a method says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..errors import ArgumentError
from . import _torch
from .communicator import Communicator
from .methods import (
    ENDLESS,
    DelayedExchange,
    GradientExchange,
    Method,
    ParameterExchange,
    Staggered,
)
from .units import ExpertUnits, Units, dense_units

__all__ = ["Between"]

Group = dist.ProcessGroup | dist.DeviceMesh


class Between:
    """What crosses between groups of ranks, over slower links than those inside: a group has one copy of
    all parameters; the ranks at the same position of all groups, counterparts, own the same of them.

        between = Between(mesh["replicate"], demo(), dense=dense_parameters)
        experts = shard_experts(layers, mesh["shard"], between=between)
        ...
        loss.backward()
        experts.step(rate=lr)      # averages gradients of all groups, if the method does
        optimizer.step()
        between.synchronize()      # brings parameters of all groups together, if the method does

    Owners are the same in all groups, placements need not be. All groups begin with equal parameters.
    An expert without tokens in all groups does not cross, and its gradient is zero.

    Ranks compare what they exchange: layouts, shapes, the method with its options, steps, rates and
    loads. Where groups differ, all of them get RanksDisagree before a gradient or a parameter changes.
    After that, or a TransportError, what is remembered is of no use.

    Args:
        group: the counterparts of this rank: a process group, or a mesh of one dimension; of a mesh with
            two dimensions the first, its second being the ranks inside.
        method: what crosses, and when.
        dense: parameters besides those of experts: of each group the same on all ranks, with gradients
            that are averaged inside (DistributedDataParallel over the ranks of a group), or those of
            fully_shard over these.
        whole: each dense parameter is compressed by the rank that it is dealt to, as a whole matrix;
            else each rank has a chunk of each.
        inside: the ranks of the group, where shard_experts does not say.
        timeout: seconds that a rank waits for another.

    Raises:
        ArgumentError: that names what does not fit.
        RanksDisagree: groups have other parameters to begin with.
    """

    def __init__(
        self,
        group: Group,
        method: Method,
        *,
        dense: Iterable[nn.Parameter] = (),
        whole: bool = False,
        inside: Group | None = None,
        timeout: float = 60.0,
    ) -> None:
        if not isinstance(method, Method):
            raise ArgumentError(
                f"Between: method {method!r}; expected a GradientExchange, a ParameterExchange or a "
                "DelayedExchange"
            )
        if isinstance(group, dist.DeviceMesh) and group.ndim == 2 and inside is None:
            inside = group.get_group(1)
        self.group = _group_of(group)
        self.method = method
        self.timeout = timeout
        self.communicator = _on_host(self.group, timeout)
        self.inside: Communicator | None = None
        self.step = 0
        self._dense, self._whole = list(dense), whole
        self._stream = _torch.HostStream() if method.overlap else None
        self._run: _Run = _runs[type(method)](self)
        self._inside_group = None if inside is None else _group_of(inside)
        if inside is not None and self._dense:
            self._add_dense(self._inside_group)

    @property
    def groups(self) -> int:
        """How many there are."""
        return self.communicator.size

    def add_experts(self, experts: Any) -> None:
        """What ``shard_experts`` does with its own."""
        if any(isinstance(part.units, ExpertUnits) for part in self._run.parts):
            raise ArgumentError("Between: it has experts already; expected one for each shard_experts")
        if self._inside_group is not None and _ranks(self._inside_group) != _ranks(experts.group):
            raise ArgumentError(
                f"Between: experts are sharded over the ranks {_ranks(experts.group)}; expected those "
                f"inside, {_ranks(self._inside_group)}"
            )
        units = ExpertUnits(experts)
        units.deal(self._run.fragments)
        self._run.add(units, self.method.seed)
        self._add_dense(experts.group)

    def _add_dense(self, inside: dist.ProcessGroup) -> None:
        if self.inside is not None:
            return
        self._inside_group = inside
        self.inside = _on_host(inside, self.timeout)
        listed = dense_units(self._dense, self._whole, self.inside, self._run.fragments)
        for i, units in enumerate(listed):
            self._run.add(units, self.method.seed + 1 + i)

    def average(self, rate: float = 1.0) -> None:
        """Gradients become their average over all groups, if the method exchanges gradients;
        ``ShardedExperts.step`` calls it. With ``overlap`` they are with the optimizer after ``wait``.

        Args:
            rate: the learning rate, for a momentum. Equal on all ranks.

        Raises:
            ArgumentError: averages are under way.
            RanksDisagree: groups have other methods, layouts, rates or loads; no gradient has changed.
            TransportError: another rank has failed.
        """
        self._run.average(rate)

    def wait(self) -> None:
        """Waits for averages that are under way: gradients may be used.

        Raises:
            TransportError: what has gone wrong meanwhile.
        """
        self._run.wait()

    @torch.no_grad()
    def synchronize(self, learning_rate: float | None = None) -> bool:
        """After the optimizer's step: counts it and, if the method exchanges parameters and it is time
        to, brings those of all groups together.

        Args:
            learning_rate: of the step, for Quadratic.

        Returns:
            Whether parameters have changed.

        Raises:
            RanksDisagree: as ``average``; no parameter has changed.
            TransportError: another rank has failed.
        """
        self.step += 1
        return self._run.synchronize(learning_rate)

    @torch.no_grad()
    def require_equal_bits(self) -> None:
        """Compares the parameters of counterparts, by a hash: equal ones stay so by themselves, unless
        hosts calculate otherwise.

        Raises:
            RanksDisagree: that names a group.
        """
        self._run.drain()
        for part in self._run.parts:
            part.require_equal_bits(self.on_host)

    def measure(self, on: bool = True) -> None:
        """From now on averages measure what each compressor leaves out: for ``choose_compressors``."""
        for part in self._run.parts_of(GradientExchange, "measure"):
            part.engine.measure(on)

    def choose_compressors(self, tolerance: float = 1.0, buckets: int = 10_000) -> list[list[list[int]]]:
        """Chooses a compressor for each tensor of each layer, by what was measured: as few bytes as
        ``tolerance`` times the errors of the usual one allow. All ranks call it. (L-GreCo)

        Returns:
            [parts][layers][tensors]: 0, or 1 + its place among the alternatives. Experts are a part.

        Raises:
            ArgumentError: nothing has been measured.
        """
        parts = self._run.parts_of(GradientExchange, "choose_compressors")
        for part in parts:
            part.engine.choose_compressors(self.inside.on("cpu"), tolerance, buckets)
        return [part.choice() for part in parts]

    def bytes_to_send(self) -> int:
        """What this rank sends to other groups when all units cross once: exact, or at most."""
        return sum(
            part.engine.bytes_sent(l)
            for part in self._run.parts
            for l in range(len(part.units.layouts))
        )

    def state_dict(self) -> dict[str, Any]:
        """What this rank remembers: residuals, momenta, factors, anchors, and where it is. Of numbers,
        texts, lists and tensors; each rank has its own. It waits for what is under way.

        Raises:
            ArgumentError: a fragment of Staggered has been sent and not applied; call it between.
        """
        self._run.drain()
        return {
            "method": _text_of(self.method),
            "group": self.communicator.rank,
            "groups": self.groups,
            "step": self.step,
            "run": self._run.state(),
            "parts": [part.state() for part in self._run.parts],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on, bit for bit, from where ``state_dict`` was: with the same ranks, owners and method.

        Raises:
            ArgumentError: that names what differs; then nothing has changed.
        """
        self._run.drain()
        expected = {
            "method": _text_of(self.method),
            "group": self.communicator.rank,
            "groups": self.groups,
        }
        for name, value in expected.items():
            if state.get(name) != value:
                raise ArgumentError(
                    f"load_state_dict: {name} is {state.get(name)!r}; expected {value!r}"
                )
        if len(state["parts"]) != len(self._run.parts):
            raise ArgumentError(
                f"load_state_dict: {len(state['parts'])} parts; expected {len(self._run.parts)}"
            )
        for i, (part, saved) in enumerate(zip(self._run.parts, state["parts"], strict=True)):
            part.check(i, saved)
        for part, saved in zip(self._run.parts, state["parts"], strict=True):
            part.load(saved)
        self.step = state["step"]
        self._run.load(state["run"])

    def sum_counts(self, counts: Sequence[int]) -> list[int]:
        """The sum over all groups, of this rank's and its counterparts' counts."""
        self._run.drain()
        return _torch.sum_counts(self.on_host, list(counts))

    @property
    def on_host(self) -> Any:
        return self.communicator.on("cpu")

    @property
    def stream(self) -> Any:
        return self._stream

    def memory_of_experts(self, device: torch.device) -> list[tuple[str, Tensor]]:
        """What is remembered of experts, as ``reshard`` of a materializer takes it."""
        self._run.drain()
        part = self._part_of_experts()
        self._moving = [memory.to(device) for memory in part.memory()]
        return [
            (f"memory {i} between groups", memory)
            for i, memory in enumerate(self._moving)
            if memory.numel() > 0
        ]

    def take_memory_of_experts(self, layouts: Sequence[Any]) -> None:
        """What ``memory_of_experts`` has given has moved."""
        part = self._part_of_experts()
        part.engine.load_memory([memory.cpu() for memory in self._moving])
        part.engine.reshard(list(layouts))
        self._moving = []

    def _part_of_experts(self) -> _Part:
        return next(p for p in self._run.parts if isinstance(p.units, ExpertUnits))

    def __repr__(self) -> str:
        return f"Between(group={self.communicator.rank}, groups={self.groups}, method={self.method!r})"


class _Part:
    """Units, and the exchange of C++ that is theirs."""

    def __init__(self, units: Units, engine: Any) -> None:
        self.units, self.engine = units, engine
        self.values: list[list[Tensor]] = []

    @property
    def layers(self) -> range:
        return range(len(self.units.layouts))

    def require_equal_bits(self, between: Any) -> None:
        for l in self.layers:
            _torch.require_equal_bits(between, self.units.weights(l))

    def memory(self) -> list[Tensor]:
        tensors = [torch.zeros(slots, elements) for slots, elements in self.engine.memory_sizes()]
        self.engine.save_memory(tensors)
        return tensors

    def owners(self) -> list[list[int]]:
        return [[int(rank) for rank in layout.owners.reshape(-1)] for layout in self.units.layouts]

    def choice(self) -> list[list[int]]:
        tensors = range(len(self.units.shapes))
        return [[self.engine.compressor_of(l, k) for k in tensors] for l in self.layers]

    def position(self) -> list[Any]:
        if isinstance(self.engine, _torch.GradientExchange):
            return [self.engine.step()]
        if isinstance(self.engine, _torch.ParameterExchange):
            return [self.engine.round()]
        return list(self.engine.where())

    def state(self) -> dict[str, Any]:
        saved = {"owners": self.owners(), "position": self.position(), "memory": self.memory()}
        if isinstance(self.engine, _torch.GradientExchange):
            saved["choice"] = self.choice()
        return saved

    def check(self, index: int, saved: dict[str, Any]) -> None:
        if saved["owners"] != self.owners():
            raise ArgumentError(
                f"load_state_dict: owners of part {index} are {saved['owners']}; expected "
                f"{self.owners()}, as now"
            )
        sizes = [tuple(memory.shape) for memory in saved["memory"]]
        if sizes != list(self.engine.memory_sizes()):
            raise ArgumentError(
                f"load_state_dict: memory of part {index} is {sizes}; expected "
                f"{self.engine.memory_sizes()}"
            )

    def load(self, saved: dict[str, Any]) -> None:
        self.engine.load_memory([memory.float().contiguous() for memory in saved["memory"]])
        self.engine.resume(*saved["position"])
        for l, of_layer in enumerate(saved.get("choice", ())):
            for k, index in enumerate(of_layer):
                self.engine.take_compressor(l, k, index)


class _Run:
    """What a kind of method does, for all parts alike."""

    def __init__(self, between: Between) -> None:
        self.between = between
        self.parts: list[_Part] = []

    @property
    def fragments(self) -> int:
        schedule = getattr(self.between.method, "schedule", None)
        return schedule.fragments if isinstance(schedule, Staggered) else 1

    def add(self, units: Units, seed: int) -> None:
        part = _Part(units, self.make(units, seed))
        with torch.no_grad():
            part.require_equal_bits(self.between.on_host)
            self.begin(part)
        self.parts.append(part)

    def make(self, units: Units, seed: int) -> Any:
        raise NotImplementedError

    def place(self, units: Units) -> tuple[Any, ...]:
        return self.between.on_host, units.layouts, units.rank, units.shapes

    def begin(self, part: _Part) -> None:
        """All groups have the same parameters."""

    def average(self, rate: float) -> None:
        """Of gradients: nothing where parameters are exchanged."""

    def wait(self) -> None:
        """Likewise."""

    def synchronize(self, learning_rate: float | None) -> bool:
        return False

    def drain(self) -> None:
        """Nothing is under way."""
        if self.between.stream is not None:
            self.between.stream.synchronize()

    def parts_of(self, kind: type, name: str) -> list[_Part]:
        if not isinstance(self.between.method, kind):
            raise ArgumentError(
                f"{name}: the method is a {type(self.between.method).__name__}; expected a "
                f"{kind.__name__}"
            )
        return self.parts

    def state(self) -> list[int]:
        return []

    def load(self, state: list[int]) -> None:
        pass


class _GradientRun(_Run):
    def __init__(self, between: Between) -> None:
        super().__init__(between)
        self.is_under_way = False

    def make(self, units: Units, seed: int) -> Any:
        method = self.between.method
        return _torch.GradientExchange(
            *self.place(units), method.compressor.made(),
            [compressor.made() for compressor in method.alternatives],
            method.memory, method.decay, method.sign, seed, self.between.stream,
        )  # fmt: skip

    @torch.no_grad()
    def average(self, rate: float) -> None:
        self._require_no_averages()
        for part in self.parts:
            loads = self._loads_of(part)
            part.values = [part.units.gradients(l) for l in part.layers]
            for l, values in enumerate(part.values):
                part.engine.average(l, values, rate, loads[l])
        for part in self.parts:
            part.engine.advance()
        self.is_under_way = True
        if not self.between.method.overlap:
            self.wait()
            return
        for part in self.parts:
            part.units.hide_gradients()

    def _loads_of(self, part: _Part) -> list[list[int]]:
        """Of each layer, summed over all groups."""
        mine = part.units.loads()
        if mine is None:
            return [[] for _ in part.layers]
        each = len(mine) // len(part.layers)
        loads = _torch.sum_counts(self.between.on_host, mine)
        return [loads[l * each : (l + 1) * each] for l in part.layers]

    @torch.no_grad()
    def wait(self) -> None:
        if not self.is_under_way:
            return
        self.is_under_way = False
        self.drain()  # what is hidden stays so where it fails
        for part in self.parts:
            groups = 1 if self.between.method.sign else self.between.groups
            part.units.put_gradients(part.values, groups)
            part.values = []

    def drain(self) -> None:
        self._require_no_averages()
        super().drain()

    def _require_no_averages(self) -> None:
        if self.is_under_way:
            raise ArgumentError(
                "Between: averages of the last step are under way; expected wait() before the "
                "optimizer's step"
            )


class _RoundRun(_Run):
    """Methods with rounds."""

    def __init__(self, between: Between) -> None:
        super().__init__(between)
        self.start, self.length = 0, 0  # length 0: to be decided

    @property
    def steps(self) -> int:
        steps = self.between.method.steps
        return ENDLESS if steps is None else steps

    def is_first_step(self) -> bool:
        return self.between.step == self.start + 1

    def is_over(self, learning_rate: float | None) -> bool:
        """Whether the round ends with this step; then the next one begins."""
        if self.length == 0:
            schedule = self.between.method.schedule
            self.length = schedule(self.start, self.steps, learning_rate)
        if self.between.step < self.start + self.length:
            return False
        self.start, self.length = self.between.step, 0
        return True

    def begin(self, part: _Part) -> None:
        for l in part.layers:
            part.engine.begin(l, part.units.weights(l))

    def state(self) -> list[int]:
        return [self.start, self.length]

    def load(self, state: list[int]) -> None:
        self.start, self.length = state


class _ParameterRun(_RoundRun):
    def make(self, units: Units, seed: int) -> Any:
        method = self.between.method
        return _torch.ParameterExchange(
            *self.place(units), method.compressor.made(), method.rate, method.momentum, method.mix,
            seed, self.between.stream,
        )  # fmt: skip

    def synchronize(self, learning_rate: float | None) -> bool:
        schedule = self.between.method.schedule
        if isinstance(schedule, Staggered):
            return self._take_turn(schedule)
        if not self.is_over(learning_rate):
            return False
        everything = lambda part, layer: True
        self._start(everything)
        self._finish(everything)
        self._advance()
        return True

    def _take_turn(self, schedule: Staggered) -> bool:
        applied, sent = schedule(self.between.step, self.steps)
        in_fragment = lambda f: lambda part, layer: part.units.fragments[layer] == f
        if schedule.delay > 0 and applied >= 0:
            self._finish(in_fragment(applied))
        if sent >= 0:
            self._start(in_fragment(sent))
        if schedule.delay == 0 and applied >= 0:
            self._finish(in_fragment(applied))
        if sent == schedule.fragments - 1:
            self._advance()
        return applied >= 0

    def _start(self, takes_part: Callable[[_Part, int], bool]) -> None:
        for part in self.parts:
            for l in part.layers:
                if takes_part(part, l):
                    part.engine.start(l, part.units.weights(l))

    def _finish(self, takes_part: Callable[[_Part, int], bool]) -> None:
        for part in self.parts:
            changed = {}
            for l in part.layers:
                if takes_part(part, l):
                    changed[l] = part.units.weights(l)
                    part.engine.finish(l, changed[l])
            if changed:
                part.units.put_weights(changed)

    def _advance(self) -> None:
        for part in self.parts:
            part.engine.advance()

    def drain(self) -> None:
        super().drain()
        for part in self.parts:
            for l in part.layers:
                if part.engine.is_under_way(l):
                    raise ArgumentError(
                        f"Between: fragment {part.units.fragments[l]} is under way after step "
                        f"{self.between.step}; expected this when it has been applied"
                    )


class _DelayedRun(_RoundRun):
    def make(self, units: Units, seed: int) -> Any:
        method = self.between.method
        return _torch.DelayedExchange(
            *self.place(units), method.compressor.made(), method.rate, method.momentum, method.clip,
            method.penalty, seed, self.between.stream,
        )  # fmt: skip

    def synchronize(self, learning_rate: float | None) -> bool:
        is_first = self.is_first_step()
        if is_first:
            for part in self.parts:
                for l in part.layers:
                    part.engine.first_step(l, part.units.weights(l))
        if not self.is_over(learning_rate):
            return False
        gap = self._gap()
        for part in self.parts:
            changed = {}
            for l in part.layers:
                changed[l] = part.units.weights(l)
                part.engine.synchronize(l, changed[l], gap)
            part.units.put_weights(changed)
            part.engine.advance()
        return True

    def _gap(self) -> float:
        parts = [part.engine.gap_of_rank() for part in self.parts]
        if not self.between.method.penalty:
            return 1.0
        moved, first_step = (sum(numbers) for numbers in zip(*parts))
        inside = self.between.inside.on("cpu")
        return _torch.staleness_gap(inside, self.between.on_host, moved, first_step)


_runs: dict[type, type[_Run]] = {
    GradientExchange: _GradientRun,
    ParameterExchange: _ParameterRun,
    DelayedExchange: _DelayedRun,
}


def _group_of(group: Group) -> dist.ProcessGroup:
    if not isinstance(group, dist.DeviceMesh):
        return group
    if group.ndim > 2:
        raise ArgumentError(f"Between: a mesh of {group.ndim} dimensions; expected 1 or 2")
    return group.get_group(0)


def _ranks(group: dist.ProcessGroup) -> list[int]:
    return dist.get_process_group_ranks(group)


def _on_host(group: dist.ProcessGroup, timeout: float) -> Communicator:
    """The same ranks, for memory of the host, and nothing else."""
    back_end = "gloo" if dist.is_gloo_available() else None
    own = dist.new_group(_ranks(group), backend=back_end, use_local_synchronization=True)
    return Communicator(own, timeout=timeout, device="cpu")


def _text_of(method: Method) -> str:
    """But for what changes no number."""
    rest = {} if isinstance(method, GradientExchange) else {"steps": None}
    return repr(replace(method, overlap=False, **rest))
