// SPDX-License-Identifier: Apache-2.0
/// When ranks are lost, the remaining ones agree on who remains, and go on.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::rank_id;
using fssdp::thread_communicator;

namespace {

using namespace std::chrono_literals;

using ranks = std::vector<rank_id>;

/// What a rank that is left has seen.
struct outcome {
  ranks lost;
  int rank = -1;                ///< in the smaller world
  std::vector<long> sum_there;  ///< of one for each rank, and the world rank of each
};

/// The sums over the ranks of a communicator.
[[nodiscard]] std::vector<long> sums_over(thread_communicator& comm) {
  return fssdp::all_reduce(comm, std::array{1L, long{comm.world_rank(comm.rank()).value()}});
}
[[nodiscard]] outcome go_on(thread_communicator& comm) {
  auto result = outcome{};
  result.lost = comm.find_lost();
  auto left = comm.without(result.lost);
  result.rank = left.rank().value();
  result.sum_there = sums_over(left);
  return result;
}

/// All ranks exchange; those of `failing` throw. What the others have seen, and what run throws.
struct run_result {
  std::vector<outcome> of_rank;
  std::exception_ptr of_run;
};
[[nodiscard]] run_result run_and_lose(fssdp::thread_world& world, ranks const& failing,
                                      fssdp::fault_kind kind, fssdp::fault_moment when) {
  auto result = run_result{};
  result.of_rank.resize(static_cast<std::size_t>(world.size()));
  try {
    world.run([&](thread_communicator& comm) {
      auto const fails = std::ranges::count(failing, comm.rank()) != 0;
      auto breaks = fssdp::faulty{comm, {.kind = kind, .exchange = fails ? 2 : 0, .moment = when}};
      try {
        for (auto turn = 0; turn < 4; ++turn) (void)fssdp::all_reduce(breaks, std::array{1L});
      } catch (fssdp::rank_left const&) {
        return;
      } catch (fssdp::transport_error const&) {
        if (fails) return;  // another one was first
        result.of_rank[comm.rank().index()] = go_on(comm);
      }
    });
  } catch (...) {
    result.of_run = std::current_exception();
  }
  return result;
}

}  // namespace

TEST_CASE("after any rank throws or leaves, the others agree on who remains, and go on") {
  for (int seed = 1; seed <= support::law_instances / 20 + 1; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{static_cast<std::uint64_t>(seed)};
    auto const size = draw.between(2, 6);
    auto all = ranks{};
    for (auto const rank : fssdp::first_n<rank_id>(size)) all.push_back(rank);
    draw.shuffle(all);
    auto lost = ranks(all.begin(), all.begin() + draw.between(1, size - 1));
    std::ranges::sort(lost);
    auto left = ranks(all.begin() + static_cast<std::ptrdiff_t>(lost.size()), all.end());
    std::ranges::sort(left);
    auto world = fssdp::thread_world{size};
    auto const kind = draw.chance(50) ? fssdp::fault_kind::throws : fssdp::fault_kind::leaves;
    auto const when =
        draw.one_of(std::vector{fssdp::fault_moment::before_exchange, fssdp::fault_moment::in_post,
                                fssdp::fault_moment::behind_post});
    auto const result = run_and_lose(world, lost, kind, when);
    REQUIRE(support::text(result.of_run) == "");
    auto sum = 0L;
    for (auto const rank : left) sum += rank.value();
    for (std::size_t i = 0; i < left.size(); ++i) {
      auto const& seen = result.of_rank[left[i].index()];
      CHECK(seen.lost == lost);
      CHECK(seen.rank == static_cast<int>(i));
      CHECK(seen.sum_there == std::vector{static_cast<long>(left.size()), sum});
    }
  }
}

TEST_CASE("a rank that does not come in time is lost, and gets an error when it comes back") {
  auto world = fssdp::thread_world{{.ranks = 3, .deadline = 200ms}};
  auto gate = fssdp::stall_gate{};
  auto texts = std::vector<std::string>(3);
  auto seen = std::vector<outcome>(3);
  world.run([&](thread_communicator& comm) {
    auto const me = comm.rank().index();
    if (me == 1) {
      gate.wait();
      for (auto turn = 0; turn < 3; ++turn) try {
          if (turn == 0) (void)comm.find_lost();
          if (turn == 1) (void)comm.without(ranks{rank_id{0}});
          if (turn == 2) comm.exchange([](auto&) {});
        } catch (fssdp::peer_failed const& error) {
          texts[static_cast<std::size_t>(turn)] = error.what();
        }
      return;
    }
    try {
      (void)fssdp::all_reduce(comm, std::array{1L});
    } catch (fssdp::transport_error const&) {
      seen[me] = go_on(comm);
    }
    gate.release();
  });
  for (auto const rank : {0U, 2U}) {
    CHECK(seen[rank].lost == ranks{rank_id{1}});
    CHECK(seen[rank].sum_there == std::vector{2L, 2L});
  }
  for (auto const turn : {0U, 1U})
    CHECK_THAT(texts[turn], mentions("rank 1 has been lost") && mentions("without it"));
  CHECK_THAT(texts[2], mentions("rank 1: the other ranks no longer wait for this one"));
}

