// SPDX-License-Identifier: Apache-2.0
/// The plan for an array that is divided unevenly among ranks.
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

/// The blocks of an array of which rank r owns the next counts[r] elements, as in MPI_Allgatherv
/// with displacements that are sums of counts.
[[nodiscard]] std::vector<owned_block> consecutive_blocks(std::span<std::size_t const> counts);

/// The plan of all_gather_v and reduce_scatter_v for an array of blocks of any lengths, in any
/// order, with any owners; a rank may own none. A value, to be made once for many calls. Equal
/// arguments give equal plans on all ranks; ranks with different lengths or owners are detected by
/// its hash.
///
/// Adjacent blocks of one owner are joined, and long blocks are cut, so that parts of about equal
/// length are scheduled. Each part is an expert of one tensor that all ranks hold; its rows are the
/// elements of the part.
class uneven_plan {
 public:
  /// @param blocks in the order of the array
  /// @param topo has the ranks of the communicator
  /// @param element_bytes the size of an element as it travels. It decides how blocks are cut;
  ///                      results are correct for any value
  /// @param options parts are at least as long as the larger of piece_bytes and least_bytes; at
  ///                1 Gbit/s, least_bytes of 16 KiB is better for short arrays
  /// @cost that of `schedule` for all parts: the longest block has at most 32, others fewer
  /// @throws argument_error if an owner is not a rank, element_bytes is 0, or there are too many
  ///         elements to count
  uneven_plan(std::span<owned_block const> blocks, fssdp::topology const& topo,
              std::size_t element_bytes, schedule_options const& options = {});
  /// The same with whole blocks that go directly from their owners to all ranks. For ranks that
  /// read one another's memory, as threads or processes of one host do: there are no ports to
  /// balance.
  /// @cost linear in blocks times ranks
  /// @throws argument_error as the constructor
  [[nodiscard]] static uneven_plan direct(std::span<owned_block const> blocks,
                                          fssdp::topology const& topo, std::size_t element_bytes);

  [[nodiscard]] int ranks() const { return plan_.ranks(); }
  /// The number of elements of the array; of those that a rank owns.
  [[nodiscard]] std::size_t elements() const {
    return plan_.materialized_offsets(rank_id{0}).back();
  }
  [[nodiscard]] std::size_t elements(rank_id owner) const {
    return plan_.owned_offsets(owner).back();
  }
  /// The bytes of the longest part: chunk_bytes for lower_bound and simulate.
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
