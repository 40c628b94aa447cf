// SPDX-License-Identifier: Apache-2.0
/// Refuses buffers that do not fit a plan, before anything is sent.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/expert_tensor.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// @throws argument_error unless the communicator has the plan's ranks
template <communicator Comm>
void check_world(char const* verb, Comm const& comm, transfer_plan const& plan) {
  require(comm.size() == plan.ranks(), verb, ": ", comm.size(), " ranks; the plan is for ",
          plan.ranks());
}

/// @throws argument_error unless both have the same tensors, and no memory in common
template <class From, class To>
void check_tensors(char const* verb, From const& from, To const& to) {
  require(from.size() == to.size(), verb, ": from has ", from.size(),
          " tensors per expert, to has ", to.size(), "; expected equal numbers");
  for (std::size_t k = 0; k < from.size(); ++k) {
    require(from[k].elements == to[k].elements, verb, ": tensor ", k, " has ", from[k].elements,
            " elements in from, ", to[k].elements, " in to; expected equal sizes");
    for (auto const& other : to)
      require(!overlap(from[k], other), verb, ": from and to share memory in tensor ", k,
              "; expected disjoint buffers");
  }
}

/// @throws argument_error unless every tensor has the expected number of slots
template <class Tensors>
void check_slots(char const* verb, char const* name, Tensors const& tensors, std::size_t expected,
                 char const* shape) {
  for (auto const& tensor : tensors)
    require(tensor.slots == expected, verb, ": ", name, " has ", tensor.slots, " slots; expected ",
            expected, " (", shape, ")");
}

}  // namespace fssdp::detail
