# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: headers of safetensors files, and what an index says."""

import json
import os
import struct

import fssdp
import pytest
from fssdp import checkpoint


def safetensors(header: dict, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(first: int, end: int, shape=(2,), dtype="F32") -> dict:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [first, end]}


def test_a_header(tmp_path):
    file = tmp_path / "a.safetensors"
    file.write_bytes(
        safetensors({"b": tensor(8, 20, (2, 3), "BF16"), "a": tensor(0, 8),
                     "__metadata__": {"format": "pt"}}, bytes(20))
    )  # fmt: skip
    header = checkpoint.read_safetensors_header(file)
    assert list(header.tensors) == ["a", "b"] and header.data_bytes == 20
    assert header.metadata == {"format": "pt"}
    assert header.tensors["b"] == checkpoint.StoredTensor("b", "BF16", (2, 3), 8, 12)


def test_what_others_wrote(tmp_path):
    numpy_format = pytest.importorskip("safetensors.numpy")
    import numpy

    numpy_format.save_file({"w": numpy.ones((3, 4), numpy.float16)}, tmp_path / "w.safetensors")
    (found,) = checkpoint.read_safetensors_header(tmp_path / "w.safetensors").tensors.values()
    assert (found.name, found.dtype, found.shape) == ("w", "F16", (3, 4))


@pytest.mark.parametrize("content, message", [
    (b"short", "has 5 bytes; expected 8 or more"),
    (struct.pack("<Q", 99) + b"{}", "header of 99 bytes in 10; it is cut off"),
    (struct.pack("<Q", 2) + b"[]", "is not what it should be"),
    (struct.pack("<Q", 2) + b"{x", "is not what it should be"),
    (safetensors({"a": tensor(0, 4)}, bytes(4)), "tensor 'a' has 4 bytes; expected 8"),
    (safetensors({"a": tensor(4, 12)}, bytes(12)), "begins at byte 4; expected 0"),
    (safetensors({"a": tensor(0, 8)}, bytes(9)), "has 9 bytes of tensors of 8"),
    (safetensors({"a": tensor(0, 8, dtype="F31")}, bytes(8)), "the unknown type 'F31'"),
    (safetensors({"a": tensor(0, 8, (-2,))}, bytes(8)), "a size that is not a whole number"),
    (safetensors({}, b"").replace(b"{}", b'{"a":1,"a":2}').replace(b"\2\0", b"\15\0", 1),
     "a name occurs twice"),
])  # fmt: skip
def test_a_broken_header(tmp_path, content, message):
    file = tmp_path / "broken.safetensors"
    file.write_bytes(content)
    with pytest.raises(fssdp.FileError, match=message) as caught:
        checkpoint.read_safetensors_header(file)
    assert "broken.safetensors" in str(caught.value)


INDEX = (
    b'{"fssdp_checkpoint":1,"checksum":"0123456789abcdef",\n"content":{"files":[{"bytes":112,'
    b'"header":"00000000000000aa","name":"rank_0.safetensors"},{"bytes":64,"header":'
    b'"00000000000000bb","name":"rank_1.safetensors"}],"parts":[{"groups":[{"dtype":"F32","name":'
    b'"weight"}],"layers":1,"name":"experts","owners":[0,1,1],"pattern":'
    b'"experts.{expert}.{tensor}.{group}","slices":1,"tensors":[{"name":"w1","shape":[4,2]}]}],'
    b'"state":"kept","step":7}}\n'
)


def save(folder, index=INDEX):
    folder.mkdir(parents=True)
    (folder / "checkpoint.json").write_bytes(index)


def test_an_index(tmp_path):
    save(tmp_path / "step_00000007")
    save(tmp_path / "step_00000003")
    (tmp_path / "step_00000009").mkdir()  # was never finished
    assert checkpoint.complete_steps(tmp_path) == [3, 7]
    assert checkpoint.complete_steps(tmp_path / "nowhere") == []
    found = checkpoint.read_checkpoint_index(tmp_path)
    assert found.folder == checkpoint.last_checkpoint(tmp_path) == tmp_path / "step_00000007"
    assert (found.step, found.state) == (7, "kept")
    part = found.part("experts")
    assert part.layout == fssdp.table_layout([0, 1, 1], ranks=2)
    assert part.tensors == {"w1": (4, 2)} and part.groups == {"weight": "F32"}
    with pytest.raises(fssdp.ArgumentError, match="no part 'router'; expected one of"):
        found.part("router")
    (found.folder / "rank_0.safetensors").write_bytes(bytes(4))
    with pytest.raises(fssdp.FileError, match="has 4 bytes; expected 112"):
        found.header(0)
    with pytest.raises(fssdp.FileError, match="rank_1.safetensors"):
        found.header(1)
    with pytest.raises(fssdp.ArgumentError, match="rank 2; expected 0 to 1"):
        found.header(2)


@pytest.mark.parametrize("index, message", [
    (b"{}", "not an index of a checkpoint"),
    (INDEX[:-9], "not an index of a checkpoint, or was cut off"),
    (INDEX.replace(b":1,", b":2,", 1), "is of version 2; expected 1"),
    (INDEX.replace(b'"owners":[0,1,1]', b'"owners":[0,1,2]'), "owner 2"),
    (INDEX.replace(b'"step"', b'"stop"'), "KeyError"),
])  # fmt: skip
def test_a_broken_index(tmp_path, index, message):
    save(tmp_path / "step_00000007", index)
    with pytest.raises(fssdp.FileError, match=message):
        checkpoint.read_checkpoint_index(tmp_path)
    with pytest.raises(fssdp.FileError, match="has no complete checkpoint"):
        checkpoint.read_checkpoint_index(tmp_path / "step_00000008")


@pytest.mark.skipif("FSSDP_SAVED_CHECKPOINT" not in os.environ, reason="needs a saved checkpoint")
def test_what_the_library_has_written():
    index = checkpoint.read_checkpoint_index(os.environ["FSSDP_SAVED_CHECKPOINT"])
    assert index.parts
    for part in index.parts.values():
        assert part.layout.ranks == len(index.files)
        per_rank = part.layout.owned_counts * len(part.tensors) * len(part.groups)
        assert per_rank.sum() > 0
    for rank in range(len(index.files)):
        owned = sum(
            int(part.layout.owned_counts[rank]) * len(part.tensors) * len(part.groups)
            for part in index.parts.values()
        )
        assert len(index.header(rank).tensors) == owned
