# SPDX-License-Identifier: Apache-2.0
"""Checks fssdp.torch on a machine with one GPU: two or three ranks share it, over NCCL.

    pip install --no-build-isolation ./examples/torch    # for the torch that is installed
    python3 examples/torch/tests/gpu/check_on_gpu.py
    python3 examples/torch/tests/gpu/check_on_gpu.py --device cpu    # the same code, without a GPU

Without pip, where nanobind is found (PYTHONPATH may say where):

    cmake -S examples/torch -B b -G Ninja -DCMAKE_BUILD_TYPE=Release && cmake --build b
    cmake --install b --prefix p && cp -r examples/torch/src/fssdp p && export PYTHONPATH=$PWD/p

Prints a line for each check. The exit status is 1 if one has failed. A check that takes longer than
its time limit has failed, and the others continue with new processes. NCCL refuses two ranks on one
device of a host. So each rank claims to be a host of its own, and messages go over sockets: this checks
results, not speed.
"""

from __future__ import annotations

import argparse
import datetime
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))

ALONE_ON_A_HOST = {
    "NCCL_NET": "Socket",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_IB_DISABLE": "1",
    "NCCL_MNNVL_ENABLE": "0",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_MAX_CTAS": "4",
    "GLOO_SOCKET_IFNAME": "lo",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class World:
    """Ranks that are processes.

    Attributes:
        ranks: how many.
        device: 'cuda' or 'cpu'.
        is_bound: the group is told its device, and so connects at once.
    """

    ranks: int
    device: str
    is_bound: bool = False

    def __str__(self) -> str:
        return f"{self.ranks} rank{'s' if self.ranks > 1 else ''}{', bound' if self.is_bound else ''}"


def serve(rank: int, world: World, folder: str, orders: Connection) -> None:
    """A rank: does the checks that it is told, and answers (ok, seconds, text)."""
    os.environ.update(ALONE_ON_A_HOST, NCCL_HOSTID=f"rank-{rank}")

    def attempt(work: Callable[[], str]) -> None:
        begin = time.perf_counter()
        try:
            text, ok = work(), True
        except BaseException:
            text, ok = f"rank {rank}:\n{traceback.format_exc()}", False
        orders.send((ok, time.perf_counter() - begin, text))

    state: list[Any] = []

    def join() -> str:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        on_gpu = world.device == "cuda"
        if on_gpu:
            torch.cuda.set_device(0)
        dist.init_process_group(
            "nccl" if on_gpu else "gloo",
            store=dist.FileStore(f"{folder}/store", world.ranks),
            rank=rank,
            world_size=world.ranks,
            timeout=datetime.timedelta(seconds=60),
            device_id=torch.device("cuda", 0) if world.is_bound and on_gpu else None,
        )
        from gpu_checks import Rank

        state.append(Rank(rank, world.ranks, world.device))
        return state[0].machine()

    attempt(join)
    while (name := orders.recv()) is not None:
        attempt(getattr(state[0], name))
    os._exit(0)  # a usual exit sometimes aborts, or waits for others


class Ranks:
    """The processes of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.folder = tempfile.TemporaryDirectory()
        fresh = multiprocessing.get_context("spawn")
        self.pipes: list[Connection] = []
        self.processes = []
        for rank in range(world.ranks):
            ours, theirs = fresh.Pipe()
            process = fresh.Process(
                target=serve, args=(rank, world, self.folder.name, theirs), daemon=True
            )
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def ask(self, name: str) -> None:
        for pipe in self.pipes:
            pipe.send(name)

    def answers(self, seconds: float) -> tuple[bool, float, str]:
        """What all of them answer within a time; when one has failed, others get 5 s."""
        until = time.monotonic() + seconds
        missing = dict(zip(self.pipes, range(self.world.ranks)))
        texts, longest, ok = [], 0.0, True
        while missing and time.monotonic() < until:
            for pipe in wait(list(missing), max(0.0, until - time.monotonic())):
                rank = missing.pop(pipe)
                try:
                    fine, took, text = pipe.recv()
                except EOFError:
                    fine, took, text = False, 0.0, f"rank {rank} has ended"
                ok, longest = ok and fine, max(longest, took)
                texts.append(text) if not fine or rank == 0 else None
                if not fine:
                    until = min(until, time.monotonic() + 5)
        texts += [f"rank {rank} has not ended in time" for rank in missing.values()]
        failed = [text for text in texts if text != texts[0]]
        return ok and not missing, longest, "\n".join(texts if failed or not ok else texts[:1])

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        self.folder.cleanup()


class Report:
    """A line for each check."""

    def __init__(self, until: float) -> None:
        self.until = until
        self.failed: list[str] = []
        self.count = 0

    def add(self, world: World, name: str, ok: bool, seconds: float, text: str) -> None:
        self.count += 1
        title = name.replace("_", " ")
        first, *rest = text.splitlines() or [""]
        verdict = "ok    " if ok else "FAILED"
        print(f"{verdict} {str(world):14} {title:34} {seconds:6.2f} s  {first if ok else ''}")
        if not ok:
            self.failed.append(f"{world}: {title}")
            print("\n".join(f"    {line}" for line in (first, *rest)))
        sys.stdout.flush()


def check(ranks: Ranks, names: list[str], seconds: float, report: Report) -> None:
    """Does the checks in a world, in new processes where some have failed."""
    world, is_new = ranks.world, True
    try:
        for name in names:
            if time.monotonic() > report.until:
                report.add(world, name, False, 0.0, "no time is left")
                continue
            if is_new:
                ok, took, text = ranks.answers(45)
                report.add(world, "start", ok, took, text)
                if not ok:
                    return
            ranks.ask(name)
            ok, took, text = ranks.answers(seconds)
            report.add(world, name, ok, took, text)
            is_new = not ok
            if is_new:
                ranks.end()
                ranks = Ranks(world)
    finally:
        ranks.end()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", metavar="TEXT", help="run only checks whose names contain TEXT")
    parser.add_argument("--each", type=float, default=25.0, metavar="S", help="time limit of a check, seconds")
    parser.add_argument("--all", type=float, default=150.0, metavar="S", help="time limit of all checks, seconds")
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    from gpu_checks import OF_BOUND, OF_THREE, names_of

    begin = time.monotonic()
    report = Report(begin + given.all)
    only = (given.only or "").replace(" ", "_")
    every = names_of()
    plans = [
        (World(2, given.device), every),
        (World(1, given.device), every),
        (World(2, given.device, is_bound=True), OF_BOUND),
        (World(3, given.device), OF_THREE),
    ]
    chosen = [(world, [n for n in names if only in n]) for world, names in plans]
    for ranks, names in [(Ranks(world), names) for world, names in chosen if names]:  # all begin
        check(ranks, names, given.each, report)
    fine = report.count - len(report.failed)
    print(f"{fine} of {report.count} checks are fine, {time.monotonic() - begin:.0f} s")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
