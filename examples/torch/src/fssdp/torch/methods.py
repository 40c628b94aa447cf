# SPDX-License-Identifier: Apache-2.0
"""What groups exchange, and when: values, which ``Between`` takes.

Either gradients, each step (``GradientExchange``, ``demo``), or parameters, after some steps in which
each group has trained by itself (``ParameterExchange`` with ``local_sgd``, ``diloco`` and
``streaming_diloco``; ``DelayedExchange``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError
from . import _torch
from .compressors import Compressor, FullCompressor, TopDctCompressor

__all__ = [
    "DelayedExchange",
    "Every",
    "GradientExchange",
    "Method",
    "ParameterExchange",
    "Quadratic",
    "Schedule",
    "Staggered",
    "choose_rates",
    "demo",
    "diloco",
    "local_sgd",
    "streaming_diloco",
]

ENDLESS = 2**62  # steps, if the number is not known

Schedule = Callable[[int, int, float | None], int]


@dataclass(frozen=True)
class Every:
    """Rounds of ``count`` steps each; the last may be shorter. (Local SGD, arXiv 1805.09767)"""

    count: int = 1

    def __call__(self, step: int, steps: int, learning_rate: float | None = None) -> int:
        """How many steps the next round has, when so many of all steps have been done."""
        return _torch.every(self.count, step, steps)


@dataclass(frozen=True, kw_only=True)
class Quadratic:
    """Rounds of max(least, floor((alpha / learning rate)^2)) steps. (QSR, arXiv 2310.14423)

    Attributes:
        alpha: a constant to tune, instead of a number of steps.
        least: steps of a round, and of all rounds in the warm-up.
        warm_up: steps.
    """

    alpha: float
    least: int = 1
    warm_up: int = 0

    def __call__(self, step: int, steps: int, learning_rate: float | None = None) -> int:
        """As Every; the learning rate is that of the first step of the round."""
        if learning_rate is None:
            raise ArgumentError("Quadratic: no learning rate; expected synchronize(learning_rate=...)")
        return _torch.quadratic(self.alpha, self.least, self.warm_up, step, steps, learning_rate)


@dataclass(frozen=True, kw_only=True)
class Staggered:
    """Fragments of a model in turn, each once in ``period`` steps, and applied ``delay`` steps after it
    has been sent. (Streaming DiLoCo, arXiv 2501.18512)

    Layer l of the experts is in fragment l % fragments; dense parameters are dealt out by their order.
    """

    fragments: int
    period: int
    delay: int = 0

    def __call__(self, step: int, steps: int) -> tuple[int, int]:
        """Which fragment is applied and which is sent, when so many steps have been done; -1: none."""
        return _torch.staggered(self.fragments, self.period, self.delay, step, steps)


@dataclass(frozen=True, kw_only=True)
class GradientExchange:
    """In each step, gradients become their average over groups.

    Attributes:
        compressor: of each unit.
        alternatives: compressors that ``Between.choose_compressors`` may take instead.
        memory: how a group keeps what it has not sent: 'none'; 'residual', which is added to the
            next gradient; 'momentum', m = decay m + rate gradient: m is sent, and what has been sent
            leaves it. One float for each element, but 'residual' where a compressor needs none.
        decay: of the momentum.
        sign: gradients become the sign of the average instead.
        start: how many steps at the beginning send gradients in full. PowerSGD with Adam needs about a
            tenth of the training.
        seed: of all random numbers.
        overlap: averages run in a thread of their own until ``Between.wait``.
    """

    compressor: Compressor = FullCompressor()
    alternatives: Sequence[Compressor] = ()
    memory: str = "residual"
    decay: float = 0.999
    sign: bool = False
    start: int = 0
    seed: int = 0
    overlap: bool = False


def demo(
    compressor: Compressor = TopDctCompressor(), *, decay: float = 0.999, seed: int = 0,
    overlap: bool = False,
) -> GradientExchange:
    """DeMo and FlexDeMo: momentum, its largest coefficients, the sign. The optimizer after it is SGD,
    with weight decay if any, and ``ShardedExperts.step`` gets its learning rate. (arXiv 2411.19870,
    2502.06728)"""
    return GradientExchange(
        compressor=compressor, memory="momentum", decay=decay, sign=True, seed=seed, overlap=overlap
    )


@dataclass(frozen=True, kw_only=True)
class ParameterExchange:
    """Parameters are averaged over groups at the end of each round. With d the average over groups of
    anchor - local, where the anchor is what all groups had after the last round:

        v = momentum v + d;   anchor -= rate (d + momentum v);   local = mix local + (1 - mix) anchor

    Two floats for each parameter are kept, three with momentum, and one more if the compressor needs a
    residual.

    Attributes:
        schedule: how long a round is, or Staggered.
        steps: of the training, if known: the last round ends with it.
        compressor: of d.
        rate: of the outer update; 1 without momentum is the average of parameters.
        momentum: Nesterov's.
        mix: the share of its own parameters that a group keeps when an exchange is applied.
        seed: of all draws.
        overlap: exchanges run in a thread of their own, while training goes on: with Staggered.
    """

    schedule: Schedule | Staggered = Every(1)
    steps: int | None = None
    compressor: Compressor = FullCompressor()
    rate: float = 1.0
    momentum: float = 0.0
    mix: float = 0.0
    seed: int = 0
    overlap: bool = False


def local_sgd(schedule: Schedule, **options: Any) -> ParameterExchange:
    """The average of parameters after each round; Quadratic makes it QSR. (arXiv 1805.09767)"""
    return ParameterExchange(schedule=schedule, **options)


def diloco(
    schedule: Schedule, *, rate: float = 0.7, momentum: float = 0.9, **options: Any
) -> ParameterExchange:
    """Outer Nesterov momentum over rounds of, for example, 500 steps. (arXiv 2311.08105)"""
    return ParameterExchange(schedule=schedule, rate=rate, momentum=momentum, **options)


def streaming_diloco(
    schedule: Staggered,
    *,
    rate: float = 0.7,
    momentum: float = 0.9,
    mix: float = 0.5,
    overlap: bool = True,
    **options: Any,
) -> ParameterExchange:
    """DiLoCo by fragments, each of which is in flight for some steps. Anchors are equal in all groups;
    parameters are equal only with a mix of 0, right after a fragment has been applied.
    (arXiv 2501.18512)"""
    return ParameterExchange(
        schedule=schedule, rate=rate, momentum=momentum, mix=mix, overlap=overlap, **options
    )


@dataclass(frozen=True, kw_only=True)
class DelayedExchange:
    """CO2: the changes of a round are applied at the end of the next one, so that no step waits for
    them. In round t a group trains from x_t to local_t; at its end, with L the staleness gap:

        m = clip(momentum m + (x_(t-1) - average of local_(t-1)) / L, -clip, clip)
        x_(t+1) = x_t - rate m;   parameters become x_(t+1), and local_t is sent

    L = 1 + |x_t - x_(t-1)| / |x_(t-1), after its first step, - x_(t-1)|, over all parameters. Three
    floats for each parameter are kept. (arXiv 2401.16265)

    Attributes:
        schedule: how long a round is.
        steps: of the training, if known: the last round ends with it.
        compressor: of the differences.
        rate, momentum, clip: as above.
        penalty: whether L is used; else it is 1.
        seed: of all draws.
        overlap: exchanges run in a thread of their own, while training goes on.
    """

    schedule: Schedule = Every(1)
    steps: int | None = None
    compressor: Compressor = FullCompressor()
    rate: float = 1.0
    momentum: float = 0.0
    clip: float = 1.0
    penalty: bool = True
    seed: int = 0
    overlap: bool = True


Method = GradientExchange | ParameterExchange | DelayedExchange


def choose_rates(
    bytes: Sequence[Sequence[int]],
    errors: Sequence[Sequence[float]],
    usual: int = 0,
    *,
    tolerance: float = 1.0,
    buckets: int = 10_000,
) -> list[int]:
    """Chooses a candidate for each class: the fewest bytes with which all errors together stay within
    those of the usual candidate. A pure function. (L-GreCo, arXiv 2210.17357)

    Args:
        bytes: [classes][candidates].
        errors: [classes][candidates], |x - what crosses of it|.
        usual: the candidate that all classes have by default.
        tolerance: the allowed errors over those of the usual one.
        buckets: errors are rounded up to a budget / buckets.

    Raises:
        ArgumentError: rows of different lengths, or no such candidate.
    """
    return _torch.choose_rates(bytes, errors, usual, tolerance, buckets)
