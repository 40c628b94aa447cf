// SPDX-License-Identifier: Apache-2.0
/// All-gather and reduce-scatter of blocks of any lengths: against loops over the blocks, as
/// transposes of each other, with equal bits, without allocations, over streams; and refusals.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/collective/all_gather_v.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/plan/lower_bound.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/verify.hpp"
#include "fssdp/stream/host_stream.hpp"
#include "support/dice.hpp"
#include "support/on_all_ranks.hpp"
#include "support/refusal.hpp"
#include "support/small_integers.hpp"

using fssdp::owned_block;
using fssdp::rank_id;
using fssdp::thread_communicator;
using fssdp::uneven_plan;

namespace {

/// Blocks of random lengths and owners, often empty ones, and ranks that own nothing.
struct random_blocks {
  fssdp::topology topo;
  std::vector<owned_block> blocks;
  uneven_plan plan;

  explicit random_blocks(std::uint64_t seed) : random_blocks{support::dice{seed}} {}

  /// The array of which one rank has what others do not: element i of what `which` names.
  [[nodiscard]] double value(int which, std::size_t i) const {
    return support::small_integer({static_cast<std::size_t>(which), i});
  }
  /// Of the whole array what a rank owns.
  template <class T>
  [[nodiscard]] std::vector<T> owned(std::vector<T> const& all, rank_id rank) const {
    auto mine = std::vector<T>{};
    auto at = std::size_t{0};
    for (auto const& block : blocks) {
      if (block.owner == rank)
        mine.insert(mine.end(), all.begin() + static_cast<std::ptrdiff_t>(at),
                    all.begin() + static_cast<std::ptrdiff_t>(at + block.elements));
      at += block.elements;
    }
    return mine;
  }
  template <class T>
  [[nodiscard]] std::vector<T> array(int which) const {
    auto all = std::vector<T>(plan.elements());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = T{static_cast<float>(value(which, i))};
    return all;
  }

 private:
  explicit random_blocks(support::dice draw)
      : topo{{.nodes = draw.between(1, 2), .ranks = 2 * draw.between(1, 3)}},
        blocks{some(draw, topo.ranks())},
        plan{blocks,
             topo,
             sizeof(float),
             {.least_bytes = static_cast<std::size_t>(draw.chance(50) ? 64 : 1 << 18)}} {}

  static std::vector<owned_block> some(support::dice& draw, int ranks) {
    auto blocks = std::vector<owned_block>(static_cast<std::size_t>(draw.between(0, 12)));
    auto const most = draw.chance(30) ? 3000 : 20;
    for (auto& block : blocks)
      block = {rank_id{draw.between(0, ranks - 1)},
               static_cast<std::size_t>(draw.chance(20) ? 0 : draw.between(1, most))};
    return blocks;
  }
};

/// What both collectives give on a rank.
struct results {
  std::vector<float> all;
  std::vector<float> sums;
  friend bool operator==(results const&, results const&) = default;
};

template <class Communicator>
[[nodiscard]] results results_on(Communicator& comm, random_blocks const& of) {
  auto const me = comm.rank();
  auto const mine = of.owned(of.array<float>(0), me);
  auto const partials = of.array<fssdp::bf16>(1 + me.value());
  auto result = results{std::vector<float>(of.plan.elements()), std::vector<float>(mine.size())};
  all_gather_v(comm, of.plan, mine, result.all);
  reduce_scatter_v(comm, of.plan, partials, result.sums, fssdp::uncoded{}, {.scale = 2});
  synchronize(comm);
  return result;
}

[[nodiscard]] results expected_on(rank_id rank, random_blocks const& of) {
  auto sums = std::vector<float>(of.plan.elements());
  for (std::size_t i = 0; i < sums.size(); ++i)
    for (int r = 0; r < of.plan.ranks(); ++r) sums[i] += static_cast<float>(2 * of.value(1 + r, i));
  return {of.array<float>(0), of.owned(sums, rank)};
}

[[nodiscard]] std::vector<results> all_expected(random_blocks const& of) {
  auto all = std::vector<results>{};
  for (int rank = 0; rank < of.plan.ranks(); ++rank) all.push_back(expected_on(rank_id{rank}, of));
  return all;
}

}  // namespace

