// SPDX-License-Identifier: Apache-2.0
/// The codecs that devices have kernels for.
#pragma once

#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/fp8_e4m3_codec.hpp"
#include "fssdp/codec/fp8_e5m2_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"

namespace support {

/// Calls check(codec) with each of them.
template <class Check>
void for_each_device_codec(Check check) {
  check(fssdp::int8_codec{});
  check(fssdp::fp8_e4m3_codec{});
  check(fssdp::fp8_e5m2_codec{});
  check(fssdp::bf16_codec{});
}

}  // namespace support
