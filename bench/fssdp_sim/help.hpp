// SPDX-License-Identifier: Apache-2.0
/// What --help says besides the options.
#pragma once

#include <fmt/format.h>

#include <string>

#include "between/method.hpp"
#include "cluster.hpp"
#include "model.hpp"
#include "policies/policies.hpp"

namespace sim::detail {

inline constexpr auto about =
    "Simulates training iterations of Mixture-of-Experts models. It tells which device computes "
    "with\n"
    "which experts under a policy, how long the slowest device takes, and how long moving experts\n"
    "takes. Nothing is trained and nothing is sent.";

/// What --between names, for every program that has groups.
[[nodiscard]] inline std::string about_methods() {
  auto names = std::string{between::names_of_methods};
  names.insert(names.find("terngrad"), "\n  ");
  auto usual = std::string{};
  for (auto const& of : between::methods)
    if (of.number > 0) usual += (usual.empty() ? "" : ", ") + between::text_of(of);
  return "Methods of --between: how gradients or parameters are compressed between groups\n  " +
         names +
         "\n"
         "  KEPT: coefficients kept of 64, or of 64 x 64. N: one of N elements is sent. RANK: "
         "columns.\n"
         "  BITS: 1, 2, 4 or 8. Defaults:\n  " +
         usual + "\n";
}

[[nodiscard]] inline std::string footer() {
  auto text = std::string{"Policies\n"};
  for (auto const& one : policies) text += fmt::format("  {:<26} {}\n", one.name, one.about);
  text +=
      "  Baselines are idealized: what they move between iterations is free, they know the real\n"
      "  counts when they choose (fastermoe, smartmoe, flexmoe; eplb and fsep choose the best of\n"
      "  several placements and routings by them), and all have the same slots and windows. In\n"
      "  eplb and fsep each device has places for E / D experts, rounded up, and the slots.\n"
      "  hecate-rm gathers again during the backward window, without contention.\n"
      "\nClusters; bandwidths are those of one direction\n";
  for (auto const& one : cluster_kinds)
    text += fmt::format(
        "  {:<6} {}, {:.0f} TFLOP/s attained; {:.0f} GB/s between devices{}\n", one.name,
        one.device, one.flops / 1e12, one.ports.inside_bytes_per_second / 1e9,
        one.devices_on_a_node == 0
            ? std::string{" of one switch"}
            : fmt::format(" of a node ({}), {:.4g} GB/s of a {} to others", one.devices_on_a_node,
                          one.ports.between_bytes_per_second / 1e9,
                          one.network == fssdp::network_interface::per_node ? "node" : "device"));
  text +=
      "  a and b are the clusters of the Hecate paper, with up to 32 devices. Others have up to\n"
      "  4096.\n"
      "\nModels\n";
  for (auto const& one : models)
    text +=
        fmt::format("  {:<15} {:>2} MoE layers, {:>3} experts ({} x {} x {}), top-{}\n", one.name,
                    one.layers, one.experts, one.matrices, one.d_model, one.d_ffn, one.top_k);
  text +=
      "  The paper's four have 32 experts on up to 16 devices. With --trace, layers and experts "
      "are\n"
      "  those of the trace. All devices are one group, unless --groups says otherwise. There is "
      "no\n"
      "  tensor or pipeline parallelism.\n\n" +
      about_methods() +
      "\n"
      "Time of an iteration\n"
      "  layer      3 x computation of the fullest device + 4 x the busiest port for tokens, less\n"
      "             what devices with fewer rows send back while the fullest computes\n"
      "             + what attention does not hide of gathers and reductions of experts\n"
      "  the rest   attention, forward and twice that backward; dense layers and shared experts "
      "if\n"
      "             the model has them. Embeddings, the head and the optimizer are left out\n"
      "  Loads are tokens per expert. Every device is the source of equally many tokens.\n"
      "\n"
      "Columns\n"
      "  over EP    time of an iteration under ep / under this policy; layers: MoE layers alone\n"
      "  max/mean   tokens of the fullest device / of the average device; mean and 95th "
      "percentile\n"
      "             (p95) over layers and iterations\n"
      "  compute, tokens, exposed   the three parts of the time of an iteration, over all layers\n"
      "  sent       bytes that all devices send, tokens and experts\n"
      "  NIC in     bytes into the busiest network interface (none within one node)\n"
      "  memory     the most memory that a device uses for experts: 16-bit parameters, 6 times as\n"
      "             much optimizer state, and replicas\n"
      "  solving, planning   with --time: how long this program took to solve a layer (for\n"
      "             baselines several solutions, of which the best is taken), and to schedule its\n"
      "             transfers; medians, one thread\n"
      "  owners     with --advise: owners of the experts of all layers, and of the matrices of\n"
      "             attention, shared experts and dense layers, each whole on one device. Shown "
      "is\n"
      "             the fullest device over the mean, by bytes (parameters and 6 times as much\n"
      "             optimizer state), by FLOP of an optimizer step that orthogonalizes matrices\n"
      "             (five steps of Newton and Schulz, as in Muon) and by load; blocks are the\n"
      "             owners before. Moving all bytes counts as a fair share of one device\n"
      "JSON has the same, in microseconds and bytes. If devices times experts is large, only some\n"
      "layers and iterations are simulated, and scaled up. The table and JSON say how many.\n"
      "\n"
      "Groups\n"
      "  With --groups G there are G such clusters, each with the whole model. Each device "
      "exchanges\n"
      "  with its counterparts in the other groups: for each expert that it owns the gradients, "
      "or\n"
      "  with --sync-every the parameters, as 32-bit numbers compressed by the method (bytes are\n"
      "  those of the library's compressors; for tagc the most: no two groups mark the same "
      "elements).\n"
      "  Gradients of a layer are sent as soon as their owners have them; backward passes of the\n"
      "  layers below hide that. Parameters are sent after the optimizer; whole iterations hide\n"
      "  that: those of --sync-delay for each of the --fragments, or a round with --outer co2.\n"
      "  Links between groups are separate from those inside. Encoding and decoding take no time;\n"
      "  dense parameters are left out.\n"
      "  The table has a line per policy, link and method. over full: gain over full gradients in\n"
      "  every iteration. over EP: gain over ep with the same method. sent: bytes of the device "
      "that\n"
      "  sends most. link: time of the busiest interface. exposed: the part of that which is not\n"
      "  hidden. inside: an iteration without the exchange.\n"
      "\n"
      "--dump writes an object per policy, iteration and layer: owners [expert], holders [expert]\n"
      "and routing, a list of [source, expert, destination, tokens].\n"
      "\n"
      "Examples\n"
      "  fssdp_sim --cluster a,b --devices 16,32 --model all --policy ep,fastermoe,flexmoe,hecate\n"
      "  fssdp_sim --trace loads.csv --devices 16 --objective balance --slots 2 --stale 10\n"
      "  fssdp_sim --cluster h100 --devices 4096 --model deepseek-v3 --experts 512 --time\n"
      "  fssdp_sim --cluster a --trace loads.csv --iters 101,501 --dump placements.jsonl\n"
      "  fssdp_sim --cluster b --trace loads.csv --advise\n"
      "  fssdp_sim --cluster h100 --devices 8 --groups 8 --between all --between-rate 1.25e9,5e10 "
      "--policy ours";
  return text;
}

}  // namespace sim::detail
