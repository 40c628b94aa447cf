// SPDX-License-Identifier: Apache-2.0
// A run of moe_gpt that keeps moments, or all that ranks own, in files is the run that does not.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "catch.hpp"
#include "examples/small_training.hpp"
#include "fssdp/core/error.hpp"
#include "moe_gpt/train.hpp"
#include "support/temporary_folder.hpp"

namespace {

using moe_gpt::mode;
using moe_gpt::offload;
using moe_gpt::options;
using moe_gpt::run_record;

[[nodiscard]] std::vector<double> losses_of(run_record const& record) {
  auto losses = std::vector{record.heldout_loss};
  for (auto const& step : record.steps) losses.push_back(step.loss);
  return losses;
}

/// All that lies below a folder: by name, byte for byte.
[[nodiscard]] std::map<std::string, std::string> files_below(std::filesystem::path const& folder) {
  auto all = std::map<std::string, std::string>{};
  for (auto const& entry : std::filesystem::recursive_directory_iterator{folder})
    if (entry.is_regular_file())
      all[std::filesystem::relative(entry.path(), folder).string()] =
          support::bytes_of_file(entry.path());
  return all;
}

}  // namespace

TEST_CASE("moments, or all, in files: the losses and the saved bits of a run in memory") {
  struct variation {
    char const* name;
    void (*change)(options&);
  };
  for (auto const& [name, change] : {
           variation{"fssdp", [](options&) {}},
           variation{"fsep, in bf16, rematerialized, in micro-batches",
                     [](options& o) {
                       o.mode = mode::fsep;
                       o.wire = moe_gpt::wire::bf16;
                       o.rematerialize = true;
                       o.micro_batches = 3;
                     }},
           variation{"owners that change, balanced routing, calibrated, 2 nodes",
                     [](options& o) {
                       o.nodes = 2;
                       o.reshard_every = 4;
                       o.solver = moe_gpt::solver::cheapest;
                       o.routing = fssdp::routing_rule::balanced;
                       o.calibrate = true;
                     }},
           variation{"fsdp on 3 ranks, without overlap",
                     [](options& o) {
                       o.mode = mode::fsdp;
                       o.ranks = 3;
                       o.no_overlap = true;
                     }},
       }) {
    CAPTURE(name);
    auto const saved = support::temporary_folder{};
    auto chosen = small_training::settings(20, 3);
    change(chosen);
    chosen.save = saved.path();
    chosen.save_every = 10;
    auto const in_memory = small_training::train(chosen);
    REQUIRE(in_memory.offloaded_bytes == 0);
    REQUIRE(in_memory.steps.back().loss < 0.95 * in_memory.steps.front().loss);
    auto moved = std::uint64_t{0};
    for (auto const& step : in_memory.steps) moved += step.moved_bytes;
    REQUIRE((moved > 0) == (chosen.reshard_every > 0));

    auto const folder = support::temporary_folder{};
    chosen.offload_folder = folder.path();
    auto bytes = std::vector<std::uint64_t>{};
    for (auto const what : {offload::moments, offload::all}) {
      CAPTURE(name_of(what));
      auto const saved_again = support::temporary_folder{};
      chosen.save = saved_again.path();
      chosen.offload = what;
      auto const offloaded = small_training::train(chosen);
      REQUIRE(losses_of(offloaded) == losses_of(in_memory));
      REQUIRE(offloaded.sample.continuation == in_memory.sample.continuation);
      auto const files = files_below(saved_again.path());
      REQUIRE(files.contains("checkpoint.lock"));
      REQUIRE(files.size() == 1 + 2 * (static_cast<std::size_t>(chosen.ranks) + 1));
      REQUIRE(files == files_below(saved.path()));
      REQUIRE(std::filesystem::is_empty(folder.path()));
      bytes.push_back(offloaded.offloaded_bytes);
    }
    REQUIRE(bytes[0] >= 2 * in_memory.parameters * sizeof(float));
    REQUIRE(bytes[1] == 2 * bytes[0]);  // with parameters and gradients
  }
}

TEST_CASE("a run that began in memory goes on in files, bit for bit") {
  auto const saved = support::temporary_folder{};
  auto chosen = small_training::settings(20, 3);
  chosen.reshard_every = 6;
  chosen.save = saved.path();
  chosen.save_every = 10;
  auto const whole = losses_of(small_training::train(chosen));
  chosen.resume = saved.path() / "step_00000010";
  chosen.save.clear();
  chosen.save_every = 0;
  chosen.offload = offload::all;  // into the system's folder for temporary files
  auto rest = losses_of(small_training::train(chosen));
  REQUIRE(rest.size() == 11);
  REQUIRE(rest.front() == whole.front());
  REQUIRE(std::vector(rest.begin() + 1, rest.end()) == std::vector(whole.end() - 10, whole.end()));
}

TEST_CASE("a folder that was removed is named by the rank that needs it") {
  auto chosen = small_training::settings(20, 3);
  chosen.offload = offload::moments;
  chosen.offload_folder = std::filesystem::path{"no"} / "such" / "folder";
  REQUIRE_THROWS_AS(small_training::train(chosen), fssdp::file_error);
  REQUIRE_THROWS_WITH(small_training::train(chosen), mentions("no/such/folder: is not a folder"));
}
