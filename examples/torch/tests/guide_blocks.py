# SPDX-License-Identifier: Apache-2.0
"""The Python blocks of this folder's README.md, for the tests."""

import re
from pathlib import Path
from types import CodeType
from typing import Any

GUIDE = Path(__file__).parents[1] / "README.md"


def blocks() -> list[tuple[int, str]]:
    """Each block's first line in the guide, and its text."""
    text = GUIDE.read_text()
    return [
        (text.count("\n", 0, found.start(1)) + 1, found.group(1))
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


def compiled(line: int, text: str) -> CodeType:
    """Errors name the line of the guide."""
    return compile("\n" * (line - 1) + text, str(GUIDE), "exec")


def run(first_line: str, **names: Any) -> dict[str, Any]:
    """Runs the block that begins with a line, and returns its names.

    names: what the block takes as given. A line `name = ...` of the block leaves a given one alone.
    """
    found = [(line, text) for line, text in blocks() if text.startswith(first_line)]
    assert len(found) == 1, f"{GUIDE} has {len(found)} blocks that begin with {first_line!r}"
    line, text = found[0]
    for name in names:
        text = re.sub(rf"^{name} = \.\.\..*$", "", text, flags=re.MULTILINE)
    exec(compiled(line, text), names)
    return names
