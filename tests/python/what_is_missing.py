# SPDX-License-Identifier: Apache-2.0
"""Prints what this Python lacks to build the package of examples/torch and to test it; or nothing."""

import importlib.util
import pathlib
import sys
import sysconfig

modules = ["nanobind", "numpy", "pip", "pytest", "scikit_build_core"]
missing = [name for name in modules if importlib.util.find_spec(name) is None]
headers = pathlib.Path(sysconfig.get_path("include"), "Python.h")
if missing:
    print(f"{sys.executable} has no module {', '.join(missing)}")
elif not headers.is_file():
    print(f"{sys.executable} has no headers: expected {headers}")
