# SPDX-License-Identifier: Apache-2.0
"""The trainer is found beside the package that is tested, which may be an installed one."""

import importlib.util
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
if not all(importlib.util.find_spec(name) for name in ("torch", "fssdp.torch._torch")):
    collect_ignore_glob = ["test_*.py"]
