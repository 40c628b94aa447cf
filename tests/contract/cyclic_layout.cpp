// SPDX-License-Identifier: Apache-2.0
/// The contract of a layout, for chunks that are assigned in turn.
#include "fssdp/layout/cyclic_layout.hpp"

#include "contract/layout_contract.hpp"

namespace {

struct dealt_out {
  static fssdp::cyclic_layout make(contract::layout_size const& of) {
    return fssdp::cyclic_layout{{.experts = of.experts, .ranks = of.ranks, .slices = of.slices}};
  }
};

}  // namespace

TEST_CASE("cyclic_layout keeps the contract") { contract::layout_contract<dealt_out>::check(); }
