// SPDX-License-Identifier: Apache-2.0
/// The contract of a codec, for bf16.
#include "fssdp/codec/bf16_codec.hpp"

#include "contract/codec_contract.hpp"

namespace {

struct in_bf16 {
  static fssdp::bf16_codec make() { return {}; }
};

}  // namespace

TEST_CASE("bf16_codec keeps the contract") { contract::codec_contract<in_bf16>::check(); }
