// SPDX-License-Identifier: Apache-2.0
/// Groups of the ranks of a world: split by color, used at once, sharing one failure.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_gather.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"

using fssdp::no_color;
using fssdp::rank_id;
using fssdp::thread_communicator;

namespace {

/// The ranks of the world in a communicator, as its ranks tell each other.
template <class Comm>
[[nodiscard]] std::vector<int> members(Comm& comm, int rank_in_world) {
  auto all = std::vector<int>(static_cast<std::size_t>(comm.size()));
  fssdp::all_gather(comm, std::span{&rank_in_world, 1}, all);
  return all;
}
/// The same as the communicator says it.
[[nodiscard]] std::vector<int> world_ranks(thread_communicator const& comm) {
  auto all = std::vector<int>{};
  for (auto const rank : fssdp::first_n<rank_id>(comm.size()))
    all.push_back(comm.world_rank(rank).value());
  return all;
}

/// A mesh of 2 rows and 3 columns: each rank is in one of each.
struct mesh {
  explicit mesh(thread_communicator& comm)
      : row{*comm.split(comm.rank().value() / 3)}, column{*comm.split(comm.rank().value() % 3)} {}
  thread_communicator row;
  thread_communicator column;
};
constexpr auto mesh_ranks = 6;

}  // namespace

TEST_CASE("groups have different sizes, and a rank may be in none") {
  auto const seen = support::on_all_ranks(6, [](thread_communicator& comm) {
    auto const me = comm.rank().value();
    auto const colors = std::array{0, 4, no_color, 4, 0, 4};
    auto group = comm.split(colors[comm.rank().index()]);
    if (!group.has_value()) return std::vector{-1};
    auto all = members(*group, me);
    if (world_ranks(*group) != all) all.push_back(100);
    if (all[group->rank().index()] != me) all.push_back(200);
    return all;
  });
  auto const zeros = std::vector{0, 4};
  auto const fours = std::vector{1, 3, 5};
  REQUIRE(seen == std::vector{zeros, fours, std::vector{-1}, fours, zeros, fours});
}

TEST_CASE("keys order the ranks of a group, equal ones leave their order") {
  auto const seen = support::on_all_ranks(5, [](thread_communicator& comm) {
    auto const keys = std::array{7, -3, 0, -3, 7};
    auto group = comm.split(1, keys[comm.rank().index()]);
    return members(*group, comm.rank().value());
  });
  for (auto const& of_rank : seen) REQUIRE(of_rank == std::vector{1, 3, 2, 0, 4});
}

TEST_CASE("groups are split and duplicated as any communicator") {
  auto const seen = support::on_all_ranks(8, [](thread_communicator& comm) {
    auto const me = comm.rank().value();
    auto half = comm.split(me / 4, -me);
    auto same = half->duplicate();
    auto quarter = half->split(half->rank().value() / 2);
    auto other = comm.duplicate();
    auto const lists = std::array{members(same, me), members(*quarter, me), members(other, me),
                                  members(*half, me), world_ranks(*quarter)};
    auto all = std::vector<int>{};
    for (auto const& list : lists) all.insert(all.end(), list.begin(), list.end());
    return all;
  });
  REQUIRE(seen[2] == std::vector{3, 2, 1, 0, 3, 2, 0, 1, 2, 3, 4, 5, 6, 7, 3, 2, 1, 0, 3, 2});
  REQUIRE(seen[5] == std::vector{7, 6, 5, 4, 5, 4, 0, 1, 2, 3, 4, 5, 6, 7, 7, 6, 5, 4, 5, 4});
}

