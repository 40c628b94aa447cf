# SPDX-License-Identifier: Apache-2.0
"""The trainer is found beside the package that is tested, which may be an installed one. Products
have the same bits wherever their matrices lie: MKL, torch's library for them, does not give that on all
processors unless it is asked to, before torch is imported."""

import importlib.util
import os
import sys
from pathlib import Path

os.environ.setdefault("MKL_CBWR", "COMPATIBLE")
sys.path.append(str(Path(__file__).parents[2]))
if not all(importlib.util.find_spec(name) for name in ("torch", "fssdp.torch._torch")):
    collect_ignore_glob = ["test_*.py"]
