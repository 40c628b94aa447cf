// SPDX-License-Identifier: Apache-2.0
/// Sums, conversions and copies on a device give the bits of a loop on the host.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "peer/device_bytes.hpp"
#include "peer/devices.hpp"
#include "support/dice.hpp"
#include "support/types.hpp"

using peer_tests::loaded_kernels;

namespace {

/// Random numbers of any type, as bytes; some are large enough to be rounded in sums.
void fill(fssdp::dtype type, std::span<std::byte> bytes, support::dice& draw) {
  fssdp::with_element(type, [&]<class T>(std::type_identity<T>) {
    for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
      auto const value = static_cast<T>(static_cast<float>(draw.between(-4000, 4000)) / 64.0F);
      std::memcpy(bytes.data() + i, &value, sizeof(T));
    }
  });
}

/// Runs the same work on the device and in a loop here, on equal memory. Whether the bits are
/// equal.
/// @param work_in(bytes) the work on memory that begins there
template <class Work, class Run>
[[nodiscard]] bool gives_equal_bits(std::span<std::byte const> before, Work work_in, Run run) {
  auto const there = peer_tests::after_kernel(
      before, [&](cudaStream_t stream, std::byte* begin) { return run(stream, work_in(begin)); });
  // memory like that of the device: where it is aligned decides how it is read
  auto here = std::vector<std::byte>(before.size() + 256);
  auto* const begin =
      here.data() + (256 - reinterpret_cast<std::uintptr_t>(here.data()) % 256) % 256;
  std::ranges::copy(before, begin);
  auto const loop = [](auto const& kernel) {
    if constexpr (requires { kernel.tiles(); })
      for (std::size_t tile = 0; tile < kernel.tiles(); ++tile) kernel(tile, 0, 1);
    else
      for (std::size_t step = 0; step < kernel.steps(); ++step) kernel(step);
  };
  fssdp::detail::with_kernel(work_in(begin), loop);
  return std::ranges::equal(there, std::span{begin, before.size()});
}

/// Calls visit(from, to) for all pairs of element types.
template <class Visit>
void for_all_pairs(Visit visit) {
  for (auto const from : fssdp::all_dtypes)
    for (auto const to : fssdp::all_dtypes) visit(from, to);
}

[[nodiscard]] fssdp::device_conversions conversions_of(
    fssdp::dtype from, fssdp::dtype to, fssdp::device_conversions::conversion const& one) {
  auto all = fssdp::device_conversions{};
  all.from_type = from;
  all.to_type = to;
  all.add(one);
  return all;
}

constexpr auto row = std::size_t{support::all_types ? 64 : 8} << 10U;  // bytes

}  // namespace

TEST_CASE("sums on a device have the bits of sums in a loop") {
  gpu_double::reset();
  auto const kernels = loaded_kernels();
  auto draw = support::dice{3};
  auto different = 0;
  for_all_pairs([&](fssdp::dtype from, fssdp::dtype to) {
    auto const sum_type = fssdp::accumulator_of(from);
    for (std::size_t count = 1; count <= 9; ++count)
      for (auto const shift : {0, 1}) {
        auto const how =
            draw.chance(50) ? fssdp::write_mode::overwrite : fssdp::write_mode::accumulate;
        auto const sums = draw.between(0, 2) * 50;  // of 100 operands
        auto is_sum = std::array<bool, 9>{};
        for (auto& each : is_sum) each = draw.chance(sums);
        auto before = std::vector<std::byte>((count + 1) * row);
        for (std::size_t i = 0; i < count; ++i) {
          auto const operand = std::span{before}.subspan(i * row, row);
          fill(is_sum[i] ? sum_type : from, operand, draw);
        }
        fill(to, std::span{before}.last(row), draw);
        auto const work = [&](std::byte* begin) {
          using kind = fssdp::device_sums::kind;
          auto sum = fssdp::device_sums{};
          sum.partials = from;
          sum.results = to;
          sum.how = how;
          sum.scale = 0.3;
          sum.begin(begin + count * row, row / 8 - static_cast<std::size_t>(shift) * 3);
          for (std::size_t i = 0; i < count; ++i)
            sum.add({begin + i * row + static_cast<std::size_t>(shift) * fssdp::bytes_of(sum_type),
                     is_sum[i] ? kind::sum : kind::partial});
          return sum;
        };
        different += gives_equal_bits(before, work, kernels.sum) ? 0 : 1;
      }
  });
  REQUIRE(different == 0);
}

TEST_CASE("conversions on a device have the bits of conversions in a loop") {
  gpu_double::reset();
  auto const kernels = loaded_kernels();
  auto draw = support::dice{4};
  auto different = 0;
  for_all_pairs([&](fssdp::dtype from, fssdp::dtype to) {
    auto before = std::vector<std::byte>(2 * row);
    fill(from, std::span{before}.first(row), draw);
    auto const work = [&](std::byte* begin) {
      return conversions_of(from, to, {begin, begin + row, row / 8 - 1});
    };
    different += gives_equal_bits(before, work, kernels.convert) ? 0 : 1;
  });
  REQUIRE(different == 0);
}

