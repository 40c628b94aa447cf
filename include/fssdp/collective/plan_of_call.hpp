// SPDX-License-Identifier: Apache-2.0
/// The handle by which a call keeps its plan until it has run.
#pragma once

#include "fssdp/comm/communicator.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// The handle for a call on this communicator: one that owns the plan where the call may run after
/// the caller has returned, otherwise one without a reference count.
template <communicator Comm>
[[nodiscard]] transfer_plan plan_of_call(Comm const&, transfer_plan const& plan) {
  if constexpr (stream_bound<Comm>)
    return plan;
  else
    return plan.borrowed();
}

}  // namespace fssdp::detail
