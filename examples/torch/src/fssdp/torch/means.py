# SPDX-License-Identifier: Apache-2.0
"""The state of exchanges, when a run resumes with other groups: the mean over the old ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import ArgumentError

__all__ = ["mean_of", "mean_of_groups"]


def mean_of_groups(states: Sequence[Any]) -> Any:
    """The mean of what several groups have saved: parameters, or ``state_dict`` of an optimizer. A run
    that continues with another number of groups begins with it.

    Tensors of floating point, and floats, become first + mean(other - first), so that what is equal in
    all groups keeps its bits; all else has to be equal.

    Args:
        states: one from each group, of ranks at the same position: dicts, lists and tuples of
            tensors, numbers and texts.

    Raises:
        ArgumentError: that names the first place where states cannot be averaged.
    """
    if len(states) == 0:
        raise ArgumentError("mean_of_groups: no states; expected one for each group")
    return mean_of(list(states), "mean_of_groups")


def mean_of(states: list[Any], place: str) -> Any:
    """The mean of what is at one place in the states; errors name the place."""
    first = states[0]
    if any(type(one) is not type(first) for one in states):
        kinds = ", ".join(sorted({type(one).__name__ for one in states}))
        raise ArgumentError(f"{place}: {kinds} in different groups; expected one type")
    if isinstance(first, Tensor):
        return _mean_of_tensors(states, place)
    if isinstance(first, float):
        return first + sum(one - first for one in states) / len(states)
    if isinstance(first, Mapping):
        if any(one.keys() != first.keys() for one in states):
            keys = [sorted(map(str, one)) for one in states]
            raise ArgumentError(f"{place}: keys are {keys}; expected the same in all groups")
        return {key: mean_of([one[key] for one in states], f"{place}: {key}") for key in first}
    if isinstance(first, (list, tuple)):
        lengths = [len(one) for one in states]
        if len(set(lengths)) > 1:
            raise ArgumentError(f"{place}: lengths are {lengths}; expected the same in all groups")
        means = [mean_of(list(ones), f"{place}: {i}") for i, ones in enumerate(zip(*states))]
        return type(first)(means)
    if any(one != first for one in states):
        raise ArgumentError(f"{place} is {states}; expected the same in all groups")
    return first


def _mean_of_tensors(tensors: list[Tensor], place: str) -> Tensor:
    first = tensors[0]
    shapes = [(list(one.shape), one.dtype) for one in tensors]
    if any(shape != shapes[0] for shape in shapes):
        raise ArgumentError(f"{place}: tensors are {shapes}; expected the same in all groups")
    if not first.is_floating_point():
        if any(not torch.equal(one, first) for one in tensors):
            raise ArgumentError(f"{place}: {first.dtype} differ; expected the same in all groups")
        return first.clone()
    wide = first.to(torch.promote_types(first.dtype, torch.float32))
    apart = torch.zeros_like(wide)
    for one in tensors[1:]:
        apart += one.to(wide) - wide
    return (wide + apart / len(tensors)).to(first.dtype)
