// SPDX-License-Identifier: Apache-2.0
/// Tokens evenly to all slots of an expert.
#pragma once

#include <cstdint>

#include "fssdp/placement/physical_experts.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "fssdp/routing/token_routing.hpp"

namespace sim {

/// As inference engines do: a rank that has an expert twice gets twice as many of its tokens.
class slot_routing {
 public:
  slot_routing(fssdp::physical_experts const& slots, fssdp::placement const& where)
      : slots_{&slots}, where_{&where} {}

  [[nodiscard]] fssdp::placement const& where() const { return *where_; }
  template <class Emit>
  void operator()(fssdp::rank_id source, fssdp::expert_id expert, std::uint64_t tokens,
                  Emit emit) const {
    auto const all = slots_->logical_to_physical(expert);
    auto index = std::uint64_t{0};
    while (index < all.size()) {
      auto const rank = slots_->rank_of(all[index]);
      auto sum = std::uint64_t{0};
      for (; index < all.size() && slots_->rank_of(all[index]) == rank; ++index)
        sum += fssdp::even_share(tokens, all.size(), source, index);
      if (sum > 0) emit(rank, sum);
    }
  }

 private:
  fssdp::physical_experts const* slots_;
  fssdp::placement const* where_;
};

static_assert(fssdp::token_routing<slot_routing>);

}  // namespace sim
