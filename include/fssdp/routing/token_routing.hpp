// SPDX-License-Identifier: Apache-2.0
/// The concept of a routing: which tokens of a rank go to which holder of their expert.
#pragma once

#include <concepts>
#include <cstdint>

#include "fssdp/core/index.hpp"
#include "fssdp/placement/placement.hpp"

namespace fssdp {
namespace detail {

/// An archetype of functions that accept a receiver and a number of tokens.
struct any_emit {
  void operator()(rank_id receiver, std::uint64_t tokens) const;
};

}  // namespace detail

/// `routing(source, expert, tokens, emit)` calls `emit(rank, tokens)` for every receiver of any
/// tokens, ascending. All receivers hold the expert, and all tokens are sent. A pure function:
/// equal on all ranks.
template <class Routing>
concept token_routing = requires(Routing const& routing, rank_id source, expert_id expert,
                                 std::uint64_t tokens) {
  { routing.where() } -> std::same_as<placement const&>;
  routing(source, expert, tokens, detail::any_emit{});
};

}  // namespace fssdp
