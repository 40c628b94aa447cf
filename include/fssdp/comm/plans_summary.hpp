// SPDX-License-Identifier: Apache-2.0
/// What ranks exchange to check that they have the same plans, where messages have no labels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// The summary of a rank's plans. Its size does not depend on their number, as NCCL does not detect
/// messages with different sizes.
struct plans_summary {
  static constexpr std::size_t most_listed = 61;

  std::uint64_t comparison = 0;                       // the number of this comparison, from 1
  std::uint64_t count = 0;                            // of plans
  std::uint64_t hash = 0;                             // of all plans
  std::array<std::uint64_t, most_listed> plans = {};  // the first ones

  friend bool operator==(plans_summary const&, plans_summary const&) = default;
};

[[nodiscard]] inline plans_summary summary_of(std::span<std::uint64_t const> plans,
                                              std::uint64_t comparison) {
  auto summary = plans_summary{.comparison = comparison, .count = plans.size()};
  auto all = hasher{};
  for (auto const plan : plans) all.mix(plan);
  summary.hash = all.value();
  std::ranges::copy(plans.first(std::min(plans.size(), summary.plans.size())),
                    summary.plans.begin());
  return summary;
}
/// How the plans of two ranks differ.
[[nodiscard]] inline std::string difference(plans_summary const& here, plans_summary const& there) {
  auto const listed = std::min({here.count, there.count, here.plans.size()});
  for (std::size_t i = 0; i < listed; ++i)
    if (here.plans[i] != there.plans[i])
      return text("plans ", hexadecimal{here.plans[i]}, " and ", hexadecimal{there.plans[i]});
  if (here.count != there.count) return text(here.count, " plans and ", there.count);
  if (here.comparison != there.comparison)
    return text("comparison ", here.comparison, " of plans here, comparison ", there.comparison,
                " there");
  return text("one of ", here.count, " plans, after the first ", listed);
}

/// The error that names the lowest rank with other plans, if there is one.
/// @param rows a summary of each rank, as bytes
[[nodiscard]] inline std::optional<ranks_disagree> disagreement_in(std::span<std::byte const> rows,
                                                                   rank_id me,
                                                                   plans_summary const& mine) {
  for (std::size_t peer = 0; peer * sizeof mine < rows.size(); ++peer) {
    auto theirs = plans_summary{};
    std::memcpy(&theirs, rows.data() + peer * sizeof mine, sizeof theirs);
    if (theirs != mine) return disagreement(me, rank_id{peer}, difference(mine, theirs));
  }
  return std::nullopt;
}

/// The plans that all ranks have: the last ones that were compared. All ranks drop the same ones.
class common_plans {
 public:
  [[nodiscard]] bool contain(std::uint64_t plan) const {
    return std::ranges::find(ring_, plan) != ring_.end();
  }
  void add(std::span<std::uint64_t const> plans) {
    most_ = std::max(most_, 4 * plans.size());
    for (auto const plan : plans)
      if (ring_.size() < most_)
        ring_.push_back(plan);
      else
        ring_[next_++ % ring_.size()] = plan;
  }

 private:
  std::size_t most_ = 256;
  std::vector<std::uint64_t> ring_;
  std::size_t next_ = 0;
};

}  // namespace fssdp::detail
