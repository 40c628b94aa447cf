// SPDX-License-Identifier: Apache-2.0
/// fssdp::even_routing by lists of holders.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fssdp/routing/even_routing.hpp"
#include "fssdp/routing/token_routing.hpp"
#include "fssdp/topology/topology.hpp"
#include "holder_lists.hpp"

namespace sim {

/// The same rule, for clusters where the ranks of a node are consecutive.
class listed_even_routing {
 public:
  listed_even_routing(fssdp::placement const& where, fssdp::topology const& topo)
      : holders_{where}, topo_{&topo} {}

  [[nodiscard]] fssdp::placement const& where() const { return holders_.where(); }
  template <class Emit>
  void operator()(fssdp::rank_id source, fssdp::expert_id expert, std::uint64_t tokens,
                  Emit emit) const {
    if (tokens == 0) return;
    if (where().holds(source, expert)) {
      emit(source, tokens);
      return;
    }
    auto const node = topo_->ranks_on(topo_->node(source));
    auto receivers = holders_.of(expert, node.front(), node.back());
    if (receivers.empty()) receivers = holders_.of(expert);
    auto index = std::uint64_t{0};
    for (auto const rank : receivers) {
      auto const share = fssdp::even_share(tokens, receivers.size(), source, index++);
      if (share > 0) emit(rank, share);
    }
  }

 private:
  holder_lists holders_;
  fssdp::topology const* topo_;
};

static_assert(fssdp::token_routing<listed_even_routing>);

}  // namespace sim
