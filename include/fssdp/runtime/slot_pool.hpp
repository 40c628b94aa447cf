// SPDX-License-Identifier: Apache-2.0
/// A fixed number of slots that the layers of a model share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/memory/aligned_memory.hpp"
#include "fssdp/memory/byte_count.hpp"
#include "fssdp/memory/tensor_list.hpp"

namespace fssdp {

/// Consecutive slots of a pool.
struct slot_range {
  std::size_t first = 0;
  std::size_t count = 0;
  friend bool operator==(slot_range const&, slot_range const&) = default;
};

namespace detail {

/// Memory for a fixed number of experts, allocated once, laid out as in an expert_buffer; not
/// written, so device memory can be used. Ranges are allocated first-fit: equal calls give equal
/// ranges, so ranks that make the same calls have the same ranges without communication.
class slot_pool {
 public:
  /// @param shapes the elements and the type of each tensor of one slot
  /// @param resource allocates the memory; outlives the pool
  /// @throws as expert_buffer
  slot_pool(std::size_t slots, tensor_list const& shapes,
            std::pmr::memory_resource* resource = std::pmr::new_delete_resource())
      : slots_{slots} {
    require(resource != nullptr, "slot_pool: the memory resource is null; expected one");
    auto bytes = std::size_t{0};
    for (auto const& shape : shapes.all())
      bytes = add_bytes(bytes, byte_count(slots, shape.elements, shape.element_bytes));
    if (bytes != 0) memory_ = allocate_aligned(bytes, resource);
    auto* data = memory_.get();
    for (auto shape : shapes.all()) {
      shape.data = data;
      shape.slots = slots;
      shape.stride = shape.elements;
      tensors_.push_back(shape);
      data += byte_count(slots, shape.elements, shape.element_bytes);
    }
  }

  /// Writes zeros to all slots, so that the pages of host memory are mapped afterwards.
  void clear() { std::fill_n(memory_.get(), bytes(), std::byte{}); }

  [[nodiscard]] std::size_t slots() const { return slots_; }
  [[nodiscard]] std::size_t used() const { return used_; }
  /// The largest number of slots in use at once since the last `forget_peak`.
  [[nodiscard]] std::size_t peak() const { return peak_; }
  void forget_peak() { peak_ = used_; }
  [[nodiscard]] std::size_t bytes() const { return allocated_bytes(memory_); }

  /// The size of the longest free range.
  [[nodiscard]] std::size_t longest() const {
    auto longest = std::size_t{0};
    for_each_gap([&](slot_range gap) { longest = std::max(longest, gap.count); });
    return longest;
  }
  /// Takes a range; none if there are not enough consecutive free slots.
  [[nodiscard]] std::optional<slot_range> take(std::size_t count) {
    if (count == 0) return slot_range{};
    auto found = std::optional<slot_range>{};
    for_each_gap([&](slot_range gap) {
      if (!found.has_value() && gap.count >= count) found = slot_range{gap.first, count};
    });
    if (!found.has_value()) return found;
    taken_.push_back(*found);
    std::ranges::sort(taken_, {}, &slot_range::first);
    used_ += count;
    peak_ = std::max(peak_, used_);
    return found;
  }
  /// @throws argument_error unless exactly this range has been taken
  void give_back(slot_range range) {
    if (range.count == 0) return;
    require(std::erase(taken_, range) == 1, "slot_pool: slots ", range.first, " to ",
            range.first + range.count - 1, " are given back; expected a range that was taken");
    used_ -= range.count;
  }

  /// The memory of a range, [count, elements] per tensor.
  [[nodiscard]] std::vector<tensor_view> tensors(slot_range range) const {
    auto views = std::vector<tensor_view>{};
    for (auto const& tensor : tensors_) views.push_back(tensor.part(range.first, range.count));
    return views;
  }

 private:
  template <class Visit>
  void for_each_gap(Visit visit) const {
    auto begin = std::size_t{0};
    for (auto const& range : taken_) {
      if (range.first > begin) visit(slot_range{begin, range.first - begin});
      begin = range.first + range.count;
    }
    if (slots_ > begin) visit(slot_range{begin, slots_ - begin});
  }

  aligned_memory memory_;
  std::vector<tensor_view> tensors_;
  std::size_t slots_;
  std::vector<slot_range> taken_;  // ascending
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace detail
}  // namespace fssdp
