# SPDX-License-Identifier: Apache-2.0
"""Compares the time of fssdp.torch.dispatch with all_to_all_single, for the same rows and ranks.

    python measure_dispatch.py --ranks 4

Rows go to the owners of their experts, as in expert parallelism; loads follow Zipf's law. Received rows
are ordered by source after all_to_all_single, and by expert after dispatch, as grouped products need
them. The last column is all_to_all_single with a copy that orders rows by expert. Both are called in
turn; times are medians over all calls.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

import fssdp
from fssdp.torch import Communicator, dispatch
from trainer.ranks import join_launched, run_ranks

EXPERTS = 16


def counts_of(ranks: int, rows: int) -> Tensor:
    """Rows of each rank for each expert: [ranks, experts]."""
    shares = 1 / torch.arange(1, EXPERTS + 1)
    draw = torch.Generator().manual_seed(ranks)
    chosen = torch.multinomial(shares.expand(ranks, -1), rows, replacement=True, generator=draw)
    return torch.stack([of_rank.bincount(minlength=EXPERTS) for of_rank in chosen])


def measure(rank: int, ranks: int, rows: int, width: int, calls: int) -> list[float]:
    """Median times in microseconds: dispatch, all_to_all_single, and that with the copy."""
    counts = counts_of(ranks, rows)
    layout = fssdp.block_layout(experts=EXPERTS, ranks=ranks)
    where = fssdp.OwnersOnly()(counts.sum(0), layout)
    plan = fssdp.TokenPlan(counts, where, rank)
    comm = Communicator(dist.new_group(), timeout=60)
    own = [int(e) for e, _ in layout.owned(rank)]
    splits_out = [int(counts[rank, [int(e) for e, _ in layout.owned(r)]].sum()) for r in range(ranks)]
    of_mine = counts[:, own]  # [source, own expert]
    splits_in = of_mine.sum(1).tolist()
    expert = torch.arange(len(own)).repeat(ranks).repeat_interleave(of_mine.flatten())
    by_expert = expert.argsort(stable=True)
    sent = torch.randn(rows, width)

    def exchange() -> Tensor:
        received = sent.new_empty(sum(splits_in), width)
        dist.all_to_all_single(received, sent, splits_in, splits_out)
        return received

    ways: list[Callable[[], Tensor]] = [
        lambda: dispatch(comm, plan, sent),
        exchange,
        lambda: exchange()[by_expert],
    ]
    assert torch.equal(ways[0](), ways[2]())
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(calls):
        for way, of_way in zip(ways, times, strict=True):
            dist.barrier()
            begin = time.perf_counter()
            way()
            of_way.append(1e6 * (time.perf_counter() - begin))
    return [statistics.median(of_way) for of_way in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--width", type=int, default=256, help="elements of a row, in fp32")
    given = parser.parse_args()
    torch.set_num_threads(1)
    launched = join_launched()
    if not launched or dist.get_rank() == 0:
        print(f"{'rows':>6} {'KiB':>7} {'dispatch':>10} {'all_to_all':>11} {'and by expert':>14}   us")
    for rows in (16, 64, 256, 1024, 4096):
        arguments = (given.ranks, rows, given.width, given.calls)
        if launched:
            times = measure(dist.get_rank(), dist.get_world_size(), *arguments[1:])
        else:
            times = run_ranks(given.ranks, measure, *arguments)[0]
        if not launched or dist.get_rank() == 0:
            kib = rows * given.width * 4 // 1024
            print(f"{rows:6} {kib:7} {times[0]:10.0f} {times[1]:11.0f} {times[2]:14.0f}", flush=True)


if __name__ == "__main__":
    main()
