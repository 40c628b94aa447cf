// SPDX-License-Identifier: Apache-2.0
/// A measurement as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "result.hpp"

namespace perf {

[[nodiscard]] inline nlohmann::ordered_json to_json(result const& of) {
  auto const name = [](auto which) { return std::string{name_of(which)}; };
  auto const or_null = [](auto const& value) {
    return value.has_value() ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  constexpr auto us = 1e6;
  auto json = nlohmann::ordered_json{{"backend", name(of.backend)},
                                     {"collective", name(of.collective)},
                                     {"case", name(of.of_case)},
                                     {"seed", of.seed},
                                     {"ranks", of.ranks},
                                     {"nodes", of.nodes},
                                     {"bytes", of.bytes},
                                     {"chunks", of.chunks},
                                     {"replicas", of.replicas},
                                     {"dtype", name(of.dtype)},
                                     {"op", op(of)},
                                     {"time_us", of.seconds * us},
                                     {"bound_us", of.bound_seconds * us},
                                     {"tight_bound_us", of.tight_bound_seconds * us},
                                     {"bound", of.bound},
                                     {"algbw", algbw(of)},
                                     {"busbw", busbw(of)},
                                     {"efficiency", efficiency(of)},
                                     {"wire", of.wire},
                                     {"plan_us", of.plan_seconds * us},
                                     {"wrong", or_null(of.wrong)},
                                     {"baseline", name(of.baseline)}};
  if (of.simulated_seconds.has_value()) json["simulated_us"] = *of.simulated_seconds * us;
  json["baseline_time_us"] = or_null(of.baseline_seconds);
  if (of.baseline_seconds.has_value()) json["baseline_time_us"] = *of.baseline_seconds * us;
  if (of.baseline_setup_seconds > 0) json["baseline_setup_us"] = of.baseline_setup_seconds * us;
  return json;
}

}  // namespace perf
