// SPDX-License-Identifier: Apache-2.0
/// What can be chosen on the command line.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "between/method.hpp"
#include "fssdp/routing/routing_rule.hpp"
#include "model_shape.hpp"
#include "run_phase.hpp"

namespace moe_gpt {

/// The dial: nothing is replicated, what is loaded most is, or everything is. In fsep the owners
/// have slices of all experts.
enum class mode { ep, fssdp, fsep, fsdp };

/// The element type in which parameters and gradients travel.
enum class wire { fp32, bf16, fp16 };

/// What chooses replicas: the paper's Algorithm 1, or what the library has found to cost least.
enum class solver { paper, cheapest };

/// What loads are expected from: the mean of the last five steps, or one that newer steps weigh
/// more in.
enum class prediction { mean, average };

/// What a rank keeps in files: nothing, the moments of AdamW, or all that it owns.
enum class offload { none, moments, all };

/// What becomes of the average of what groups have learned by themselves.
enum class outer { average, diloco, co2 };

/// What ranks are: threads of one process, or processes that mpirun has started.
enum class backend { thread, mpi };

/// More would be a mistake, and their sizes might not fit into numbers.
inline constexpr int most_layers = 4096;

/// Of ranks and nodes, where they are processes: as there are.
inline constexpr int any_number = 0;

struct options {
  moe_gpt::backend backend = moe_gpt::backend::thread;
  std::vector<std::filesystem::path> text = {};  ///< none: the sources of fssdp
  int ranks = 4;
  int nodes = 1;
  int experts = 16;
  int layers = 4;
  int d_model = 128;
  int heads = 4;
  int seq = 64;
  int batch = 32;  ///< sequences per step over all ranks
  int steps = 200;
  double lr = 3e-3;
  double aux_loss = 0;
  moe_gpt::mode mode = moe_gpt::mode::fssdp;
  moe_gpt::wire wire = moe_gpt::wire::fp32;
  moe_gpt::solver solver = moe_gpt::solver::paper;
  moe_gpt::prediction predict = moe_gpt::prediction::mean;
  fssdp::routing_rule routing = fssdp::routing_rule::even;
  int spare_slots = 3;
  int overlap = 6;
  int reshard_every = 0;  ///< 0: never
  int micro_batches = 1;  ///< per step
  bool rematerialize = false;
  int prefetch = 1;        ///< layers gathered ahead
  int replica_slots = -1;  ///< of the pool; -1: as many as may be needed
  bool calibrate = false;
  double seconds_per_row = 1e-5;  ///< what is moved is weighed against that
  bool no_overlap = false;
  bool plan_ahead = false;
  bool share_plans = false;
  double load_tolerance = 0;  ///< a share of tokens
  moe_gpt::offload offload = moe_gpt::offload::none;
  std::filesystem::path offload_folder = {};  ///< empty: the system's for temporary files
  int groups = 1;                ///< of ranks: each has the whole model, sharded inside
  int group = 0;                 ///< which of them this rank is in: not an option
  std::string between = "full";  ///< what crosses between groups
  int sync_every = 0;            ///< steps between averages of parameters; 0: average gradients
  double sync_alpha = 0;         ///< more steps as the learning rate falls; 0: not
  moe_gpt::outer outer = moe_gpt::outer::average;
  double outer_rate = 0.7;      ///< of DiLoCo
  double outer_momentum = 0.9;  ///< of DiLoCo; short rounds want less
  int fragments = 1;            ///< of the layers, which cross in turn
  int sync_delay = 0;           ///< steps from sending to applying
  double sync_mix = 0;          ///< the share of its own parameters that a group keeps then
  int between_start = 0;        ///< steps in which gradients are sent in full, before `between`
  int adapt_every = 0;          ///< steps between two choices of compressors; 0: never
  double deadline = 600;        ///< seconds that a rank may be awaited
  double rate = 0;              ///< bytes per second of a network interface; 0: as fast as memory
  std::uint64_t seed = 1;
  std::filesystem::path save = {};  ///< where checkpoints go; empty: there are none
  int save_every = 0;               ///< steps; 0: only after the last one
  int keep = 0;                     ///< how many of them stay; 0: all
  std::filesystem::path resume = {};
  int mirror_every = 0;            ///< steps; 0: a rank that is lost takes the run with it
  std::vector<lost_at> lose = {};  ///< ranks that stop for good, as a test
  int held_out = 256;              ///< sequences on which the loss of the trained model is measured
  int sample = 240;                ///< bytes that the model writes when it is trained
  std::filesystem::path json = {};
  std::filesystem::path trace = {};
  bool quiet = false;
};

[[nodiscard]] constexpr std::string_view name_of(backend which) {
  return which == backend::mpi ? "mpi" : "thread";
}
[[nodiscard]] constexpr std::string_view name_of(mode which) {
  switch (which) {
    case mode::ep:
      return "ep";
    case mode::fsdp:
      return "fsdp";
    case mode::fsep:
      return "fsep";
    case mode::fssdp:
      break;
  }
  return "fssdp";
}
[[nodiscard]] constexpr std::string_view name_of(wire which) {
  switch (which) {
    case wire::bf16:
      return "bf16";
    case wire::fp16:
      return "fp16";
    case wire::fp32:
      break;
  }
  return "fp32";
}

[[nodiscard]] constexpr std::string_view name_of(solver which) {
  return which == solver::cheapest ? "cheapest" : "paper";
}
[[nodiscard]] constexpr std::string_view name_of(prediction which) {
  return which == prediction::average ? "average" : "mean";
}
[[nodiscard]] constexpr std::string_view name_of(offload which) {
  switch (which) {
    case offload::moments:
      return "moments";
    case offload::all:
      return "all";
    case offload::none:
      break;
  }
  return "none";
}
[[nodiscard]] constexpr std::string_view name_of(outer which) {
  switch (which) {
    case outer::diloco:
      return "diloco";
    case outer::co2:
      return "co2";
    case outer::average:
      break;
  }
  return "average";
}
[[nodiscard]] constexpr std::string_view name_of(fssdp::routing_rule which) {
  return which == fssdp::routing_rule::balanced ? "balanced" : "even";
}

[[nodiscard]] inline model_shape shape_of(options const& chosen) {
  auto const size = [](int n) { return static_cast<std::size_t>(n); };
  return {.layers = size(chosen.layers),
          .d_model = size(chosen.d_model),
          .heads = size(chosen.heads),
          .seq = size(chosen.seq),
          .experts = size(chosen.experts)};
}

[[nodiscard]] inline std::chrono::milliseconds deadline_of(options const& chosen) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(chosen.deadline * 1000)};
}

