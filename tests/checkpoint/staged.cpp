// SPDX-License-Identifier: Apache-2.0
/// Memory of a device goes into the same files as the host's, and comes out of them, through two
/// buffers.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/checkpoint/load_checkpoint.hpp"
#include "fssdp/checkpoint/load_tensors.hpp"
#include "fssdp/checkpoint/save_checkpoint.hpp"
#include "fssdp/memory/staged_copies.hpp"
#include "support/late_staging.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/stored_instance.hpp"
#include "support/temporary_folder.hpp"

using fssdp::thread_communicator;

namespace {

constexpr auto mib = std::size_t{1} << 20U;

/// The bytes of all files of a step but the index, in the order of their names.
[[nodiscard]] std::vector<std::string> bytes_of_ranks(std::filesystem::path const& of_step) {
  auto files = std::vector<std::filesystem::path>{};
  for (auto const& entry : std::filesystem::directory_iterator{of_step})
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::ranges::sort(files);
  auto all = std::vector<std::string>{};
  for (auto const& file : files) all.push_back(support::bytes_of_file(file));
  return all;
}

/// A model, and what its ranks save through buffers.
struct staged_model {
  support::stored_model model;
  support::reversed_layout layout;

  /// @param by one staging for each rank; none: from memory of the host
  template <class Comm>
  void save(Comm& comm, std::filesystem::path const& folder, support::late_staging* by) const {
    auto weights = support::filled_shard<float>(model, layout, comm.rank(), 0);
    auto moments = support::filled_shard<fssdp::bf16>(model, layout, comm.rank(), 1);
    auto part = fssdp::saved_part{"experts", layout, comm.rank(), model.tensors};
    if (by != nullptr)
      part.add("weight", weights, *by).add("moment1", moments, *by);
    else
      part.add("weight", weights).add("moment1", moments);
    (void)fssdp::save_checkpoint(comm, std::span{&part, 1}, {.folder = folder, .step = 1});
  }
};

/// Loads other types through buffers of so many bytes.
[[nodiscard]] support::differences wrong_when_staged(thread_communicator& comm,
                                                     staged_model const& of,
                                                     std::filesystem::path const& folder,
                                                     std::size_t bytes) {
  auto by = support::late_staging{bytes};
  auto weights = fssdp::make_shard<double>(of.layout, comm.rank(), of.model.elements());
  auto moments = fssdp::make_shard<fssdp::bf16>(of.layout, comm.rank(), of.model.elements());
  auto part = fssdp::loaded_part{"experts", of.layout, comm.rank(), of.model.tensors};
  part.add("moment1", moments, by).add("weight", weights, by);
  auto reader = fssdp::checkpoint_reader{folder};
  fssdp::load_checkpoint(comm, reader, std::span{&part, 1});
  return support::wrong_elements(of.model, of.layout, comm.rank(), 0, weights) +
         support::wrong_elements(of.model, of.layout, comm.rank(), 1, moments);
}

[[nodiscard]] staged_model large_model() {
  return {{3, {{"w1", {700, 1000}}, {"b1", {1000}}}},  // 2.7 MiB
          {2, {fssdp::rank_id{0}, fssdp::rank_id{1}, fssdp::rank_id{0}}, 1}};
}

}  // namespace

