// SPDX-License-Identifier: Apache-2.0
/// Which rank owns which part of an array, and how the parts come together.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Consecutive elements of an array, all owned by one rank.
struct owned_block {
  rank_id owner;
  std::size_t elements = 0;
  friend bool operator==(owned_block const&, owned_block const&) = default;
};

/// The blocks of an array of which rank r owns the next counts[r] elements, as MPI_Allgatherv has
/// them where displacements are sums of counts.
[[nodiscard]] std::vector<owned_block> consecutive_blocks(std::span<std::size_t const> counts);

/// The plan of all_gather_v and reduce_scatter_v for an array of blocks of any lengths, in any
/// order, by any owners; a rank may own none. A value, to be made once for many calls: equal
/// arguments give equal plans on all ranks, and ranks whose lengths or owners differ find out by
/// its hash.
///
/// Blocks that follow one another and have one owner are one. Long ones are cut, so that parts of
/// about equal length are scheduled: each is an expert of one tensor and of as many rows as it has
/// elements, which all ranks hold.
class uneven_plan {
 public:
  /// @param blocks in the order in which they lie in the array
  /// @param topo its ranks are those of the communicator
  /// @param element_bytes as they travel: they decide how blocks are cut, any size gives right
  ///                      results
  /// @param options parts are not shorter than the larger of piece_bytes and least_bytes; at
  ///                1 Gbit/s, 16 KiB suit short arrays
  /// @cost that of `schedule` for all parts: the longest block has at most 32, others fewer
  /// @throws argument_error if an owner is not a rank, elements have no bytes, or there are more than
  ///         can be counted
  uneven_plan(std::span<owned_block const> blocks, fssdp::topology const& topo,
              std::size_t element_bytes, schedule_options const& options = {});
  /// The same, where blocks go whole and straight from their owners to all ranks: for ranks that
  /// read each other's memory, as threads or processes of a host: no port is to be kept busy.
  /// @cost linear in blocks times ranks
  /// @throws argument_error as the constructor
  [[nodiscard]] static uneven_plan direct(std::span<owned_block const> blocks,
                                          fssdp::topology const& topo, std::size_t element_bytes);

  [[nodiscard]] int ranks() const { return plan_.ranks(); }
  /// How many elements the array has, and how many of them a rank owns.
  [[nodiscard]] std::size_t elements() const {
    return plan_.materialized_offsets(rank_id{0}).back();
  }
  [[nodiscard]] std::size_t elements(rank_id owner) const {
    return plan_.owned_offsets(owner).back();
  }
  /// The bytes of the longest part, as lower_bound and simulate take them.
  [[nodiscard]] std::size_t part_bytes() const { return plan_.most_rows() * element_bytes_; }
  [[nodiscard]] transfer_plan const& plan() const { return plan_; }

  friend bool operator==(uneven_plan const& a, uneven_plan const& b) { return a.plan_ == b.plan_; }

 private:
  uneven_plan(transfer_plan plan, std::size_t element_bytes)
      : plan_{std::move(plan)}, element_bytes_{element_bytes} {}

  transfer_plan plan_;
  std::size_t element_bytes_;
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/plan/uneven_plan_inl.hpp"
#endif
