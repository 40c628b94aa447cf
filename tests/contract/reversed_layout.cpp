// SPDX-License-Identifier: Apache-2.0
/// The contract of a layout, for one that the library does not know.
#include "support/reversed_layout.hpp"

#include "contract/layout_contract.hpp"
#include "support/random_owners.hpp"

namespace {

struct reversed {
  static support::reversed_layout make(contract::layout_size const& of) {
    return {of.ranks, support::random_owners(of.chunks(), of.ranks), of.slices};
  }
};

}  // namespace

TEST_CASE("a user's layout keeps the contract") { contract::layout_contract<reversed>::check(); }
