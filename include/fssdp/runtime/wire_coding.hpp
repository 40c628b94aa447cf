// SPDX-License-Identifier: Apache-2.0
/// What is coded in an iteration: parameters one way, gradients another.
#pragma once

#include "fssdp/codec/coded_links.hpp"

namespace fssdp {

/// Each of them uncoded, or coded_links. All that hold an expert compute with the same bits, after
/// `calibrate`, too. With link_class::inside_nodes it depends on routes which experts are coded: if
/// a layer that has been calibrated is gathered again for the backward pass, some may differ from
/// the forward pass.
template <class Gather = uncoded, class Reduce = uncoded>
struct wire_coding {
  Gather gather = {};
  Reduce reduce = {};
};
template <class Gather, class Reduce>
wire_coding(Gather, Reduce) -> wire_coding<Gather, Reduce>;

}  // namespace fssdp
