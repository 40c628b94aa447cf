// SPDX-License-Identifier: Apache-2.0
/// The contract of a layout, for layers in one arena.
#include "fssdp/layout/layer_stack.hpp"

#include "contract/layout_contract.hpp"
#include "fssdp/layout/block_layout.hpp"

namespace {

struct stack_of_blocks {
  static fssdp::layer_stack<fssdp::block_layout> make(contract::layout_size const& of) {
    auto const layers = of.experts % 3 == 0 ? 3 : of.experts % 2 == 0 ? 2 : 1;
    auto const layer = fssdp::block_layout{
        {.experts = of.experts / layers, .ranks = of.ranks, .slices = of.slices}};
    return fssdp::layer_stack{std::vector(static_cast<std::size_t>(layers), layer)};
  }
};

}  // namespace

TEST_CASE("layer_stack of blocks keeps the contract") {
  contract::layout_contract<stack_of_blocks>::check();
}
