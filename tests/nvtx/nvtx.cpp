// SPDX-License-Identifier: Apache-2.0
/// A profiler gets every range, with its rank, track, name and layer.
#include "fssdp/trace/nvtx_sink.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_gather.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/comm/tracing.hpp"
#include "nvtx/profiler.hpp"
#include "support/on_all_ranks.hpp"
#include "support/toy_model.hpp"

using fssdp::nvtx_sink;
using fssdp::rank_id;
using profiler::told;

namespace {

/// NVTX asks this pointer for a profiler when it is first called.
[[maybe_unused]] auto const attached = InitializeInjectionNvtx2_fnptr = profiler::inject;

}  // namespace

TEST_CASE("a profiler gets ranges with their rank, track, name and layer") {
  told.ranges.clear();
  auto const destroyed = told.destroyed;
  {
    auto sink = nvtx_sink{rank_id{3}};
    sink.name({"optimizer"});
    auto outer = fssdp::trace_range{&sink, fssdp::compute_track, "forward", {.layer = 7}};
    {
      auto const inner = fssdp::trace_range{&sink, {"optimizer"}, "adam"};
      REQUIRE(told.ranges.size() == 2);
      REQUIRE(!told.ranges[1].has_ended);
    }
    REQUIRE(told.ranges[1].has_ended);
    REQUIRE(!told.ranges[0].has_ended);
    outer.end();
  }
  REQUIRE(told.destroyed == destroyed + 1);
  auto const& [forward, adam] = std::tie(told.ranges.at(0), told.ranges.at(1));
  REQUIRE(forward.domain == "fssdp rank 3");
  REQUIRE(forward.message == "forward");
  REQUIRE(forward.payload == 7);
  REQUIRE(forward.category == told.categories.at("compute"));
  REQUIRE(adam.message == "adam");
  REQUIRE(adam.payload == std::nullopt);
  REQUIRE(adam.category == told.categories.at("optimizer"));
  REQUIRE(told.categories.at("gather") != told.categories.at("reduce"));
  REQUIRE(told.ended_twice == 0);
}

TEST_CASE("the profiler gets the exchanges of all ranks") {
  told.ranges.clear();
  auto const arrived = support::on_all_ranks(4, [](fssdp::thread_communicator& comm) {
    auto sink = nvtx_sink{comm.rank()};
    auto traced = fssdp::tracing{comm, &sink, fssdp::gather_track};
    auto all = std::vector<int>(4);
    for (int i = 0; i < 50; ++i) fssdp::all_gather(traced, std::vector{comm.rank().value()}, all);
    return all;
  });
  REQUIRE(arrived == std::vector(4, std::vector{0, 1, 2, 3}));
  REQUIRE(told.ranges.size() == 200);
  for (auto const& range : told.ranges) {
    REQUIRE(range.has_ended);
    REQUIRE(range.message == "exchange");
    REQUIRE(range.category == told.categories.at("gather"));
  }
  REQUIRE(told.ended_twice == 0);
}

TEST_CASE("a profiler gets the ranges of a materializer, too") {
  told.ranges.clear();
  (void)support::on_all_ranks(4, [](fssdp::thread_communicator& comm) {
    auto model = support::toy_model{{.layers = 2}, comm.rank()};
    auto sink = nvtx_sink{comm.rank()};
    auto layers = support::make_layers(comm, model,
                                       {.replica_slots = 12, .partial_slots = 10, .trace = &sink});
    support::train_once(model, layers, 0);
    return 0;
  });
  auto seen = std::map<std::string, std::vector<std::int64_t>>{};
  for (auto const& range : told.ranges) {
    REQUIRE(range.has_ended);
    if (range.domain != "fssdp rank 2" || range.message == "wait") continue;
    REQUIRE(range.category == told.categories.at(range.message == "reduce" ? "reduce" : "gather"));
    seen[range.message].push_back(range.payload.value());
  }
  REQUIRE(seen["plan"] == std::vector<std::int64_t>{0, 1});
  REQUIRE(seen["gather"] == std::vector<std::int64_t>{0, 1});
  REQUIRE(seen["reduce"] == std::vector<std::int64_t>{1, 0});
}
