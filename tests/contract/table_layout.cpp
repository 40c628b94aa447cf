// SPDX-License-Identifier: Apache-2.0
/// The contract of a layout, for a table; some ranks own nothing.
#include "fssdp/layout/table_layout.hpp"

#include "contract/layout_contract.hpp"
#include "support/random_owners.hpp"

namespace {

struct table {
  static fssdp::table_layout make(contract::layout_size const& of) {
    return {{.ranks = of.ranks, .slices = of.slices},
            support::random_owners(of.chunks(), of.ranks)};
  }
};

}  // namespace

TEST_CASE("table_layout keeps the contract") { contract::layout_contract<table>::check(); }
