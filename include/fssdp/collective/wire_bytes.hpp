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
#include "fssdp/element/dtype.hpp"
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

/// Adds up all messages.
/// @param message(elements, transfer) the bytes of so many elements
template <class Message>
[[nodiscard]] wire_bytes sum_of_messages(transfer_plan const& plan,
                                         std::span<std::size_t const> elements, Message message) {
  auto const extents = piece_extents{plan, tensor_sizes{elements}};
  auto sum = wire_bytes{};
  for (auto const& t : plan.transfers()) {
    auto const inside = plan.cluster().same_node(t.source, t.destination);
    for (std::size_t k = 0; k < elements.size(); ++k)
      (inside ? sum.inside_nodes : sum.between_nodes) += message(extents.elements(k, t.what()), t);
  }
  return sum;
}

/// What a gather sends.
/// @param coded what is coded; null: nothing
[[nodiscard]] inline wire_bytes gather_bytes(transfer_plan const& plan,
                                             std::span<std::size_t const> elements,
                                             std::size_t element_bytes,
                                             coded_traffic const* coded = nullptr) {
  return sum_of_messages(plan, elements, [&](std::size_t count, transfer const& t) {
    return coded != nullptr && coded->codes_any_of(t.chunk) ? coded->coder().encoded_bytes(count)
                                                            : count * element_bytes;
  });
}

/// What a reduction sends: partials, or sums where a rank has passed the piece on.
/// @param coded likewise, for plan.reduction()
[[nodiscard]] inline wire_bytes reduction_bytes(transfer_plan const& plan,
                                                std::span<std::size_t const> elements,
                                                std::size_t partial_bytes, std::size_t sum_bytes,
                                                coded_traffic const* coded = nullptr) {
  auto const& back = plan.reduction();
  return sum_of_messages(back, elements, [&](std::size_t count, transfer const& t) {
    if (coded != nullptr && coded->codes(t)) return coded->coder().encoded_bytes(count);
    auto const is_sum = std::ranges::binary_search(back.forwarded(t.destination), t.what());
    return count * (is_sum ? sum_bytes : partial_bytes);
  });
}

}  // namespace detail

/// What sparse_all_gather sends, by this plan and with these links.
/// @param elements the size of each tensor of one whole expert
/// @param links uncoded, or coded_links
/// @cost O(transfers * tensors)
template <element Replica>
[[nodiscard]] wire_bytes gathered_bytes(transfer_plan const& plan,
                                        std::span<std::size_t const> elements, uncoded = {}) {
  return detail::gather_bytes(plan, elements, sizeof(Replica));
}
template <element Replica, codec Codec>
[[nodiscard]] wire_bytes gathered_bytes(transfer_plan const& plan,
                                        std::span<std::size_t const> elements,
                                        coded_links<Codec> const& links) {
  auto const coded = detail::coded_traffic{plan, links};
  return detail::gather_bytes(plan, elements, sizeof(Replica), &coded);
}

/// What sparse_reduce_scatter sends: partials, or sums where a rank has passed the piece on.
template <element Partial>
[[nodiscard]] wire_bytes reduced_bytes(transfer_plan const& plan,
                                       std::span<std::size_t const> elements, uncoded = {}) {
  return detail::reduction_bytes(plan, elements, sizeof(Partial), sizeof(accumulator_t<Partial>));
}
template <element Partial, codec Codec>
[[nodiscard]] wire_bytes reduced_bytes(transfer_plan const& plan,
                                       std::span<std::size_t const> elements,
                                       coded_links<Codec> const& links) {
  auto const coded = detail::coded_traffic{plan.reduction(), links};
  return detail::reduction_bytes(plan, elements, sizeof(Partial), sizeof(accumulator_t<Partial>),
                                 &coded);
}

}  // namespace fssdp
