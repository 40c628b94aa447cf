// SPDX-License-Identifier: Apache-2.0
/// Tokens evenly to all holders, wherever they are.
#pragma once

#include <cstdint>

#include "fssdp/routing/even_routing.hpp"
#include "fssdp/routing/token_routing.hpp"
#include "holder_lists.hpp"

namespace sim {

/// Every replica gets the same share of every rank's tokens: what balancers of expert loads assume.
class uniform_routing {
 public:
  explicit uniform_routing(fssdp::placement const& where) : holders_{where} {}

  [[nodiscard]] fssdp::placement const& where() const { return holders_.where(); }
  template <class Emit>
  void operator()(fssdp::rank_id source, fssdp::expert_id expert, std::uint64_t tokens,
                  Emit emit) const {
    if (tokens == 0) return;
    auto const holders = holders_.of(expert);
    auto const receivers = static_cast<std::uint64_t>(holders.size());
    auto index = std::uint64_t{0};
    for (auto const rank : holders) {
      auto const share = fssdp::even_share(tokens, receivers, source, index++);
      if (share > 0) emit(rank, share);
    }
  }

 private:
  holder_lists holders_;
};

static_assert(fssdp::token_routing<uniform_routing>);

}  // namespace sim
