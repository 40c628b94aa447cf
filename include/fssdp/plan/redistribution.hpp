// SPDX-License-Identifier: Apache-2.0
/// The plan of a transfer between two distributions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/core/shared_value.hpp"
#include "fssdp/plan/distribution.hpp"
#include "fssdp/plan/moved_parts.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/plan/transfer_table.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// How parts are cut and scheduled.
struct redistribution_options {
  std::size_t element_bytes = 4;                    ///< as they travel: those of the target's type
  schedule_options schedule = {.effort = 200'000};  ///< planned once, and used for much data
  /// For source and target in the same memory, both from the same address on, with slots side by
  /// side. The transfer is divided into steps in which a rank receives and sends about one chunk,
  /// so that at most two chunks are staged on a rank (more with new replicas or larger elements).
  /// Otherwise there is one step, and all that overlaps unread parts of the source is staged.
  bool in_place = false;
  std::size_t source_element_bytes = 0;  ///< with in_place; 0: the same
};

namespace detail {

/// Parts that move together. They are the experts of a plan, with as many rows as they have
/// elements: each is owned by the rank that sends it first.
struct part_step {
  transfer_plan plan;
  std::size_t part_bytes = 0;   // of the longest part
  per_rank<slot_part> sources;  // of each rank, for what it owns in the plan, in slot order
  per_rank<slot_part> targets;  // of each rank, for its remote experts of the plan
};
/// How tensors of one size move.
struct size_class {
  std::size_t elements = 0;      // of a whole expert's tensor
  std::vector<part_step> steps;  // none if nothing crosses; one, unless they move in place
  per_rank<local_part> local;
};

}  // namespace detail

/// What moves when experts that are distributed in one way are wanted in another: other ranks, more
/// or fewer of them, other slices, other replicas. A value, to be made once for many calls: equal
/// arguments give equal plans on all ranks, and ranks whose arguments differ find out by its hash.
///
/// Where slices of source and target overlap, that part moves as one. Whoever has it may send it:
/// on nodes that have it already, one of their ranks does, the one with the least to send; it
/// enters every other node once, from the node that has the least to send out, or straight from its
/// sender to all where `schedule` finds that quicker. Ranks that have it themselves copy it.
/// `schedule` decides for all tensors of one size at once, in the quicker of both orders of
/// senders; if they move in steps, for those of each.
class redistribution {
 public:
  /// @param elements the size of each tensor of a whole expert
  /// @param topo its ranks are those of both distributions, and of the communicator
  /// @cost twice that of `schedule` for all parts, for each size of tensors; O(steps * parts) to
  ///       divide them
  /// @throws argument_error if experts or ranks differ, or the source lacks something that the
  ///         target wants: names the first
  redistribution(distribution const& from, distribution const& to,
                 std::span<std::size_t const> elements, fssdp::topology const& topo = {},
                 redistribution_options const& options = {});

  [[nodiscard]] int ranks() const { return tables_->topology.ranks(); }
  [[nodiscard]] fssdp::topology const& topology() const { return tables_->topology; }
  [[nodiscard]] distribution const& from() const { return tables_->from; }
  [[nodiscard]] distribution const& to() const { return tables_->to; }
  /// The size of each tensor of a whole expert.
  [[nodiscard]] std::span<std::size_t const> elements() const {
    return {tables_->elements.data(), tables_->elements.size()};
  }
  /// What tensors of one size do, and which of them tensor k is.
  [[nodiscard]] std::vector<detail::size_class> const& classes() const { return tables_->classes; }
  [[nodiscard]] std::size_t class_of(std::size_t k) const { return tables_->class_of[k]; }
  [[nodiscard]] std::size_t element_bytes() const { return tables_->element_bytes; }

  /// The bytes that cross between ranks, all of them, and between nodes.
  struct traffic {
    std::uint64_t total = 0;
    std::uint64_t between_nodes = 0;
  };
  [[nodiscard]] traffic bytes() const;
  /// How long it takes on ideal ports: `simulate`, size by size and step by step.
  [[nodiscard]] double simulated_seconds() const;
  /// What no way to do it can beat, whoever sends: bytes over bandwidth of the port that binds.
  /// Into ranks and nodes what they have not got; out of a rank or a node what nobody else has.
  [[nodiscard]] double bound_seconds() const;

  /// 64 bits that differ, almost surely, if two plans do.
  [[nodiscard]] std::uint64_t hash_value() const { return tables_->hash; }

 private:
  struct tables {
    distribution from;
    distribution to;
    std::vector<std::size_t> elements;
    fssdp::topology topology;
    std::size_t element_bytes;
    std::vector<detail::size_class> classes;
    std::vector<std::size_t> class_of;  // [tensors]
    std::uint64_t hash = 0;
  };
  [[nodiscard]] static tables tables_of(distribution const& from, distribution const& to,
                                        std::span<std::size_t const> elements,
                                        fssdp::topology const& topo,
                                        redistribution_options const& options);

  detail::shared_value<tables> tables_;
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/plan/redistribution_inl.hpp"
#endif