TEST_CASE("overlapping groups run at once, each on a stream, in any order on each rank") {
  constexpr auto turns = 40;
  auto const wrong = support::on_all_ranks(mesh_ranks, [&](thread_communicator& comm) {
    auto groups = mesh{comm};
    auto const me = comm.rank().value();
    auto row_stream = fssdp::host_stream{};
    auto column_stream = fssdp::host_stream{};
    auto row = fssdp::on_stream(groups.row, row_stream);
    auto column = fssdp::on_stream(groups.column, column_stream);
    auto in_row = std::vector<std::vector<int>>(turns, std::vector<int>(3));
    auto in_column = std::vector<std::vector<int>>(turns, std::vector<int>(2));
    for (std::size_t turn = 0; turn < turns; ++turn) {
      auto const gather_row = [&] {
        row.submit([&mine = me, &all = in_row[turn]](auto& inner) {
          fssdp::all_gather(inner, std::span{&mine, 1}, all);
        });
      };
      if (me % 2 == 0) gather_row();
      column.submit([&mine = me, &all = in_column[turn]](auto& inner) {
        fssdp::all_gather(inner, std::span{&mine, 1}, all);
      });
      if (me % 2 == 1) gather_row();
    }
    row.synchronize();
    column.synchronize();
    auto const first = me / 3 * 3;
    auto count = 0;
    for (std::size_t turn = 0; turn < turns; ++turn) {
      count += in_row[turn] == std::vector{first, first + 1, first + 2} ? 0 : 1;
      count += in_column[turn] == std::vector{me % 3, me % 3 + 3} ? 0 : 1;
    }
    return count;
  });
  REQUIRE(wrong == std::vector<int>(mesh_ranks));
}

TEST_CASE("a plan for the ranks of a group runs in each group, and the world works meanwhile") {
  for (auto seed = std::uint64_t{1}; seed <= 20; ++seed) {
    CAPTURE(seed);
    auto const of = support::random_instance{seed, {.ranks = 4, .nodes = 2, .experts = 9}};
    auto const ranks = of.plan.ranks();
    auto const wrong = support::on_all_ranks(2 * ranks, [&](thread_communicator& comm) {
      auto half = comm.split(comm.rank().value() % 2);
      auto stream = fssdp::host_stream{};
      auto bound = fssdp::on_stream(*half, stream);
      auto mine = support::rank_buffers<float>{of, bound.rank()};
      fssdp::sparse_all_gather(bound, of.plan, mine.shard, mine.replicas);
      fssdp::sparse_reduce_scatter(bound, of.plan, mine.partials, mine.gradients);
      auto const sum = fssdp::all_reduce(comm, std::vector{1});
      bound.synchronize();
      return mine.wrong_replicas() + mine.wrong_gradients() +
             support::differences{sum == std::vector{2 * ranks} ? 0 : 1};
    });
    for (auto const& of_rank : wrong) REQUIRE(of_rank == 0);
  }
}

TEST_CASE("when a rank throws in one group, all ranks of the world get an error that names it") {
  auto const moment = GENERATE(fssdp::fault_moment::before_exchange, fssdp::fault_moment::in_post,
                               fssdp::fault_moment::behind_exchange);
  constexpr auto failed_rank = rank_id{4};
  auto world = fssdp::thread_world{mesh_ranks};
  auto const begin = std::chrono::steady_clock::now();
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto groups = mesh{comm};
    auto const me = comm.rank();
    auto row = fssdp::faulty{groups.row, {.exchange = me == failed_rank ? 1 : 0, .moment = moment}};
    for (auto turn = 0; turn < 5; ++turn) {  // some are in rows, some in columns, one in the world
      if (me != rank_id{0}) (void)members(row, me.value());
      if (me == rank_id{0}) (void)members(comm, me.value());
      (void)members(groups.column, me.value());
    }
  });
  REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::seconds{20});
  REQUIRE(support::is<fssdp::injected_fault>(result.of_run));
  for (std::size_t rank = 0; rank < result.of_rank.size(); ++rank) {
    CAPTURE(rank, support::text(result.of_rank[rank]));
    if (rank == failed_rank.index()) {
      REQUIRE(support::is<fssdp::injected_fault>(result.of_rank[rank]));
    } else {
      REQUIRE(support::is<fssdp::peer_failed>(result.of_rank[rank]));
      REQUIRE(support::failed_rank(result.of_rank[rank]) == failed_rank.value());
      REQUIRE_THAT(support::text(result.of_rank[rank]), mentions("rank 4 has failed"));
    }
  }
}

