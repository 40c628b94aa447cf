// SPDX-License-Identifier: Apache-2.0
/// The contract of a codec, for grids that are shifted.
#include "fssdp/codec/shifted_codec.hpp"

#include "contract/codec_contract.hpp"

namespace {

struct of_eight_bits {
  static fssdp::shifted_codec<8> make() { return {.seed = 3}; }
};
struct of_four_bits {
  static fssdp::shifted_codec<4, 1024> make() { return {.seed = 4}; }
};

}  // namespace

TEST_CASE("shifted_codec keeps the contract, with 8 bits") {
  contract::codec_contract<of_eight_bits>::check();
}
TEST_CASE("shifted_codec keeps the contract, with 4 bits") {
  contract::codec_contract<of_four_bits>::check();
}
