# SPDX-License-Identifier: Apache-2.0
"""Trains a small language model whose layers are mixtures of experts, in one of several ways.

    python train.py --ranks 4 --way cheapest             # starts 4 processes
    torchrun --nproc-per-node 4 train.py --way cheapest  # the same by torchrun, or mpirun
    torchrun --nproc-per-node 4 train.py --device cuda   # a GPU for each rank, over NCCL
    python train.py --ranks 4 --compare                  # trains in all ways, and prints a table

Ways:
    alone      one process
    plain      expert parallelism in plain torch
    deepspeed  DeepSpeed's layer, if that is installed
    fsdp2      fully_shard, for the experts, too
    others     solvers of fssdp: owners_only, sparse, cheapest, everywhere

Columns:
    first, last      loss of the first and of the last step
    apart            largest difference of a loss from that of the first line
    step             median time of a step
    max/mean         rows of the fullest rank over the mean
    experts          bytes that all ranks sent for experts in a step: tokens, parameters, gradients
    groups, network  bytes between groups (with --between), and over the network in total, in a step
    waited           time that a rank waited for parameters and gradients of experts
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from trainer.between import METHODS
from trainer.deepspeed_experts import has_deepspeed
from trainer.model import Shape
from trainer.ranks import join_launched, run_ranks
from trainer.training import Result, Run, train

WAYS = ("alone", "plain", "deepspeed", "fsdp2", "owners_only", "sparse", "cheapest", "everywhere")
VARIANTS: dict[str, dict[str, Any]] = {
    "rematerialized": {"rematerialize": True},
    "owners change": {"reshard_every": 10},
    "2 micro-batches": {"micro_batches": 2},
    "recomputed": {"recompute": True},
    "calibrated": {"calibrate": True},
    "stacked": {"stacked": True},
    "stacked, all of it": {
        "stacked": True,
        "rematerialize": True,
        "recompute": True,
        "micro_batches": 2,
        "reshard_every": 10,
    },
    "planned ahead": {"plan_ahead": True},
    "replicas in bf16": {"bf16": True},
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="number of ranks, without torchrun")
    parser.add_argument("--compare", action="store_true", help="train in all ways")
    parser.add_argument("--rerun", action="store_true", help="train twice, and check that losses are equal")
    parser.add_argument("--json", metavar="FILE", help="also write the table into this file")
    parser.add_argument("--way", choices=WAYS, default="sparse")
    parser.add_argument("--dense", choices=("fsdp2", "ddp"), default="fsdp2")
    parser.add_argument("--groups", type=int, default=1, help="groups of ranks; each has all experts")
    parser.add_argument("--between", default="", metavar="METHOD", help=f"what groups exchange: {METHODS}")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--stacked", action="store_true", help="experts as stacked parameters [experts, ...]")
    parser.add_argument("--recompute", action="store_true", help="activation checkpointing")
    parser.add_argument("--rematerialize", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="replicas in bfloat16")
    parser.add_argument("--calibrate", action="store_true")
    parser.add_argument("--reshard-every", type=int, default=0, metavar="STEPS")
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--plan-ahead", action="store_true", help="make placements and plans on another thread")
    parser.add_argument("--load-tolerance", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--slots", type=int, default=2, help="replicas of a layer that a rank has memory for")
    parser.add_argument("--float64", action="store_true")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: with torchrun")
    for name, value in vars(Shape()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    return parser.parse_args()


def run_of(given: argparse.Namespace) -> Run:
    options = {k: v for k, v in vars(given).items() if k in Run.__dataclass_fields__}
    shape = Shape(**{name: getattr(given, name) for name in vars(Shape())})
    dtype = torch.float64 if given.float64 else torch.float32
    return Run(**{**options, "shape": shape, "dtype": dtype})


def runs_of(given: argparse.Namespace) -> Iterator[tuple[str, Run]]:
    """What is trained, and what it is called."""
    run = run_of(given)
    if not given.compare:
        yield run.way, run
        return
    for way in WAYS:
        if way == "deepspeed":
            if has_deepspeed() and not run.stacked and run.shape.experts % given.ranks == 0:
                yield way, replace(run, way=way, dense="ddp")
            continue
        # FSDP2 needs a gradient for every parameter on every rank, which only stacked parameters have
        yield way, replace(run, way=way, stacked=run.stacked or way == "fsdp2")
    for name, options in VARIANTS.items():
        yield f"sparse, {name}", replace(run, way="sparse", **options)


class Table:
    """Prints a line for each run."""

    HEAD = (
        "", "first", "last", "apart", "step", "max/mean", "experts", "groups", "network", "waited",
        "rerun",
    )  # fmt: skip
    UNITS = ("", "loss", "loss", "", "ms", "", "MB", "MB", "MB", "ms", "")
    WIDTHS = (26, 9, 9, 8, 7, 9, 8, 8, 8, 7, 6)

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.reference: list[float] = []

    def add(self, name: str, run: Run, results: list[Result], again: list[Result] | None) -> None:
        if not self.rows:
            self._print(self.HEAD)
            self._print(self.UNITS)
        losses = results[0].losses
        self.reference = self.reference or losses
        hosts = {result.host: result.wire_bytes for result in results}
        apart = max(abs(a - b) for a, b in zip(losses, self.reference, strict=True))
        row = {
            "run": name,
            "ranks": len(results),
            "first_loss": losses[0],
            "last_loss": losses[-1],
            "apart": apart,
            "step_ms": 1e3 * statistics.median(results[0].seconds),
            "load_max_over_mean": statistics.mean(results[0].balance),
            "expert_mb": sum(result.bytes_sent for result in results) / run.steps / 1e6,
            "groups_mb": sum(result.bytes_between for result in results) / run.steps / 1e6,
            "network_mb": sum(hosts.values()) / run.steps / 1e6,
            "waited_ms": 1e3 * results[0].exposed / run.steps,
            "rerun_is_equal": None if again is None else again[0].losses == losses,
        }
        formats = ("", "", ".6f", ".6f", ".1e", ".1f", ".3f", ".3f", ".3f", ".3f", ".1f")
        texts = [format(value, f) for value, f in zip(row.values(), formats)]
        rerun = {None: "", True: "equal", False: "OTHER"}[row["rerun_is_equal"]]
        self._print([texts[0], *texts[2:], rerun])
        self.rows.append(row)

    def _print(self, texts: Any) -> None:
        first, *others = (text.rjust(width) for text, width in zip(texts, self.WIDTHS, strict=True))
        print(texts[0].ljust(len(first)), *others, flush=True)


def body(_: int, run: Run) -> Result:
    return train(run)


def train_here(run: Run) -> list[Result]:
    """As one of the ranks, which a launcher has started; 'alone' is for the first of them."""
    result = train(run) if run.way != "alone" or dist.get_rank() == 0 else None
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, result)
    return [each for each in gathered if each is not None]


def main() -> None:
    given = arguments()
    torch.set_num_threads(1)
    is_launched = join_launched(given.device)
    if given.device != "cpu" and not is_launched:
        raise SystemExit("train.py: --device cuda; expected torchrun, which starts a rank for each device")
    if is_launched:
        given.ranks = dist.get_world_size()
    run: Callable[[Run], list[Result]] = train_here
    if not is_launched:

        def run(of: Run) -> list[Result]:
            return run_ranks(1 if of.way == "alone" else given.ranks, body, of, seconds=3600)

    shows = not is_launched or dist.get_rank() == 0
    table = Table()
    for name, of in runs_of(given):
        results = run(of)
        again = run(of) if given.rerun else None
        if shows:
            table.add(name, of, results, again)
    if shows and given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(table.rows, file, indent=1)
    if is_launched:
        dist.barrier()
        os._exit(0)  # a usual exit over Gloo sometimes aborts


if __name__ == "__main__":
    main()
