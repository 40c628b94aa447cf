// SPDX-License-Identifier: Apache-2.0
// Bounds and baselines of fssdp_perf do the same work as the collectives, and --check finds errors.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <vector>

#include "cases/cases.hpp"
#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp_perf/bounds.hpp"
#include "fssdp_perf/in_turn.hpp"
#include "fssdp_perf/port_model.hpp"
#include "fssdp_perf/rank_memory.hpp"
#include "fssdp_perf/received_sums.hpp"
#include "fssdp_perf/small_integers.hpp"
#include "fssdp_perf/task.hpp"
#include "fssdp_perf/with_fssdp.hpp"

namespace {

using fssdp::expert_id;
using fssdp::rank_id;
using perf::collective;

constexpr auto ranks = 5;
constexpr auto elements = std::size_t{1027};  // no multiple of a block, a grain or a cache line

/// Memory of all ranks for one case, with nothing in its outputs that should be there.
template <class T>
struct instance {
  instance(collective which, perf::case_kind of)
      : moved{perf::make_task(of, fssdp::topology{{.nodes = 1, .ranks = ranks}}, 11, 4,
                              elements * sizeof(T), sizeof(T))},
        plan{moved.direct()} {
    for (auto const rank : fssdp::first_n<rank_id>(ranks))
      memory.emplace_back(which, plan, rank, moved.elements).spoil();
  }
  std::size_t wrong() {
    auto sum = std::size_t{0};
    for (auto& one : memory) sum += one.wrong();
    return sum;
  }
  std::size_t outputs() const {
    auto sum = std::size_t{0};
    for (auto const& one : memory)
      for (auto const expert : one.wanted()) sum += one.elements(expert);
    return sum;
  }
  void run(perf::contestant const& one) {
    fssdp::thread_world{ranks}.run([&](fssdp::thread_communicator& comm) { one.on_threads(comm); });
  }

  perf::task moved;
  fssdp::transfer_plan plan;
  std::deque<perf::rank_memory<T>> memory = {};
};

/// A block that the rank has in its result: its own one.
template <class T>
[[nodiscard]] expert_id rank_owns(perf::rank_memory<T> const& mine) {
  return expert_id{mine.rank().value()};
}

constexpr auto all_cases = {perf::case_kind::pairs, perf::case_kind::hot, perf::case_kind::random,
                            perf::case_kind::blocks, perf::case_kind::zipf_blocks};

template <class T>
void check_all(collective which) {
  for (auto const of : all_cases) {
    auto work = instance<T>{which, of};
    CAPTURE(perf::name_of(which), perf::name_of(of));
    CHECK(work.wrong() == work.outputs());
    auto contestants = perf::bounds(work.memory);
    contestants.push_back(perf::in_turn(work.memory));
    for (auto const& one : contestants) {
      CAPTURE(one.name);
      work.run(one);
      CHECK(work.wrong() == 0);
      for (auto& mine : work.memory) mine.spoil();
    }
  }
}

}  // namespace

TEST_CASE("bounds and broadcasts that are measured in turn fill every replica") {
  check_all<float>(collective::ag);
  check_all<fssdp::bf16>(collective::ag);
  check_all<fssdp::fp8_e5m2>(collective::ag);
}

TEST_CASE("bounds and reductions that are measured in turn form every sum") {
  check_all<float>(collective::rs);
  check_all<double>(collective::rs);
  check_all<fssdp::fp16>(collective::rs);
  check_all<fssdp::fp8_e4m3>(collective::rs);
  check_all<fssdp::fp8_e5m2>(collective::rs);
}

TEST_CASE("integers are exact up to where a type has a bit for each") {
  CHECK(perf::exact_integers<fssdp::fp8_e5m2>() == 8);
  CHECK(perf::exact_integers<fssdp::fp8_e4m3>() == 16);
  CHECK(perf::exact_integers<fssdp::bf16>() == 256);
  CHECK(perf::exact_integers<fssdp::fp16>() == 2048);
  CHECK(perf::exact_integers<float>() >= 3 * 1024);
  CHECK(perf::exact_integers<double>() >= 3 * 1024);
}

TEST_CASE("sums of small integers are exact in any order, and every summand counts") {
  constexpr auto last = std::uint64_t{4000};  // element
  for (auto const exact : {8, 16, 256, 2048})
    for (auto const summands : {1, 2, 3, 4, 5, 8, 9, 17, 100, 300}) {
      CAPTURE(exact, summands);
      auto const number = perf::small_integers{summands, exact};
      auto const first = 3 * static_cast<std::uint64_t>(summands);  // row: of some expert
      auto counts = std::vector<int>(static_cast<std::size_t>(summands));
      auto largest = 0;
      auto most = 0;  // that any of them sum up to
      for (std::uint64_t i = 0; i < last; ++i) {
        auto magnitudes = 0;
        for (std::size_t n = 0; n < counts.size(); ++n) {
          auto const value = number(first + n, i);
          magnitudes += std::abs(value);
          largest = std::max(largest, std::abs(value));
          counts[n] += value != 0 ? 1 : 0;
        }
        most = std::max(most, magnitudes);
      }
      CHECK(most <= exact);
      CHECK(largest == std::clamp(exact / summands, 1, 3));
      CHECK(std::ranges::min(counts) > 0);
    }
}

TEST_CASE("small integers differ from place to place") {
  constexpr auto last = 10'000;  // element
  for (auto const exact : {8, 256}) {
    auto const number = perf::small_integers{4, exact};
    auto same_element = 0;
    auto same_row = 0;
    for (std::uint64_t i = 0; i < last; ++i) {
      same_element += number(1, i) == number(2, i) ? 1 : 0;
      same_row += number(1, i) == number(1, i + 1) ? 1 : 0;
    }
    CHECK(same_element < last / 4);  // a fifth or a seventh
    CHECK(same_row < last / 4);
  }
}

