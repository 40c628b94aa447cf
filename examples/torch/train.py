# SPDX-License-Identifier: Apache-2.0
"""Trains a small language model whose layers are mixtures of experts, and compares ways to do it.

    python train.py --ranks 4 --way cheapest             # starts the ranks by itself
    torchrun --nproc-per-node 4 train.py --way cheapest  # or is one of them
    python train.py --ranks 4 --compare                      # the losses of all ways, beside each other

What --way says: 'alone' is one process without ranks, 'plain' is expert parallelism in plain torch,
'fsdp2' has fully_shard for the experts, too; the others are solvers of fssdp.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from trainer.model import Shape
from trainer.ranks import run_ranks
from trainer.training import Result, Run, train

WAYS = ("alone", "plain", "fsdp2", "owners_only", "sparse", "cheapest", "everywhere")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="without torchrun: how many")
    parser.add_argument("--compare", action="store_true", help="train in all ways")
    parser.add_argument("--way", choices=WAYS, default="sparse")
    parser.add_argument("--dense", choices=("fsdp2", "ddp"), default="fsdp2")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--stacked", action="store_true", help="parameters [experts, ...]")
    parser.add_argument("--recompute", action="store_true", help="activation checkpointing")
    parser.add_argument("--rematerialize", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="replicas in bfloat16")
    parser.add_argument("--calibrate", action="store_true")
    parser.add_argument("--reshard-every", type=int, default=0, metavar="STEPS")
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--slots", type=int, default=2, help="replicas of a layer on a rank")
    parser.add_argument("--float64", action="store_true")
    for name, value in vars(Shape()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    return parser.parse_args()


def run_of(given: argparse.Namespace) -> Run:
    options = {k: v for k, v in vars(given).items() if k in Run.__dataclass_fields__}
    shape = Shape(**{name: getattr(given, name) for name in vars(Shape())})
    dtype = torch.float64 if given.float64 else torch.float32
    return Run(**{**options, "shape": shape, "dtype": dtype})


def body(_: int, run: Run) -> Result:
    return train(run)


def show(name: str, results: list[Result], run: Run, reference: list[float] | None) -> None:
    """A line of the table."""
    seconds = sorted(results[0].seconds)
    sent = sum(result.bytes_sent for result in results) / run.steps / 1e6
    line = f"{name:12} loss {results[0].losses[0]:.6f} -> {results[0].losses[-1]:.6f}"
    if reference is not None:
        apart = max(abs(a - b) for a, b in zip(results[0].losses, reference, strict=True))
        line += f"  apart {apart:.1e}"
    line += f"  step {1e3 * seconds[len(seconds) // 2]:6.1f} ms"
    line += f"  max/mean {sum(results[0].balance) / run.steps:.3f}"
    line += f"  sent {sent:7.3f} MB/step" if sent else "  sent       -       "
    line += f"  waited {1e3 * results[0].exposed / run.steps:5.1f} ms"
    print(line, flush=True)


def under_torchrun(run: Run) -> None:
    dist.init_process_group("gloo")
    result = train(run)
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, result)
    if dist.get_rank() == 0:
        show(run.way, gathered, run, None)
    dist.barrier()
    os._exit(0)  # a usual exit over Gloo aborts now and then


def main() -> None:
    given = arguments()
    run = run_of(given)
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        under_torchrun(run)
    reference = None
    for way in WAYS if given.compare else (given.way,):
        # FSDP2 wants gradients of all parameters on every rank: stacked ones have them
        this = replace(run, way=way, stacked=run.stacked or way == "fsdp2")
        results = run_ranks(1 if way == "alone" else given.ranks, body, this, seconds=3600)
        show(way, results, this, reference)
        reference = reference or results[0].losses


if __name__ == "__main__":
    main()
