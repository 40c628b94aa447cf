// SPDX-License-Identifier: Apache-2.0
/// Plans and routings may be destroyed before a stream-bound communicator moves rows by them.
#include <optional>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/routing/balanced_routing.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/token/dispatch.hpp"
#include "support/on_all_ranks.hpp"
#include "support/stream_gate.hpp"

namespace {

using fssdp::rank_id;
using fssdp::rows_view;
using fssdp::token_counts;
using fssdp::token_plan;

auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};

[[nodiscard]] token_counts counted() { return {2, 4, {1, 2, 3, 4, 5, 6, 7, 8}}; }

/// What comes back of rows that went by plans which were gone before they moved.
[[nodiscard]] std::vector<int> there_and_back(fssdp::thread_communicator& comm,
                                              std::size_t pack_below) {
  auto const plan_of = [&] { return token_plan{counted(), fssdp::placement{layout}, comm.rank()}; };
  auto sent = std::vector<int>(plan_of().sent_rows());
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<int>(i);
  auto received = std::vector<int>(plan_of().received_rows(), -1);
  auto returned = std::vector<int>(sent.size(), -1);
  auto const rows = [](std::vector<int>& of) { return rows_view<int>{of.data(), of.size(), 1}; };
  auto scratch = fssdp::scratch_memory{};
  auto stream = fssdp::host_stream{};
  auto queued = fssdp::on_stream(comm, stream);
  auto gate = support::stream_gate{stream};
  dispatch(queued, plan_of(), rows(sent), rows(received),
           {.pack_below = pack_below, .scratch = &scratch});
  combine(queued, plan_of(), rows(received), rows(returned), {.pack_below = pack_below});
  gate.open();
  queued.synchronize();
  return returned;
}

}  // namespace

TEST_CASE("a temporary plan of tokens is gone before a bound communicator moves them") {
  for (auto const pack_below : {std::size_t{0}, std::size_t(-1)}) {
    auto const found = support::on_all_ranks(
        2, [&](fssdp::thread_communicator& comm) { return there_and_back(comm, pack_below); });
    for (std::size_t rank = 0; rank < 2; ++rank) {
      REQUIRE(found[rank].size() == (rank == 0 ? 10 : 26));
      for (std::size_t i = 0; i < found[rank].size(); ++i)
        REQUIRE(found[rank][i] == static_cast<int>(i));
    }
  }
}

TEST_CASE("a routing keeps the placement that it was given") {
  auto const where = fssdp::everywhere{}(layout);
  auto const even = fssdp::even_routing{fssdp::everywhere{}(layout)};
  auto const balanced = fssdp::balanced_routing{counted(), fssdp::everywhere{}(layout)};
  REQUIRE(even.where() == where);
  REQUIRE(balanced.where() == where);
  auto const received = [](auto const& routing) {
    return token_plan{counted(), routing, rank_id{0}}.received_rows();
  };
  REQUIRE(received(even) == 10);      // each keeps its own
  REQUIRE(received(balanced) == 18);  // half of all
}

TEST_CASE("a copy of a token plan is valid after the first is destroyed") {
  auto first = std::optional{token_plan{counted(), fssdp::placement{layout}, rank_id{1}}};
  auto const copy = *first;
  REQUIRE(copy.sends().data() == first->sends().data());
  auto const moved = std::move(*first);
  REQUIRE(first->sent_rows() == 26);
  first.reset();
  REQUIRE(moved.sent_rows() == 26);
  REQUIRE(copy.sends().size() == 4);
}