TEST_CASE("if all ranks come, none is lost") {
  auto world = fssdp::thread_world{3};
  auto const seen = support::on_all_ranks(world, [](thread_communicator& comm) {
    try {
      comm.exchange([&](auto& batch) {
        fssdp::set_label(batch, {.plan = static_cast<std::uint64_t>(comm.rank().value())});
        auto const next = rank_id{(comm.rank().value() + 1) % 3};
        auto const before = rank_id{(comm.rank().value() + 2) % 3};
        batch.send({}, next);
        batch.recv({}, before);
      });
    } catch (fssdp::transport_error const&) {
    }
    return go_on(comm);
  });
  for (auto const& of_rank : seen) {
    CHECK(of_rank.lost.empty());
    CHECK(of_rank.sum_there == std::vector{3L, 3L});
  }
}

TEST_CASE("worlds shrink again and again, and errors name ranks of the first") {
  auto world = fssdp::thread_world{5};
  auto texts = std::vector<std::string>(5);
  auto failed = std::vector<int>(5, -1);
  auto sums = std::vector<std::vector<long>>(5);
  world.run([&](thread_communicator& comm) {
    auto const me = comm.rank();
    if (me == rank_id{1}) throw fssdp::injected_fault{"first"};
    auto four = comm.without(ranks{rank_id{1}});
    try {
      if (four.rank() == rank_id{2}) throw fssdp::injected_fault{"second"};
      for (;;) (void)sums_over(four);
    } catch (fssdp::peer_failed const& error) {
      texts[me.index()] = error.what();
      failed[me.index()] = error.failed_rank().value();
    }
    auto three = four.without(four.find_lost());
    auto pair = three.split(three.rank() == rank_id{0} ? fssdp::no_color : 0);
    sums[me.index()] = pair.has_value() ? sums_over(*pair) : sums_over(three);
    if (pair.has_value()) (void)sums_over(three);
  });
  for (auto const rank : {0U, 2U, 4U}) {
    CHECK_THAT(texts[rank], mentions("rank 3 has failed: second"));
    CHECK(failed[rank] == 3);
  }
  CHECK(sums[0] == std::vector{3L, 6L});
  CHECK(sums[2] == std::vector{2L, 6L});
  CHECK(sums[4] == std::vector{2L, 6L});
}

TEST_CASE("a run throws what a rank that is left has thrown, not what a lost one has") {
  auto world = fssdp::thread_world{3};
  auto const result = support::fallout_of(world, [](thread_communicator& comm) {
    if (comm.rank() == rank_id{0}) throw fssdp::injected_fault{"lost"};
    auto left = comm.without(ranks{rank_id{0}});
    if (left.rank() == rank_id{1}) throw fssdp::injected_fault{"left"};
    (void)sums_over(left);
  });
  CHECK(support::text(result.of_run) == "left");
  CHECK(support::is<fssdp::peer_failed>(result.of_rank[1]));
  auto const again = support::on_all_ranks(world, [](auto& comm) { return sums_over(comm); });
  CHECK(again[2] == std::vector{3L, 3L});
}

TEST_CASE("a communicator that has not failed can shrink as well, and still works") {
  auto world = fssdp::thread_world{3};
  auto const sums = support::on_all_ranks(world, [](thread_communicator& comm) {
    auto all = sums_over(comm);
    if (comm.rank() != rank_id{2}) {
      auto two = comm.without(ranks{rank_id{2}});
      for (auto const sum : sums_over(two)) all.push_back(sum);
    }
    for (auto const sum : sums_over(comm)) all.push_back(sum);
    return all;
  });
  CHECK(sums[0] == std::vector{3L, 3L, 2L, 1L, 3L, 3L});
  CHECK(sums[1] == sums[0]);
  CHECK(sums[2] == std::vector{3L, 3L, 3L, 3L});
}

TEST_CASE("a world that is throttled shrinks to one that is") {
  auto world = fssdp::thread_world{
      {.ranks = 3, .deadline = 60s, .ports = fssdp::topology{{.nodes = 3, .ranks = 3}}}};
  auto const result = run_and_lose(world, {rank_id{1}}, fssdp::fault_kind::throws,
                                   fssdp::fault_moment::behind_post);
  CHECK(support::text(result.of_run) == "");
  CHECK(result.of_rank[0].sum_there == std::vector{2L, 2L});
  CHECK(result.of_rank[2].sum_there == std::vector{2L, 2L});
}

TEST_CASE("ranks that cannot be left out are refused") {
  fssdp::thread_world{2}.run([](thread_communicator&) {});
  auto texts = support::on_all_ranks(2, [](thread_communicator& comm) {
    auto all = std::string{};
    auto const other = rank_id{1 - comm.rank().value()};
    for (auto const& lost : {ranks{rank_id{7}}, ranks{other, other}, ranks{comm.rank()},
                             ranks{rank_id{0}, rank_id{1}}}) {
      try {
        (void)comm.without(lost);
      } catch (fssdp::argument_error const& error) {
        all += error.what() + std::string{"\n"};
      }
    }
    return all;
  });
  for (auto const& text : texts) {
    CHECK_THAT(text, mentions("rank 7 of 2 ranks"));
    CHECK_THAT(text, mentions("twice"));
    CHECK_THAT(text, mentions("is among the ranks that it leaves out"));
    CHECK_THAT(text, mentions("none is left"));
  }
}