TEST_CASE("the collectives pass the check, and one wrong element does not") {
  for (auto const which : {collective::ag, collective::rs}) {
    auto work = instance<float>{which, perf::case_kind::pairs};
    work.run({.name = "fssdp", .on_threads = [&](fssdp::thread_communicator& comm) {
                auto& mine = work.memory[comm.rank().index()];
                if (which == collective::ag)
                  fssdp::sparse_all_gather(comm, work.plan, mine.from(), mine.to());
                else
                  fssdp::sparse_reduce_scatter(comm, work.plan, mine.from(), mine.to());
              }});
    CHECK(work.wrong() == 0);
    auto& last = work.memory.back();
    last.taken(last.wanted().back())[elements - 1] += 1;
    CHECK(work.wrong() == 1);
  }
}

TEST_CASE("partials that another library has moved are summed with this rank's own") {
  auto work = instance<float>{collective::rs, perf::case_kind::pairs};
  for (auto& mine : work.memory) {
    auto received = std::vector<float const*>{};  // as an exchange of all transfers leaves them
    for (auto const& t : work.plan.transfers())
      if (t.source == mine.rank())
        received.push_back(work.memory[t.destination.index()].given(t.chunk.expert).data());
    auto next = std::size_t{0};
    perf::sum_received(mine, [&](rank_id) { return received[next++]; });
    CHECK(next == received.size());
  }
  CHECK(work.wrong() == 0);
}

TEST_CASE("blocks have as many elements in all, those of rank r 1 / (r + 1) of the first") {
  for (auto const count : {1, 2, 3, 7, 64})
    for (auto const average :
         {std::size_t{1}, std::size_t{5}, std::size_t{1000}, std::size_t{1} << 30U}) {
      auto const even = perf::block_lengths(perf::case_kind::blocks, count, average);
      auto const zipf = perf::block_lengths(perf::case_kind::zipf_blocks, count, average);
      CAPTURE(count, average);
      CHECK(even == std::vector<std::size_t>(static_cast<std::size_t>(count), average));
      CHECK(std::accumulate(zipf.begin(), zipf.end(), std::size_t{0}) == average * even.size());
      for (std::size_t r = 0; r < zipf.size(); ++r)
        CHECK(std::abs(static_cast<double>(zipf[r]) -
                       static_cast<double>(zipf[0]) / static_cast<double>(r + 1)) <= 2);
    }
}

TEST_CASE("plans for blocks pass the check, scheduled or direct, in pieces or not") {
  for (auto const which : {collective::ag, collective::rs})
    for (auto const of : {perf::case_kind::blocks, perf::case_kind::zipf_blocks})
      for (auto const simulate : {false, true}) {
        CAPTURE(perf::name_of(which), perf::name_of(of), simulate);
        auto work = instance<float>{which, of};
        auto const plan = perf::plan_of({.ranks = ranks, .simulate = simulate}, work.moved);
        CHECK(plan.of_array.has_value());
        CHECK(plan.chunk_bytes == plan.plan.most_rows() * sizeof(float));
        work.run(perf::with_fssdp("fssdp", plan, work.memory));
        CHECK(work.wrong() == 0);
        work.memory.front().taken(rank_owns(work.memory.front()))[0] += 1;
        CHECK(work.wrong() == 1);
      }
}

TEST_CASE("even shares cover every element once and differ by little") {
  auto data = std::vector<float>(3 * 100'000);
  auto jobs = std::vector<perf::sum_job<float>>{};
  for (std::size_t i = 0; i < 3; ++i)
    jobs.push_back({std::vector<float const*>(i + 1), data.data() + i * 100'000, 100'000 - i});
  auto total = std::size_t{0};
  for (auto const& job : jobs) total += job.cost();
  for (std::size_t threads = 1; threads <= 7; ++threads) {
    for (auto const& share : perf::detail::even_shares(jobs, threads)) {
      auto cost = std::size_t{0};
      for (auto const& part : share) {
        cost += part.cost();
        for (std::size_t i = 0; i < part.elements; ++i) part.to[i] += 1;
      }
      CHECK(cost <= total / threads + 4 * 1024 * threads);
    }
    auto const covered = static_cast<float>(threads);
    for (auto const& job : jobs)
      CHECK(std::all_of(job.to, job.to + job.elements, [&](float n) { return n == covered; }));
  }
}

TEST_CASE("a binomial tree reaches every holder once, from one that has the expert") {
  auto const layout = fssdp::block_layout{{.experts = 9, .ranks = 9}};
  auto where = fssdp::placement{layout};
  for (auto const expert : fssdp::first_n<expert_id>(9))
    for (int n = 0; n < expert.value(); ++n)
      where.add(expert, rank_id{(expert.value() + 1 + n) % 9});
  auto const plan = fssdp::make_plan(layout, where);
  for (auto const expert : fssdp::first_n<expert_id>(9)) {
    auto has = std::vector<rank_id>{plan.owner(expert)};
    auto const levels = perf::binomial_tree(plan, expert);
    for (auto const& level : levels) {
      auto const before = has;
      for (auto const& edge : level) {
        CHECK(std::ranges::count(before, edge.parent) == 1);
        CHECK(std::ranges::count(has, edge.child) == 0);
        has.push_back(edge.child);
      }
    }
    auto least = std::size_t{0};  // levels that double the number of ranks that have it
    while ((std::size_t{1} << least) < where.holders(expert).size()) ++least;
    CHECK(levels.size() == least);
    CHECK(has.size() == where.holders(expert).size());
  }
}
