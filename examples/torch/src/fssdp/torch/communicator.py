# SPDX-License-Identifier: Apache-2.0
"""Process groups of torch as communicators."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed as dist

from . import _torch

__all__ = ["Communicator", "Work", "duplicate_group"]

_keys = itertools.count(1)
_known: weakref.WeakValueDictionary[int, Communicator] = weakref.WeakValueDictionary()


class Communicator:
    """This rank of a process group, with a back end for the host: Gloo, MPI, UCC.

    Give each communicator a group of its own (``dist.new_group``) that nothing else uses: groups
    take one thread at a time. Once something has failed, its group is of no use any more.

    Args:
        group: by default the group of all ranks.
        timeout: seconds that a rank waits for a message. The group's own is not used.

    Raises:
        ArgumentError: if the group has no back end for tensors of the host.
    """

    def __init__(self, group: dist.ProcessGroup | None = None, *, timeout: float = 60.0) -> None:
        self.group = dist.group.WORLD if group is None else group
        self.timeout = timeout
        self.inner = _torch.Communicator(self.group.group_name, timeout)
        self.key = next(_keys)
        _known[self.key] = self

    @property
    def rank(self) -> int:
        """Of the group."""
        return self.inner.rank

    @property
    def size(self) -> int:
        return self.inner.size

    @property
    def bytes_sent(self) -> int:
        """By this rank, since it was made or ``reset_counts``. What is asynchronous must be over."""
        return self.inner.bytes_sent

    @property
    def messages_sent(self) -> int:
        """Likewise."""
        return self.inner.messages_sent

    def reset_counts(self) -> None:
        self.inner.reset_counts()

    def __repr__(self) -> str:
        return f"Communicator(rank={self.rank}, size={self.size}, timeout={self.timeout:g})"


def communicator_of(key: int) -> Communicator:
    """The communicator of a key, for functions that are traced and take numbers."""
    return _known[key]


def duplicate_group(group: dist.ProcessGroup) -> dist.ProcessGroup:
    """Another group of the same ranks, which all of them make together."""
    return dist.new_group(dist.get_process_group_ranks(group), use_local_synchronization=True)


class Work:
    """An asynchronous collective. It keeps its tensors alive until it has finished."""

    def __init__(self, begun: Any, result: Callable[[], Any]) -> None:
        self._begun = begun
        self._result = result

    def wait(self) -> Any:
        """Waits, and returns what the collective returns when it is not asynchronous.

        Raises:
            TransportError: what has gone wrong meanwhile.
        """
        self._begun.wait()
        return self._result()

    def is_completed(self) -> bool:
        return self._begun.is_completed()


def all_of(items: Any) -> Sequence[Any]:
    """One or several, as several."""
    return items if isinstance(items, (list, tuple)) else (items,)
