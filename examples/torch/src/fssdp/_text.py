# SPDX-License-Identifier: Apache-2.0
"""The text of values (repr)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy


def short(value: Any) -> str:
    """A value as a repr shows it, on one line; of an array only both ends."""
    if isinstance(value, numpy.ndarray):
        text = numpy.array2string(value, threshold=12, edgeitems=4, separator=", ")
        return " ".join(text.split())
    if isinstance(value, float):
        return f"{value:.6g}"
    return repr(value)


def members(of: Any) -> str:
    """``Name(field=value, ...)`` of a dataclass, arrays and floats shortened."""
    parts = ", ".join(f"{field.name}={short(getattr(of, field.name))}" for field in fields(of))
    return f"{type(of).__name__}({parts})"
