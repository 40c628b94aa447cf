// SPDX-License-Identifier: Apache-2.0
/// Codecs as values: what checks them is compiled once, not for each.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/codec/fp8_e4m3_codec.hpp"
#include "fssdp/codec/fp8_e5m2_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/codec/link_coding.hpp"
#include "fssdp/codec/shifted_codec.hpp"
#include "support/codec_data.hpp"
#include "support/hundreds_codec.hpp"

namespace support {

/// A codec, and what it makes of numbers.
struct any_codec {
  std::string name;
  std::size_t block_elements;
  std::function<fssdp::link_coding(fssdp::link_class)> on;
  std::function<std::vector<double>(std::span<double const>)> coded_and_decoded;
  std::function<double(float value, float largest)> error_bound;

  template <fssdp::codec Codec>
  any_codec(std::string its_name, Codec const& coder)
      : name{std::move(its_name)},
        block_elements{Codec::block_elements},
        on{[=](fssdp::link_class links) {
          return fssdp::coded_links{coder, links};
        }},
        coded_and_decoded{[=](std::span<double const> from) {
          auto const arrived = there_and_back(coder, std::vector<float>(from.begin(), from.end()));
          return std::vector<double>(arrived.begin(), arrived.end());
        }},
        error_bound{[=](float value, float largest) { return coder.error_bound(value, largest); }} {
  }
};

/// Those of the library, and one of a user with an option.
[[nodiscard]] inline std::vector<any_codec> all_codecs() {
  return {any_codec{"bf16_codec", fssdp::bf16_codec{}},
          any_codec{"fp8_e4m3_codec", fssdp::fp8_e4m3_codec{}},
          any_codec{"fp8_e5m2_codec", fssdp::fp8_e5m2_codec{}},
          any_codec{"int8_codec", fssdp::int8_codec{}},
          any_codec{"shifted_codec", fssdp::shifted_codec<8>{.seed = 5}},
          any_codec{"hundreds_codec", hundreds_codec{.levels = 77}}};
}

}  // namespace support
