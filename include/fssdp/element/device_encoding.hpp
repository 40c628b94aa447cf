// SPDX-License-Identifier: Apache-2.0
/// Payloads that are encoded on a device, in the order of a stream.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "fssdp/element/device_sums.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/element_lanes.hpp"
#include "fssdp/element/host_device.hpp"
#include "fssdp/element/payload_code.hpp"
#include "fssdp/element/payload_lanes.hpp"
#include "fssdp/element/rounded.hpp"

namespace fssdp {

/// The encoding of some elements, with the same bytes as the codec on the host: as
/// `encode_elements`, or `encode_with_feedback` if there is a residual.
struct device_encoding {
  payload_code code = payload_code::int8;
  dtype from_type = dtype::fp32;
  std::size_t elements = 0;
  void const* from = nullptr;
  float* residual = nullptr;  ///< one for each element, or null
  void* payload = nullptr;    ///< at any address; multiples of 8 are fast
};

/// The encoding of an unscaled sum, with its code, in the same way. The sum itself is not stored.
struct device_sum_encoding {
  device_sums sum;            ///< one sum; its `results`, `how`, `scale` and `out` are unused
  float* residual = nullptr;  ///< as above
  void* payload = nullptr;
};

namespace detail {

/// An element as a float, with the rounding of the host. A device alone would not keep the bits of
/// a NaN.
template <element T>
[[nodiscard]] FSSDP_HOST_DEVICE float as_float(T value) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, double>)
    if (value != value) {
      auto const bits = std::bit_cast<std::uint64_t>(value);
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32U & 0x80000000U) |
                                  static_cast<std::uint32_t>(bits >> 29U & 0x003fffffU) |
                                  0x7fc00000U);
    }
#endif
  return static_cast<float>(value);
}
/// An element in the type of its sums, in the same way.
template <element T>
[[nodiscard]] FSSDP_HOST_DEVICE accumulator_t<T> as_summed(T value) {
  auto const result = static_cast<accumulator_t<T>>(value);
  if constexpr (sizeof(T) == 1)
    if (result != result) return value.by_bits();
  return result;
}
/// a * b for b > 0; keeps the sign of a also if that is a NaN.
[[nodiscard]] FSSDP_HOST_DEVICE inline float scaled(float a, float b) {
  constexpr auto sign = std::uint32_t{0x80000000};
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(product(a, b)) & ~sign) |
                              (std::bit_cast<std::uint32_t>(a) & sign));
}
/// The maximum over the threads of a warp; on the host, which has one thread, its own number.
[[nodiscard]] FSSDP_HOST_DEVICE inline std::uint32_t largest_of_warp(std::uint32_t mine) {
#ifdef __CUDA_ARCH__
  constexpr auto all = 0xffffffffU;
#if __CUDA_ARCH__ >= 800
  mine = __reduce_max_sync(all, mine);
#else
  for (auto distance = 16U; distance != 0; distance /= 2) {
    auto const other = __shfl_xor_sync(all, mine, static_cast<int>(distance));
    mine = other < mine ? mine : other;
  }
#endif
#endif
  return mine;
}

/// Reads elements to encode in place, N at a time.
template <element T, std::size_t N>
class plain_elements {
 public:
  using sum_type = accumulator_t<T>;
  static constexpr auto lanes = N;
  static constexpr auto read_bytes = std::size_t{0};  // no additional memory

  explicit plain_elements(device_encoding const& of)
      : from_{static_cast<T const*>(of.from)}, elements_{of.elements} {}
  [[nodiscard]] bool is_aligned() const { return is_wide(from_); }
  [[nodiscard]] FSSDP_HOST_DEVICE std::size_t elements() const { return elements_; }
  [[nodiscard]] FSSDP_HOST_DEVICE element_lanes<sum_type, N> all(std::size_t first) const {
    auto own = element_lanes<T, N>{};
    own.load(from_ + first);
    auto result = element_lanes<sum_type, N>{};
    for (std::size_t i = 0; i < N; ++i) result.at[i] = as_summed(own.at[i]);
    return result;
  }
  [[nodiscard]] FSSDP_HOST_DEVICE sum_type one(std::size_t i) const { return as_summed(from_[i]); }

