// SPDX-License-Identifier: Apache-2.0
/// Sends gradients uncompressed, in fp32: hybrid sharded data parallelism.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/fixed_parts.hpp"
#include "fssdp/memory/copy_bytes.hpp"

namespace fssdp {

namespace detail {

/// Writes floats as bytes, as payloads are not aligned.
inline void write_floats(std::span<float const> from, std::span<std::byte> to) {
  copy_bytes(to, std::as_bytes(from));
}
inline void read_floats(std::span<std::byte const> from, std::span<float> to) {
  copy_bytes(std::as_writable_bytes(to), from);
}
[[nodiscard]] inline float float_at(std::span<std::byte const> bytes, std::size_t n) {
  auto value = 0.0F;
  std::memcpy(&value, bytes.data() + n * sizeof value, sizeof value);
  return value;
}
inline void put_float(std::span<std::byte> bytes, std::size_t n, float value) {
  std::memcpy(bytes.data() + n * sizeof value, &value, sizeof value);
}

/// to[i] = factor times the i-th float.
inline void read_floats_times(float factor, std::span<std::byte const> from, std::span<float> to) {
  auto part = float_part{};
  auto first = std::size_t{0};
  for (; first + part_elements <= to.size(); first += part_elements) {
    std::memcpy(part.data(), from.data() + first * sizeof(float), sizeof part);
    auto* const here = &to[first];
    for (std::size_t i = 0; i < part_elements; ++i) here[i] = factor * part[i];
  }
  for (; first < to.size(); ++first) to[first] = factor * float_at(from, first);
}

}  // namespace detail

/// 4 bytes per element, exact. (HSDP: PyTorch's HYBRID_SHARD, a 2-D mesh of fully_shard)
struct full_compressor {
  [[nodiscard]] combination combines(int /*round*/) const { return combination::sum; }

  [[nodiscard]] std::string description() const { return "full_compressor"; }
  [[nodiscard]] int rounds() const { return 1; }
  [[nodiscard]] std::size_t payload_bytes(unit_shape shape, int /*round*/) const {
    return detail::checked_product("full_compressor", shape.elements(), sizeof(float));
  }
  [[nodiscard]] std::size_t state_elements(unit_shape) const { return 0; }
  [[nodiscard]] std::size_t scratch_elements(unit_shape) const { return 0; }
  [[nodiscard]] bool needs_residual(unit_shape) const { return false; }

  void encode(compression_unit const&, std::span<float const> input,
              std::span<combined_payload const>, std::span<std::byte> payload) const {
    detail::write_floats(input, payload);
  }
  void own(compression_unit const&, std::span<combined_payload const> rounds,
           std::span<float> output) const {
    detail::read_floats(rounds[0].mine, output);
  }
  void decode(compression_unit const&, std::span<combined_payload const> rounds,
              std::span<float> output) const {
    auto const share = 1.0F / static_cast<float>(rounds[0].groups);
    detail::read_floats_times(share, rounds[0].all, output);
  }
};

static_assert(compressor<full_compressor>);

}  // namespace fssdp
