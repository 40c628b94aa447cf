// SPDX-License-Identifier: Apache-2.0
/// Payloads that a device makes have the bytes of the host's, and it decodes and sums them as the
/// host does.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/decode_elements.hpp"
#include "fssdp/codec/encode_elements.hpp"
#include "fssdp/codec/encode_with_feedback.hpp"
#include "fssdp/element/runtime_work.hpp"
#include "peer/device_bytes.hpp"
#include "support/codec_data.hpp"
#include "support/device_codecs.hpp"
#include "support/dice.hpp"
#include "support/types.hpp"

using peer_tests::after_kernel;
using peer_tests::loaded_kernels;
using support::dice;

namespace {

/// Calls visit(codec, T{}) for every codec of devices and every element type.
template <class Visit>
void for_all_codings(Visit visit) {
  support::for_each_device_codec([&](auto const& codec) {
    for (auto const type : support::dtypes_of_a_test())
      fssdp::with_element(type, [&]<class T>(std::type_identity<T>) { visit(codec, T{}); });
  });
}

/// Numbers of every kind, not all of them finite if the last 8 are enough for those.
template <class T>
[[nodiscard]] std::vector<T> any_numbers(dice& draw, std::size_t count, bool only_finite = false) {
  auto all = std::vector<T>{};
  for (auto const value : support::random_floats(draw, count)) all.push_back(static_cast<T>(value));
  if (only_finite) return all;
  for (auto const special :
       {support::infinity, -support::infinity, support::not_a_number, -support::not_a_number})
    for (auto times = 0; times < 2; ++times)
      all[static_cast<std::size_t>(draw.between(0, static_cast<int>(count) - 1))] =
          static_cast<T>(special);
  return all;
}
/// Numbers whose sums are finite in any type.
template <class T>
[[nodiscard]] std::vector<T> small_numbers(dice& draw, std::size_t count) {
  auto all = std::vector<T>(count);
  for (auto& each : all) each = static_cast<T>(support::random_float(draw, 5));
  return all;
}

/// The same as bytes.
[[nodiscard]] std::vector<std::byte> small_numbers(fssdp::dtype type, dice& draw,
                                                   std::size_t count) {
  return fssdp::with_element(type, [&]<class T>(std::type_identity<T>) {
    auto const all = small_numbers<T>(draw, count);
    auto const bytes = std::as_bytes(std::span{all});
    return std::vector<std::byte>{bytes.begin(), bytes.end()};
  });
}

/// Memory that is laid out part by part, each a little after a cache line.
class memory_parts {
 public:
  template <class T>
  [[nodiscard]] std::size_t add(std::span<T const> elements, std::size_t shift) {
    auto const begin = (bytes_.size() + 255) / 256 * 256 + shift;
    bytes_.resize(begin + elements.size_bytes(), std::byte{0x5a});
    if (!elements.empty())
      std::memcpy(bytes_.data() + begin, elements.data(), elements.size_bytes());
    return begin;
  }
  /// Room for so many bytes.
  [[nodiscard]] std::size_t add_room(std::size_t bytes, std::size_t shift) {
    return add(std::span<std::byte const>{std::vector<std::byte>(bytes, std::byte{0x33})}, shift);
  }
  [[nodiscard]] std::span<std::byte const> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

template <class T>
[[nodiscard]] bool has_at(std::span<std::byte const> memory, std::size_t begin,
                          std::vector<T> const& expected) {
  return std::memcmp(memory.data() + begin, expected.data(), expected.size() * sizeof(T)) == 0;
}

/// Whole blocks, parts of one, one element more, and many.
constexpr auto coded_counts =
    std::array<std::size_t, 7>{1, 3, 255, 256, 257, 1024, support::all_types ? 70'001 : 3001};
/// How far after a cache line elements and payloads begin: in elements of their own.
constexpr auto coded_shifts = std::array<std::size_t, 2>{0, 1};

template <class Codec>
constexpr auto code_of = *fssdp::detail::code_on_devices<Codec>;

template <fssdp::codec Codec, class T>
[[nodiscard]] int wrong_payloads(fssdp::device_kernels const& kernels, Codec const& codec, T,
                                 dice& draw, bool with_residual) {
  auto wrong = 0;
  for (auto const count : coded_counts)
    for (auto const shift : coded_shifts) {
      auto const from = any_numbers<T>(draw, count);
      auto residual = small_numbers<float>(draw, count);
      auto memory = memory_parts{};
      auto const from_at = memory.add(std::span{from}, shift * sizeof(T));
      auto const residual_at = memory.add(std::span<float const>{residual}, 4 * shift);
      auto expected = std::vector<std::byte>(codec.encoded_bytes(count));
      auto const payload_at = memory.add_room(expected.size(), shift);
      auto const there = after_kernel(memory.bytes(), [&](cudaStream_t stream, std::byte* begin) {
        auto const at = [&](std::size_t byte) -> void* { return begin + byte; };
        return kernels.encode(
            stream, {.code = code_of<Codec>,
                     .from_type = fssdp::dtype_of<T>,
                     .elements = count,
                     .from = at(from_at),
                     .residual = with_residual ? static_cast<float*>(at(residual_at)) : nullptr,
                     .payload = at(payload_at)});
      });
      if (with_residual)
        encode_with_feedback(codec, std::span{from}, std::span{residual}, std::span{expected});
      else
        encode_elements(codec, std::span{from}, std::span{expected});
      auto const right =
          has_at(there, payload_at, expected) && has_at(there, residual_at, residual);
      wrong += right ? 0 : 1;
    }
  return wrong;
}

/// Operands of all kinds, at random, and the sum that the host forms of them.
template <fssdp::codec Codec, class T>
class coded_operands {
  using sum_type = fssdp::accumulator_t<T>;

 public:
  coded_operands(Codec const& codec, std::size_t count, std::size_t elements, std::size_t shift,
                 memory_parts& memory, dice& draw) {
    auto partials = std::vector<std::vector<T>>{};
    auto sums = std::vector<std::vector<sum_type>>{};
    auto list = std::vector<fssdp::summand>{};
    partials.reserve(count);
    sums.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      auto const kind = draw.between(0, 3);
      if (kind == 0) {
        auto const& own = partials.emplace_back(small_numbers<T>(draw, elements));
        list.push_back({.partial = own.data()});
        add(memory.add(std::span{own}, shift * sizeof(T)), fssdp::device_sums::kind::partial);
        continue;
      }
      auto& sum = sums.emplace_back(small_numbers<sum_type>(draw, elements));
      list.push_back({.summed = sum.data()});
      if (kind == 1) {
        add(memory.add(std::span<sum_type const>{sum}, shift * sizeof(sum_type)),
            fssdp::device_sums::kind::sum);
        continue;
      }
      auto payload = std::vector<std::byte>(codec.encoded_bytes(elements));
      encode_elements(codec, std::span<sum_type const>{sum}, std::span{payload});
      decode_elements(codec, std::span<std::byte const>{payload}, std::span{sum});
      add(memory.add(std::span<std::byte const>{payload}, shift),
          fssdp::device_sums::kind::payload);
    }
    expected_.resize(elements);
    auto const sum = fssdp::detail::runtime_sum_of(fssdp::dtype_of<T>, fssdp::dtype_of<sum_type>);
    sum.on_host(sum, list, expected_.data(), elements, 1, fssdp::write_mode::overwrite);
    partials_ = std::move(partials);
    list_ = std::move(list);
    sums_ = std::move(sums);
  }

  /// What a device is asked to sum in memory that begins there.
  [[nodiscard]] fssdp::device_sums in(std::byte* begin, void* out = nullptr) const {
    auto sum = fssdp::device_sums{};
    sum.partials = fssdp::dtype_of<T>;
    sum.code = code_of<Codec>;
    sum.begin(out, expected_.size());
    for (std::size_t i = 0; i < kinds_.size(); ++i) sum.add({begin + places_[i], kinds_[i]});
    return sum;
  }
  [[nodiscard]] std::vector<sum_type> const& expected() const { return expected_; }
  /// The same as elements of another type, as bytes.
  [[nodiscard]] std::vector<std::byte> expected(fssdp::dtype type, std::vector<std::byte> out,
                                                double scale, fssdp::write_mode how) const {
    auto const sum = fssdp::detail::runtime_sum_of(fssdp::dtype_of<T>, type);
    sum.on_host(sum, list_, out.data(), expected_.size(), scale, how);
    return out;
  }

 private:
  void add(std::size_t place, fssdp::device_sums::kind kind) {
    places_.push_back(place);
    kinds_.push_back(kind);
  }

  std::vector<std::size_t> places_;
  std::vector<fssdp::device_sums::kind> kinds_;
  std::vector<std::vector<T>> partials_;
  std::vector<std::vector<sum_type>> sums_;
  std::vector<fssdp::summand> list_;
  std::vector<sum_type> expected_;
};

}  // namespace

TEST_CASE("payloads that are made on a device have the bytes of the host's") {
  gpu_double::reset();
  auto const kernels = loaded_kernels();
  auto draw = dice{5};
  auto wrong = 0;
  for_all_codings([&](auto const& codec, auto type) {
    wrong += wrong_payloads(kernels, codec, type, draw, false);
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("payloads that are made on a device leave the residuals that the host leaves") {
  gpu_double::reset();
  auto const kernels = loaded_kernels();
  auto draw = dice{6};
  auto wrong = 0;
  for_all_codings([&](auto const& codec, auto type) {
    wrong += wrong_payloads(kernels, codec, type, draw, true);
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("payloads that are decoded on a device give the bits that they give on the host") {
  gpu_double::reset();
  auto const kernels = loaded_kernels();
  auto draw = dice{7};
  auto wrong = 0;
  for_all_codings([&]<class Codec, class T>(Codec const& codec, T) {
    for (auto const count : coded_counts)
      for (auto const shift : coded_shifts) {
        auto const from = any_numbers<float>(draw, count, true);
        auto payload = std::vector<std::byte>(codec.encoded_bytes(count));
        encode_elements(codec, std::span{from}, std::span{payload});
        auto expected = std::vector<T>(count);
        decode_elements(codec, std::span<std::byte const>{payload}, std::span{expected});
        auto memory = memory_parts{};
        auto const payload_at = memory.add(std::span<std::byte const>{payload}, shift);
        auto const to_at = memory.add_room(count * sizeof(T), shift * sizeof(T));
        auto const there = after_kernel(memory.bytes(), [&](cudaStream_t stream, std::byte* begin) {
          auto sum = fssdp::device_sums{};
          sum.results = fssdp::dtype_of<T>;
          sum.code = code_of<Codec>;
          sum.begin(begin + to_at, count);
          sum.add({begin + payload_at, fssdp::device_sums::kind::payload});
          return kernels.sum(stream, sum);
        });
        wrong += has_at(there, to_at, expected) ? 0 : 1;
      }
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("sums of payloads and others on a device have the bits of the host's") {
  gpu_double::reset();
  auto const kernels = loaded_kernels();
  auto draw = dice{8};
  auto wrong = 0;
  for_all_codings([&]<class Codec, class T>(Codec const& codec, T) {
    for (auto const to : support::dtypes_of_a_test())
      for (auto const shift : coded_shifts) {
        auto const elements = static_cast<std::size_t>(draw.between(1, 900));
        auto const operands = static_cast<std::size_t>(draw.between(1, 9));
        auto memory = memory_parts{};
        auto const of = coded_operands<Codec, T>{codec, operands, elements, shift, memory, draw};
        auto const out = small_numbers(to, draw, elements);
        auto const out_at =
            memory.add(std::span<std::byte const>{out}, shift * fssdp::bytes_of(to));
        auto const how =
            draw.chance(50) ? fssdp::write_mode::overwrite : fssdp::write_mode::accumulate;
        auto const there = after_kernel(memory.bytes(), [&](cudaStream_t stream, std::byte* begin) {
          auto sum = of.in(begin, begin + out_at);
          sum.results = to;
          sum.scale = 0.3;
          sum.how = how;
          return kernels.sum(stream, sum);
        });
        wrong += has_at(there, out_at, of.expected(to, out, 0.3, how)) ? 0 : 1;
      }
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("sums that are encoded on a device have the bytes of the host's") {
  gpu_double::reset();
  auto const kernels = loaded_kernels();
  auto draw = dice{9};
  auto wrong = 0;
  for_all_codings([&]<class Codec, class T>(Codec const& codec, T) {
    using sum_type = fssdp::accumulator_t<T>;
    for (auto times = 0; times < 8; ++times) {
      auto const shift = static_cast<std::size_t>(times % 2);
      auto const with_residual = times % 4 < 2;
      auto const elements = static_cast<std::size_t>(draw.between(1, 900));
      auto const operands = static_cast<std::size_t>(draw.between(1, 9));
      auto memory = memory_parts{};
      auto const of = coded_operands<Codec, T>{codec, operands, elements, shift, memory, draw};
      auto residual = small_numbers<float>(draw, elements);
      auto const residual_at = memory.add(std::span<float const>{residual}, 4 * shift);
      auto expected = std::vector<std::byte>(codec.encoded_bytes(elements));
      auto const payload_at = memory.add_room(expected.size(), shift);
      auto const there = after_kernel(memory.bytes(), [&](cudaStream_t stream, std::byte* begin) {
        return kernels.encode_sum(
            stream,
            {.sum = of.in(begin),
             .residual = with_residual ? reinterpret_cast<float*>(begin + residual_at) : nullptr,
             .payload = begin + payload_at});
      });
      auto const sums = std::span<sum_type const>{of.expected()};
      if (with_residual)
        encode_with_feedback(codec, sums, std::span{residual}, std::span{expected});
      else
        encode_elements(codec, sums, std::span{expected});
      auto const right =
          has_at(there, payload_at, expected) && has_at(there, residual_at, residual);
      wrong += right ? 0 : 1;
    }
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("a payload on a device is found to be wrong by its scale alone") {
  gpu_double::reset();
  auto const kernels = loaded_kernels();
  auto draw = dice{10};
  auto const from = any_numbers<float>(draw, 1000, true);
  auto memory = memory_parts{};
  auto const from_at = memory.add(std::span{from}, 0);
  auto expected = std::vector<std::byte>(fssdp::int8_codec::encoded_bytes(from.size()));
  auto const payload_at = memory.add_room(expected.size(), 0);
  fssdp::int8_codec::encode(from, expected);
  auto there = after_kernel(memory.bytes(), [&](cudaStream_t stream, std::byte* begin) {
    return kernels.encode(stream, {.code = fssdp::payload_code::int8,
                                   .elements = from.size(),
                                   .from = begin + from_at,
                                   .payload = begin + payload_at});
  });
  REQUIRE(has_at(there, payload_at, expected));
  there[payload_at + 3 * 260 + 1] ^= std::byte{0x80};  // the least bit that scales use
  REQUIRE_FALSE(has_at(there, payload_at, expected));
}