TEST_CASE("blocks of any lengths are gathered and reduced as loops do it", "[collective]") {
  for (std::uint64_t seed = 0; seed < FSSDP_LAW_INSTANCES; ++seed) {
    auto const of = random_blocks{seed};
    INFO("seed " << seed);
    CHECK_NOTHROW(verify(of.plan.plan()));
    auto const found = support::on_all_ranks(
        of.plan.ranks(), [&](thread_communicator& comm) { return results_on(comm, of); });
    CHECK(found == all_expected(of));
  }
}

TEST_CASE("blocks of any lengths are gathered and reduced on streams", "[collective]") {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    auto const of = random_blocks{seed};
    INFO("seed " << seed);
    auto const found = support::on_all_ranks(of.plan.ranks(), [&](thread_communicator& inner) {
      auto stream = fssdp::host_stream{};
      auto comm = on_stream(inner, stream);
      return results_on(comm, of);
    });
    CHECK(found == all_expected(of));
  }
}

TEST_CASE("all_gather_v and reduce_scatter_v are transposes of each other", "[collective]") {
  for (std::uint64_t seed = 0; seed < FSSDP_LAW_INSTANCES; ++seed) {
    auto const of = random_blocks{seed};
    INFO("seed " << seed);
    struct products {
      double gathered = 0;
      double reduced = 0;
    };
    auto const found = support::on_all_ranks(of.plan.ranks(), [&](thread_communicator& comm) {
      auto const x = of.owned(of.array<double>(0), comm.rank());
      auto const y = of.array<double>(1 + comm.rank().value());
      auto all = std::vector<double>(y.size());
      auto sums = std::vector<double>(x.size());
      all_gather_v(comm, of.plan, x, all);
      reduce_scatter_v(comm, of.plan, y, sums);
      return products{std::inner_product(all.begin(), all.end(), y.begin(), 0.0),
                      std::inner_product(x.begin(), x.end(), sums.begin(), 0.0)};
    });
    auto sum = products{};
    for (auto const& [gathered, reduced] : found) {
      sum.gathered += gathered;
      sum.reduced += reduced;
    }
    CHECK(sum.gathered == sum.reduced);  // small integers: exact
  }
}

TEST_CASE("any type that can be copied is gathered, and coded links have equal bits",
          "[collective]") {
  struct point {
    std::int8_t x;
    std::int64_t y;
    bool operator==(point const&) const = default;
  };
  auto const counts = std::vector<std::size_t>{3, 0, 5};
  auto const plan =
      uneven_plan{fssdp::consecutive_blocks(counts), fssdp::topology{{.ranks = 3}}, sizeof(point)};
  auto const found = support::on_all_ranks(3, [&](thread_communicator& comm) {
    auto mine = std::vector<point>(plan.elements(comm.rank()));
    for (auto& p : mine) p = {static_cast<std::int8_t>(comm.rank().value()), 7};
    auto all = std::vector<point>(8);
    all_gather_v(comm, plan, mine, all);
    return all;
  });
  for (auto const& all : found) {
    CHECK(std::count(all.begin(), all.end(), point{0, 7}) == 3);
    CHECK(std::count(all.begin(), all.end(), point{2, 7}) == 5);
  }
  auto const coded = support::on_all_ranks(3, [&](thread_communicator& comm) {
    auto const mine = std::vector<float>(plan.elements(comm.rank()), 1.0F / 3);
    auto all = std::vector<float>(8);
    all_gather_v(comm, plan, mine, all,
                 fssdp::coded_links<fssdp::bf16_codec>{.on = fssdp::link_class::all});
    return all;
  });
  CHECK(coded[0] == coded[1]);
  CHECK(coded[0] == coded[2]);
  CHECK(coded[0][0] == Approx(1.0 / 3).epsilon(0.01));
  CHECK(coded[0][0] != 1.0F / 3);
}

TEST_CASE("parts of blocks are about equally long, and take little more than the bound",
          "[collective]") {
  auto const topo = fssdp::topology{{.ranks = 8}};
  auto counts = std::vector<std::size_t>{};
  for (std::size_t rank = 1; rank <= 8; ++rank) counts.push_back(16'000'000 / rank);
  auto const zipf = uneven_plan{fssdp::consecutive_blocks(counts), topo, sizeof(float)};
  auto const bound = lower_bound(zipf.plan(), zipf.part_bytes()).seconds;
  CHECK(simulate(zipf.plan(), zipf.part_bytes()).seconds <= 1.2 * bound);
  auto const even =
      uneven_plan{fssdp::consecutive_blocks(std::vector<std::size_t>(8, 1'000'000)), topo, 4};
  CHECK(even.plan().experts() == 8);
  CHECK(even.part_bytes() == 4'000'000);
}

