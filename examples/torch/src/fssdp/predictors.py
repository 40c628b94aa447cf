# SPDX-License-Identifier: Apache-2.0
"""Loads of past iterations in, loads to plan with out."""

from ._core import LoadAverage, LoadWindow

__all__ = ["LoadAverage", "LoadWindow"]