/// Where a group keeps its checkpoints, in the folder of --save.
[[nodiscard]] inline std::filesystem::path folder_of_group(int group) {
  return "group_" + std::to_string(group);
}

/// Refuses a file whose directory is not there: better now than after the training.
inline void require_directory_of(std::filesystem::path const& file,
                                 std::string const& option = "--json") {
  auto const directory = file.has_parent_path() ? file.parent_path() : ".";
  if (!std::filesystem::is_directory(directory))
    throw std::invalid_argument{option + " " + file.string() + ": there is no directory " +
                                directory.string()};
  if (std::filesystem::is_directory(file))
    throw std::invalid_argument{option + " " + file.string() + " is a directory; expected a file"};
}

/// @throws std::invalid_argument that names the option, its value and what was expected
inline void validate(options const& chosen) {
  auto const require = [](bool holds, std::string const& what) {
    if (!holds) throw std::invalid_argument{what};
  };
  auto const at_least = [&](char const* name, int value, int least) {
    require(value >= least, std::string{name} + " " + std::to_string(value) + ": expected " +
                                std::to_string(least) + " or more");
  };
  auto const within = [&](char const* name, int value, int least, int most) {
    at_least(name, value, least);
    require(value <= most, std::string{name} + " " + std::to_string(value) + ": expected at most " +
                               std::to_string(most));
  };
  auto const fewest = chosen.backend == backend::mpi ? any_number : 1;
  within("--ranks", chosen.ranks, fewest, 4096);
  at_least("--nodes", chosen.nodes, fewest);
  within("--experts", chosen.experts, static_cast<int>(model_shape{}.top_k), 1 << 16);
  within("--layers", chosen.layers, 1, most_layers);
  within("--d-model", chosen.d_model, 1, 1 << 16);
  at_least("--heads", chosen.heads, 1);
  within("--seq", chosen.seq, 1, 1 << 16);
  within("--batch", chosen.batch, 1, 1 << 20);
  at_least("--steps", chosen.steps, 1);
  at_least("--spare-slots", chosen.spare_slots, 0);
  at_least("--overlap", chosen.overlap, 0);
  at_least("--reshard-every", chosen.reshard_every, 0);
  at_least("--save-every", chosen.save_every, 0);
  at_least("--keep", chosen.keep, 0);
  at_least("--held-out", chosen.held_out, 1);
  at_least("--sample", chosen.sample, 0);
  at_least("--micro-batches", chosen.micro_batches, 1);
  within("--prefetch", chosen.prefetch, 0, most_layers);
  at_least("--replica-slots", chosen.replica_slots, -1);
  require(chosen.micro_batches <= chosen.batch,
          "--micro-batches " + std::to_string(chosen.micro_batches) +
              ": expected at most --batch, " + std::to_string(chosen.batch) +
              ", because each has a sequence");
  require(chosen.seconds_per_row >= 0,
          "--seconds-per-row " + std::to_string(chosen.seconds_per_row) + ": expected 0 or more");
  require(!chosen.share_plans || chosen.plan_ahead, "--share-plans: expected --plan-ahead with it");
  require(chosen.load_tolerance >= 0 && chosen.load_tolerance <= 1,
          "--load-tolerance " + std::to_string(chosen.load_tolerance) + ": expected 0 to 1");
  require(chosen.rate >= 0, "--rate " + std::to_string(chosen.rate) + ": expected 0 or more");
  require(chosen.deadline >= 0.001 && chosen.deadline <= 1e6,
          "--deadline " + std::to_string(chosen.deadline) + ": expected 0.001 to 1000000");
  require(chosen.rate == 0 || chosen.backend == backend::thread,
          "--rate " + std::to_string(chosen.rate) + ": expected 0 with --backend mpi");
  require(chosen.reshard_every == 0 || chosen.mode != mode::fsep,
          "--reshard-every " + std::to_string(chosen.reshard_every) +
              ": expected 0 with --mode fsep, where every rank owns slices of all experts");
  within("--groups", chosen.groups, 1, 4096);
  require(chosen.ranks % chosen.groups == 0 && chosen.batch % chosen.groups == 0,
          "--groups " + std::to_string(chosen.groups) + ": expected a divisor of --ranks " +
              std::to_string(chosen.ranks) + " and --batch " + std::to_string(chosen.batch));
  require(chosen.nodes <= 1 || chosen.nodes % chosen.groups == 0,
          "--groups " + std::to_string(chosen.groups) + ": expected a divisor of --nodes " +
              std::to_string(chosen.nodes));
  at_least("--sync-every", chosen.sync_every, 0);
  require(chosen.sync_alpha >= 0 && (chosen.sync_alpha == 0 || chosen.sync_every > 0),
          "--sync-alpha " + std::to_string(chosen.sync_alpha) +
              ": expected 0 or more, and --sync-every with it");
  auto const rounds = static_cast<long>(chosen.sync_every);
  require(chosen.outer == outer::average || rounds > 0,
          "--outer " + std::string{name_of(chosen.outer)} + ": expected --sync-every with it");
  require(
      chosen.outer_rate > 0 && chosen.outer_rate <= 2,
      "--outer-rate " + std::to_string(chosen.outer_rate) + ": expected more than 0, at most 2");
  require(chosen.outer_momentum >= 0 && chosen.outer_momentum < 1,
          "--outer-momentum " + std::to_string(chosen.outer_momentum) +
              ": expected 0 or more, less than 1");
  within("--fragments", chosen.fragments, 1, chosen.layers);
  require(chosen.fragments == 1 || (rounds > 0 && rounds % chosen.fragments == 0 &&
                                    chosen.outer != outer::co2 && chosen.sync_alpha == 0),
          "--fragments " + std::to_string(chosen.fragments) +
              ": expected a divisor of --sync-every, without --sync-alpha and --outer co2");
  at_least("--sync-delay", chosen.sync_delay, 0);
  require(chosen.sync_delay == 0 || (chosen.sync_delay < rounds / chosen.fragments &&
                                     chosen.outer != outer::co2 && chosen.sync_alpha == 0),
          "--sync-delay " + std::to_string(chosen.sync_delay) +
              ": expected less than the steps between two fragments, without --sync-alpha and "
              "--outer co2");
  require(chosen.sync_mix >= 0 && chosen.sync_mix < 1 &&
              (chosen.sync_mix == 0 || chosen.sync_delay > 0),
          "--sync-mix " + std::to_string(chosen.sync_mix) +
              ": expected 0 or more, less than 1, and --sync-delay with it");
  at_least("--adapt-every", chosen.adapt_every, 0);
  at_least("--between-start", chosen.between_start, 0);
  require(chosen.between_start == 0 || rounds == 0, "--between-start " +
                                                        std::to_string(chosen.between_start) +
                                                        ": expected no --sync-every with it");
  auto const method = between::method_of(chosen.between).name;
  require(chosen.adapt_every == 0 || (rounds == 0 && (method == "powersgd" || method == "demo")),
          "--adapt-every " + std::to_string(chosen.adapt_every) +
              ": expected --between powersgd or demo with it, without --sync-every");
  require(chosen.save_every == 0 || !chosen.save.empty(),
          "--save-every " + std::to_string(chosen.save_every) + ": expected --save with it");
  require(chosen.keep == 0 || !chosen.save.empty(),
          "--keep " + std::to_string(chosen.keep) + ": expected --save with it");
  require(chosen.lr > 0, "--lr " + std::to_string(chosen.lr) + ": expected more than 0");
  require(chosen.aux_loss >= 0,
          "--aux-loss " + std::to_string(chosen.aux_loss) + ": expected 0 or more");
  require(chosen.nodes <= chosen.ranks || chosen.ranks == any_number,
          "--nodes " + std::to_string(chosen.nodes) + ": expected at most --ranks, " +
              std::to_string(chosen.ranks) + ", because every node has a rank");
  require(chosen.d_model % chosen.heads == 0, "--d-model " + std::to_string(chosen.d_model) +
                                                  ": expected a multiple of --heads, " +
                                                  std::to_string(chosen.heads));
  auto const size = [](int n) { return static_cast<double>(n); };
  auto const of_experts =  // parameters: two matrices each, where d_ff is twice d_model
      4 * size(chosen.d_model) * size(chosen.d_model) * size(chosen.experts) * size(chosen.layers);
  require(of_experts <= 1e12, "--d-model " + std::to_string(chosen.d_model) + ", --experts " +
                                  std::to_string(chosen.experts) + " and --layers " +
                                  std::to_string(chosen.layers) +
                                  ": expected sizes that make at most 10^12 parameters");
  auto const of_attention =
      size(chosen.batch) * size(chosen.heads) * size(chosen.seq) * size(chosen.seq);
  require(of_attention <= 1e12, "--batch " + std::to_string(chosen.batch) + ", --heads " +
                                    std::to_string(chosen.heads) + " and --seq " +
                                    std::to_string(chosen.seq) +
                                    ": expected sizes that make at most 10^12 numbers in the "
                                    "attention of a layer, which has batch * heads * seq * seq");
  at_least("--mirror-every", chosen.mirror_every, 0);
  require(chosen.mirror_every == 0 || chosen.groups == 1,
          "--mirror-every " + std::to_string(chosen.mirror_every) +
              ": expected no --groups with it, where each group has the whole model");
  require(
      chosen.mirror_every == 0 || chosen.trace.empty(),
      "--mirror-every " + std::to_string(chosen.mirror_every) + ": expected no --trace with it");
  for (auto const& [rank, step, phase] : chosen.lose) {
    auto const what = "--lose " + std::to_string(rank) + "@" + std::to_string(step) + ":" +
                      std::string{name_of(phase)};
    require(chosen.mirror_every > 0, what + ": expected --mirror-every with it");
    require(rank >= 0 && (rank < chosen.ranks || chosen.ranks == any_number),
            what + ": expected a rank from 0 to " + std::to_string(chosen.ranks - 1));
    require(step >= 1 && step <= chosen.steps,
            what + ": expected a step from 1 to " + std::to_string(chosen.steps));
    require(phase != run_phase::mirror || step % chosen.mirror_every == 0,
            what + ": expected a step after which is mirrored, a multiple of " +
                std::to_string(chosen.mirror_every));
    require(phase != run_phase::reshard ||
                (chosen.reshard_every > 0 && step > 1 && (step - 1) % chosen.reshard_every == 0),
            what + ": expected --reshard-every, and a step that begins with it");
  }
  auto const& folder = chosen.offload_folder;
  require(folder.empty() || chosen.offload != offload::none,
          "--offload-folder " + folder.string() + ": expected --offload moments or all with it");
  require(folder.empty() || std::filesystem::is_directory(folder),
          "--offload-folder " + folder.string() + ": there is no such folder");
  if (!chosen.json.empty()) require_directory_of(chosen.json);
  if (!chosen.trace.empty()) require_directory_of(chosen.trace, "--trace");
}

}  // namespace moe_gpt