 private:
  T const* from_;
  std::size_t elements_;
};

/// Forms the elements of a sum to encode, N at a time.
template <element T, std::size_t N>
class summed_elements {
  using sums = operand_sums<T, N, true>;

 public:
  using sum_type = typename sums::sum_type;
  static constexpr auto lanes = N;
  static constexpr auto read_bytes = sums::read_bytes;

  explicit summed_elements(device_sum_encoding const& of) : sums_{of.sum} {}
  [[nodiscard]] bool is_aligned() const { return sums_.is_aligned(0); }
  [[nodiscard]] FSSDP_HOST_DEVICE std::size_t elements() const { return sum().elements; }
  [[nodiscard]] FSSDP_HOST_DEVICE element_lanes<sum_type, N> all(std::size_t first) const {
    return sums_.all(sum(), first);
  }
  [[nodiscard]] FSSDP_HOST_DEVICE sum_type one(std::size_t i) const { return sums_.one(sum(), i); }

 private:
  [[nodiscard]] FSSDP_HOST_DEVICE device_sums::sum const& sum() const {
    return sums_.about().sums[0];
  }

  sums sums_;
};

/// An encoding in steps. 32 consecutive steps, those of the threads of a warp, form one block of
/// the payload: each thread reads some elements and keeps them until all threads know the scale.
/// @tparam Source what it reads: plain_elements or summed_elements
template <class Source, class Rule>
class encoding_kernel {
  using layout = payload_layout<Rule>;
  using code_type = typename layout::code_type;
  using sum_type = typename Source::sum_type;
  static constexpr auto lanes = Source::lanes;
  static constexpr std::size_t threads = 32;
  template <class T>
  using lanes_of = element_lanes<T, lanes>;
  static constexpr auto code_access = 4 * sizeof(code_type);  // bytes per access

 public:
  /// The bytes that a thread holds in one step: values, their codes, and what it reads.
  static constexpr auto held_bytes =
      payload_block_elements / threads * (sizeof(sum_type) + sizeof(code_type)) +
      Source::read_bytes;

  /// @param of the encoding, of elements or of a sum
  template <class Encoding>
  encoding_kernel(Source const& source, Encoding const& of)
      : source_{source},
        residual_{of.residual},
        payload_{static_cast<std::byte*>(of.payload)},
        wide_{source.is_aligned() && is_wide(of.residual) && is_wide(of.payload, code_access)} {}

  [[nodiscard]] std::size_t steps() const {
    return (source_.elements() + payload_block_elements - 1) / payload_block_elements * threads;
  }
  FSSDP_HOST_DEVICE void operator()(std::size_t step) const {
#ifdef __CUDA_ARCH__
    encode<threads>(step / threads, step % threads);
#else
    if (step % threads == 0) encode<1>(step / threads, 0);  // one thread does all of it
#endif
  }

 private:
  /// Encodes the part of a block that belongs to one of several threads.
  template <std::size_t Threads>
  FSSDP_HOST_DEVICE void encode(std::size_t block, std::size_t thread) const {
    constexpr auto parts = payload_block_elements / (lanes * Threads);
    auto const begin = block * payload_block_elements + thread * lanes;
    constexpr auto stride = Threads * lanes;  // between the parts of a thread
    lanes_of<sum_type> held[parts];
    for (std::size_t part = 0; part < parts; ++part) held[part] = values(begin + part * stride);
    auto scale = 1.0F;
    if constexpr (layout::has_scales) {
      auto largest = std::uint32_t{0};
      for (auto const& part : held)
        for (auto const value : part.at) {
          auto const magnitude = std::bit_cast<std::uint32_t>(as_float(value)) & 0x7fffffffU;
          if (magnitude < 0x7f800000U && largest < magnitude) largest = magnitude;
        }
      scale = Rule::scale(std::bit_cast<float>(largest_of_warp(largest)));
      if (thread == 0) write_scale(block, scale);
    }
    auto const reciprocal = quotient(1, scale);
    for (std::size_t part = 0; part < parts; ++part)
      write(begin + part * stride, held[part], scale, reciprocal);
  }

