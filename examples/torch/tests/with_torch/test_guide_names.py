# SPDX-License-Identifier: Apache-2.0
"""The blocks of README.md use names and arguments that there are, of this package and its objects."""

import ast
import inspect
import sys
from pathlib import Path
from typing import Any

import fssdp
import fssdp.torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from guide_blocks import GUIDE, blocks

OBJECTS: dict[str, Any] = {
    "fssdp": fssdp,
    "experts": fssdp.torch.ShardedExperts,
    "between": fssdp.torch.Between,
}


def unknown(line: int, text: str) -> list[str]:
    """What a block uses and the package has not."""
    known = dict(OBJECTS)
    missing = []

    def note(node: ast.AST, what: str) -> None:
        missing.append(f"{GUIDE.name}:{line + node.lineno - 1}: {what}")

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fssdp"):
            module = sys.modules[node.module]
            for name in node.names:
                if hasattr(module, name.name):
                    known[name.name] = getattr(module, name.name)
                else:
                    note(node, f"{node.module} has no {name.name}")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = OBJECTS.get(node.value.id)
            if owner is not None and not hasattr(owner, node.attr):
                note(node, f"{node.value.id} has no {node.attr}")
        if not isinstance(node, ast.Call):
            continue
        called = None
        if isinstance(node.func, ast.Name):
            called = known.get(node.func.id)
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            called = getattr(OBJECTS.get(node.func.value.id), node.func.attr, None)
        if not inspect.isfunction(called):
            continue  # a signature is there for functions of Python
        taken = inspect.signature(called).parameters
        for argument in node.keywords:
            if argument.arg is not None and argument.arg not in taken:
                note(node, f"{called.__name__} takes no {argument.arg}")
    return missing


def test_names_and_arguments_of_the_guide() -> None:
    assert [text for line, block in blocks() for text in unknown(line, block)] == []


def test_unknown_ones_are_found() -> None:
    planted = (
        "from fssdp.torch import Betwixt\n"
        "fssdp.shard(x)\n"
        "fssdp.shard_experts(x, slots=3)\n"
        "experts.walk()\n"
    )
    assert sorted(unknown(1, planted)) == [
        "README.md:1: fssdp.torch has no Betwixt",
        "README.md:2: fssdp has no shard",
        "README.md:3: shard_experts takes no slots",
        "README.md:4: experts has no walk",
    ]
