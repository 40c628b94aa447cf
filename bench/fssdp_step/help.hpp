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
    "Only devices and links are emulated: a device computes by waiting as long as the real one\n"
    "would take, and messages take as long as on the links of the cluster. With --backend cuda or\n"
    "nccl nothing is emulated: GPUs compute.";

[[nodiscard]] inline std::string footer() {
  auto text = std::string{"Policies, all over the same runtime, slots and prefetching\n"};
  for (auto const& one : policies) text += fmt::format("  {:<18} {}\n", one.name, one.about);
  text +=
      "\nWhat is real and what is emulated\n"
      "  Every device is a thread of this process, and has another one for its experts. Bytes\n"
      "  really move between them, and are checked by samples: parameters of every replica, rows\n"
      "  of every message, sums of all gradients. A message takes what it would take on a link of\n"
      "  the cluster (one at a time through each port, latency). Attention, dense layers and\n"
      "  experts are waits, by the FLOP/s of the cluster. The optimizer takes no time.\n"
      "  --scale divides the bytes of tokens and experts, and the rates of links with them;\n"
      "  --slow multiplies all times, so that the host keeps up. Ratios stay as they are, and\n"
      "  results are given in times of the real cluster.\n"
      "  Solvers and planners are pure functions, and real devices have hosts of their own to run\n"
      "  them. Here one device works out each answer, and all of them wait as long as that took.\n"
      "  Two cores carry 32 devices of cluster a with --slow 16, of cluster b, whose links are\n"
      "  faster, with --slow 100: the column `host` is the share of all cores that this program\n"
      "  used. Beyond 50 % the host is part of what was measured, and a line says so.\n"
      "  With --backend mpi, under mpirun, devices are processes and links are real. --wire says "
      "how\n"
      "  fast these are, so that bytes and waits are scaled to them; MPI polls while it waits, so\n"
      "  that `host` says little there.\n"
      "\nOn GPUs: --backend cuda and nccl\n"
      "  Experts are matrix products by cuBLAS, two forward and four backward, in fp32 (TF32 on\n"
      "  tensor cores): as many bytes as the model's 16 bits, so half as many numbers. Attention\n"
      "  and dense layers are products, too; their FLOPs are to those of experts as in the model.\n"
      "  The optimizer adds 1. Parameters, gradients, moments, replicas and rows of tokens are in\n"
      "  device memory; gathers and reductions run on a second stream.\n"
      "  All times are real: iterations by the host's clock, what the host only enqueues by CUDA\n"
      "  events. `model` is still fssdp_sim's for the cluster that is named.\n"
      "  Bytes are checked in the first iteration only, as a check waits for the GPU. --scale\n"
      "  divides bytes of rows and experts, and FLOPs with them, so that all fits into memory.\n"
      "  With cuda, as many virtual devices as --devices says (8) share the GPUs of this host; "
      "one\n"
      "  is enough. They read each other's memory. With nccl each device is a GPU of its own.\n"
      "  Virtual devices on one GPU share its FLOP/s and its memory bandwidth. So only ratios\n"
      "  between policies mean something, and an even load gains less than on a cluster: a device\n"
      "  that waits leaves its share to the others.\n"
      "\nGroups\n"
      "  With --groups G there are G times as many devices, in groups that are clusters as named\n"
      "  and have the same loads. What --between says crosses for real, by the library's\n"
      "  gradient_exchange: of each expert 32-bit gradients, from its owner to the owners in "
      "other\n"
      "  groups, as soon as they are there, on a stream of its own; or by its parameter_exchange\n"
      "  parameters, behind every --sync-every-th iteration (and the one that warms up), of all\n"
      "  layers or of --fragments in turn, at once or --sync-delay iterations later; or by its\n"
      "  delayed_exchange (--outer co2), a round later. Bytes count where they are waited for. "
      "Wires are\n"
      "  others than those inside; one is so much slower than its method's payloads are smaller\n"
      "  than real ones. Encoding and decoding take the host's time. Counterparts compare all "
      "bits\n"
      "  after each exchange.\n"
      "\n" +
      sim::detail::about_methods() +
      "\nColumns\n"
      "  iteration  median and 95th percentile (p95) of the iterations; forward and backward\n"
      "  over EP    time of ep / time of this policy\n"
      "  model      what fssdp_sim's model says for the same placements and loads, and measured /\n"
      "             predicted\n"
      "  max/mean   tokens of the fullest device / of the average one\n"
      "  exposed    for which devices waited for experts; and that as a share of the time in "
      "which\n"
      "             experts moved\n"
      "  tokens     dispatch and combine, waits for the fullest device included\n"
      "  solve, plan   placements and routing on the critical path; plans, made beside it\n"
      "  sent       by all devices, tokens and experts\n"
      "  replicas   memory of the device that has most\n"
      "  sent between, waits   with --groups: to other groups, by the device that sends most, and "
      "over\n"
      "             what fssdp_sim says; for which devices wait for them, and the same by the "
      "model\n"
      "The first iteration warms up and does not count. JSON has the same, and the clusters and\n"
      "models of fssdp_sim --help.\n"
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