  /// The elements to encode; zeros beyond the end.
  [[nodiscard]] FSSDP_HOST_DEVICE lanes_of<sum_type> values(std::size_t first) const {
    auto result = lanes_of<sum_type>{};
    auto rest = lanes_of<float>{};
    if (is_whole(first)) {
      result = source_.all(first);
      if (residual_ != nullptr) rest.load(residual_ + first);
    } else {
      for (std::size_t i = 0; i < lanes && first + i < source_.elements(); ++i) {
        result.at[i] = source_.one(first + i);
        if (residual_ != nullptr) rest.at[i] = residual_[first + i];
      }
    }
    if (residual_ != nullptr)
      for (std::size_t i = 0; i < lanes; ++i)
        if (auto& value = result.at[i]; value == value)  // keeps the bits of a NaN
          value += static_cast<sum_type>(rest.at[i]);
    return result;
  }
  /// Writes the codes of elements, and their errors into the residual.
  FSSDP_HOST_DEVICE void write(std::size_t first, lanes_of<sum_type> const& values, float scale,
                               float reciprocal) const {
    using code_lanes = element_lanes<code_type, lanes, code_access>;
    auto numbers = lanes_of<float>{};
    for (std::size_t i = 0; i < lanes; ++i) {
      auto const value = as_float(values.at[i]);
      numbers.at[i] = layout::has_scales ? scaled(value, reciprocal) : value;
    }
    auto const packed = codes_of<Rule, code_lanes>(numbers);
    auto left = lanes_of<float>{};
    if (residual_ != nullptr) {
      auto const shown = numbers_of<Rule, code_lanes>(packed);
      for (std::size_t i = 0; i < lanes; ++i) {
        auto const sent = layout::has_scales ? product(shown.at[i], scale) : shown.at[i];
        left.at[i] = finite_or_zero(static_cast<float>(values.at[i] - static_cast<sum_type>(sent)));
      }
    }
    if (is_whole(first)) {
      code_lanes::write(packed, reinterpret_cast<code_type*>(payload_ + layout::code_of(first)));
      if (residual_ != nullptr) left.store(residual_ + first);
      return;
    }
    auto const codes = code_lanes::of(packed);
    for (std::size_t i = 0; i < lanes && first + i < source_.elements(); ++i) {
      std::memcpy(payload_ + layout::code_of(first + i), &codes.at[i], sizeof(code_type));
      if (residual_ != nullptr) residual_[first + i] = left.at[i];
    }
  }
  FSSDP_HOST_DEVICE void write_scale(std::size_t block, float scale) const {
    auto* const at = payload_ + block * layout::block_bytes;
    if (wide_)
      *reinterpret_cast<narrow_block*>(at) = {{std::bit_cast<std::uint32_t>(scale)}};
    else
      std::memcpy(at, &scale, sizeof scale);
  }
  [[nodiscard]] FSSDP_HOST_DEVICE static float finite_or_zero(float value) {
    return value - value == 0 ? value : 0;
  }
  /// Whether all elements of a thread from `first` on exist, and can be accessed together.
  [[nodiscard]] FSSDP_HOST_DEVICE bool is_whole(std::size_t first) const {
    return wide_ && first + lanes <= source_.elements();
  }

  Source source_;
  float* residual_;
  std::byte* payload_;
  bool wide_;
};

/// Calls launch(kernel) with the kernel for the type and the code of an encoding.
template <class Launch>
void with_kernel(device_encoding const& of, Launch launch) {
  with_element(of.from_type, [&]<class T>(std::type_identity<T>) {
    with_rule(of.code, [&]<class Rule>(std::type_identity<Rule>) {
      using source = plain_elements<T, 4>;  // adjacent threads read adjacent elements
      launch(encoding_kernel<source, Rule>{source{of}, of});
    });
  });
}
/// The same for a sum.
template <class Launch>
void with_kernel(device_sum_encoding const& of, Launch launch) {
  with_accumulator(of.sum.partials, [&]<class Sum>(std::type_identity<Sum>) {
    with_rule(of.sum.code, [&]<class Rule>(std::type_identity<Rule>) {
      using source = summed_elements<Sum, 8>;  // the list of operands is read once
      launch(encoding_kernel<source, Rule>{source{of}, of});
    });
  });
}

}  // namespace detail
}  // namespace fssdp
