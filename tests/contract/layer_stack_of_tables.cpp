// SPDX-License-Identifier: Apache-2.0
/// The contract of a layout, for layers of any owners, each its own.
#include "contract/layout_contract.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "support/random_owners.hpp"

namespace {

struct stack_of_tables {
  static fssdp::layer_stack<> make(contract::layout_size const& of) {
    auto const layers = of.experts % 3 == 0 ? 3 : of.experts % 2 == 0 ? 2 : 1;
    auto const owners = support::random_owners(of.chunks(), of.ranks);
    auto tables = std::vector<fssdp::table_layout>{};
    for (auto begin = owners.begin(); begin != owners.end(); begin += of.chunks() / layers)
      tables.emplace_back(fssdp::table_layout::shape{.ranks = of.ranks, .slices = of.slices},
                          std::vector(begin, begin + of.chunks() / layers));
    return fssdp::layer_stack<>{tables};
  }
};

}  // namespace

TEST_CASE("layer_stack of tables keeps the contract") {
  contract::layout_contract<stack_of_tables>::check();
}
