// SPDX-License-Identifier: Apache-2.0
/// The concept of a routing: which holder of an expert gets which rank's tokens.
#pragma once

#include <concepts>
#include <cstdint>

#include "fssdp/core/index.hpp"
#include "fssdp/placement/placement.hpp"

namespace fssdp {
namespace detail {

/// Stands for whatever can be called with a receiver and its tokens.
struct any_emit {
  void operator()(rank_id receiver, std::uint64_t tokens) const;
};

}  // namespace detail

/// `routing(source, expert, tokens, emit)` calls `emit(rank, tokens)` for every receiver that gets
/// any, ascending; only holders do, and all tokens find one. A pure function: equal on all ranks.
template <class Routing>
concept token_routing = requires(Routing const& routing, rank_id source, expert_id expert,
                                 std::uint64_t tokens) {
  { routing.where() } -> std::same_as<placement const&>;
  routing(source, expert, tokens, detail::any_emit{});
};

}  // namespace fssdp
