// SPDX-License-Identifier: Apache-2.0
/// Which links of a plan carry payloads, and of which codec.
#pragma once

#include "fssdp/codec/codec.hpp"

namespace fssdp {

/// Links between two ranks, by whether the plan's topology has both on one node. A plan that was
/// made without a topology has all its ranks on one node.
enum class link_class { between_nodes, inside_nodes, all };

/// Asks a collective to code nothing: for those who are given either.
struct uncoded {};

/// Asks a collective to code what goes over these links.
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
