// SPDX-License-Identifier: Apache-2.0
/// A transfer between two distributions: its checks, and what it does.
#pragma once

#include <cstddef>

#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/collective/rank_transfer.hpp"
#include "fssdp/collective/transfer_between.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"

namespace fssdp::detail {

FSSDP_INLINE void between_call::check(int ranks) const {
  constexpr auto name = "transfer_between";
  require(ranks == plan_.ranks(), name, ": ", ranks, " ranks; the plan is for ", plan_.ranks());
  auto const check_shape = [&](named_tensors const& buffer, distribution const& of) {
    require(buffer.tensors.size() == plan_.elements().size(), name, ": ", buffer.name, " has ",
            buffer.tensors.size(), " tensors; expected ", plan_.elements().size());
    check_slots(name, buffer, of.slots(rank_).size(), "chunks that the rank has there");
    for (std::size_t k = 0; k < buffer.tensors.size(); ++k) {
      auto const expected = slice_elements(plan_.elements()[k], of.slices());
      require(buffer.tensors[k].elements == expected, name, ": tensor ", k, " of ", buffer.name,
              " has ", buffer.tensors[k].elements, " elements; expected ", expected);
    }
  };
  auto const source = named_tensors{"from", from_.all()};
  auto const target = named_tensors{"to", to_.all()};
  check_shape(source, plan_.from());
  check_shape(target, plan_.to());
  check_disjoint(name, target);
}

FSSDP_INLINE std::size_t between_call::scratch_bytes() const {
  return rank_transfer{plan_, rank_, from_.all(), to_.all(), find_}.scratch_bytes();
}
FSSDP_INLINE void between_call::run(communicator_ref const& comm) const {
  rank_transfer{plan_, rank_, from_.all(), to_.all(), find_}.run(comm, options_);
}

}  // namespace fssdp::detail
