// SPDX-License-Identifier: Apache-2.0
/// What every codec promises, law by law. A model passes with a short file of its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/decode_elements.hpp"
#include "fssdp/codec/encode_elements.hpp"
#include "fssdp/codec/encode_with_feedback.hpp"
#include "fssdp/core/error.hpp"
#include "support/codec_data.hpp"
#include "support/laws.hpp"

namespace contract {

/// Model::make() gives a codec, always the same one.
template <class Model>
class codec_contract {
  using codec = decltype(Model::make());
  static_assert(fssdp::codec<codec>);
  static constexpr auto block = std::size_t{codec::block_elements};
  using floats = std::vector<float>;
  using bytes = std::vector<std::byte>;

 public:
  /// All laws; a section each.
  static void check() {
    SECTION("the sizes of blocks add up, and what cannot be counted is refused") { check_sizes(); }
    SECTION("a range of whole blocks is that part of the whole payload") {
      for_many_inputs(check_parts);
    }
    SECTION("equal floats give equal bytes, in any memory, and nothing else is written") {
      for_many_inputs(check_writing);
    }
    SECTION("no element is off by more than the bound") { for_many_inputs(check_bound); }
    SECTION("the bound does not fall with its arguments") { for_many_inputs(check_bound_grows); }
    SECTION("what has been decoded is not changed any more") {
      for_many_inputs([](codec const& coder, floats const& from, support::dice&) {
        auto const once = support::there_and_back(coder, from);
        auto const twice = support::there_and_back(coder, once);
        REQUIRE(support::bits_of(once) == support::bits_of(twice));
      });
    }
    SECTION("zero stays zero") {
      for_many_inputs([](codec const& coder, floats const& from, support::dice&) {
        auto const to = support::there_and_back(coder, from);
        auto lost = 0;
        for (std::size_t i = 0; i < from.size(); ++i) lost += from[i] == 0 && to[i] != 0 ? 1 : 0;
        REQUIRE(lost == 0);
      });
    }
    SECTION("what is not finite does not become so, and its neighbours do not notice") {
      for_many_inputs(check_not_finite);
    }
    SECTION("elements of other types are converted on the way") {
      for_many_inputs(check_types<double>);
      for_many_inputs(check_types<fssdp::bf16>);
      for_many_inputs(check_types<fssdp::fp16>);
      for_many_inputs(check_types<fssdp::fp8_e4m3>);
      for_many_inputs(check_types<fssdp::fp8_e5m2>);
    }
    SECTION("with feedback nothing gets lost, over many steps") { check_feedback(); }
  }

 private:
  static constexpr auto instances = support::law_instances / 20 + 1;

  /// A failure prints the seed.
  template <class Law>
  static void for_many_inputs(Law law) {
    auto const most = std::min(3 * block + 700, std::size_t{3000});
    for (auto seed = std::uint64_t{1}; seed <= instances; ++seed) {
      CAPTURE(seed);
      auto draw = support::dice{seed};
      auto const size = static_cast<std::size_t>(draw.between(0, static_cast<int>(most)));
      auto const from = support::random_floats(draw, seed % 4 == 0 ? size / block * block : size);
      law(Model::make(), from, draw);
    }
  }

  static void check_sizes() {
    auto const coder = Model::make();
    REQUIRE(coder.encoded_bytes(0) == 0);
    auto const of_block = coder.encoded_bytes(block);
    REQUIRE(of_block > 0);
    for (std::size_t rest = 0; rest < block; ++rest)
      for (std::size_t blocks = 0; blocks < 5; ++blocks)
        REQUIRE(coder.encoded_bytes(blocks * block + rest) ==
                blocks * of_block + coder.encoded_bytes(rest));
    auto elements = std::numeric_limits<std::size_t>::max();
    for (auto size = elements; size > block; size /= 2) {
      CAPTURE(size);
      auto counted = std::size_t{0};
      try {
        counted = coder.encoded_bytes(size);
      } catch (fssdp::argument_error const&) {
        continue;
      }
      REQUIRE((counted - coder.encoded_bytes(size % block)) / of_block == size / block);
      REQUIRE((counted - coder.encoded_bytes(size % block)) % of_block == 0);
    }
  }

