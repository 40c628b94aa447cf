# SPDX-License-Identifier: Apache-2.0
"""Runs the method of ``Between``, for experts and dense parameters alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..errors import ArgumentError
from . import _torch
from .methods import ENDLESS, DelayedExchange, GradientExchange, ParameterExchange, Staggered
from .units import Units

if TYPE_CHECKING:
    from .between import Between

__all__ = ["RUNS", "Part", "Run"]


class Part:
    """Units, and the C++ exchange that they go through."""

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


class Run:
    """What a kind of method does, for all parts. Base class."""

    def __init__(self, between: Between) -> None:
        self.between = between
        self.parts: list[Part] = []

    @property
    def fragments(self) -> int:
        schedule = getattr(self.between.method, "schedule", None)
        return schedule.fragments if isinstance(schedule, Staggered) else 1

    def add(self, units: Units, seed: int) -> None:
        part = Part(units, self.make(units, seed))
        with torch.no_grad():
            part.require_equal_bits(self.between.on_host)
            self.begin(part)
        self.parts.append(part)

    def make(self, units: Units, seed: int) -> Any:
        raise NotImplementedError

    def place(self, units: Units) -> tuple[Any, ...]:
        return self.between.on_host, units.layouts, units.rank, units.shapes

    def begin(self, part: Part) -> None:
        """Called once, when all groups have the same parameters."""

    def average(self, rate: float) -> None:
        """Averages gradients; does nothing if the method exchanges parameters."""

    def wait(self) -> None:
        """Waits for averages; does nothing if the method exchanges parameters."""

    def synchronize(self, learning_rate: float | None) -> bool:
        return False

    def drain(self) -> None:
        """Waits until nothing is in flight."""
        if self.between.stream is not None:
            self.between.stream.synchronize()

    def parts_of(self, kind: type, name: str) -> list[Part]:
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

    def steps_of_round(self, step: int, state: list[int]) -> int:
        """How many steps of an unfinished round the groups had done when ``state`` was saved, after
        ``step`` steps."""
        return 0


class GradientRun(Run):
    def __init__(self, between: Between) -> None:
        super().__init__(between)
        self.is_under_way = False

    def make(self, units: Units, seed: int) -> Any:
        method = self.between.method
        return _torch.GradientExchange(
            *self.place(units), method.compressor.made(),
            [compressor.made() for compressor in method.alternatives],
            method.memory, method.decay, method.sign, method.start, seed, self.between.stream,
        )  # fmt: skip

    @torch.no_grad()
    def average(self, rate: float) -> None:
        self._require_no_averages()
        all_loads = [self._loads_of(part) for part in self.parts]  # before averages are in flight
        for part, loads in zip(self.parts, all_loads, strict=True):
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

    def _loads_of(self, part: Part) -> list[list[int]]:
        """The loads of each layer, summed over all groups."""
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
        self.drain()  # if it fails, gradients stay hidden
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


class RoundRun(Run):
    """The methods that exchange parameters after a round of steps."""

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

    def begin(self, part: Part) -> None:
        for l in part.layers:
            part.engine.begin(l, part.units.weights(l))

    def state(self) -> list[int]:
        return [self.start, self.length]

    def load(self, state: list[int]) -> None:
        self.start, self.length = state

    def steps_of_round(self, step: int, state: list[int]) -> int:
        if isinstance(self.between.method.schedule, Staggered):  # groups are never equal
            return 0
        return step - state[0]


class ParameterRun(RoundRun):
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
        self._start(None)
        self._finish(None)
        self._advance()
        return True

    def _take_turn(self, schedule: Staggered) -> bool:
        applied, sent = schedule(self.between.step, self.steps)
        if schedule.delay > 0 and applied >= 0:
            self._finish(applied)
        if sent >= 0:
            self._start(sent)
        if schedule.delay == 0 and applied >= 0:
            self._finish(applied)
        if sent == schedule.fragments - 1:
            self._advance()
        return applied >= 0

    @staticmethod
    def _layers(part: Part, fragment: int | None) -> list[int]:
        """The layers of a fragment, or all layers."""
        of = part.units.fragments
        return [l for l in part.layers if fragment is None or of[l] == fragment]

    def _start(self, fragment: int | None) -> None:
        for part in self.parts:
            for l in self._layers(part, fragment):
                part.engine.start(l, part.units.weights(l))

    def _finish(self, fragment: int | None) -> None:
        for part in self.parts:
            changed = {l: part.units.weights(l) for l in self._layers(part, fragment)}
            for l, weights in changed.items():
                part.engine.finish(l, weights)
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


class DelayedRun(RoundRun):
    def make(self, units: Units, seed: int) -> Any:
        method = self.between.method
        return _torch.DelayedExchange(
            *self.place(units), method.compressor.made(), method.rate, method.momentum, method.clip,
            method.penalty, seed, self.between.stream,
        )  # fmt: skip

    def synchronize(self, learning_rate: float | None) -> bool:
        if self.is_first_step():
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


RUNS: dict[type, type[Run]] = {
    GradientExchange: GradientRun,
    ParameterExchange: ParameterRun,
    DelayedExchange: DelayedRun,
}
