// SPDX-License-Identifier: Apache-2.0
/// Which links of a plan carry payloads, and with which codec.
#pragma once

#include "fssdp/codec/codec.hpp"

namespace fssdp {

/// Classes of links between two ranks: whether both are on one node of the plan's topology. In a
/// plan without a topology, all ranks are on one node.
enum class link_class { between_nodes, inside_nodes, all };

/// Tells a collective not to code; for callers that choose between this and coded_links.
struct uncoded {};

/// Tells a collective to code what is sent over these links.
template <codec Codec>
struct coded_links {
  Codec codec = {};
  link_class on = link_class::between_nodes;
};
template <codec Codec>
coded_links(Codec) -> coded_links<Codec>;
template <codec Codec>
coded_links(Codec, link_class) -> coded_links<Codec>;

}  // namespace fssdp
