// SPDX-License-Identifier: Apache-2.0
/// How many bytes a plan moves.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fssdp/codec/coded_links.hpp"
#include "fssdp/collective/coded_traffic.hpp"
#include "fssdp/collective/piece_extents.hpp"
#include "fssdp/core/dtype.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// As they travel, over all ranks.
struct wire_bytes {
  std::uint64_t inside_nodes = 0;
  std::uint64_t between_nodes = 0;

  [[nodiscard]] std::uint64_t total() const { return inside_nodes + between_nodes; }
  friend bool operator==(wire_bytes const&, wire_bytes const&) = default;
};

namespace detail {

/// Adds up bytes(k, transfer) over all tensors and transfers.
template <class Bytes>
[[nodiscard]] wire_bytes sum_over_links(transfer_plan const& plan, std::size_t tensors,
                                        Bytes bytes) {
  auto sum = wire_bytes{};
  for (auto const& t : plan.transfers()) {
    auto const inside = plan.cluster().same_node(t.source, t.destination);
    for (std::size_t k = 0; k < tensors; ++k)
      (inside ? sum.inside_nodes : sum.between_nodes) += bytes(k, t);
  }
  return sum;
}

}  // namespace detail

/// What sparse_all_gather sends, by this plan and with these links.
/// @param elements the size of each tensor of one whole expert
/// @param links uncoded, or coded_links
template <element Replica, class Links = uncoded>
[[nodiscard]] wire_bytes gathered_bytes(transfer_plan const& plan,
                                        std::span<std::size_t const> elements,
                                        Links const& links = {}) {
  auto const extents = detail::piece_extents{plan, elements};
  return detail::sum_over_links(plan, elements.size(), [&](std::size_t k, transfer const& t) {
    auto const count = extents.elements(k, t.what());
    if constexpr (!std::same_as<Links, uncoded>)
      if (detail::coded_traffic{plan, links}.codes_any_of(t.chunk))
        return links.codec.encoded_bytes(count);
    return count * sizeof(Replica);
  });
}

/// What sparse_reduce_scatter sends: partials, or sums where a rank has passed the piece on.
template <element Partial, class Links = uncoded>
[[nodiscard]] wire_bytes reduced_bytes(transfer_plan const& plan,
                                       std::span<std::size_t const> elements,
                                       Links const& links = {}) {
  auto const extents = detail::piece_extents{plan, elements};
  return detail::sum_over_links(plan, elements.size(), [&](std::size_t k, transfer const& t) {
    auto const count = extents.elements(k, t.what());
    if constexpr (!std::same_as<Links, uncoded>)
      if (detail::coded_traffic{plan, links}.codes(t)) return links.codec.encoded_bytes(count);
    auto const is_sum = std::ranges::binary_search(plan.forwarded(t.destination), t.what());
    return count * (is_sum ? sizeof(accumulator_t<Partial>) : sizeof(Partial));
  });
}

}  // namespace fssdp
