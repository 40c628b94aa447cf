# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package: one for each of the C++ library."""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "DeadlineExceeded",
    "Error",
    "FileError",
    "PeerFailed",
    "PlanError",
    "PoisonedStream",
    "RanksDisagree",
    "TransportError",
]


class Error(RuntimeError):
    """Base class of all exceptions of the package."""


class ArgumentError(Error, ValueError):
    """A value that a function cannot work with; the text names it and says what was expected."""


class PlanError(Error):
    """A plan that would not deliver what its placement promises."""


class FileError(Error):
    """A file that cannot be read, or that does not hold what it should; the text names it."""


class PoisonedStream(Error):
    """Work was given to a stream on which earlier work has failed."""


class TransportError(Error):
    """Communication failed.

    Attributes:
        failed_rank: the rank that caused it.
    """

    def __init__(self, text: str, failed_rank: int) -> None:
        super().__init__(text, failed_rank)
        self.failed_rank = failed_rank

    def __str__(self) -> str:
        return str(self.args[0])


class PeerFailed(TransportError):
    """Another rank has thrown in a collective, or has ended while others wait for it."""


class DeadlineExceeded(TransportError):
    """A rank did not take part within the deadline."""


class RanksDisagree(TransportError):
    """Two ranks are not in the same collective: plans, order or message sizes differ."""
