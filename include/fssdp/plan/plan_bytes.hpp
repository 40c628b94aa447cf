// SPDX-License-Identifier: Apache-2.0
/// Plans as bytes, to send or to store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// The part of a plan that does not follow from layout and topology, in the byte order of this
/// host.
/// @cost 28 bytes for each transfer, 4 for each replica, and 8 for each expert if the plan has rows
[[nodiscard]] std::vector<std::byte> plan_to_bytes(transfer_plan const& plan);

/// Restores a plan.
/// @param layout, topo those of the plan
/// @post equal to the plan that the bytes were made of, including the plan of its reductions
/// @cost that of a transfer_plan from its transfers: no schedule is searched
/// @throws argument_error if the bytes are not a plan of this layout, which its hash shows
[[nodiscard]] transfer_plan plan_from_bytes(std::span<std::byte const> bytes,
                                            table_layout const& layout, topology const& topo = {});

namespace detail {

/// Writes numbers of 32 bits one after the other.
class word_writer {
 public:
  void put(std::uint32_t word);
  void put(std::int32_t word) { put(static_cast<std::uint32_t>(word)); }
  void put_long(std::uint64_t word);
  void put(std::span<std::byte const> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  /// The replicas of a placement: holders that are not owners.
  void put(placement const& where, table_layout const& layout);

  void reserve(std::size_t more) { bytes_.reserve(bytes_.size() + more); }
  [[nodiscard]] std::span<std::byte const> bytes() const { return bytes_; }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads what a word_writer has written.
class word_reader {
 public:
  explicit word_reader(std::span<std::byte const> bytes) : bytes_{bytes} {}

  [[nodiscard]] bool is_at_end() const { return bytes_.empty(); }
  /// @throws argument_error if there are fewer bytes
  [[nodiscard]] std::uint32_t word();
  [[nodiscard]] std::int32_t number() { return static_cast<std::int32_t>(word()); }
  [[nodiscard]] std::uint64_t long_word();
  [[nodiscard]] std::span<std::byte const> bytes(std::size_t count);
  /// @throws argument_error if there are fewer bytes, or an expert or rank is not in the layout
  [[nodiscard]] placement replicas(table_layout const& layout);
  /// The rows of each expert.
  [[nodiscard]] std::vector<std::size_t> rows(int experts);
  /// Reads how many records of this size follow; they must fit into what is left.
  [[nodiscard]] std::size_t count_of(std::size_t bytes_each);

 private:
  std::span<std::byte const> bytes_;
};

}  // namespace detail
}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/plan/plan_bytes_inl.hpp"
#endif
