// SPDX-License-Identifier: Apache-2.0
/// The program of the README of include/fssdp/recovery: it stands here between two marks, and runs.
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/recovery/mirrored_shard.hpp"
#include "fssdp/recovery/recover.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::rank_id;

namespace {

/// The lines between two marks of a file, without what they are indented by.
[[nodiscard]] std::vector<std::string> lines_between(std::filesystem::path const& path,
                                                     std::string const& first,
                                                     std::string const& last) {
  auto const tests = std::filesystem::path{__FILE__}.parent_path().parent_path().parent_path();
  auto file = std::ifstream{tests.parent_path() / path};
  auto lines = std::vector<std::string>{};
  auto is_between = false;
  for (auto line = std::string{}; std::getline(file, line);) {
    auto const begin = line.find_first_not_of(' ');
    auto const text = begin == std::string::npos ? std::string{} : line.substr(begin);
    if (is_between && text == last) return lines;
    if (is_between) lines.push_back(text);
    if (text == first) is_between = true;
  }
  return {};
}

/// What is left at the end of the program: the ranks, and how many values are wrong.
struct outcome {
  std::size_t ranks = 0;
  int wrong = 0;
};

/// Rank `unlucky` is lost after some steps.
[[nodiscard]] outcome train(fssdp::thread_communicator& comm, fssdp::table_layout layout,
                            fssdp::topology const& machine, rank_id unlucky, std::uint64_t steps) {
  auto const me = comm.rank();
  auto weights = fssdp::make_shard<float>(layout, me, 10);
  auto moments = fssdp::make_shard<float>(layout, me, 10);
  auto owned = me;  // the rank as the layout numbers it
  auto const forward_and_backward = [&](fssdp::thread_communicator& all,
                                        fssdp::table_layout const&) {
    owned = all.rank();
    if (me == unlucky && moments.tensors()[0][0][0] >= 400) throw fssdp::error{"lost"};
    (void)fssdp::all_reduce(all, std::array{1L});
  };
  auto const optimizer = [&](std::uint64_t step) {
    for (std::size_t slot = 0; auto const chunk : layout.owned(owned)) {
      for (auto& weight : weights.tensors()[0][slot])
        weight += static_cast<float>(1 + 100 * (step == 1 ? chunk.expert.value() : 0));
      for (auto& moment : moments.tensors()[0][slot])
        moment = static_cast<float>(step * 100) + static_cast<float>(chunk.expert.value());
      ++slot;
    }
  };
  // [guide]
  auto left = fssdp::survivors{comm};
  auto mirror = fssdp::mirrored_shard{layout, fssdp::mirror_partners{machine}, comm.rank(),
                                      fssdp::bytes_of(weights, moments)};
  auto step = std::uint64_t{0};
  for (auto is_lost = false; step < steps;) {
    auto own = left.comm().duplicate();  // for mirrors, while training goes on
    auto stream = fssdp::host_stream{};
    auto behind = fssdp::on_stream(own, stream);
    try {
      if (is_lost) mirror.write(behind, step, fssdp::bytes_of(weights, moments));
      while (step < steps) {
        forward_and_backward(left.comm(), layout);
        mirror.finish(behind);  // before parameters change
        optimizer(++step);
        mirror.write(behind, step, fssdp::bytes_of(weights, moments));
      }
      mirror.finish(behind);
    } catch (fssdp::transport_error const&) {
      try {
        mirror.finish(behind);
      } catch (fssdp::error const&) {  // the mirror knows how far it has come
      }
      auto const room = [&](fssdp::table_layout const& to, rank_id rank) {
        for (auto* memory : {&weights, &moments}) memory->resize(to.owned(rank).size());
        return fssdp::bytes_of(weights, moments);
      };
      auto const now = fssdp::recover(left, mirror, fssdp::even_owners{}, room, machine);
      layout = now.layout;
      step = now.step;
      auto const partners = fssdp::mirror_partners{fssdp::topology_of(machine, left.ranks())};
      mirror.renew(layout, partners, left.comm().rank(), fssdp::bytes_of(weights, moments),
                   left.ranks());
      is_lost = true;
    }
  }
  // [end of guide]
  auto result = outcome{left.ranks().size(), 0};
  for (std::size_t slot = 0; auto const chunk : layout.owned(left.comm().rank())) {
    auto const expert = static_cast<float>(chunk.expert.value());
    for (auto const weight : weights.tensors()[0][slot])
      result.wrong += weight == static_cast<float>(steps) + 100 * expert ? 0 : 1;
    for (auto const moment : moments.tensors()[0][slot])
      result.wrong += moment == static_cast<float>(steps * 100) + expert ? 0 : 1;
    ++slot;
  }
  return result;
}

}  // namespace

TEST_CASE("the program of the README of recovery is the one that is tested here") {
  auto const here =
      lines_between("tests/recovery/threads/guide.cpp", "// [guide]", "// [end of guide]");
  REQUIRE(here.size() > 10);
  CHECK(here == lines_between("include/fssdp/recovery/README.md", "```cpp", "```"));
}

TEST_CASE("the program of the README trains to the end, whoever is lost") {
  auto owners = std::vector<rank_id>{};
  for (int expert = 0; expert < 8; ++expert) owners.emplace_back(expert % 4);
  auto const layout = fssdp::table_layout{{.ranks = 4}, owners};
  auto const machine = fssdp::topology{{.nodes = 2, .ranks = 4}};
  for (auto const unlucky : {-1, 0, 1, 2, 3}) {
    CAPTURE(unlucky);
    auto all = std::vector<outcome>(4);
    auto world = fssdp::thread_world{4};
    world.run([&](fssdp::thread_communicator& comm) {
      all[comm.rank().index()] = train(comm, layout, machine, rank_id{unlucky}, 9);
    });
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == unlucky) continue;
      CHECK(all[static_cast<std::size_t>(rank)].ranks == (unlucky < 0 ? 4U : 3U));
      CHECK(all[static_cast<std::size_t>(rank)].wrong == 0);
    }
  }
}
