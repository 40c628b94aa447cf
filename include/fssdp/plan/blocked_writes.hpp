// SPDX-License-Identifier: Apache-2.0
/// Which writes have to wait until what they overlap has been read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace fssdp::detail {

/// Bytes from an address to another one, which is not one of them.
struct byte_interval {
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] std::size_t bytes() const { return end - begin; }
  [[nodiscard]] bool overlaps(byte_interval const& other) const {
    return begin < other.end && other.begin < end;
  }
  friend bool operator==(byte_interval const&, byte_interval const&) = default;
};

/// Counts for every write the reads that are still to come where it would write.
/// @cost O(n log n + pairs that overlap) to make, for n reads and writes; O(pairs) for all of
///       `finish` together. Where reads overlap each other, a search looks at some more of them
class blocked_writes {
 public:
  blocked_writes(std::span<byte_interval const> reads, std::span<byte_interval const> writes)
      : left_(writes.size()), of_read_(reads.size() + 1) {
    auto order = std::vector<std::size_t>(reads.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t read) { return reads[read].begin; });
    auto ends = std::vector<std::size_t>{};  // where the last of all reads up to this one ends
    for (auto const read : order)
      ends.push_back(std::max(reads[read].end, ends.empty() ? 0 : ends.back()));
    of_write_.push_back(0);
    for (std::size_t write = 0; write < writes.size(); ++write) {
      auto const behind = std::ranges::lower_bound(
          order, writes[write].end, {}, [&](std::size_t read) { return reads[read].begin; });
      for (auto at = static_cast<std::size_t>(behind - order.begin());
           at > 0 && ends[at - 1] > writes[write].begin; --at) {
        auto const read = order[at - 1];
        if (!reads[read].overlaps(writes[write])) continue;
        readers_.push_back(read);
        ++of_read_[read + 1];
      }
      of_write_.push_back(readers_.size());
      left_[write] = readers_.size() - of_write_[write];
    }
    std::partial_sum(of_read_.begin(), of_read_.end(), of_read_.begin());
    writes_.resize(readers_.size());
    auto next = of_read_;
    for (std::size_t write = 0; write < writes.size(); ++write)
      for (auto const read : readers(write)) writes_[next[read]++] = write;
  }

  /// How many reads a write still waits for.
  [[nodiscard]] std::size_t left(std::size_t write) const { return left_[write]; }
  /// All that it has waited for from the beginning.
  [[nodiscard]] std::span<std::size_t const> readers(std::size_t write) const {
    return {readers_.data() + of_write_[write], of_write_[write + 1] - of_write_[write]};
  }
  /// What waits for a read, or has waited.
  [[nodiscard]] std::span<std::size_t const> waiting(std::size_t read) const {
    return {writes_.data() + of_read_[read], of_read_[read + 1] - of_read_[read]};
  }

  /// A read is over: calls waits_less(write) for each write that waited for it.
  /// @pre once for each read
  template <class Visit>
  void finish(std::size_t read, Visit waits_less) {
    for (auto const write : waiting(read)) {
      --left_[write];
      waits_less(write);
    }
  }

 private:
  std::vector<std::size_t> left_;      // [writes]: reads that still have to come first
  std::vector<std::size_t> of_write_;  // [writes + 1], in readers_
  std::vector<std::size_t> readers_;
  std::vector<std::size_t> of_read_;  // [reads + 1], in writes_
  std::vector<std::size_t> writes_;
};

}  // namespace fssdp::detail
