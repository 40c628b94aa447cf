// SPDX-License-Identifier: Apache-2.0
/// The line that reports a recovery.
#pragma once

#include <fmt/format.h>

#include <string>

#include "readable.hpp"
#include "report.hpp"

namespace moe_gpt {

/// Who was lost, and where the others have gone on.
[[nodiscard]] inline std::string recovery_line(recovery_record const& of) {
  auto lost = std::string{};
  for (auto const rank : of.lost) lost += (lost.empty() ? "" : ", ") + std::to_string(rank);
  return fmt::format("{} {} lost in step {}: {} go on from step {} after {:.3f} s; {} moved",
                     of.lost.empty()       ? "no rank"
                     : of.lost.size() == 1 ? "rank " + lost
                                           : "ranks " + lost,
                     of.lost.size() > 1 ? "were" : "was", of.step + of.steps_again, of.ranks,
                     of.step, of.seconds, readable_bytes(static_cast<double>(of.bytes)));
}

}  // namespace moe_gpt
