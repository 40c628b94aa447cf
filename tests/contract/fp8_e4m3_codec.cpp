// SPDX-License-Identifier: Apache-2.0
/// The contract of a codec, for 8-bit floats.
#include "fssdp/codec/fp8_e4m3_codec.hpp"

#include "contract/codec_contract.hpp"

namespace {

struct in_fp8_e4m3 {
  static fssdp::fp8_e4m3_codec make() { return {}; }
};

}  // namespace

TEST_CASE("fp8_e4m3_codec keeps the contract") { contract::codec_contract<in_fp8_e4m3>::check(); }
