// SPDX-License-Identifier: Apache-2.0
/// Which transfers of a plan are coded.
#pragma once

#include <cstdint>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/codec/payload_codec.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// A plan, and the class of links over which its transfers carry payloads: equal on every rank.
class coded_traffic {
 public:
  /// @pre the plan and the codec outlive it
  coded_traffic(transfer_plan const& plan, payload_codec const& coder, link_class on)
      : plan_{plan}, coder_{coder}, on_{on} {}
  /// Enough to know what is coded and how large payloads are; it cannot encode.
  template <codec Codec>
  coded_traffic(transfer_plan const& plan, coded_links<Codec> const& links)
      : coded_traffic{plan, payload_codec::sizes_of(links.codec), links.on} {}

  [[nodiscard]] payload_codec const& coder() const { return coder_; }

  /// Whether the link that a transfer goes over is coded.
  [[nodiscard]] bool codes(transfer const& t) const {
    if (on_ == link_class::all) return true;
    auto const between = !plan_.topology().same_node(t.source, t.destination);
    return between == (on_ == link_class::between_nodes);
  }
  /// Whether any transfer of a chunk goes over a coded link.
  [[nodiscard]] bool codes_any_of(chunk_id chunk) const {
    auto const used = plan_.links(chunk);
    return (used.between_nodes && on_ != link_class::inside_nodes) ||
           (used.inside_nodes && on_ != link_class::between_nodes);
  }

  /// The plan's hash, mixed with everything that decides what the bytes of a message mean: payloads
  /// of two codecs may have the same size.
  [[nodiscard]] std::uint64_t label() const {
    auto hash = hasher{};
    hash.mix(plan_.hash_value());
    hash.mix(static_cast<int>(on_));
    for (auto const letter : coder_.name()) hash.mix(letter);
    for (auto const rank : first_n<rank_id>(plan_.ranks()))
      hash.mix(plan_.topology().node(rank).value());
    return hash.value();
  }

 private:
  transfer_plan const& plan_;
  payload_codec coder_;
  link_class on_;
};

}  // namespace fssdp::detail
