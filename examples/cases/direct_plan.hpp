// SPDX-License-Identifier: Apache-2.0
/// The plan without relays, chains and pieces.
#pragma once

#include "cases/cases.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace cases {

/// The owners of all chunks send them to all that hold them.
[[nodiscard]] inline fssdp::transfer_plan direct_plan(scene const& of) {
  auto const whole = fssdp::make_plan(of.layout, of.where);
  return {of.layout, of.where, {whole.transfers().begin(), whole.transfers().end()}, of.topology};
}

}  // namespace cases