TEST_CASE("errors in a group name ranks of the world, and of the group") {
  auto world = fssdp::thread_world{{.ranks = 4, .deadline = std::chrono::milliseconds{200}}};
  SECTION("one that does not come") {
    auto const result = support::fallout_of(world, [](thread_communicator& comm) {
      auto group = comm.split(comm.rank().value() / 2);
      if (comm.rank() == rank_id{2}) (void)members(*group, 2);
      if (comm.rank() == rank_id{3}) std::this_thread::sleep_for(std::chrono::milliseconds{600});
    });
    REQUIRE(support::failed_rank(result.of_rank[2]) == 3);
    REQUIRE_THAT(support::text(result.of_rank[2]),
                 mentions("rank 2 (0 of its group) awaits rank 3 (1 of its group)"));
  }
  SECTION("one that has left") {
    auto const result = support::fallout_of(world, [](thread_communicator& comm) {
      auto group = comm.split(comm.rank().value() / 2);
      if (comm.rank() == rank_id{3}) return;
      if (comm.rank() == rank_id{2}) (void)members(*group, 2);
    });
    REQUIRE(support::is<fssdp::peer_failed>(result.of_rank[2]));
    REQUIRE(support::failed_rank(result.of_rank[2]) == 3);
    REQUIRE_THAT(support::text(result.of_rank[2]), mentions("rank 3 has left the world"));
  }
  SECTION("one in another collective") {
    auto const result = support::fallout_of(world, [](thread_communicator& comm) {
      auto group = comm.split(comm.rank().value() / 2);
      if (comm.rank() == rank_id{3}) (void)group->split(0);
      if (comm.rank() == rank_id{2}) (void)members(*group, 2);
    });
    REQUIRE(support::is<fssdp::ranks_disagree>(result.of_run));
    REQUIRE_THAT(support::text(result.of_run), mentions("rank 3 (1 of its group)"));
  }
}

TEST_CASE("a rank that does not come to a split is named") {
  auto world = fssdp::thread_world{{.ranks = 3, .deadline = std::chrono::milliseconds{200}}};
  auto const result = support::fallout_of(world, [](thread_communicator& comm) {
    auto byte = std::byte{};
    if (comm.rank() == rank_id{1})
      std::this_thread::sleep_for(std::chrono::milliseconds{600});
    else
      (void)comm.split(0);
    if (comm.rank() == rank_id{1})
      comm.exchange([&](auto& batch) { batch.recv({&byte, 1}, rank_id{0}); });
  });
  for (std::size_t rank : {0U, 2U}) REQUIRE(support::failed_rank(result.of_rank[rank]) == 1);
}

TEST_CASE("a color that is negative is refused, with what was expected") {
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [](thread_communicator& comm) {
    (void)comm.split(comm.rank().value() == 1 ? -2 : 0);
  });
  REQUIRE(support::is<fssdp::argument_error>(result.of_rank[1]));
  REQUIRE_THAT(support::text(result.of_rank[1]),
               mentions("a color of -2") && mentions("expected 0 or more"));
  REQUIRE(support::failed_rank(result.of_rank[0]) == 1);
}

TEST_CASE("only ranks of a communicator have a rank in the world") {
  auto const outside = GENERATE(-1, 2);
  auto const result = support::on_all_ranks(4, [&](thread_communicator& comm) {
    auto group = comm.split(comm.rank().value() / 2);
    try {
      return group->world_rank(rank_id{outside}).value();
    } catch (fssdp::argument_error const&) {
      return -5;
    }
  });
  REQUIRE(result == std::vector(4, -5));
}

TEST_CASE("groups of a throttled world share its ports") {
  auto const slow =
      fssdp::topology{{.nodes = 1, .ranks = mesh_ranks, .ports = {.inside_bytes_per_second = 1e9}}};
  auto world = fssdp::thread_world{{.ranks = mesh_ranks, .ports = slow}};
  auto const seen = support::on_all_ranks(world, [](thread_communicator& comm) {
    auto groups = mesh{comm};
    auto all = members(groups.column, comm.rank().value());
    auto const row = members(groups.row, comm.rank().value());
    all.insert(all.end(), row.begin(), row.end());
    return all;
  });
  REQUIRE(seen[4] == std::vector{1, 4, 3, 4, 5});
  REQUIRE(seen[2] == std::vector{2, 5, 0, 1, 2});
}
