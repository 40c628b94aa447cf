# SPDX-License-Identifier: Apache-2.0
"""Reads the headers of checkpoints of the library, and of safetensors files of any writer.

Only headers are read. Checksums of the tensors are not verified: loading does that.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._core import Layout
from .errors import ArgumentError, FileError
from .layouts import table_layout

__all__ = [
    "CheckpointIndex",
    "Part",
    "RankFile",
    "SafetensorsHeader",
    "StoredTensor",
    "complete_steps",
    "last_checkpoint",
    "read_checkpoint_index",
    "read_safetensors_header",
]

INDEX_NAME = "checkpoint.json"
VERSION = 1  # of the files of a checkpoint, the only one that is read
LONGEST_HEADER = 100_000_000  # of a safetensors file, in bytes

#: Bytes of an element, by the name that safetensors files give its type.
ELEMENT_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "C64": 8,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip

_INDEX = re.compile(
    rb'\{"fssdp_checkpoint":(\d+)(?:,"checksum":"([0-9a-f]{16})",\n"content":(\{.*\})\}\n)?', re.S
)


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file.

    Attributes:
        name: of the tensor, or of a slice of it: ``w1.weight[8:16]``.
        dtype: as safetensors files name it: 'F32', 'BF16', ...
        shape: of the tensor.
        first: its first byte, counted from the end of the header.
        bytes: how many it has.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    first: int
    bytes: int


@dataclass(frozen=True)
class SafetensorsHeader:
    """What a safetensors file says about its tensors.

    Attributes:
        tensors: by name, in the order in which they lie in the file.
        metadata: notes about the file.
        data_bytes: bytes after the header.
    """

    tensors: dict[str, StoredTensor]
    metadata: dict[str, str]
    data_bytes: int

    def __repr__(self) -> str:
        return f"SafetensorsHeader({len(self.tensors)} tensors, {self.data_bytes} bytes)"


@dataclass(frozen=True)
class RankFile:
    """One file of a checkpoint, written by one rank.

    Attributes:
        name: in the folder of the index.
        bytes: how many it has.
        header_checksum: of everything before the tensors, as ``xxhsum -H3`` prints it.
    """

    name: str
    bytes: int
    header_checksum: str


@dataclass(frozen=True)
class Part:
    """Experts of a checkpoint: what is the same on all ranks.

    Attributes:
        name: of the part.
        pattern: the names of its tensors in the files.
        layers: that the experts belong to, equally many to each.
        tensors: of one whole expert: name -> shape.
        groups: the kinds of data of each tensor, as weight and moments: name -> type.
        layout: who owned what; expert e of layer l is expert l * experts / layers + e.
    """

    name: str
    pattern: str
    layers: int
    tensors: dict[str, tuple[int, ...]]
    groups: dict[str, str]
    layout: Layout


@dataclass(frozen=True)
class CheckpointIndex:
    """What a checkpoint consists of, and the state that the caller saved with it.

    Attributes:
        folder: of the checkpoint.
        step: at which it was saved.
        state: the text that the caller saved with it.
        files: of each rank.
        parts: by name.
    """

    folder: Path
    step: int
    state: str
    files: list[RankFile]
    parts: dict[str, Part]

    def part(self, name: str) -> Part:
        """The part of a name.

        Raises:
            ArgumentError: if there is none.
        """
        if name not in self.parts:
            raise ArgumentError(f"checkpoint: no part '{name}'; expected one of {list(self.parts)}")
        return self.parts[name]

    def header(self, rank: int) -> SafetensorsHeader:
        """The header of the file that a rank has written.

        Raises:
            ArgumentError: if there is no such rank.
            FileError: if the file is not as long as the index says, or no safetensors file.
        """
        if not 0 <= rank < len(self.files):
            raise ArgumentError(f"rank {rank}; expected 0 to {len(self.files) - 1}")
        path = self.folder / self.files[rank].name
        try:
            size = path.stat().st_size
        except OSError as error:
            raise FileError(f"{path}: {error.strerror}") from None
        _require(
            size == self.files[rank].bytes,
            path,
            f"has {size} bytes; expected {self.files[rank].bytes}",
        )
        return read_safetensors_header(path)


def complete_steps(folder: str | os.PathLike[str]) -> list[int]:
    """The steps of which there is a complete checkpoint in a folder, ascending.

    None if there is no such folder.
    """
    path = Path(folder)
    if not path.exists():
        return []
    try:
        names = os.listdir(path)
    except OSError as error:
        raise FileError(f"{path}: cannot list it: {error.strerror}") from None
    steps = sorted(int(name[5:]) for name in names if re.fullmatch(r"step_\d{8,}", name))
    return [step for step in steps if (_step_folder(path, step) / INDEX_NAME).is_file()]


def last_checkpoint(folder: str | os.PathLike[str]) -> Path:
    """The folder of the last complete checkpoint: the given one if it is of a step itself.

    Raises:
        FileError: if there is none.
    """
    path = Path(folder)
    if (path / INDEX_NAME).exists():
        return path
    steps = complete_steps(path)
    _require(bool(steps), path, "has no complete checkpoint")
    return _step_folder(path, steps[-1])


def read_checkpoint_index(folder: str | os.PathLike[str]) -> CheckpointIndex:
    """What a checkpoint consists of.

    Args:
        folder: of one step, or of all steps: then the last complete one is read.

    Raises:
        FileError: that names the file and says what is wrong with it.
    """
    of_step = last_checkpoint(folder)
    path = of_step / INDEX_NAME
    frame = _INDEX.fullmatch(_read(path))
    if frame is None:
        raise FileError(f"{path}: it is not an index of a checkpoint, or was cut off")
    version = int(frame[1])
    _require(version == VERSION, path, f"is of version {version}; expected {VERSION}")
    try:
        content = json.loads(frame[3])
        files = [
            RankFile(file["name"], file["bytes"], file["header"]) for file in content["files"]
        ]
        parts = [_part(part, len(files)) for part in content["parts"]]
        return CheckpointIndex(
            of_step, content["step"], content["state"], files, {part.name: part for part in parts}
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path}: it is not what was written: {error!r}") from error


def read_safetensors_header(path: str | os.PathLike[str]) -> SafetensorsHeader:
    """The header of a safetensors file of any writer.

    Raises:
        FileError: if names are not unique, sizes do not fit shapes, or tensors do not fill the file
            from end to end.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            _require(size >= 8, path, f"has {size} bytes; expected 8 or more")
            (length,) = struct.unpack("<Q", file.read(8))
            _require(
                length <= min(LONGEST_HEADER, size - 8),
                path,
                f"has a header of {length} bytes in {size}; it is cut off, or no safetensors file",
            )
            text = file.read(length)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    try:
        content = json.loads(text, object_pairs_hook=_unique)
        metadata = content.pop("__metadata__", {})
        tensors = sorted(
            (_stored_tensor(name, about) for name, about in content.items()),
            key=lambda tensor: (tensor.first, tensor.bytes),
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise FileError(f"{path}: its header is not what it should be: {error!r}") from error
    end = 0
    for tensor in tensors:
        wanted = math.prod(tensor.shape) * ELEMENT_BYTES[tensor.dtype]
        _require(
            tensor.bytes == wanted,
            path,
            f"tensor '{tensor.name}' has {tensor.bytes} bytes; expected {wanted} for its shape "
            "and type",
        )
        _require(
            tensor.first == end,
            path,
            f"tensor '{tensor.name}' begins at byte {tensor.first}; expected {end}, where the "
            "tensor before it ends",
        )
        end += tensor.bytes
    _require(end == size - 8 - length, path, f"has {size - 8 - length} bytes of tensors of {end}")
    return SafetensorsHeader({tensor.name: tensor for tensor in tensors}, metadata, end)


def _require(holds: bool, path: Path, text: str) -> None:
    if not holds:
        raise FileError(f"{path}: {text}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None


def _step_folder(folder: Path, step: int) -> Path:
    return folder / f"step_{step:08}"


def _part(of: dict[str, Any], ranks: int) -> Part:
    return Part(
        of["name"],
        of["pattern"],
        of["layers"],
        {tensor["name"]: tuple(tensor["shape"]) for tensor in of["tensors"]},
        {group["name"]: group["dtype"] for group in of["groups"]},
        table_layout(of["owners"], ranks=ranks, slices=of["slices"]),
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a name occurs twice")
    return content


def _stored_tensor(name: str, of: dict[str, Any]) -> StoredTensor:
    if of["dtype"] not in ELEMENT_BYTES:
        raise ValueError(f"tensor '{name}' has the unknown type '{of['dtype']}'")
    first, end = of["data_offsets"]
    shape = tuple(of["shape"])
    if any(type(number) is not int or number < 0 for number in (first, end, *shape)):
        raise ValueError(f"tensor '{name}' has a size that is not a whole number")
    return StoredTensor(name, of["dtype"], shape, first, end - first)
