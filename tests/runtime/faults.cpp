// SPDX-License-Identifier: Apache-2.0
/// Wherever in a step of a training a rank throws, leaves or stalls, every other rank ends with an
/// error, in time, and nothing leaks.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/process_threads.hpp"
#include "support/watchdog.hpp"
#include "support/whole_step.hpp"

using fssdp::fault_kind;
using fssdp::fault_moment;
using fssdp::rank_id;
using fssdp::retention;
using fssdp::thread_communicator;
using support::fault_place;
using support::placed_fault;
using support::step_kind;
using step_wire = support::step_kind::wire;

namespace {

using namespace std::chrono_literals;

// A busy machine may take long for what is over at once on an idle one.
constexpr auto long_ago = 30s;

[[nodiscard]] std::vector<step_kind> step_kinds() {
  return {
      {.over = step_wire::lends},
      {.over = step_wire::lends, .replicas = retention::keep, .in_pieces = false},
      {.over = step_wire::lends, .slices = 4},
      {.over = step_wire::copies, .ranks = 3, .replicas = retention::keep},
      {.over = step_wire::codes},
      {.over = step_wire::at_once, .ranks = 2, .nodes = 1, .slices = 2},
  };
}

/// A fault of one rank.
struct accident {
  std::size_t kind;  // of step
  int rank;
  placed_fault fault;

  [[nodiscard]] std::string text() const {
    auto const& [place, what] = fault;
    return fssdp::detail::text("kind ", kind, ", rank ", rank, ", place ", static_cast<int>(place),
                               ", visit ", what.exchange, ", moment ",
                               static_cast<int>(what.moment), ", fault ",
                               static_cast<int>(what.kind));
  }
};

/// All there are of these kinds: every rank, place, visit and moment.
[[nodiscard]] std::vector<accident> all_accidents(std::vector<fault_kind> const& faults) {
  auto all = std::vector<accident>{};
  auto const kinds = step_kinds();
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    auto const visits = support::on_all_ranks(kinds[kind].ranks, [&](thread_communicator& comm) {
      return take_whole_step(comm, kinds[kind], {});
    });
    for (int rank = 0; rank < kinds[kind].ranks; ++rank) {
      auto const& of_rank = visits[static_cast<std::size_t>(rank)];
      for (int p = 0; p < support::fault_places; ++p)
        for (int visit = 1; visit <= of_rank[static_cast<std::size_t>(p)]; ++visit)
          for (auto const moment : support::moments_at(fault_place{p}))
            for (auto const fault : faults)
              all.push_back(
                  {kind,
                   rank,
                   {fault_place{p}, {.kind = fault, .exchange = visit, .moment = moment}}});
    }
  }
  return all;
}

/// Of these, as many as the sanitizers leave time for: evenly spread.
[[nodiscard]] std::vector<accident> some_of(std::vector<accident> const& all, int most) {
  auto some = std::vector<accident>{};
  auto const count = std::min(all.size(), static_cast<std::size_t>(most));
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[i * all.size() / count]);
  return some;
}

/// How a run with an accident has ended.
struct aftermath {
  support::fallout who;
  std::vector<std::chrono::steady_clock::duration> after;  // [rank]: since it began
};

/// Whether a rank stalls while it reads peers' memory: it keeps them waiting without a deadline.
[[nodiscard]] bool keeps_waiting(accident const& of) {
  return of.fault.what.kind == fault_kind::stalls && of.fault.place == fault_place::experts &&
         of.fault.what.moment == fault_moment::in_visit &&
         step_kinds()[of.kind].over != step_wire::copies;
}

