// SPDX-License-Identifier: Apache-2.0
/// The contract of a layout, for blocks.
#include "fssdp/layout/block_layout.hpp"

#include "contract/layout_contract.hpp"

namespace {

struct blocks {
  static fssdp::block_layout make(contract::layout_size const& of) {
    return fssdp::block_layout{{.experts = of.experts, .ranks = of.ranks, .slices = of.slices}};
  }
};

}  // namespace

TEST_CASE("block_layout keeps the contract") { contract::layout_contract<blocks>::check(); }
