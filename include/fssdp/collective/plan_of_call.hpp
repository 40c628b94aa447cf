// SPDX-License-Identifier: Apache-2.0
/// The plan that a call keeps until it has run.
#pragma once

#include "fssdp/comm/communicator.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// A handle for a call on this communicator: one that keeps the plan where the call may run after
/// its caller has gone on, else one that counts nothing.
template <communicator Comm>
[[nodiscard]] transfer_plan plan_of_call(Comm const&, transfer_plan const& plan) {
  if constexpr (stream_bound<Comm>)
    return plan;
  else
    return plan.borrowed();
}

}  // namespace fssdp::detail
