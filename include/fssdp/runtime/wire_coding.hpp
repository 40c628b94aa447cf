// SPDX-License-Identifier: Apache-2.0
/// What is coded in an iteration: parameters one way, gradients another.
#pragma once

#include "fssdp/codec/coded_links.hpp"

namespace fssdp {

/// Each of them uncoded, or coded_links. What `calibrate` adds is coded by its own links: with coded
/// parameters, those that hold an expert may then have different bits.
template <class Gather = uncoded, class Reduce = uncoded>
struct wire_coding {
  Gather gather = {};
  Reduce reduce = {};
};
template <class Gather, class Reduce>
wire_coding(Gather, Reduce) -> wire_coding<Gather, Reduce>;

}  // namespace fssdp
