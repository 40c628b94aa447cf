# SPDX-License-Identifier: Apache-2.0
"""Process groups of torch as communicators."""

from __future__ import annotations

import datetime
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from ..errors import ArgumentError
from . import _torch

__all__ = ["Communicator", "Work", "duplicate_group"]

by_operators = False  # what Communicator does by default

_keys = itertools.count(1)
_known: weakref.WeakValueDictionary[int, Communicator] = weakref.WeakValueDictionary()


class Communicator:
    """This rank of a process group: with a back end for the host (Gloo, MPI, UCC), for tensors there;
    with one for a device (NCCL), for tensors on that.

    Give each communicator a group of its own (``dist.new_group``) that nothing else uses: groups
    accept one thread at a time. After a failure the group cannot be used any more.

    On a device collectives are enqueued on torch's current stream, and the host does not wait. Those
    with ``async_op`` run on another stream. Calls that need numbers of other ranks on the host wait.

    Args:
        group: by default the group of all ranks.
        timeout: seconds that a rank waits for a message; on a device, that the host waits. The
            group's own is not used, but for what waits on a device.
        device: of all tensors; by default each collective uses that of its tensors.
        operators: sums and conversions are torch's operators, as on devices, also on the CPU. For
            tests.

    Raises:
        ArgumentError: if the group has no back end for tensors of the device: from the call that
            needs it, or here, if the device is given.
    """

    def __init__(
        self,
        group: dist.ProcessGroup | None = None,
        *,
        timeout: float = 60.0,
        device: torch.device | str | None = None,
        operators: bool | None = None,
    ) -> None:
        self.group = dist.group.WORLD if group is None else group
        self.timeout = _checked(timeout)
        self.operators = by_operators if operators is None else operators
        self.parts: dict[str, Any] = {}
        self.device: torch.device | None = None
        if device is not None:
            self.device = torch.device(self.on(device).device)
        self.key = next(_keys)
        _known[self.key] = self

    def on(self, device: torch.device | str) -> Any:
        """The part of this communicator that moves tensors of a device."""
        name = str(device)
        found = self.parts.get(name)
        if found is None:
            if self.device is not None:
                raise ArgumentError(f"Communicator: tensors on {name}; expected {self.device}")
            found = _torch.Communicator(
                self.group.group_name, self.timeout, name, self.operators
            )
            self.parts[found.device] = found
        return found

    @property
    def rank(self) -> int:
        """This rank in the group."""
        return self.group.rank()

    @property
    def size(self) -> int:
        return self.group.size()

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank has sent since the start or the last ``reset_counts``. Asynchronous
        collectives must have finished."""
        return sum(part.bytes_sent for part in self.parts.values())

    @property
    def messages_sent(self) -> int:
        """Messages that this rank has sent, likewise."""
        return sum(part.messages_sent for part in self.parts.values())

    def reset_counts(self) -> None:
        for part in self.parts.values():
            part.reset_counts()

    def __repr__(self) -> str:
        on = "" if self.device is None else f", device={self.device}"
        return f"Communicator(rank={self.rank}, size={self.size}, timeout={self.timeout:g}{on})"


def communicator_of(key: int) -> Communicator:
    """The communicator of a key, for functions that are traced and take numbers."""
    return _known[key]


def duplicate_group(group: dist.ProcessGroup, timeout: float | None = None) -> dist.ProcessGroup:
    """Another group of the same ranks, which all of them make together.

    Args:
        timeout: that of the Communicator which gets the group. Torch gives up after twice as long,
            also when the group is made, so that the Communicator's errors come first. None: torch's
            default.
    """
    limit = None
    if timeout is not None:
        limit = datetime.timedelta(seconds=2 * _checked(timeout))
    ranks = dist.get_process_group_ranks(group)
    return dist.new_group(ranks, timeout=limit, use_local_synchronization=True)


def _checked(timeout: float) -> float:
    if not 0 < timeout < 1e9:
        raise ArgumentError(f"Communicator: a timeout of {timeout:g} s; expected 0 to 1e9")
    return timeout


class Work:
    """An asynchronous collective. It keeps the memory of its tensors until it has
    finished."""

    def __init__(self, begun: Any, result: Callable[[], Any]) -> None:
        self._begun = begun
        self._result = result

    def wait(self) -> Any:
        """Waits, and returns what the collective returns when it is not asynchronous. On a device its
        current stream waits, and the host goes on.

        Raises:
            TransportError: what has gone wrong meanwhile.
        """
        self._begun.wait()
        return self._result()

    def is_completed(self) -> bool:
        return self._begun.is_completed()


def all_of(items: Any) -> Sequence[Any]:
    """Makes a list of one object or several."""
    return items if isinstance(items, (list, tuple)) else (items,)
