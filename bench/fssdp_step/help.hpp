// SPDX-License-Identifier: Apache-2.0
/// What --help says besides the options.
#pragma once

#include <fmt/format.h>

#include <string>

#include "fssdp_sim/help.hpp"
#include "policies.hpp"

namespace step::detail {

inline constexpr auto about =
    "Measures whole iterations of the MoE layers of a model, with the library's own runtime:\n"
    "prediction, placements, plans, prefetched gathers, dispatch and combine, reductions, steps.\n"
    "Only devices and links are emulated. A device computes by waiting as long as the real one\n"
    "would take, and messages take as long as on the links of the cluster. With --backend cuda or\n"
    "nccl nothing is emulated: GPUs compute.";

[[nodiscard]] inline std::string footer() {
  auto text = std::string{"Policies; all have the same runtime, slots and prefetching\n"};
  for (auto const& one : policies) text += fmt::format("  {:<18} {}\n", one.name, one.about);
  text +=
      "\nWhat is real and what is emulated\n"
      "  Every device is a thread of this process, and has a second thread for its gathers and\n"
      "  reductions. Bytes really move between threads, and samples of them are checked: "
      "parameters\n"
      "  of every replica, rows of every message, sums of all gradients. A message takes as long "
      "as\n"
      "  on a link of the cluster (one at a time through each port, plus latency). Attention, "
      "dense\n"
      "  layers and experts are waits, by the FLOP/s of the cluster. The optimizer takes no time.\n"
      "  --scale divides the bytes of tokens and experts, and the rates of links. --slow "
      "multiplies\n"
      "  all times, so that the host keeps up. Ratios stay the same, and results are in times of "
      "the\n"
      "  real cluster.\n"
      "  Solvers and planners are pure functions, and each real device has a host to run them. "
      "Here\n"
      "  one device computes each result, and all devices wait as long as that took.\n"
      "  The column `host` is the share of all cores that this program used. Beyond 50 % the host\n"
      "  influences the result, and a line says so. Two cores are enough for 32 devices of cluster "
      "a\n"
      "  with --slow 16, and of cluster b, which has faster links, with --slow 100.\n"
      "  With --backend mpi, under mpirun, devices are processes and links are real. --wire says "
      "how\n"
      "  fast these are, so that bytes and waits are scaled to them. MPI polls while it waits, so\n"
      "  `host` means little there.\n"
      "\nOn GPUs: --backend cuda and nccl\n"
      "  Experts are matrix products by cuBLAS, two forward and four backward, in fp32 (TF32 on\n"
      "  tensor cores). They have as many bytes as the model's 16-bit experts, so half as many\n"
      "  numbers. Attention and dense layers are products, too, with the same ratio of FLOPs to "
      "those\n"
      "  of experts as in the model. The optimizer adds 1. Parameters, gradients, moments, "
      "replicas\n"
      "  and rows of tokens are in device memory; gathers and reductions run on a second stream.\n"
      "  All times are real: iterations by the host's clock, enqueued work by CUDA events. `model` "
      "is\n"
      "  still the time for the named cluster.\n"
      "  Bytes are checked in the first iteration only, as a check waits for the GPU. --scale "
      "divides\n"
      "  bytes of rows and experts, and FLOPs, so that all fits into memory.\n"
      "  With cuda, --devices virtual devices (8 by default) share the GPUs of this host, and "
      "read\n"
      "  each other's memory; one GPU is enough. With nccl each device is a GPU of its own.\n"
      "  Virtual devices on one GPU share its FLOP/s and its memory bandwidth. So only ratios "
      "between\n"
      "  policies mean something, and an even load gains less than on a cluster: a device that "
      "waits\n"
      "  leaves its share to the others.\n"
      "\nGroups\n"
      "  With --groups G there are G groups, each a cluster as named, with the same loads. Groups\n"
      "  really exchange data, on a stream of its own, by one of these classes of the library:\n"
      "    gradient_exchange    32-bit gradients of each expert, from its owner to the owners in\n"
      "                         other groups, as soon as the owner has them\n"
      "    parameter_exchange   with --sync-every: parameters of all layers, or of --fragments in\n"
      "                         turn, after every N-th iteration (and the warm-up), applied at "
      "once\n"
      "                         or --sync-delay iterations later\n"
      "    delayed_exchange     with --outer co2: the same, applied one round later\n"
      "  Bytes count in the iteration that waits for them. Links between groups are separate from\n"
      "  those inside. A link is slowed down by the ratio of real to emulated payload bytes.\n"
      "  Encoding and decoding take the host's time. Counterparts compare all bits after each\n"
      "  exchange.\n"
      "\n" +
      sim::detail::about_methods() +
      "\nColumns\n"
      "  iteration  median and 95th percentile (p95) of the iterations; forward and backward\n"
      "  over EP    time of ep / time of this policy\n"
      "  model      time in a model of the runtime, for the same placements, loads and\n"
      "             plans: tokens by the costs of fssdp_sim, gathers and reductions on ideal\n"
      "             ports, solvers and planners as long as they took; and measured / model\n"
      "  max/mean   tokens of the fullest device / of the average device\n"
      "  exposed    time that devices waited for experts, also as a share of the time in which\n"
      "             experts were sent\n"
      "  tokens     dispatch and combine, including waits for the fullest device\n"
      "  solve, plan   placements and routing that an iteration waited for; plans made in the\n"
      "             background\n"
      "  sent       bytes that all devices send, tokens and experts\n"
      "  replicas   memory of the device that has most\n"
      "  sent between, waits   with --groups: bytes to other groups, of the device that sends "
      "most,\n"
      "             also over the prediction of fssdp_sim; time that devices waited for other "
      "groups,\n"
      "             and the same in the model\n"
      "The first iteration warms up and does not count. JSON has the same. fssdp_sim --help lists\n"
      "the clusters and models.\n"
      "\nExamples\n"
      "  fssdp_step --cluster a,b --devices 32\n"
      "  fssdp_step --cluster a --trace loads.csv --iters 101,501 --policy ep,hecate,ours --json\n"
      "  fssdp_step --cluster h100 --devices 64 --layers 2 --slow 100 --timeline iteration.json\n"
      "  mpirun -np 8 fssdp_step --backend mpi --cluster a --scale 16 --wire 1.25e8 --layers 2\n"
      "  fssdp_step --backend cuda --devices 8 --layers 4 --timeline iteration.json\n"
      "  fssdp_step --cluster flat --devices 4 --groups 4 --between full,demo --between-rate "
      "1.25e9";
  return text;
}

}  // namespace step::detail