  static void check_parts(codec const& coder, floats const& from, support::dice& draw) {
    auto const whole = support::encoded(coder, from);
    auto const blocks = static_cast<int>(from.size() / block);
    for (int i = 0; i < 4; ++i) {
      auto const first = static_cast<std::size_t>(draw.between(0, blocks)) * block;
      auto const some = static_cast<std::size_t>(draw.between(0, blocks)) * block;
      auto const last = draw.chance(50) ? from.size() : std::max(first, some);
      CAPTURE(first, last);
      auto const part = std::span{from}.subspan(first, last - first);
      auto const begin = coder.encoded_bytes(first);
      auto const size = coder.encoded_bytes(last) - begin;
      auto const payload = support::encoded(coder, part);
      REQUIRE(payload.size() == size);
      REQUIRE(std::equal(payload.begin(), payload.end(), whole.data() + begin));
      auto const of_part =
          support::decoded(coder, std::span{whole}.subspan(begin, size), part.size());
      auto const all = support::decoded(coder, whole, from.size());
      REQUIRE(support::bits_of(of_part) ==
              support::bits_of(std::span{all}.subspan(first, last - first)));
    }
  }

  static void check_writing(codec const& coder, floats const& from, support::dice& draw) {
    auto const expected = support::encoded(coder, from);
    REQUIRE(support::encoded(coder, from, std::byte{0xff}) == expected);
    REQUIRE(support::encoded(codec{coder}, from) == expected);
    auto const offset = static_cast<std::size_t>(draw.between(0, 7));
    auto memory = bytes(expected.size() + 16, std::byte{0x5a});
    coder.encode(from, std::span{memory}.subspan(offset, expected.size()));
    auto around = bytes(expected.size() + 16, std::byte{0x5a});
    std::ranges::copy(expected, around.data() + offset);
    REQUIRE(memory == around);

    auto const decoded = support::decoded(coder, expected, from.size());
    auto to = floats(from.size() + 16, 7.0F);
    auto const payload = std::span<std::byte const>{memory}.subspan(offset, expected.size());
    coder.decode(payload, std::span{to}.subspan(offset, from.size()));
    auto around_floats = floats(from.size() + 16, 7.0F);
    std::ranges::copy(decoded, around_floats.data() + offset);
    REQUIRE(support::bits_of(to) == support::bits_of(around_floats));
    REQUIRE(memory == around);
  }

  static void check_bound(codec const& coder, floats const& from, support::dice&) {
    auto const to = support::there_and_back(coder, from);
    auto const largest = support::largest_of_blocks(from, block);
    auto wrong = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
      auto const error = std::abs(static_cast<double>(to[i]) - static_cast<double>(from[i]));
      wrong += error <= coder.error_bound(from[i], largest[i / block]) ? 0 : 1;
      wrong += error <= coder.error_bound(largest[i / block], largest[i / block]) ? 0 : 1;
    }
    REQUIRE(wrong == 0);
  }

  static void check_bound_grows(codec const& coder, floats const& from, support::dice&) {
    auto sizes = floats{0.0F};
    for (auto const value : from) sizes.push_back(std::abs(value));
    std::ranges::sort(sizes);
    auto wrong = 0;
    for (std::size_t i = 1; i < sizes.size(); ++i) {
      auto const smaller = coder.error_bound(sizes[i - 1], sizes[i]);
      auto const bound = coder.error_bound(sizes[i], sizes[i]);
      wrong += smaller >= 0 && smaller <= bound ? 0 : 1;
      wrong += bound <= coder.error_bound(sizes[i], sizes.back()) ? 0 : 1;
      wrong += smaller == coder.error_bound(-sizes[i - 1], sizes[i]) ? 0 : 1;
    }
    REQUIRE(wrong == 0);
  }

