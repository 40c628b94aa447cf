# SPDX-License-Identifier: Apache-2.0
"""Ranks that are processes, forked after torch has been imported, so that they start at once."""

from __future__ import annotations

import datetime
import os
import pickle
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

torch.set_num_threads(1)

BACK_ENDS = {"cpu": "gloo", "cuda": "nccl"}


def take_device(device: str, number: int) -> None:
    """Makes one of the devices of this host current; several ranks may share one."""
    if device == "cuda":
        torch.cuda.set_device(number % torch.cuda.device_count())


def join_launched(device: str = "cpu") -> bool:
    """Joins the ranks that torchrun has started, or mpirun of Open MPI, where MASTER_ADDR and
    MASTER_PORT say how all of them reach the first. Returns whether there are any."""
    for name, of_mpi in (("RANK", "OMPI_COMM_WORLD_RANK"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")):
        if of_mpi in os.environ:
            os.environ.setdefault(name, os.environ[of_mpi])
    if "RANK" not in os.environ:
        return False
    take_device(device, int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group(BACK_ENDS[device])
    return True


def run_ranks(ranks: int, body: Callable[..., Any], *arguments: Any, seconds: float = 120.0) -> list[Any]:
    """What body(rank, *arguments) returns on each rank of a Gloo group, within a time.

    Raises:
        AssertionError: with the traceback of the first rank that has failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        children = [_start(rank, ranks, folder, body, arguments) for rank in range(ranks)]
        try:
            results = _collect(children, folder, seconds)
        finally:
            for child in children:
                _end(child)
    failed = [text for ok, text in results if not ok]
    assert not failed, "\n".join(failed)
    return [value for _, value in results]


def _start(rank: int, ranks: int, folder: str, body: Callable[..., Any], arguments: Any) -> int:
    child = os.fork()
    if child != 0:
        return child
    code = 1
    # torch makes its pool of threads anew after a fork, when it is first asked for: here, before
    # several threads of autograd ask at once and one of them finds none.
    torch.set_num_threads(1)
    try:
        store = dist.FileStore(f"{folder}/store", ranks)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        dist.init_process_group(
            "gloo", store=store, rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=60)
        )
        outcome = (True, body(rank, *arguments))
    except BaseException:
        outcome = (False, f"rank {rank}:\n{traceback.format_exc()}")
    try:
        with open(f"{folder}/{rank}.part", "wb") as file:
            pickle.dump(outcome, file)
        os.rename(f"{folder}/{rank}.part", f"{folder}/{rank}")
        code = 0
    finally:
        os._exit(code)  # a usual exit over Gloo sometimes aborts


def _collect(children: list[int], folder: str, seconds: float) -> list[Any]:
    until = time.monotonic() + seconds
    results: list[Any] = [None] * len(children)
    missing = set(range(len(children)))
    while missing and time.monotonic() < until:
        for rank in sorted(missing):
            ended = os.waitpid(children[rank], os.WNOHANG)[0] != 0
            if os.path.exists(f"{folder}/{rank}"):
                with open(f"{folder}/{rank}", "rb") as file:
                    results[rank] = pickle.load(file)
                missing.discard(rank)
                if not results[rank][0]:
                    until = min(until, time.monotonic() + 5)  # others may be waiting for this rank
            elif ended:
                results[rank] = (True, None)  # body has ended the process on purpose
                missing.discard(rank)
        time.sleep(0.01)
    for rank in missing:
        results[rank] = (False, f"rank {rank} has not ended within {seconds:g} s")
    return results


def _end(child: int) -> None:
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
