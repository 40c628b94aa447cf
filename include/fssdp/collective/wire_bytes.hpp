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
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/memory/tensor_types.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// Bytes as they travel, over all ranks.
struct wire_bytes {
  std::uint64_t inside_nodes = 0;
  std::uint64_t between_nodes = 0;

  [[nodiscard]] std::uint64_t total() const { return inside_nodes + between_nodes; }
  friend bool operator==(wire_bytes const&, wire_bytes const&) = default;
};

namespace detail {

/// Adds up all messages.
/// @param message(k, elements, transfer) the bytes of this number of elements of tensor k
template <class Message>
[[nodiscard]] wire_bytes sum_of_messages(transfer_plan const& plan, tensor_list const& tensors,
                                         Message message) {
  auto const extents = piece_extents{plan, tensor_sizes{tensors.all()}};
  auto sum = wire_bytes{};
  for (auto const& t : plan.transfers()) {
    auto const inside = plan.topology().same_node(t.source, t.destination);
    for (std::size_t k = 0; k < tensors.all().size(); ++k)
      (inside ? sum.inside_nodes : sum.between_nodes) +=
          message(k, extents.elements(k, t.what()), t);
  }
  return sum;
}

/// The bytes that a gather sends.
/// @param replicas tensors of whole experts
/// @param coded which transfers are coded; null: none
[[nodiscard]] inline wire_bytes gathered_bytes(transfer_plan const& plan,
                                               tensor_list const& replicas,
                                               coded_traffic const* coded = nullptr) {
  auto const sizes = element_sizes::of(replicas.all());
  return sum_of_messages(plan, replicas,
                         [&](std::size_t k, std::size_t elements, transfer const& t) {
                           return coded != nullptr && coded->codes_any_of(t.chunk)
                                      ? coded->coder().encoded_bytes(elements)
                                      : elements * sizes[k];
                         });
}

/// The bytes that a reduction sends: partials, and sums where a rank has relayed the piece.
/// @param coded as above, for plan.reduction()
[[nodiscard]] inline wire_bytes reduced_bytes(transfer_plan const& plan,
                                              tensor_list const& partials,
                                              coded_traffic const* coded = nullptr) {
  auto const& back = plan.reduction();
  auto const sizes = element_sizes::of(partials.all());
  auto const sum_sizes = element_sizes::of_sums(partials.all());
  return sum_of_messages(
      back, partials, [&](std::size_t k, std::size_t elements, transfer const& t) {
        if (coded != nullptr && coded->codes(t)) return coded->coder().encoded_bytes(elements);
        auto const is_sum = std::ranges::binary_search(back.forwarded(t.destination), t.what());
        return elements * (is_sum ? sum_sizes[k] : sizes[k]);
      });
}

/// The links of a coded collective as a coded_traffic.
[[nodiscard]] inline wire_bytes gathered_bytes(transfer_plan const& plan,
                                               tensor_list const& replicas, uncoded) {
  return gathered_bytes(plan, replicas);
}
template <codec Codec>
[[nodiscard]] wire_bytes gathered_bytes(transfer_plan const& plan, tensor_list const& replicas,
                                        coded_links<Codec> const& links) {
  auto const coded = coded_traffic{plan, links};
  return gathered_bytes(plan, replicas, &coded);
}
[[nodiscard]] inline wire_bytes reduced_bytes(transfer_plan const& plan,
                                              tensor_list const& partials, uncoded) {
  return reduced_bytes(plan, partials);
}
template <codec Codec>
[[nodiscard]] wire_bytes reduced_bytes(transfer_plan const& plan, tensor_list const& partials,
                                       coded_links<Codec> const& links) {
  auto const coded = coded_traffic{plan.reduction(), links};
  return reduced_bytes(plan, partials, &coded);
}

}  // namespace detail

/// The bytes that sparse_all_gather sends by this plan with these links.
/// @param elements the size of each tensor of one whole expert
/// @param links uncoded, or coded_links
/// @cost O(transfers * tensors)
template <element Replica, class Links = uncoded>
[[nodiscard]] wire_bytes gathered_bytes(transfer_plan const& plan,
                                        std::span<std::size_t const> elements,
                                        Links const& links = {}) {
  return detail::gathered_bytes(plan, {elements, dtype_of<Replica>}, links);
}
/// The same for replicas whose types are known only at run time.
/// @throws argument_error if a dtype is invalid
template <class Links = uncoded>
[[nodiscard]] wire_bytes gathered_bytes(transfer_plan const& plan,
                                        std::span<tensor_types const> tensors,
                                        Links const& links = {}) {
  return detail::gathered_bytes(plan, {tensors, &tensor_types::replica}, links);
}

/// The bytes that sparse_reduce_scatter sends: partials, and sums where a rank has relayed the
/// piece.
template <element Partial, class Links = uncoded>
[[nodiscard]] wire_bytes reduced_bytes(transfer_plan const& plan,
                                       std::span<std::size_t const> elements,
                                       Links const& links = {}) {
  return detail::reduced_bytes(plan, {elements, dtype_of<Partial>}, links);
}
template <class Links = uncoded>
[[nodiscard]] wire_bytes reduced_bytes(transfer_plan const& plan,
                                       std::span<tensor_types const> tensors,
                                       Links const& links = {}) {
  return detail::reduced_bytes(plan, {tensors, &tensor_types::partial}, links);
}

}  // namespace fssdp