  static void check_not_finite(codec const& coder, floats from, support::dice& draw) {
    constexpr auto infinity = std::numeric_limits<float>::infinity();
    constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
    auto without = from;
    auto const percent = draw.one_of(std::vector{1, 20, 100});
    for (std::size_t i = 0; i < from.size(); ++i)
      if (draw.chance(percent)) {
        from[i] = draw.one_of(std::vector{infinity, -infinity, nan, -nan});
        without[i] = 0;
      }
    auto to = support::there_and_back(coder, from);
    auto const again = support::there_and_back(coder, to);
    REQUIRE(support::bits_of(again) == support::bits_of(to));
    auto expected = support::there_and_back(coder, without);
    auto healed = 0;
    for (std::size_t i = 0; i < from.size(); ++i)
      if (!std::isfinite(from[i])) {
        healed += std::isfinite(to[i]) ? 1 : 0;
        to[i] = expected[i] = 0;
      }
    REQUIRE(healed == 0);
    REQUIRE(support::bits_of(to) == support::bits_of(expected));
  }

  template <class T>
  static void check_types(codec const& coder, floats const& of, support::dice&) {
    auto from = std::vector<T>{};
    auto as_floats = floats{};
    for (auto const value : of) {
      from.push_back(static_cast<T>(value));
      as_floats.push_back(static_cast<float>(from.back()));
    }
    auto const expected = support::encoded(coder, as_floats);
    auto payload = bytes(expected.size());
    fssdp::encode_elements(coder, std::span<T const>{from}, std::span{payload});
    REQUIRE(payload == expected);
    auto const decoded = support::decoded(coder, payload, of.size());
    auto converted = floats{};
    for (auto const value : decoded) converted.push_back(static_cast<float>(static_cast<T>(value)));
    auto to = std::vector<T>(of.size());
    fssdp::decode_elements(coder, std::span<std::byte const>{payload}, std::span{to});
    auto elements = floats{};
    for (auto const value : to) elements.push_back(static_cast<float>(value));
    REQUIRE(support::bits_of(elements) == support::bits_of(converted));
  }

  static void check_feedback() {
    auto const coder = Model::make();
    auto draw = support::dice{3};
    auto const size = 2 * block + 5;
    auto residual = floats(size);
    auto given = std::vector<double>(size);
    auto received = std::vector<double>(size);
    constexpr auto steps = 30;
    for (int step = 0; step < steps; ++step) {
      auto from = floats{};
      for (std::size_t i = 0; i < size; ++i) from.push_back(support::random_float(draw, 5));
      auto sums = floats{};
      for (std::size_t i = 0; i < size; ++i) sums.push_back(from[i] + residual[i]);
      auto payload = bytes(coder.encoded_bytes(size));
      fssdp::encode_with_feedback(coder, std::span<float const>{from}, std::span{residual},
                                  std::span{payload});
      REQUIRE(payload == support::encoded(coder, sums));
      auto const to = support::decoded(coder, payload, size);
      auto const largest = support::largest_of_blocks(sums, block);
      auto wrong = 0;
      for (std::size_t i = 0; i < size; ++i) {
        given[i] += static_cast<double>(from[i]);
        received[i] += static_cast<double>(to[i]);
        auto const left = std::abs(static_cast<double>(residual[i]));
        wrong += left <= coder.error_bound(sums[i], largest[i / block]) ? 0 : 1;
      }
      REQUIRE(wrong == 0);
    }
    auto wrong = 0;
    for (std::size_t i = 0; i < size; ++i) {
      auto const lost = given[i] - received[i] - static_cast<double>(residual[i]);
      wrong += std::abs(lost) <= steps * 2.0 * 0x1p-24 ? 0 : 1;  // |from + residual| < 2
    }
    REQUIRE(wrong == 0);
  }
};

}  // namespace contract
