// SPDX-License-Identifier: Apache-2.0
/// Compresses by a codec.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/encode_elements.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/hybrid/compressor.hpp"

namespace fssdp {

/// Every group sends its gradient encoded by a codec; all groups decode all payloads, and add them
/// in the order of the groups. With a residual this is error feedback.
template <codec Codec>
struct codec_compressor {
  [[nodiscard]] combination combines(int /*round*/) const { return combination::gather; }
  Codec coder = {};

  /// Codecs have no names: the size of a block, and of its payload.
  [[nodiscard]] std::string description() const {
    return detail::text("codec_compressor, ", coder.encoded_bytes(Codec::block_elements),
                        " bytes for ", std::size_t{Codec::block_elements}, " elements");
  }
  [[nodiscard]] int rounds() const { return 1; }
  [[nodiscard]] std::size_t payload_bytes(unit_shape shape, int /*round*/) const {
    return coder.encoded_bytes(shape.elements());
  }
  [[nodiscard]] std::size_t state_elements(unit_shape) const { return 0; }
  [[nodiscard]] std::size_t scratch_elements(unit_shape) const { return 0; }
  [[nodiscard]] bool needs_residual(unit_shape) const { return true; }

  void encode(compression_unit const&, std::span<float const> input,
              std::span<combined_payload const>, std::span<std::byte> payload) const {
    coder.encode(input, payload);
  }
  void own(compression_unit const&, std::span<combined_payload const> rounds,
           std::span<float> output) const {
    coder.decode(rounds[0].mine, output);
  }
  void decode(compression_unit const&, std::span<combined_payload const> rounds,
              std::span<float> output) const {
    constexpr auto stretch = detail::stretch_elements<Codec>;
    auto const groups = static_cast<std::size_t>(rounds[0].groups);
    auto const share = 1.0F / static_cast<float>(groups);
    auto sums = std::array<float, stretch>{};
    auto one = std::array<float, stretch>{};
    for (std::size_t first = 0; first < output.size(); first += stretch) {
      auto const to = output.subspan(first, std::min(stretch, output.size() - first));
      auto const at = coder.encoded_bytes(first);
      auto const bytes = coder.encoded_bytes(to.size());
      auto const decode_to = [&](std::size_t group, std::array<float, stretch>& values) {
        auto const payload = rounds[0].of_group(group).subspan(at, bytes);
        coder.decode(payload, std::span{values}.first(to.size()));
      };
      decode_to(0, sums);
      for (std::size_t g = 1; g < groups; ++g) {
        decode_to(g, one);
        for (std::size_t i = 0; i < stretch; ++i) sums[i] += one[i];
      }
      for (auto& sum : sums) sum *= share;
      std::copy_n(sums.begin(), to.size(), to.begin());
    }
  }
};

}  // namespace fssdp
