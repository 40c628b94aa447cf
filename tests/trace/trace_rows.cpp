// SPDX-License-Identifier: Apache-2.0
/// Overlapping ranges get separate rows; in a row ranges nest or follow.
#include "fssdp/trace/trace_rows.hpp"

#include <algorithm>
#include <vector>

#include "fssdp/trace/trace_recorder.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"

using fssdp::trace_event;

namespace {

[[nodiscard]] trace_event event(int begin, int end) {
  auto const at = [](int time) {
    return fssdp::trace_clock::time_point{fssdp::trace_clock::duration{time}};
  };
  return {.work = {}, .begin = at(begin), .end = at(end)};
}

[[nodiscard]] bool nest_or_follow(trace_event const& a, trace_event const& b) {
  auto const inside = [](trace_event const& in, trace_event const& out) {
    return out.begin <= in.begin && in.end <= out.end;
  };
  return a.end <= b.begin || b.end <= a.begin || inside(a, b) || inside(b, a);
}

}  // namespace

TEST_CASE("ranges that nest or follow share a row, those that overlap do not") {
  auto const events = std::vector{event(0, 10), event(1, 4),   event(4, 9),
                                  event(5, 12), event(10, 11), event(12, 13)};
  REQUIRE(fssdp::detail::trace_rows(events) == std::vector<std::size_t>{0, 0, 0, 1, 0, 0});
  REQUIRE(fssdp::detail::trace_rows({}).empty());
}

TEST_CASE("in a row all ranges nest or follow, and no earlier row had room") {
  for (int seed = 1; seed <= support::law_instances / 10; ++seed) {
    CAPTURE(seed);
    auto random = support::dice{static_cast<std::uint64_t>(seed)};
    auto trace = fssdp::trace_recorder{{.capacity = 40}};
    for (auto count = random.between(0, 40); count > 0; --count) {
      auto const begin = random.between(0, 60);
      trace.record(event(begin, begin + random.between(0, 20)));
    }
    auto const events = trace.events();
    auto const rows = fssdp::detail::trace_rows(events);
    REQUIRE(rows.size() == events.size());
    auto clashes = 0;
    auto early = 0;
    for (std::size_t i = 0; i < events.size(); ++i) {
      auto taken = std::vector<char>(rows[i]);  // earlier rows in which something is in the way
      for (std::size_t j = 0; j < i; ++j) {
        if (nest_or_follow(events[i], events[j])) continue;
        if (rows[j] == rows[i]) ++clashes;
        if (rows[j] < rows[i]) taken[rows[j]] = 1;
      }
      if (std::ranges::count(taken, 0) > 0) ++early;
    }
    REQUIRE(clashes == 0);
    REQUIRE(early == 0);
  }
}
