# SPDX-License-Identifier: Apache-2.0
"""Groups of ranks that each shard all parameters, and exchange gradients or parameters by a method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..errors import ArgumentError
from . import _torch
from .communicator import Communicator
from .means import mean_of
from .methods import GradientExchange, Method
from .runs import RUNS, Part, Run
from .units import ExpertUnits, dense_units

__all__ = ["Between"]

Group = dist.ProcessGroup | dist.DeviceMesh


class Between:
    """What crosses between groups of ranks, over slower links than those inside: a group has one copy
    of all parameters; the ranks at the same position of all groups, counterparts, own the same of them.

        between = Between(mesh["replicate"], demo(), dense=dense_parameters)
        experts = shard_experts(layers, mesh["shard"], between=between)
        ...
        loss.backward()
        experts.step(rate=lr)      # averages gradients of all groups, if the method does
        optimizer.step()
        between.synchronize()      # brings parameters of all groups together, if the method does

    Owners are the same in all groups, placements need not be. All groups begin with equal parameters.
    An expert without tokens in any group is not sent, and its gradient is zero.

    Ranks compare what they exchange: layouts, shapes, the method with its options, steps, rates and
    loads. Where groups differ, all of them get RanksDisagree before a gradient or a parameter of the
    layer changes. After that, or another TransportError, the state of the exchange is undefined.

    Args:
        group: the counterparts of this rank: a process group, or a mesh of one dimension. Of a mesh
            with two dimensions the first is used, and the second has the ranks of a group.
        method: what groups exchange, and when.
        dense: parameters besides those of experts: of each group the same on all ranks, with gradients
            that are averaged inside (DistributedDataParallel over the ranks of a group), or those of
            fully_shard over these.
        whole: each dense parameter is assigned to one rank, which compresses it as a whole matrix.
            Otherwise each rank has a chunk of each parameter.
        inside: the ranks of the group, if shard_experts is not used.
        timeout: seconds that a rank waits for another.

    Raises:
        ArgumentError: names the value and what was expected.
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
        self._stream = _torch.HostStream() if method.overlap else None
        self._run: Run = RUNS[type(method)](self)
        self._waiting = list(dense), whole
        if inside is not None:
            self._settle(_group_of(inside))

    def _settle(self, inside: dist.ProcessGroup) -> None:
        """Takes these as the ranks of the group."""
        if self.inside is None:
            self.inside = _on_host(inside, self.timeout)
            self._ranks_inside = _ranks(inside)
        elif self._ranks_inside != _ranks(inside):
            raise ArgumentError(
                f"Between: experts are sharded over the ranks {_ranks(inside)}; expected those inside, "
                f"{self._ranks_inside}"
            )
        (dense, whole), self._waiting = self._waiting, ([], False)
        self.add_dense(dense, whole=whole)

    @property
    def groups(self) -> int:
        """The number of groups."""
        return self.communicator.size

    def add_experts(self, experts: Any) -> None:
        """Adds experts; ``shard_experts`` calls it."""
        if any(isinstance(part.units, ExpertUnits) for part in self._run.parts):
            raise ArgumentError("Between: it has experts already; expected one for each shard_experts")
        self._settle(experts.group)
        units = ExpertUnits(experts)
        units.deal(self._run.fragments)
        self._run.add(units, self.method.seed)

    def add_dense(self, parameters: Iterable[nn.Parameter], *, whole: bool = False) -> None:
        """More parameters besides those of experts: after ``fully_shard``, which takes parameters of
        experts as ``ignored_params``, and so comes after ``shard_experts``.

        Args:
            parameters, whole: as the constructor takes them.

        Raises:
            ArgumentError: as the constructor; or it is not known yet which ranks the group has.
        """
        listed = list(parameters)
        if self.inside is None:
            raise ArgumentError(
                "Between.add_dense: no ranks inside; expected shard_experts before, or inside=..."
            )
        for units in dense_units(listed, whole, self.inside, self._run.fragments):
            self._run.add(units, self.method.seed + 1 + len(self._run.parts))

    def average(self, rate: float = 1.0) -> None:
        """Gradients become their average over all groups, if the method exchanges gradients;
        ``ShardedExperts.step`` calls it. With ``overlap`` they are with the optimizer after ``wait``.

        Args:
            rate: the learning rate, for a momentum. Equal on all ranks.

        Raises:
            ArgumentError: averages are under way.
            RanksDisagree: groups have other methods, layouts, rates or loads; no gradient of the layer in
                question has changed.
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
        """Compares a hash of the parameters with that of the counterparts. They stay equal without this,
        unless hosts calculate differently.

        Raises:
            RanksDisagree: that names a group.
        """
        self._run.drain()
        for part in self._run.parts:
            part.require_equal_bits(self.on_host)

    def measure(self, on: bool = True) -> None:
        """From now on averages measure the error of each compressor, for ``choose_compressors``."""
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
        """Bytes that this rank sends to other groups in one exchange of all units: exact, or at most."""
        return sum(
            part.engine.bytes_sent(l)
            for part in self._run.parts
            for l in range(len(part.units.layouts))
        )

    def state_dict(self) -> dict[str, Any]:
        """The state of this rank: residuals, momenta, factors, anchors and the position, as numbers,
        texts, lists and tensors. Each rank has its own. Waits for exchanges in progress.

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

    def load_state_dict(self, state: dict[str, Any] | Sequence[dict[str, Any]]) -> None:
        """Continues, bit for bit, from a ``state_dict``: with the same ranks, owners and method.

        Another number of groups goes on from the mean over the groups that were, which conserves what
        they owe each other: each rank then takes a list, of what the ranks at its position had in all
        of them. Parameters begin with their mean, too, and so does what the optimizer of a group has
        by itself where parameters are exchanged: ``mean_of_groups``.

        Args:
            state: of this rank; or of all groups, in any order, for as many groups or others.

        Raises:
            ArgumentError: that names what differs; other groups, and states from within a round, in
                which groups have learned by themselves. Then nothing has changed.
        """
        self._run.drain()
        state = self._own_of(list(state)) if isinstance(state, Sequence) else state
        expected = {
            "method": _text_of(self.method),
            "group": self.communicator.rank,
            "groups": self.groups,
        }
        if state.get("groups") != self.groups and state.get("method") == expected["method"]:
            raise ArgumentError(
                f"load_state_dict: groups is {state.get('groups')!r}; expected {self.groups!r}, or a "
                "list with the states of all groups that were"
            )
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

    def _own_of(self, states: list[dict[str, Any]]) -> dict[str, Any]:
        """The state that this group continues with: its own, or the mean over the old groups."""
        saved = sorted(states, key=lambda state: state["group"])
        found = [state["group"] for state in saved]
        counts = sorted({state["groups"] for state in saved})
        if len(counts) != 1 or found != list(range(counts[0])):
            raise ArgumentError(
                f"load_state_dict: states of the groups {found} of {counts}; expected one of each group"
            )
        if len(saved) == self.groups:
            return saved[self.communicator.rank]
        done = self._run.steps_of_round(saved[0]["step"], saved[0]["run"])
        if done > 0:
            raise ArgumentError(
                f"load_state_dict: saved within a round of {len(saved)} groups, after {done} of its "
                f"steps; expected its end, for {self.groups} groups"
            )
        same = {"group": self.communicator.rank, "groups": self.groups}
        return mean_of([{**state, **same} for state in saved], "load_state_dict")

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
        """The state of exchanges that belongs to experts, as ``reshard`` of a materializer takes it."""
        self._run.drain()
        part = self._part_of_experts()
        self._moving = [memory.to(device) for memory in part.memory()]
        return [
            (f"memory {i} between groups", memory)
            for i, memory in enumerate(self._moving)
            if memory.numel() > 0
        ]

    def take_memory_of_experts(self, layouts: Sequence[Any]) -> None:
        """Takes it back after it has moved with the experts."""
        part = self._part_of_experts()
        part.engine.load_memory([memory.cpu() for memory in self._moving])
        part.engine.reshard(list(layouts))
        self._moving = []

    def _part_of_experts(self) -> Part:
        return next(p for p in self._run.parts if isinstance(p.units, ExpertUnits))

    def __repr__(self) -> str:
        return f"Between(group={self.communicator.rank}, groups={self.groups}, method={self.method!r})"


def _group_of(group: Group) -> dist.ProcessGroup:
    if not isinstance(group, dist.DeviceMesh):
        return group
    if group.ndim > 2:
        raise ArgumentError(f"Between: a mesh of {group.ndim} dimensions; expected 1 or 2")
    return group.get_group(0)


def _ranks(group: dist.ProcessGroup) -> list[int]:
    return dist.get_process_group_ranks(group)


def _on_host(group: dist.ProcessGroup, timeout: float) -> Communicator:
    """A group of the same ranks for tensors of the host, which nothing else uses."""
    back_end = "gloo" if dist.is_gloo_available() else None
    own = dist.new_group(_ranks(group), backend=back_end, use_local_synchronization=True)
    return Communicator(own, timeout=timeout, device="cpu")


def _text_of(method: Method) -> str:
    """The text of a method, without the options that do not change any number."""
    rest = {} if isinstance(method, GradientExchange) else {"steps": None}
    return repr(replace(method, overlap=False, **rest))