/// Runs a step with an accident. A rank that stalls is released when all others have ended; if they
/// cannot before, as soon as it has been missed.
[[nodiscard]] aftermath run_with(accident const& of, std::chrono::milliseconds deadline) {
  auto const kind = step_kinds()[of.kind];
  auto gate = fssdp::stall_gate{};
  auto others = std::atomic{kind.ranks - 1};
  auto fault = of.fault;
  fault.what.gate = &gate;
  auto result = aftermath{};
  result.after.resize(static_cast<std::size_t>(kind.ranks));
  auto world = fssdp::thread_world{{.ranks = kind.ranks, .deadline = deadline}};
  auto const begin = std::chrono::steady_clock::now();
  result.who = support::fallout_of(world, [&](thread_communicator& comm) {
    auto const is_failed_rank = comm.rank() == rank_id{of.rank};
    auto probe = comm.duplicate();
    auto releasing = std::jthread{};
    if (is_failed_rank && keeps_waiting(of))
      releasing = std::jthread{[&](std::stop_token const& stop) {
        try {
          for (; !stop.stop_requested(); std::this_thread::sleep_for(1ms))
            probe.exchange([](auto&) {});
        } catch (fssdp::error const&) {
        }
        gate.release();
      }};
    auto thrown = std::exception_ptr{};
    try {
      (void)take_whole_step(comm, kind, is_failed_rank ? fault : placed_fault{});
    } catch (fssdp::rank_left const&) {
    } catch (...) {
      thrown = std::current_exception();
    }
    result.after[comm.rank().index()] = std::chrono::steady_clock::now() - begin;
    if (!is_failed_rank && --others == 0) gate.release();
    if (thrown) std::rethrow_exception(thrown);
  });
  return result;
}

/// What is wrong with it; empty if nothing is. Whoever stalls may have others miss an early
/// deadline of each other's, too.
[[nodiscard]] std::string what_is_wrong(accident const& of, aftermath const& result) {
  auto const how = of.fault.what.kind;
  for (std::size_t rank = 0; rank < result.after.size(); ++rank) {
    auto const& error = result.who.of_rank[rank];
    auto const is_failed_rank = static_cast<int>(rank) == of.rank;
    auto const right = how == fault_kind::stalls   ? support::is<fssdp::transport_error>(error)
                       : !is_failed_rank           ? support::failed_rank(error) == of.rank
                       : how == fault_kind::throws ? support::is<fssdp::injected_fault>(error)
                                                   : error == nullptr;
    auto const in_time = result.after[rank] < long_ago;
    if (!right || !in_time)
      return fssdp::detail::text(of.text(), ": rank ", rank, " after ",
                                 std::chrono::duration<double>{result.after[rank]}.count(), " s: '",
                                 support::text(error), "'");
  }
  return {};
}

/// Runs steps with accidents, several at once. What is wrong where anything is: of the first of
/// them.
[[nodiscard]] std::string first_complaint(std::vector<accident> const& accidents,
                                          std::chrono::milliseconds deadline, int at_once) {
  auto all = std::vector<std::string>(accidents.size());
  auto next = std::atomic<std::size_t>{0};
  {
    auto guard = support::watchdog{4 * long_ago};
    auto drivers = std::vector<std::jthread>{};
    for (int driver = 0; driver < at_once; ++driver)
      drivers.emplace_back([&] {
        for (auto i = next++; i < all.size(); i = next++)
          guard.watch(accidents[i].text(), [&] {
            all[i] = what_is_wrong(accidents[i], run_with(accidents[i], deadline));
          });
      });
  }
  auto const wrong = all.size() - static_cast<std::size_t>(std::ranges::count(all, ""));
  auto const first = std::ranges::find_if(all, [](auto const& text) { return !text.empty(); });
  return wrong == 0 ? "" : fssdp::detail::text(wrong, " runs, the first: ", *first);
}

}  // namespace

TEST_CASE("wherever in a step a rank throws or leaves, every other rank names it at once") {
  auto const threads_before = support::process_threads();
  auto const all = all_accidents({fault_kind::throws, fault_kind::leaves});
  REQUIRE(all.size() >= 1000);
  REQUIRE(first_complaint(some_of(all, support::law_instances), 60s, 2) == "");
  REQUIRE(support::settled_process_threads(threads_before) == threads_before);
}

TEST_CASE(
    "wherever in a step a rank stalls, every other rank ends in time, and then it does, too") {
  auto const threads_before = support::process_threads();
  auto const all = all_accidents({fault_kind::stalls});
  REQUIRE(first_complaint(some_of(all, support::law_instances / 10), 50ms, 16) == "");
  REQUIRE(support::settled_process_threads(threads_before) == threads_before);
}