TEST_CASE("saving through staging buffers writes the same bytes as saving from the host") {
  for (auto seed = std::uint64_t{1}; seed <= support::some_instances; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{seed + 100'000};
    auto const model = support::random_model(draw);
    auto const of = staged_model{model, model.random_layout(draw)};
    auto const folder = support::temporary_folder{};
    auto const bytes = mib + static_cast<std::size_t>(draw.between(0, 5'000'000));
    fssdp::thread_world{of.layout.ranks()}.run([&](thread_communicator& comm) {
      of.save(comm, folder.path() / "host", nullptr);
      auto by = support::late_staging{bytes};
      of.save(comm, folder.path() / "device", &by);
      if (by.most_under_way() > 2 * bytes) throw std::runtime_error{"more than two buffers"};
    });
    REQUIRE(bytes_of_ranks(folder.path() / "host" / "step_00000001") ==
            bytes_of_ranks(folder.path() / "device" / "step_00000001"));
    auto const other = staged_model{model, model.random_layout(draw)};
    auto const small = draw.chance(50) ? std::size_t{128} : bytes;  // less than a block, too
    auto const wrong = support::on_all_ranks(other.layout.ranks(), [&](thread_communicator& comm) {
      return wrong_when_staged(comm, other, folder.path() / "device", small);
    });
    REQUIRE(support::total(wrong) == 0);
  }
}

TEST_CASE("large tensors pass through two small buffers") {
  auto const of = large_model();
  auto const folder = support::temporary_folder{};
  auto const most = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto by = support::late_staging{mib};
    of.save(comm, folder.path() / "device", &by);
    of.save(comm, folder.path() / "host", nullptr);
    return std::vector{by.most_under_way(), by.copies()};
  });
  REQUIRE(most[0][0] == 2 * mib);        // one buffer is filled while the other one is written
  REQUIRE(most[0][1] >= 2 * 3 + 2 * 2);  // of two experts: 3 blocks, 2 in bf16
  REQUIRE(bytes_of_ranks(folder.path() / "host" / "step_00000001") ==
          bytes_of_ranks(folder.path() / "device" / "step_00000001"));
  auto const wrong = support::on_all_ranks(2, [&](thread_communicator& comm) {
    return wrong_when_staged(comm, of, folder.path() / "device", mib);
  });
  REQUIRE(support::total(wrong) == 0);
}

TEST_CASE(
    "a device that fails while a rank writes leaves no file of that rank, and no checkpoint") {
  auto const of = large_model();
  for (auto const n : {1, 2, 5}) {
    auto const folder = support::temporary_folder{};
    auto world = fssdp::thread_world{2};
    auto const save = [&](thread_communicator& comm) {
      auto by = support::late_staging{mib};
      if (comm.rank() == fssdp::rank_id{1}) by.fail_at(static_cast<std::size_t>(n));
      of.save(comm, folder.path(), &by);
    };
    REQUIRE_THROWS(world.run(save));
    auto left = 0;
    for (auto const& entry : std::filesystem::directory_iterator{folder.path() / "step_00000001"})
      left += entry.path().filename().string().starts_with("rank_1") ? 1 : 0;
    REQUIRE(left == 0);
    REQUIRE(fssdp::complete_steps(folder.path()).empty());
  }
}

TEST_CASE("buffers that are too small for a block are refused, and the call can be repeated") {
  auto const of = large_model();
  auto const folder = support::temporary_folder{};
  auto const refused = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto by = support::late_staging{mib - 1};
    try {
      of.save(comm, folder.path(), &by);
    } catch (fssdp::argument_error const& error) {
      return std::string{error.what()};
    } catch (fssdp::file_error const& error) {  // another rank was first
      return std::string{error.what()};
    }
    return std::string{};
  });
  REQUIRE_THAT(refused[0] + refused[1], mentions("device_staging: buffers of 1048575 bytes"));
  fssdp::thread_world{2}.run([&](thread_communicator& comm) {
    auto by = support::late_staging{mib};
    of.save(comm, folder.path(), &by);
  });
  REQUIRE(fssdp::complete_steps(folder.path()).size() == 1);
}

TEST_CASE("published tensors are loaded through staging buffers, too") {
  auto const of = large_model();
  auto const folder = support::temporary_folder{};
  fssdp::thread_world{2}.run(
      [&](thread_communicator& comm) { of.save(comm, folder.path(), nullptr); });
  auto const wrong = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto by = support::late_staging{mib / 3};
    auto weights = fssdp::make_shard<fssdp::fp16>(of.layout, comm.rank(), of.model.elements());
    auto part = fssdp::loaded_part{"experts", of.layout, comm.rank(), of.model.tensors};
    part.add("weight", weights, by);
    fssdp::load_tensors(comm, folder.path() / "step_00000001", part,
                        fssdp::tensor_pattern{"experts.{expert}.{tensor}.{group}"});
    return support::wrong_elements(of.model, of.layout, comm.rank(), 0, weights);
  });
  REQUIRE(support::total(wrong) == 0);
}
