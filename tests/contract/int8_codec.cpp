// SPDX-License-Identifier: Apache-2.0
/// The contract of a codec, for steps of equal size.
#include "fssdp/codec/int8_codec.hpp"

#include "contract/codec_contract.hpp"

namespace {

struct in_int8 {
  static fssdp::int8_codec make() { return {}; }
};

}  // namespace

TEST_CASE("int8_codec keeps the contract") { contract::codec_contract<in_int8>::check(); }
