// SPDX-License-Identifier: Apache-2.0
/// The contract of a codec, for 8-bit floats.
#include "fssdp/codec/fp8_e5m2_codec.hpp"

#include "contract/codec_contract.hpp"

namespace {

struct in_fp8_e5m2 {
  static fssdp::fp8_e5m2_codec make() { return {}; }
};

}  // namespace

TEST_CASE("fp8_e5m2_codec keeps the contract") { contract::codec_contract<in_fp8_e5m2>::check(); }
