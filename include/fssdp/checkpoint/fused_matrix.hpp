// SPDX-License-Identifier: Apache-2.0
/// A matrix of an expert that is stored together with others, or transposed, and copies between
/// that order and its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/checkpoint/model_family.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp::detail {

/// How a tensor of an expert is stored in the region of the file that belongs to the expert.
class fused_matrix {
 public:
  /// @throws argument_error unless the shape is [outputs, inputs] or [outputs]
  fused_matrix(whole_tensor const& whole, family_tensor const& in_file)
      : fused_{in_file.fused}, transposed_{in_file.transposed}, rank_{whole.shape.size()} {
    require(rank_ == 1 || rank_ == 2, "family: tensor '", whole.name, "' has the shape ",
            shape_text(whole.shape), "; expected [outputs, inputs] or [outputs]");
    outputs_ = whole.shape[0];
    inputs_ = rank_ == 2 ? whole.shape[1] : 1;
  }

  /// The shape of the region.
  [[nodiscard]] std::vector<std::uint64_t> shape() const {
    if (rank_ == 1) return {file_outputs()};
    if (transposed_) return {inputs_, file_outputs()};
    return {file_outputs(), inputs_};
  }
  [[nodiscard]] std::uint64_t region_elements() const { return file_outputs() * inputs_; }
  /// Whether its elements are contiguous there, in their own order.
  [[nodiscard]] bool is_contiguous() const {
    return !is_transposed() && fused_ != fusion::even && fused_ != fusion::odd;
  }
  /// The position of the first element in the region.
  [[nodiscard]] std::uint64_t first() const { return position(0, 0); }

  /// Reads consecutive elements of the tensor, from `first` on, out of the region.
  /// @param size of an element, a power of two up to 8, to which both are aligned
  void gather(std::span<std::byte const> region, std::size_t first, std::size_t size,
              std::span<std::byte> to) const {
    with_words(size, [&](auto word) {
      using Word = decltype(word);
      auto const* const from = reinterpret_cast<Word const*>(region.data());
      auto* const into = reinterpret_cast<Word*>(to.data());
      for_each(first, to.size() / size, [&](std::size_t k, std::size_t at) { into[k] = from[at]; });
    });
  }
  /// Writes consecutive elements of the tensor, from `first` on, into the region; other elements
  /// are unchanged.
  void scatter(std::span<std::byte const> from, std::size_t first, std::size_t size,
               std::span<std::byte> region) const {
    with_words(size, [&](auto word) {
      using Word = decltype(word);
      auto const* const source = reinterpret_cast<Word const*>(from.data());
      auto* const into = reinterpret_cast<Word*>(region.data());
      for_each(first, from.size() / size,
               [&](std::size_t k, std::size_t at) { into[at] = source[k]; });
    });
  }

 private:
  [[nodiscard]] bool is_transposed() const { return transposed_ && rank_ == 2; }
  [[nodiscard]] std::uint64_t file_outputs() const {
    return fused_ == fusion::none ? outputs_ : 2 * outputs_;
  }
  [[nodiscard]] std::uint64_t position(std::uint64_t output, std::uint64_t input) const {
    if (fused_ == fusion::second_half) output += outputs_;
    if (fused_ == fusion::even || fused_ == fusion::odd) output *= 2;
    if (fused_ == fusion::odd) ++output;
    return is_transposed() ? input * file_outputs() + output : output * inputs_ + input;
  }

  template <class Use>
  static void with_words(std::size_t size, Use use) {
    if (size == 8)
      use(std::uint64_t{});
    else if (size == 4)
      use(std::uint32_t{});
    else if (size == 2)
      use(std::uint16_t{});
    else
      use(std::uint8_t{});
  }
  /// Calls visit(k, position of element first + k): a few inputs for all outputs at a time, so that
  /// both sides stay in the cache if the region is transposed.
  template <class Visit>
  void for_each(std::uint64_t first, std::uint64_t count, Visit visit) const {
    if (count == 0) return;
    constexpr auto few = std::uint64_t{16};
    auto const end = first + count;
    auto const step = is_transposed() ? few : inputs_;
    for (std::uint64_t low = 0; low < inputs_; low += step) {
      auto const high = std::min(low + step, inputs_);
      for (auto output = first / inputs_; output <= (end - 1) / inputs_; ++output) {
        auto const row = output * inputs_;
        auto const from = std::max(low, row < first ? first - row : 0);
        auto const to = std::min(high, end - row);
        auto const begin = position(output, from);
        auto const stride = is_transposed() ? file_outputs() : 1;
        for (auto input = from; input < to; ++input)
          visit(static_cast<std::size_t>(row + input - first),
                static_cast<std::size_t>(begin + (input - from) * stride));
      }
    }
  }

  fusion fused_;
  bool transposed_;
  std::size_t rank_;
  std::uint64_t outputs_ = 0;
  std::uint64_t inputs_ = 0;
};

}  // namespace fssdp::detail
