// SPDX-License-Identifier: Apache-2.0
/// A sum that is formed where its operands are: on a device, in the order of a stream.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "fssdp/element/dtype.hpp"
#include "fssdp/element/element_lanes.hpp"
#include "fssdp/element/host_device.hpp"
#include "fssdp/element/lane_conversion.hpp"
#include "fssdp/element/write_mode.hpp"

namespace fssdp {

/// out[i] = scale * (s0[i] + s1[i] + ...), or adds that to out: what `accumulate` does, as a value
/// that is small enough for the arguments of a kernel.
struct device_sum {
  static constexpr std::size_t most_operands = 240;

  /// Elements of the type `partials`, or sums of such: accumulator_t of it.
  struct operand {
    void const* data;
    bool is_sum;
  };

  dtype partials = dtype::fp32;
  dtype results = dtype::fp32;
  write_mode how = write_mode::overwrite;
  double scale = 1;
  std::size_t elements = 0;
  void* out = nullptr;
  std::size_t count = 0;  ///< of the operands, 1 or more
  std::array<operand, most_operands> operands;
};

namespace detail {

/// a * b, rounded. A device would not round what is added to something next.
FSSDP_HOST_DEVICE inline float product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
FSSDP_HOST_DEVICE inline double product(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

/// One step of a device_sum of partials of type T: the same sum, in the same order, as on the host.
template <element T, element Out>
struct sum_kernel {
  using sum_type = accumulator_t<T>;
  static constexpr auto lanes = lanes_of<T, Out>;
  /// By a thread in one step: sums, and results.
  static constexpr auto held_bytes = lanes * (sizeof(sum_type) + sizeof(Out));

  device_sum sum;
  bool wide = false;

  explicit sum_kernel(device_sum const& of) : sum{of}, wide{is_wide(of.out)} {
    for (std::size_t i = 0; i < of.count; ++i) wide = wide && is_wide(of.operands[i].data);
  }
  /// How many steps there are.
  [[nodiscard]] std::size_t steps() const { return (sum.elements + lanes - 1) / lanes; }

  FSSDP_HOST_DEVICE void operator()(std::size_t step) const {
    auto const first = step * lanes;
    if (wide && sum.elements - first >= lanes)
      form_all(first);
    else
      for (auto i = first; i < sum.elements && i < first + lanes; ++i) form_one(i);
  }

 private:
  /// How many operands a thread reads at once: as many as make four accesses. A device is fast only
  /// if many are under way.
  template <class Source>
  static constexpr auto at_once = lanes * sizeof(Source) < 4 * wide_bytes
                                      ? 4 * wide_bytes / (lanes * sizeof(Source))
                                      : std::size_t{1};

  FSSDP_HOST_DEVICE void form_all(std::size_t first) const {
    auto sums = element_lanes<sum_type, lanes>{};
    for (auto& each : sums.at) each = sum_type{-0.0F};  // what is added to it stays as it is
    for (std::size_t s = 0; s < sum.count;)
      s += sum.operands[s].is_sum ? add_some<sum_type, at_once<sum_type>>(s, first, sums)
                                  : add_some<T, at_once<T>>(s, first, sums);
    auto* const out = static_cast<Out*>(sum.out) + first;
    if (sum.how == write_mode::overwrite) {
      for (auto& each : sums.at) each = scaled(each);
      return converted_lanes<Out>(sums).store(out);
    }
    auto results = element_lanes<Out, lanes>{};
    results.load(out);
    for (std::size_t i = 0; i < lanes; ++i) results.at[i] = added(sums.at[i], results.at[i]);
    results.store(out);
  }
  /// Adds N operands from s on if they are of one kind, else half as many, and so on.
  /// @returns how many
  template <class Source, std::size_t N>
  FSSDP_HOST_DEVICE std::size_t add_some(std::size_t s, std::size_t first,
                                         element_lanes<sum_type, lanes>& sums) const {
    if constexpr (N > 1)
      if (!are_alike<N>(s)) return add_some<Source, N / 2>(s, first, sums);
    add_all<Source>(s, first, sums, std::make_index_sequence<N>{});
    return N;
  }
  /// Adds those from s on: all are under way before the first is added, and stay in registers.
  template <class Source, std::size_t... K>
  FSSDP_HOST_DEVICE void add_all(std::size_t s, std::size_t first,
                                 element_lanes<sum_type, lanes>& sums,
                                 std::index_sequence<K...>) const {
    using source_lanes = element_lanes<Source, lanes>;
    typename source_lanes::packed const read[] = {
        source_lanes::read(static_cast<Source const*>(sum.operands[s + K].data) + first)...};
    (add(source_lanes::of(read[K]), sums), ...);
  }
  template <class Source>
  FSSDP_HOST_DEVICE static void add(element_lanes<Source, lanes> const& values,
                                    element_lanes<sum_type, lanes>& sums) {
    auto const summands = converted_lanes<sum_type>(values);
    for (std::size_t i = 0; i < lanes; ++i) sums.at[i] += summands.at[i];
  }
  /// Whether there are N operands from s on, all of one kind.
  template <std::size_t N>
  FSSDP_HOST_DEVICE bool are_alike(std::size_t s) const {
    if (sum.count - s < N) return false;
    auto alike = true;
    if constexpr (!std::is_same_v<T, sum_type>)
      for (std::size_t k = 1; k < N; ++k)
        alike &= sum.operands[s + k].is_sum == sum.operands[s].is_sum;
    return alike;
  }

  FSSDP_HOST_DEVICE void form_one(std::size_t i) const {
    auto total = value(sum.operands[0], i);
    for (std::size_t s = 1; s < sum.count; ++s) total += value(sum.operands[s], i);
    auto& out = static_cast<Out*>(sum.out)[i];
    out = sum.how == write_mode::overwrite ? static_cast<Out>(scaled(total)) : added(total, out);
  }
  FSSDP_HOST_DEVICE static sum_type value(device_sum::operand const& of, std::size_t i) {
    return of.is_sum ? static_cast<sum_type const*>(of.data)[i]
                     : static_cast<sum_type>(static_cast<T const*>(of.data)[i]);
  }

  FSSDP_HOST_DEVICE sum_type scaled(sum_type total) const {
    return product(static_cast<sum_type>(sum.scale), total);
  }
  FSSDP_HOST_DEVICE Out added(sum_type total, Out before) const {
    using wider = std::common_type_t<sum_type, accumulator_t<Out>>;  // what is there may be wider
    return static_cast<Out>(static_cast<wider>(before) + static_cast<wider>(scaled(total)));
  }
};

/// Calls launch(kernel) with the kernel for the types of a sum.
template <class Launch>
void with_kernel(device_sum const& sum, Launch launch) {
  with_element(sum.partials, [&]<class T>(std::type_identity<T>) {
    with_element(sum.results,
                 [&]<class Out>(std::type_identity<Out>) { launch(sum_kernel<T, Out>{sum}); });
  });
}

}  // namespace detail
}  // namespace fssdp
