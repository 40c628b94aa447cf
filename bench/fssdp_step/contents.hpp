// SPDX-License-Identifier: Apache-2.0
/// What experts and tokens contain, so that a receiver can tell whether they are the right
/// ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>

#include "device_memory.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/token/token_plan.hpp"

namespace step {

/// Every parameter of an expert after so many steps of its optimizer.
[[nodiscard]] inline float parameter_of(fssdp::layer_id layer, fssdp::expert_id expert, int steps) {
  return static_cast<float>((layer.value() * 131 + expert.value() * 17) % 1000 + steps);
}

/// The first, the middle and the last of some numbers.
[[nodiscard]] inline std::array<float, 3> samples_of(device_memory& memory,
                                                     std::span<float const> numbers) {
  auto const at = [&](std::size_t position) {
    return memory.on_host(numbers.subspan(position, 1))[0];
  };
  return {at(0), at(numbers.size() / 2), at(numbers.size() - 1)};
}

/// @throws std::runtime_error unless the first, the middle and the last of some numbers are `expected`
inline void require_all(char const* what, fssdp::expert_id expert, std::span<float const> numbers,
                        float expected) {
  for (auto const at : {std::size_t{0}, numbers.size() / 2, numbers.size() - 1})
    if (numbers[at] != expected)
      throw std::runtime_error{std::string{what} + " of expert " + std::to_string(expert.value()) +
                               ": " + std::to_string(numbers[at]) + "; expected " +
                               std::to_string(expected)};
}

/// The rows of a rank, all bytes of which say whose they are and for which expert.
class marked_rows {
 public:
  explicit marked_rows(std::size_t row_bytes) : row_bytes_{row_bytes} {}

  [[nodiscard]] std::size_t row_bytes() const { return row_bytes_; }

  /// @param source(segment) whose rows they are
  /// @param pass another one gives other bytes
  template <class Source>
  void write(device_memory& memory, std::span<std::uint8_t> rows,
             std::span<fssdp::token_segment const> segments, Source source, int pass) const {
    for (auto const& segment : segments)
      memory.fill(part(rows, segment), mark(source(segment), segment.expert, pass));
  }
  /// @throws std::runtime_error if a segment begins or ends with other bytes
  template <class Source>
  void check(std::span<std::uint8_t const> rows, std::span<fssdp::token_segment const> segments,
             Source source, int pass) const {
    for (auto const& segment : segments) {
      auto const bytes = part(rows, segment);
      auto const expected = mark(source(segment), segment.expert, pass);
      if (bytes.empty() || (bytes.front() == expected && bytes.back() == expected)) continue;
      throw std::runtime_error{"rows for expert " + std::to_string(segment.expert.value()) +
                               " between this rank and rank " +
                               std::to_string(segment.peer.value()) + ": wrong bytes"};
    }
  }

 private:
  [[nodiscard]] static std::uint8_t mark(fssdp::rank_id source, fssdp::expert_id expert, int pass) {
    return static_cast<std::uint8_t>(source.value() * 29 + expert.value() * 7 + pass * 3 + 1);
  }
  template <class Byte>
  [[nodiscard]] std::span<Byte> part(std::span<Byte> rows, fssdp::token_segment const& of) const {
    return rows.subspan(of.first * row_bytes_, of.rows * row_bytes_);
  }

  std::size_t row_bytes_;
};

}  // namespace step
