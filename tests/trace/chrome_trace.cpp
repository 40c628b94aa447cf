// SPDX-License-Identifier: Apache-2.0
/// The file of a trace is JSON of the Trace Event Format, whatever the names, and says what was
/// recorded.
#include "fssdp/trace/chrome_trace.hpp"

#include <algorithm>
#include <locale>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/trace/trace_recorder.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"

using fssdp::rank_id;
using fssdp::trace_clock;
using fssdp::trace_recorder;
using nlohmann::json;

namespace {

[[nodiscard]] trace_clock::time_point at(std::int64_t nanoseconds) {
  return trace_clock::time_point{std::chrono::nanoseconds{nanoseconds}};
}

[[nodiscard]] std::string written(std::vector<trace_recorder> const& traces) {
  auto out = std::ostringstream{};
  fssdp::write_chrome_trace(out, traces);
  return out.str();
}

/// The events of a phase.
[[nodiscard]] std::vector<json> events_of(json const& file, std::string const& phase) {
  auto found = std::vector<json>{};
  for (auto const& event : file.at("traceEvents"))
    if (event.at("ph") == phase) found.push_back(event);
  return found;
}

/// What the metadata call a process, or a thread of one.
[[nodiscard]] std::string name_of(json const& file, std::string const& what, int pid, int tid) {
  for (auto const& event : events_of(file, "M"))
    if (event.at("name") == what && event.at("pid") == pid && event.at("tid") == tid)
      return event.at("args").at("name");
  return "none";
}

/// Groups digits, as some languages do.
struct grouping : std::numpunct<char> {
  [[nodiscard]] char do_thousands_sep() const override { return ','; }
  [[nodiscard]] std::string do_grouping() const override { return "\3"; }
};

}  // namespace

