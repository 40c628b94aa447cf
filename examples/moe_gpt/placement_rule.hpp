// SPDX-License-Identifier: Apache-2.0
/// The dial: which solver a mode stands for.
#pragma once

#include <cstdint>
#include <span>

#include "fssdp/solver/everywhere.hpp"
#include "fssdp/solver/owners_only.hpp"
#include "fssdp/solver/sparse_materialization.hpp"
#include "options.hpp"

namespace moe_gpt {

/// A placement solver, as chosen on the command line.
class placement_rule {
 public:
  placement_rule(options const& chosen, fssdp::topology const& machine)
      : mode_{chosen.mode},
        sparse_{.overlap = chosen.overlap, .spare_slots = chosen.spare_slots, .cluster = machine} {}

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
    return sparse_(loads, layout);
  }

 private:
  mode mode_;
  fssdp::sparse_materialization sparse_;
};

static_assert(fssdp::placement_solver<placement_rule>);

}  // namespace moe_gpt
