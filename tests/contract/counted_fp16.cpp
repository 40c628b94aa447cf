// SPDX-License-Identifier: Apache-2.0
/// The contract of a codec, for one that the library does not know.
#include "support/counted_fp16.hpp"

#include "contract/codec_contract.hpp"

namespace {

struct in_fp16 {
  static support::counted_fp16 make() { return {.scale = 0x1p4F}; }
};

}  // namespace

TEST_CASE("a user's codec keeps the contract") { contract::codec_contract<in_fp16>::check(); }