namespace {

/// Numbers on and beside every border of an 8-bit float, of either sign, and what is not a number.
template <class Format>
[[nodiscard]] std::vector<float> around_all(std::type_identity<fssdp::fp8<Format>>) {
  auto numbers = std::vector<float>{0.0F,
                                    1e-30F,
                                    1e-45F,
                                    448.5F,
                                    57345.0F,
                                    464.0F,
                                    480.0F,
                                    61440.0F,
                                    1e30F,
                                    std::numeric_limits<float>::infinity(),
                                    std::numeric_limits<float>::quiet_NaN()};
  for (std::uint8_t bits = 0; bits < 127; ++bits) {
    auto const number = static_cast<float>(fssdp::fp8<Format>::from_bits(bits));
    auto const next = static_cast<float>(fssdp::fp8<Format>::from_bits(bits + 1));
    auto const middle = number + (next - number) / 2;
    for (auto const each :
         {number, middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e9F)})
      numbers.push_back(each);
  }
  auto const positive = numbers.size();
  for (std::size_t i = 0; i < positive; ++i) numbers.push_back(-numbers[i]);
  return numbers;
}

/// How many elements a device converts to other bits than a loop; a NaN may have any.
template <class To, class From>
[[nodiscard]] int converted_differently(std::vector<From> from) {
  from.resize((from.size() + 15) / 16 * 16);
  auto bytes = std::vector<std::byte>(from.size() * 8);
  std::memcpy(bytes.data(), from.data(), from.size() * sizeof(From));
  auto const kernels = peer_tests::loaded_kernels();
  auto const all = peer_tests::after_kernel(bytes, [&](cudaStream_t stream, std::byte* begin) {
    return kernels.convert(stream, conversions_of(fssdp::dtype_of<From>, fssdp::dtype_of<To>,
                                                  {begin, begin + from.size() * 4, from.size()}));
  });
  auto different = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    auto found = To{};
    std::memcpy(&found, all.data() + from.size() * 4 + i * sizeof(To), sizeof(To));
    auto const expected = static_cast<To>(static_cast<float>(from[i]));
    auto const a = static_cast<float>(found);
    auto const b = static_cast<float>(expected);
    different += std::memcmp(&found, &expected, sizeof(To)) == 0 ||
                         (std::isnan(a) && std::isnan(b) && sizeof(To) > 1)
                     ? 0
                     : 1;
  }
  return different;
}

}  // namespace

TEMPLATE_TEST_CASE("8-bit floats on a device are those of a loop, at every border", "",
                   fssdp::fp8_e4m3, fssdp::fp8_e5m2) {
  gpu_double::reset();
  REQUIRE(converted_differently<TestType>(around_all(std::type_identity<TestType>{})) == 0);
  auto all = std::vector<TestType>{};
  for (int bits = 0; bits < 256; ++bits)
    all.push_back(TestType::from_bits(static_cast<std::uint8_t>(bits)));
  REQUIRE(converted_differently<float>(all) == 0);
}

TEST_CASE("copies on a device have the bits of copies in a loop") {
  gpu_double::reset();
  auto const kernels = loaded_kernels();
  constexpr auto place = std::size_t{64} << 10U;  // bytes for each copy
  auto different = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    auto draw = support::dice{seed};
    auto words = std::vector<std::uint64_t>(64 * place / sizeof(std::uint64_t));
    auto state = seed;
    for (auto& word : std::span{words}.first(words.size() / 2))
      word = state = state * 6364136223846793005U + 1442695040888963407U;
    auto const before = std::as_bytes(std::span{words});
    auto const unit = std::array<std::size_t, 3>{1, 4, 16}[seed % 3];
    auto sizes = std::array<std::size_t, 32>{};
    auto starts = std::array<std::size_t, 32>{};
    for (auto& size : sizes) size = static_cast<std::size_t>(draw.between(0, 60'000));
    for (auto& start : starts) start = unit * static_cast<std::size_t>(draw.between(0, 300));
    auto const work = [&](std::byte* begin) {
      auto copies = fssdp::device_copies{};
      copies.count = sizes.size();
      copies.most_blocks = seed % 4;
      for (std::size_t i = 0; i < sizes.size(); ++i)
        copies.copies[i] = {begin + (32 + i) * place + starts[31 - i] / 2 / unit * unit,
                            begin + i * place + starts[i], sizes[i]};
      return copies;
    };
    different += gives_equal_bits(before, work, kernels.copy) ? 0 : 1;
  }
  REQUIRE(different == 0);
}
