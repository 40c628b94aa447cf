# SPDX-License-Identifier: Apache-2.0
"""A model to train, in several ways: see train.py."""
