// SPDX-License-Identifier: Apache-2.0
/// Up to how many groups a gather of payloads sends less than a sum of all floats: counted.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/hybrid/any_compressor.hpp"
#include "fssdp/hybrid/codec_compressor.hpp"
#include "fssdp/hybrid/payload_exchange.hpp"
#include "fssdp/hybrid/quantized_compressor.hpp"
#include "fssdp/hybrid/ternary_compressor.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::combination;

namespace {

constexpr auto unit = fssdp::unit_shape{64, 64};
constexpr auto most_groups = 32;

struct method {
  fssdp::any_compressor compressor;
  int last;  // number of groups for which a gather sends less; 8 N / (k w) and beyond it does not
};
[[nodiscard]] std::vector<method> methods() {
  using dct = fssdp::top_dct_compressor;
  return {{dct{}, 25},                                                      // 512 / 20 = 25.6
          {dct{{.kept = 32}}, 3},                                           // 512 / 160 = 3.2
          {dct{{.rows = 64, .columns = 64, .kept = 32}}, most_groups},      // 32768 / 192 = 170.7
          {fssdp::ternary_compressor{}, 31},                                // a scale too much
          {fssdp::codec_compressor<fssdp::int8_codec>{}, 7},                // 2048 / 260 = 7.9
          {fssdp::quantized_compressor{{.bits = 8, .bucket = 1024}}, 7},    // 8192 / 1032 = 7.9
          {fssdp::quantized_compressor{{.bits = 4, .bucket = 1024}}, 15}};  // 8192 / 520 = 15.8
}
/// All rounds.
[[nodiscard]] std::size_t payload_bytes(fssdp::any_compressor const& compressor) {
  auto bytes = std::size_t{0};
  for (int round = 0; round < compressor.rounds(); ++round)
    bytes += compressor.payload_bytes(unit, round);
  return bytes;
}
/// What all ranks together send.
[[nodiscard]] std::uint64_t bytes_sent(fssdp::thread_world& world, combination how,
                                       std::size_t bytes) {
  auto const sent = support::on_all_ranks(world, [&](fssdp::thread_communicator& between) {
    auto counted = fssdp::counting{between};
    auto const mine = std::vector<std::byte>(bytes);
    auto all = std::vector<std::byte>(
        fssdp::detail::payload_exchange::combined_bytes(how, bytes, between.size()));
    fssdp::detail::payload_exchange{}.run(fssdp::communicator_ref{counted}, how, mine, all, {});
    return counted.counts().bytes_sent;
  });
  return std::accumulate(sent.begin(), sent.end(), std::uint64_t{0});
}

}  // namespace

TEST_CASE("a gather of payloads sends less than a sum while there are few enough groups") {
  auto const floats = unit.elements() * sizeof(float);
  for (auto const groups : {2, 3, 4, 7, 8, 15, 16, 25, 26, 31, most_groups}) {
    auto world = fssdp::thread_world{groups};
    auto const of_sum = bytes_sent(world, combination::sum, floats);
    auto const others = static_cast<std::uint64_t>(groups - 1);
    CAPTURE(groups);
    REQUIRE(of_sum == 2 * others * floats);
    for (auto const& [compressor, last] : methods()) {
      CAPTURE(compressor.description(), last);
      auto const payload = payload_bytes(compressor);
      auto const of_gather = bytes_sent(world, combination::gather, payload);
      REQUIRE(of_gather == static_cast<std::uint64_t>(groups) * others * payload);
      REQUIRE((of_gather < of_sum) == (groups <= last));
    }
  }
}
