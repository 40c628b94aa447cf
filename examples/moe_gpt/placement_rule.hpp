// SPDX-License-Identifier: Apache-2.0
/// Which solver each mode uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "expert.hpp"
#include "fssdp/solver/cheapest_materialization.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/solver/owners_only.hpp"
#include "fssdp/solver/sparse_materialization.hpp"
#include "options.hpp"

namespace moe_gpt {

/// A placement solver, as chosen on the command line.
class placement_rule {
 public:
  placement_rule(options const& chosen, fssdp::topology const& topo)
      : mode_{chosen.mode},
        solver_{chosen.solver},
        sparse_{.overlap = chosen.overlap, .spare_slots = chosen.spare_slots, .topology = topo},
        cheapest_{.budget = {.experts_in = chosen.overlap,
                             .experts_out = chosen.overlap,
                             .spare_slots = chosen.spare_slots},
                  .rates = rates_of(chosen),
                  .topology = topo} {}

  template <fssdp::shard_layout Layout>
  [[nodiscard]] fssdp::placement operator()(std::span<std::uint64_t const> loads,
                                            Layout const& layout) const {
    switch (mode_) {
      case mode::ep:
        return fssdp::owners_only{}(loads, layout);
      case mode::fsdp:
        return fssdp::everywhere{}(loads, layout);
      case mode::fssdp:
      case mode::fsep:
        break;
    }
    return solver_ == solver::cheapest ? cheapest_(loads, layout) : sparse_(loads, layout);
  }
  /// From the placement before, where the solver goes on from that.
  template <fssdp::shard_layout Layout>
  [[nodiscard]] fssdp::placement operator()(std::span<std::uint64_t const> loads,
                                            Layout const& layout,
                                            fssdp::placement const& before) const {
    auto const is_searched = mode_ == mode::fssdp || mode_ == mode::fsep;
    return is_searched && solver_ == solver::cheapest ? cheapest_(loads, layout, before)
                                                      : (*this)(loads, layout);
  }

 private:
  /// What a token costs an expert forward (backward it is twice that), and what moves.
  [[nodiscard]] static fssdp::layer_rates rates_of(options const& chosen) {
    auto const shape = shape_of(chosen);
    auto const element = chosen.wire == wire::fp32 ? sizeof(float) : sizeof(std::uint16_t);
    return {.forward_seconds_per_row = chosen.seconds_per_row / 3,
            .token_bytes = sizeof(float) * shape.d_model,
            .expert_bytes = element * parameters_of_expert(shape)};
  }

  mode mode_;
  solver solver_;
  fssdp::sparse_materialization sparse_;
  fssdp::cheapest_materialization cheapest_;
};

static_assert(fssdp::renewing_solver<placement_rule>);

}  // namespace moe_gpt
