# SPDX-License-Identifier: Apache-2.0
"""Predict loads from those of past iterations."""

from ._core import LoadAverage, LoadWindow

__all__ = ["LoadAverage", "LoadWindow"]
