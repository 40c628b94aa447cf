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

/// As they travel, over all ranks.
struct wire_bytes {
  std::uint64_t inside_nodes = 0;
  std::uint64_t between_nodes = 0;

  [[nodiscard]] std::uint64_t total() const { return inside_nodes + between_nodes; }
  friend bool operator==(wire_bytes const&, wire_bytes const&) = default;
};

namespace detail {

/// Adds up all messages.
/// @param codes(traffic, transfer) whether it is coded, if anything is
/// @param element_bytes(k, transfer) the size of an element that is not
template <class Links, class Codes, class ElementBytes>
[[nodiscard]] wire_bytes sum_of_messages(transfer_plan const& plan, tensor_sizes elements,
                                         Links const& links, Codes codes,
                                         ElementBytes element_bytes) {
  auto const extents = piece_extents{plan, elements};
  auto const message = [&](std::size_t k, transfer const& t) {
    auto const count = extents.elements(k, t.what());
    if constexpr (!std::same_as<Links, uncoded>)
      if (codes(coded_traffic{plan, links}, t)) return links.codec.encoded_bytes(count);
    return count * element_bytes(k, t);
  };
  auto sum = wire_bytes{};
  for (auto const& t : plan.transfers()) {
    auto const inside = plan.cluster().same_node(t.source, t.destination);
    for (std::size_t k = 0; k < elements.size(); ++k)
      (inside ? sum.inside_nodes : sum.between_nodes) += message(k, t);
  }
  return sum;
}

/// @param replicas tensors of whole experts
template <class Links>
[[nodiscard]] wire_bytes gathered_bytes(transfer_plan const& plan, tensor_list const& replicas,
                                        Links const& links) {
  auto const sizes = element_sizes::of(replicas.all());
  return sum_of_messages(
      plan, tensor_sizes{replicas.all()}, links,
      [](auto const& traffic, transfer const& t) { return traffic.codes_any_of(t.chunk); },
      [&](std::size_t k, transfer const&) { return sizes[k]; });
}
template <class Links>
[[nodiscard]] wire_bytes reduced_bytes(transfer_plan const& plan, tensor_list const& partials,
                                       Links const& links) {
  auto const& back = plan.reduction();
  auto const sizes = element_sizes::of(partials.all());
  auto const sum_sizes = element_sizes::of_sums(partials.all());
  return sum_of_messages(
      back, tensor_sizes{partials.all()}, links,
      [](auto const& traffic, transfer const& t) { return traffic.codes(t); },
      [&](std::size_t k, transfer const& t) {
        auto const is_sum = std::ranges::binary_search(back.forwarded(t.destination), t.what());
        return is_sum ? sum_sizes[k] : sizes[k];
      });
}

}  // namespace detail

/// What sparse_all_gather sends, by this plan and with these links.
/// @param elements the size of each tensor of one whole expert
/// @param links uncoded, or coded_links
/// @cost O(transfers * tensors)
template <element Replica, class Links = uncoded>
[[nodiscard]] wire_bytes gathered_bytes(transfer_plan const& plan,
                                        std::span<std::size_t const> elements,
                                        Links const& links = {}) {
  return detail::gathered_bytes(plan, {elements, dtype_of<Replica>}, links);
}
/// The same of replicas whose types are known at run time.
/// @throws argument_error if a dtype is none
template <class Links = uncoded>
[[nodiscard]] wire_bytes gathered_bytes(transfer_plan const& plan,
                                        std::span<tensor_types const> tensors,
                                        Links const& links = {}) {
  return detail::gathered_bytes(plan, {tensors, &tensor_types::replica}, links);
}

/// What sparse_reduce_scatter sends: partials, or sums where a rank has passed the piece on.
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
