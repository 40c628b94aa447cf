// SPDX-License-Identifier: Apache-2.0
/// What devices keep of experts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "policy.hpp"

namespace sim {

/// What the devices hold of the experts of all layers, in experts' parameters.
class device_memory {
 public:
  explicit device_memory(int ranks) : owned_(static_cast<std::size_t>(ranks)), extra_(owned_) {}

  void add(layer_answer const& answer, traits const& of) {
    auto const ranks = owned_.size();
    auto now = std::vector<double>(ranks);
    auto const sliced = of.moves == movement::sliced;
    if (sliced)
      for (auto& owned : owned_)
        owned += with_state * answer.where.experts() / static_cast<double>(ranks);
    for (auto const expert : fssdp::first_n<fssdp::expert_id>(answer.where.experts())) {
      auto const owner = answer.owners.owner(expert);
      if (!sliced) owned_[owner.index()] += with_state;
      for (auto const rank : answer.where.holders(expert))
        if (sliced || rank != owner)
          now[rank.index()] += of.keeps == replica_state::optimizer_too ? with_state : 1;
    }
    for (std::size_t rank = 0; rank < ranks; ++rank)  // those of two layers at a time
      extra_[rank] = of.replicas == lifetime::iteration
                         ? extra_[rank] + now[rank]
                         : std::max(extra_[rank], now[rank] + (last_.empty() ? 0 : last_[rank]));
    last_ = std::move(now);
  }

  /// On the device that has most; whatever adds up over layers, `scale` times.
  /// @param owned experts that every device owns over all layers, if that is known
  [[nodiscard]] double most(lifetime of, double scale, std::optional<double> owned = {}) const {
    auto const times = of == lifetime::iteration ? scale : 1.0;
    auto most = 0.0;
    for (std::size_t rank = 0; rank < owned_.size(); ++rank) {
      auto const here = owned.has_value() ? *owned * with_state : owned_[rank] * scale;
      most = std::max(most, here + extra_[rank] * times);
    }
    return most;
  }

 private:
  static constexpr auto with_state = 7.0;  // parameters, and 6 times as much of optimizer state
  std::vector<double> owned_;
  std::vector<double> extra_;
  std::vector<double> last_ = {};
};

}  // namespace sim
