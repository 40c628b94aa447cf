# SPDX-License-Identifier: Apache-2.0
"""The methods of --between, which groups use to exchange, under the names that moe_gpt has for them."""

from __future__ import annotations

from typing import Any

from fssdp.torch import (
    CodecCompressor,
    DelayedExchange,
    Every,
    GradientExchange,
    LowRankCompressor,
    QuantizedCompressor,
    RandomCompressor,
    StridedCompressor,
    TernaryCompressor,
    ThresholdCompressor,
    TopDctCompressor,
    demo,
    diloco,
    local_sgd,
)

__all__ = ["METHODS", "is_signed", "method_of"]

METHODS = (
    "full, bf16, int8, demo[:KEPT], demo-2d[:KEPT], striding[:N], random[:N], terngrad, qsdp[:BITS], "
    "qsdp-shift[:BITS], tagc, powersgd[:RANK], local[:STEPS], diloco[:STEPS], co2[:STEPS]"
)

_numbers = {
    "demo": 4, "demo-2d": 32, "striding": 16, "random": 16, "qsdp": 8, "qsdp-shift": 8, "powersgd": 4,
    "local": 4, "diloco": 10, "co2": 4,
}  # fmt: skip


def method_of(text: str) -> Any:
    """The method that a name and, after a colon, a number stand for."""
    name, _, given = text.partition(":")
    number = int(given) if given else _numbers.get(name, 0)
    made = {
        "full": lambda: GradientExchange(),
        "bf16": lambda: GradientExchange(compressor=CodecCompressor(codec="bf16")),
        "int8": lambda: GradientExchange(compressor=CodecCompressor(codec="int8")),
        "demo": lambda: demo(TopDctCompressor(kept=number)),
        "demo-2d": lambda: demo(TopDctCompressor(rows=64, columns=64, kept=number)),
        "striding": lambda: demo(StridedCompressor(stride=number)),
        "random": lambda: demo(RandomCompressor(share=1 / number)),
        "terngrad": lambda: GradientExchange(compressor=TernaryCompressor()),
        "qsdp": lambda: GradientExchange(compressor=QuantizedCompressor(bits=number)),
        "qsdp-shift": lambda: GradientExchange(
            compressor=QuantizedCompressor(bits=number, shifted=True)
        ),
        "tagc": lambda: GradientExchange(compressor=ThresholdCompressor()),
        "powersgd": lambda: GradientExchange(compressor=LowRankCompressor(rank=number)),
        "local": lambda: local_sgd(Every(number)),
        "diloco": lambda: diloco(Every(number)),
        "co2": lambda: DelayedExchange(schedule=Every(number)),
    }
    if name not in made:
        raise ValueError(f"between groups: '{text}'; expected one of {METHODS}")
    return made[name]()


def is_signed(method: Any) -> bool:
    """Whether gradients become signs: then the optimizer is SGD."""
    return isinstance(method, GradientExchange) and method.sign
