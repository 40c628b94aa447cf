# SPDX-License-Identifier: Apache-2.0
"""The type hints of the compiled part match it."""

import ast
from pathlib import Path
from typing import Any

import fssdp.torch
import fssdp.torch._torch

Names = dict[str, list[str] | None]


def parameters(function: ast.FunctionDef) -> list[str] | None:
    """None for a property."""
    return None if function.decorator_list else [each.arg for each in function.args.args]


def hinted(body: list[ast.stmt], of: str = "") -> Names:
    names: Names = {}
    for entry in body:
        if isinstance(entry, ast.ClassDef):
            names |= {entry.name: None, **hinted(entry.body, f"{entry.name}.")}
        elif isinstance(entry, ast.FunctionDef):
            names[of + entry.name] = parameters(entry)
    return names


def compiled(holder: Any, of: str = "") -> Names:
    names: Names = {}
    for name, value in vars(holder).items():
        if isinstance(value, type):
            names |= {name: None, **compiled(value, f"{name}.")}
        elif hasattr(value, "__nb_signature__"):
            ((signature, *_),) = value.__nb_signature__
            (function,) = ast.parse(f"{signature}: ...").body
            names[of + name] = parameters(function)
        elif isinstance(value, property):
            names[of + name] = None
    return names


def test_the_hints_have_the_names_and_the_parameters_of_the_module():
    stub = Path(fssdp.torch.__file__).with_name("_torch.pyi")
    names = hinted(ast.parse(stub.read_text(encoding="utf-8")).body)
    assert len(names) > 50
    assert names == compiled(fssdp.torch._torch)
