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
    "Simulates training iterations of Mixture-of-Experts models: which device computes with which\n"
    "experts under a policy, how long the slowest takes, and what moving experts adds to that.\n"
    "Nothing is trained and nothing is sent.";

/// What --between names, for every program that has groups.
[[nodiscard]] inline std::string about_methods() {
  auto names = std::string{between::names_of_methods};
  names.insert(names.find("terngrad"), "\n  ");
  auto usual = std::string{};
  for (auto const& of : between::methods)
    if (of.number > 0) usual += (usual.empty() ? "" : ", ") + between::text_of(of);
  return "Methods, between groups\n  " + names +
         "\n"
         "  KEPT: coefficients of 64, or of 64 x 64; N: of N elements one; RANK: columns; BITS: 1, "
         "2, 4\n"
         "  or 8. Without a number:\n  " +
         usual + "\n";
}

[[nodiscard]] inline std::string footer() {
  auto text = std::string{"Policies\n"};
  for (auto const& one : policies) text += fmt::format("  {:<26} {}\n", one.name, one.about);
  text +=
      "  Baselines get their idealized best: what they move between iterations costs nothing, "
      "they\n"
      "  see the real counts where they choose (fastermoe, smartmoe, flexmoe; eplb and fsep "
      "among\n"
      "  places and routings), and everybody has the same slots and windows. eplb and fsep have\n"
      "  places for E / D experts, rounded up, and the slots on every device; hecate-rm gathers\n"
      "  again behind the backward window, without contention.\n"
      "\nClusters, a direction of each port counted\n";
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
      "  a and b are the clusters of the Hecate paper, with up to 32 devices; others have up to "
      "4096.\n"
      "\nModels\n";
  for (auto const& one : models)
    text +=
        fmt::format("  {:<15} {:>2} MoE layers, {:>3} experts ({} x {} x {}), top-{}\n", one.name,
                    one.layers, one.experts, one.matrices, one.d_model, one.d_ffn, one.top_k);
  text +=
      "  The paper's four have 32 experts on up to 16 devices. A trace brings its own layers and\n"
      "  experts. All devices are one group, unless --groups says otherwise: no tensor or "
      "pipeline\n"
      "  parallelism beside it.\n\n" +
      about_methods() +
      "\n"
      "Time of an iteration\n"
      "  layer      3 x computation of the fullest device + 4 x the port with most tokens, less\n"
      "             what devices with fewer rows send back while it computes\n"
      "             + what attention does not hide of gathers and reductions of experts\n"
      "  the rest   attention, forward and twice that backward; dense layers and shared experts\n"
      "             where a model has them. Embeddings, the head and the optimizer are left out\n"
      "  Loads are tokens per expert; every device is the source of equally many.\n"
      "\n"
      "Columns\n"
      "  over EP    time of an iteration under ep / under this policy; layers: of MoE layers "
      "alone\n"
      "  max/mean   tokens of the fullest device / of the average one, of layers and iterations;\n"
      "             the mean of all, and the 95th percentile (p95)\n"
      "  compute, tokens, exposed   the three parts of all layers' times, in an iteration\n"
      "  sent       bytes that all devices send, tokens and experts\n"
      "  NIC in     bytes that come into the busiest network interface (none within one node)\n"
      "  memory     of the device that has most, for experts: 16-bit parameters, 6 times as much\n"
      "             of optimizer state, and replicas\n"
      "  solving, planning   with --time: what it took here to find the answers of a layer (the\n"
      "             baselines' several, of which the best is taken), and to schedule its "
      "transfers\n"
      "             over all ports; medians, one thread\n"
      "  owners     with --advise: of experts of all layers, and of the matrices of attention, "
      "shared\n"
      "             experts and dense layers, each whole on one device: what the fullest has of "
      "bytes\n"
      "             (parameters and 6 times as much of optimizer state), of FLOP of a step that\n"
      "             orthogonalizes matrices (five steps of Newton and Schulz, as Muon has it) and "
      "of\n"
      "             load, over the mean. Blocks are what it was before; to move all bytes is worth "
      "as\n"
      "             much as a fair share of one device\n"
      "JSON has the same, in microseconds and bytes. Where devices times experts are many, some\n"
      "layers and iterations are simulated and scaled; the table and JSON say how many.\n"
      "\n"
      "Groups\n"
      "  With --groups G there are G clusters as named, each with the whole model in it; nothing "
      "but\n"
      "  what --between says crosses, from every device to its counterparts in the other groups: "
      "of\n"
      "  each expert that it owns gradients or parameters, as 32-bit numbers that the method "
      "makes\n"
      "  smaller (bytes by the library's compressors; of tagc for groups that agree in nothing). A "
      "layer crosses "
      "as\n"
      "  soon as its gradients are with their owners, and the backward passes of those below hide "
      "it;\n"
      "  parameters (--sync-every) cross behind the optimizer, and what hides them is whole "
      "iterations:\n"
      "  those of --sync-delay for each of the --fragments, a round of them with --outer co2. "
      "Wires "
      "are\n"
      "  others than those inside; encoding and decoding take no time; dense parameters are left "
      "out.\n"
      "  A line per policy, wire and method: over full is over full gradients in every iteration, "
      "over\n"
      "  EP over ep with the same method; sent is what the device sends that sends most, link how "
      "long\n"
      "  the busiest interface takes, exposed what is not hidden of it, inside an iteration "
      "without "
      "it.\n"
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
