// SPDX-License-Identifier: Apache-2.0
/// What of a plan's traffic is coded.
#pragma once

#include <cstdint>
#include <string_view>
#include <typeinfo>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// A plan, and the links of it that carry payloads: the same on every rank.
template <codec Codec>
class coded_traffic {
 public:
  /// @pre both outlive it
  coded_traffic(transfer_plan const& plan, coded_links<Codec> const& links)
      : plan_{plan}, links_{links} {}

  [[nodiscard]] Codec const& coder() const { return links_.codec; }

  /// Whether the link that a transfer goes over is coded.
  [[nodiscard]] bool codes(transfer const& t) const {
    if (links_.on == link_class::all) return true;
    auto const between = !plan_.cluster().same_node(t.source, t.destination);
    return between == (links_.on == link_class::between_nodes);
  }
  /// Whether any transfer of a chunk goes over a coded link.
  [[nodiscard]] bool codes_any_of(chunk_id chunk) const {
    auto const used = plan_.links(chunk);
    return (used.between_nodes && links_.on != link_class::inside_nodes) ||
           (used.inside_nodes && links_.on != link_class::between_nodes);
  }

  /// The plan's hash, mixed with all that decides what the bytes of a message mean: payloads of two
  /// codecs may have one size.
  [[nodiscard]] std::uint64_t label() const {
    auto hash = hasher{};
    hash.mix(plan_.hash_value());
    hash.mix(static_cast<int>(links_.on));
    for (auto const letter : std::string_view{typeid(Codec).name()}) hash.mix(letter);
    for (auto const rank : first_n<rank_id>(plan_.ranks()))
      hash.mix(plan_.cluster().node(rank).value());
    return hash.value();
  }

 private:
  transfer_plan const& plan_;
  coded_links<Codec> const& links_;
};

}  // namespace fssdp::detail