TEST_CASE("an event is written with its rank, track, times and numbers") {
  auto traces = std::vector<trace_recorder>{};
  traces.emplace_back(fssdp::trace_options{.rank = rank_id{3}, .capacity = 10});
  traces.emplace_back(fssdp::trace_options{.rank = rank_id{1}, .capacity = 10});
  auto const numbers = fssdp::trace_numbers{.layer = 2,
                                            .plan = 0xFEDCBA9876543210,
                                            .round = -1,
                                            .messages_sent = 4,
                                            .bytes_sent = 5'000'000'000,
                                            .messages_received = 0,
                                            .bytes_received = 7};
  traces[0].record({.work = {fssdp::gather_track, "gather", numbers},
                    .begin = at(1'000'000'123),
                    .end = at(2'234'567'890)});
  traces[1].record({.work = {fssdp::compute_track, "forward"},
                    .begin = at(1'000'000'000),
                    .end = at(1'000'000'000)});
  auto const file = json::parse(written(traces));
  auto const ranges = events_of(file, "X");
  REQUIRE(ranges.size() == 2);
  REQUIRE(ranges[0] == json::parse(R"({"ph": "X", "pid": 1, "tid": 0, "name": "forward",
    "cat": "compute", "ts": 0.0, "dur": 0.0, "args": {}})"));
  REQUIRE(ranges[1] == json::parse(R"({"ph": "X", "pid": 3, "tid": 1, "name": "gather",
    "cat": "gather", "ts": 0.123, "dur": 1234567.767, "args": {"layer": 2,
    "plan": "0xfedcba9876543210", "round": -1, "messages_sent": 4, "bytes_sent": 5000000000,
    "messages_received": 0, "bytes_received": 7}})"));
  REQUIRE(name_of(file, "process_name", 1, 0) == "rank 1");
  REQUIRE(name_of(file, "process_name", 3, 0) == "rank 3");
  REQUIRE(name_of(file, "thread_name", 1, 0) == "compute");
  REQUIRE(name_of(file, "thread_name", 3, 1) == "gather");
}

TEST_CASE("overlapping ranges of a track get threads that are named after it") {
  auto traces = std::vector<trace_recorder>{};
  for (int rank = 0; rank < 2; ++rank)
    traces.emplace_back(fssdp::trace_options{.rank = rank_id{rank}, .capacity = 10});
  auto const add = [&](std::size_t rank, fssdp::trace_track track, int begin, int end) {
    traces[rank].record({.work = {track, "work"}, .begin = at(begin), .end = at(end)});
  };
  add(0, fssdp::gather_track, 0, 10);
  add(0, fssdp::gather_track, 5, 15);
  add(0, fssdp::reduce_track, 0, 10);
  add(1, fssdp::gather_track, 0, 10);
  add(1, fssdp::reduce_track, 5, 15);
  auto const file = json::parse(written(traces));
  for (int rank = 0; rank < 2; ++rank) {
    REQUIRE(name_of(file, "thread_name", rank, 0) == "gather");
    REQUIRE(name_of(file, "thread_name", rank, 1) == (rank == 0 ? "gather 2" : "none"));
    REQUIRE(name_of(file, "thread_name", rank, 2) == "reduce");
  }
  auto rows = std::multiset<std::pair<int, int>>{};
  for (auto const& event : events_of(file, "X"))
    rows.emplace(event.at("pid").get<int>(), event.at("tid").get<int>());
  REQUIRE(rows == std::multiset<std::pair<int, int>>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 2}});
}

TEST_CASE("names that need escapes in JSON are restored, or readable") {
  auto traces = std::vector<trace_recorder>{};
  traces.emplace_back(fssdp::trace_options{.capacity = 10});
  traces[0].range({"a \"track\"\\\n"}, "tab\t, \x01, gr\u00fc\u00df, \U0001F642").end();
  traces[0].range({"b"}, "\xC3(").end();
  auto const file = json::parse(written(traces));
  REQUIRE(name_of(file, "thread_name", 0, 0) == "a \"track\"\\\n");
  auto const ranges = events_of(file, "X");
  REQUIRE(ranges.at(0).at("name") == "tab\t, \x01, gr\u00fc\u00df, \U0001F642");
  REQUIRE(ranges.at(1).at("name") == "\uFFFD(");
}

TEST_CASE("any bytes become a string of JSON, and UTF-8 comes back as it was") {
  for (int seed = 1; seed <= support::law_instances; ++seed) {
    CAPTURE(seed);
    auto random = support::dice{static_cast<std::uint64_t>(seed)};
    auto const leads =
        std::vector{0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5};
    auto text = std::string{};
    for (auto left = random.between(0, 12); left > 0; --left) {
      auto const byte = random.chance(30)   ? random.one_of(leads)
                        : random.chance(70) ? random.between(0x80, 0xBF)
                                            : random.between(0, 0xFF);
      text += static_cast<char>(byte);
    }
    auto string = std::string{};
    fssdp::detail::append_json_text(string, text);
    auto const read = json::parse(string).get<std::string>();
    auto is_text = true;  // as nlohmann::json sees it
    try {
      static_cast<void>(json(text).dump());
    } catch (json::exception const&) {
      is_text = false;
    }
    if (is_text) {
      REQUIRE(read == text);
    } else {
      REQUIRE(read.find("\uFFFD") != std::string::npos);
    }
  }
}

TEST_CASE("dropped events are shown beside their rank") {
  auto traces = std::vector<trace_recorder>{};
  traces.emplace_back(fssdp::trace_options{.rank = rank_id{2}, .capacity = 1});
  for (int i = 0; i < 6; ++i) traces[0].range(fssdp::compute_track, "work").end();
  auto const labels = [](json const& file) {
    return std::ranges::count_if(events_of(file, "M"), [](json const& event) {
      return event.at("name") == "process_labels" && event.at("pid") == 2 &&
             event.at("args").at("labels") == "5 events dropped";
    });
  };
  REQUIRE(labels(json::parse(written(traces))) == 1);
  traces[0].clear();
  REQUIRE(labels(json::parse(written(traces))) == 0);
}

TEST_CASE("an empty trace is a valid file") {
  REQUIRE(json::parse(written({})).at("traceEvents").empty());
  auto traces = std::vector<trace_recorder>{};
  traces.emplace_back(fssdp::trace_options{.rank = rank_id{2}, .capacity = 1});
  auto const file = json::parse(written(traces));
  REQUIRE(events_of(file, "X").empty());
  REQUIRE(name_of(file, "process_name", 2, 0) == "rank 2");
}

TEST_CASE("the locale of the stream changes nothing") {
  auto traces = std::vector<trace_recorder>{};
  traces.emplace_back(fssdp::trace_options{.rank = rank_id{1'234'567}, .capacity = 2});
  traces[0].record({.work = {fssdp::compute_track, "work", {.layer = 12'345}},
                    .begin = at(0),
                    .end = at(9'876'543'210)});
  auto out = std::ostringstream{};
  out.imbue(std::locale{std::locale::classic(), new grouping});
  fssdp::write_chrome_trace(out, traces);
  REQUIRE(out.str() == written(traces));
}

TEST_CASE("two traces of one rank are refused") {
  auto traces = std::vector<trace_recorder>{};
  for (int i = 0; i < 2; ++i)
    traces.emplace_back(fssdp::trace_options{.rank = rank_id{4}, .capacity = 1});
  REQUIRE_THROWS_WITH(written(traces), mentions("two traces of rank 4"));
}
