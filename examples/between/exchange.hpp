// SPDX-License-Identifier: Apache-2.0
/// The exchange of gradients that the name of a method stands for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "between/method.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/hybrid/codec_compressor.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/hybrid/low_rank_compressor.hpp"
#include "fssdp/hybrid/quantized_compressor.hpp"
#include "fssdp/hybrid/selected_compressor.hpp"
#include "fssdp/hybrid/ternary_compressor.hpp"
#include "fssdp/hybrid/threshold_compressor.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"

namespace between {

/// Compressor and memory. If parameters are exchanged in place of gradients, the compressor is that of
/// pseudo-gradients.
/// @param seed of all draws
[[nodiscard]] inline fssdp::gradient_exchange_options exchange_of(method const& of,
                                                                  std::uint64_t seed = 0) {
  auto const name = of.name;
  auto const count = static_cast<std::size_t>(of.number);
  auto result = fssdp::gradient_exchange_options{};
  if (name == "bf16") result.compressor = fssdp::codec_compressor<fssdp::bf16_codec>{};
  if (name == "int8") result.compressor = fssdp::codec_compressor<fssdp::int8_codec>{};
  if (name == "terngrad") result.compressor = fssdp::ternary_compressor{};
  if (name == "powersgd") result.compressor = fssdp::low_rank_compressor{.rank = count};
  if (name == "qsdp") result.compressor = fssdp::quantized_compressor{{.bits = count}};
  if (name == "qsdp-shift")
    result.compressor = fssdp::quantized_compressor{
        {.bits = count, .rounding = fssdp::quantized_rounding::shifted}};
  if (name == "tagc")
    result.compressor = fssdp::threshold_compressor{.dropped = 1 - 1.0 / of.number};
  if (name == "demo") result = fssdp::demo(fssdp::top_dct_compressor{{.kept = count}});
  if (name == "demo-2d")
    result = fssdp::demo(fssdp::top_dct_compressor{{.rows = 64, .columns = 64, .kept = count}});
  if (name == "striding") result = fssdp::demo(fssdp::strided_compressor{count});
  if (name == "random") result = fssdp::demo(fssdp::random_compressor{1.0 / of.number});
  result.seed = seed;
  return result;
}

}  // namespace between