TEST_CASE("direct plans give what scheduled ones give, in one transfer for each block and rank",
          "[collective]") {
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = 4}};
  auto const counts = std::vector<std::size_t>{700'001, 0, 3, 90'000};
  auto const blocks = fssdp::consecutive_blocks(counts);
  auto const plan = uneven_plan::direct(blocks, topo, sizeof(float));
  CHECK(plan.plan().transfers().size() == 3 * 3);
  CHECK(plan.plan().pieces() == 1);
  CHECK(plan.part_bytes() == 700'001 * sizeof(float));
  verify(plan.plan());
  auto const gathered = support::on_all_ranks(4, [&](thread_communicator& comm) {
    auto const first = std::accumulate(counts.begin(), counts.begin() + comm.rank().value(), 0.0F);
    auto mine = std::vector<float>(plan.elements(comm.rank()));
    std::iota(mine.begin(), mine.end(), first);
    auto all = std::vector<float>(plan.elements());
    all_gather_v(comm, plan, mine, all);
    auto sums = mine;
    reduce_scatter_v(comm, plan, all, sums, {}, {.scale = 0.25});
    auto expected = std::vector<float>(all.size());
    std::iota(expected.begin(), expected.end(), 0.0F);
    return all == expected && sums == mine ? 1 : 0;
  });
  CHECK(gathered == std::vector<int>(4, 1));
  auto const none = uneven_plan::direct({}, topo, 4);
  CHECK(none.elements() == 0);
  CHECK_THROWS_AS(uneven_plan::direct(blocks, topo, 0), fssdp::argument_error);
}

TEST_CASE("collectives of uneven blocks refuse buffers that do not fit", "[collective]") {
  auto const topo = fssdp::topology{{.ranks = 2}};
  auto const counts = std::vector<std::size_t>{2, 3};
  auto const plan = uneven_plan{fssdp::consecutive_blocks(counts), topo, sizeof(float)};
  auto three = std::vector<float>(3);
  auto five = std::vector<float>(5);
  support::refuses([&](auto& comm) { all_gather_v(comm, plan, three, five); },
                   "all_gather_v: mine has 3 elements on rank 0", "expected 2");
  support::refuses([&](auto& comm) { reduce_scatter_v(comm, plan, three, five); },
                   "reduce_scatter_v: mine has 5 elements on rank 0", "expected 2");
  auto const foreign = std::vector{owned_block{rank_id{2}, 1}};
  CHECK_THROWS_WITH(uneven_plan(foreign, topo, 4),
                    "uneven_plan: block 0 is owned by rank 2; expected ranks from 0 to 1");
  CHECK_THROWS_WITH(uneven_plan(foreign, fssdp::topology{}, 4),
                    "uneven_plan: a topology of 0 ranks; expected that of the communicator");
  auto const negative = std::vector{owned_block{rank_id{-1}, 1}};
  CHECK_THROWS_AS(uneven_plan(negative, topo, 4), fssdp::argument_error);
  auto const endless = std::vector{owned_block{rank_id{0}, SIZE_MAX}};
  CHECK_THROWS_AS(uneven_plan(endless, topo, 4), fssdp::argument_error);
  CHECK_THROWS_AS(uneven_plan(fssdp::consecutive_blocks(counts), topo, 0), fssdp::argument_error);
  auto const others =
      uneven_plan{fssdp::consecutive_blocks(std::vector<std::size_t>{3, 2}), topo, 4};
  auto world = fssdp::thread_world{2};
  auto const fallout = support::fallout_of(world, [&](thread_communicator& comm) {
    auto const& mine = comm.rank() == rank_id{0} ? plan : others;
    auto own = std::vector<float>(mine.elements(comm.rank()));
    auto all = std::vector<float>(5);
    all_gather_v(comm, mine, own, all);
  });
  CHECK_THROWS_AS(std::rethrow_exception(fallout.of_run), fssdp::ranks_disagree);
}
