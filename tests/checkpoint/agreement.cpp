// SPDX-License-Identifier: Apache-2.0
/// What ranks must agree on when they save and load, and what is removed after a save.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/checkpoint/load_checkpoint.hpp"
#include "fssdp/checkpoint/save_checkpoint.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "support/on_all_ranks.hpp"
#include "support/temporary_folder.hpp"

using fssdp::thread_communicator;

namespace {

fssdp::block_layout two_each() { return fssdp::block_layout{{.experts = 4, .ranks = 2}}; }

/// A part of weights that are all the same.
template <class Part>
Part part_of(fssdp::expert_buffer<float>& weights, fssdp::rank_id rank,
             std::string const& name = "experts", std::string const& pattern = "{expert}.{group}") {
  auto part = Part{name, two_each(), rank, {{"w", {8}}}, fssdp::tensor_pattern{pattern}};
  part.add("weight", weights);
  return part;
}

void save_ones(std::filesystem::path const& folder, std::uint64_t step, int keep = 0) {
  fssdp::thread_world{2}.run([&](thread_communicator& comm) {
    auto weights = fssdp::make_shard<float>(two_each(), comm.rank(), 8);
    auto const part = part_of<fssdp::saved_part>(weights, comm.rank());
    (void)fssdp::save_checkpoint(comm, std::span{&part, 1},
                                 {.folder = folder, .step = step, .keep = keep});
  });
}

}  // namespace

TEST_CASE("ranks that have opened different checkpoints get an error before they read") {
  auto const folder = support::temporary_folder{};
  for (auto const step : {1U, 2U}) save_ones(folder.path(), step);
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto weights = fssdp::make_shard<float>(two_each(), comm.rank(), 8);
    auto const part = part_of<fssdp::loaded_part>(weights, comm.rank());
    auto reader = fssdp::checkpoint_reader{
        fssdp::step_folder(folder.path(), comm.rank() == fssdp::rank_id{1} ? 1 : 2)};
    fssdp::load_checkpoint(comm, reader, std::span{&part, 1});
  });
  for (auto const& thrown : result.of_rank) {
    REQUIRE(support::is<fssdp::ranks_disagree>(thrown));
    REQUIRE_THAT(support::text(thrown), mentions("rank 1 has opened another checkpoint"));
  }
}

TEST_CASE(
    "parts of one name, and a save without a folder, are refused before anything is written") {
  auto const folder = support::temporary_folder{};
  auto world = fssdp::thread_world{2};
  auto const save = [&](std::filesystem::path const& into, std::string const& second) {
    return support::fallout_of(world, [&](thread_communicator& comm) {
      auto weights = fssdp::make_shard<float>(two_each(), comm.rank(), 8);
      auto const parts =
          std::vector{part_of<fssdp::saved_part>(weights, comm.rank()),
                      part_of<fssdp::saved_part>(weights, comm.rank(), second, "b.{expert}")};
      (void)fssdp::save_checkpoint(comm, std::span{parts}, {.folder = into});
    });
  };
  for (auto const& thrown : save(folder.path(), "experts").of_rank) {
    REQUIRE(support::is<fssdp::argument_error>(thrown));
    REQUIRE_THAT(support::text(thrown), mentions("two parts have the name 'experts'"));
  }
  REQUIRE(std::filesystem::is_empty(folder.path()));
  for (auto const& thrown : save("", "others").of_rank)
    REQUIRE_THAT(support::text(thrown), mentions("no folder is given"));
  for (auto const& thrown : save(folder.path(), "others").of_rank) REQUIRE(thrown == nullptr);
}

TEST_CASE("old steps are removed when there are too many, incomplete ones too") {
  auto const folder = support::temporary_folder{};
  save_ones(folder.path(), 1);
  std::filesystem::create_directory(folder.path() / "step_00000002");  // a save that has failed
  std::filesystem::create_directory(folder.path() / "step_00000009");  // one under way
  save_ones(folder.path(), 3, 2);
  REQUIRE(fssdp::complete_steps(folder.path()) == std::vector<std::uint64_t>{1, 3});
  REQUIRE(std::filesystem::exists(folder.path() / "step_00000002"));
  save_ones(folder.path(), 4, 2);
  REQUIRE(fssdp::complete_steps(folder.path()) == std::vector<std::uint64_t>{3, 4});
  REQUIRE(!std::filesystem::exists(folder.path() / "step_00000001"));
  REQUIRE(!std::filesystem::exists(folder.path() / "step_00000002"));
  REQUIRE(std::filesystem::exists(folder.path() / "step_00000009"));
}
