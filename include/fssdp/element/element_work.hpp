// SPDX-License-Identifier: Apache-2.0
/// Type-erased conversions and sums of elements.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

#include "fssdp/element/accumulate.hpp"
#include "fssdp/element/convert.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/write_mode.hpp"

namespace fssdp::detail {

/// During its lifetime, elements are accessed in the library's own types. Callers may have other
/// types for the same bits, and compilers must not move accesses across this object because types
/// differ. It generates no instructions.
struct any_type_access {
  any_type_access() { std::atomic_signal_fence(std::memory_order_seq_cst); }
  any_type_access(any_type_access const&) = delete;
  ~any_type_access() { std::atomic_signal_fence(std::memory_order_seq_cst); }
};

/// A conversion from one element type to another.
struct element_conversion {
  /// Null if the types are equal: then bytes are copied, and the dtypes are unused.
  void (*on_host)(element_conversion const& self, void const* from, void* to,
                  std::size_t elements) = nullptr;
  dtype from_type = dtype::fp32;
  dtype to_type = dtype::fp32;

  [[nodiscard]] constexpr bool changes_type() const { return on_host != nullptr; }
};

template <class From, class To>
[[nodiscard]] constexpr element_conversion make_conversion() {
  static_assert(std::is_trivially_copyable_v<From>);
  if constexpr (std::same_as<From, To>) {
    return {};
  } else if constexpr (any_foreign<From, To>) {
    return make_conversion<native_element_t<From>, native_element_t<To>>();
  } else {
    return {.on_host =
                [](element_conversion const&, void const* from, void* to, std::size_t elements) {
                  auto const access = any_type_access{};
                  convert(std::span{static_cast<From const*>(from), elements},
                          std::span{static_cast<To*>(to), elements});
                },
            .from_type = dtype_of<From>,
            .to_type = dtype_of<To>};
  }
}

/// A function that finds the conversion from one dtype to another.
using find_conversion = element_conversion (*)(dtype from, dtype to);
/// For elements whose two types are known at compile time.
template <class From, class To>
[[nodiscard]] constexpr element_conversion known_conversion(dtype, dtype) {
  return make_conversion<From, To>();
}

/// A sum of partials of one type, with results of another.
struct element_sum {
  /// As `accumulate`.
  void (*on_host)(element_sum const& self, std::span<summand const>, void* out,
                  std::size_t elements, double scale, write_mode how) = nullptr;
  dtype partials = dtype::fp32;
  dtype results = dtype::fp32;
};

template <element T, element Out>
[[nodiscard]] constexpr element_sum make_sum() {
  if constexpr (any_foreign<T, Out>)
    return make_sum<native_element_t<T>, native_element_t<Out>>();
  else
    return {.on_host =
                [](element_sum const&, std::span<summand const> summands, void* out,
                   std::size_t elements, double scale, write_mode how) {
                  auto const access = any_type_access{};
                  accumulate<T>(summands, std::span{static_cast<Out*>(out), elements},
                                static_cast<accumulator_t<T>>(scale), how);
                },
            .partials = dtype_of<T>,
            .results = dtype_of<Out>};
}

/// A function that finds the sum of partials of one dtype with results of another.
using find_sum = element_sum (*)(dtype partials, dtype results);
/// For partials of type Partial, and results of type Gradient unless they are passed on.
template <element Partial, element Gradient>
[[nodiscard]] constexpr element_sum known_sum(dtype, dtype results) {
  return results == dtype_of<Gradient> ? make_sum<Partial, Gradient>()
                                       : make_sum<Partial, accumulator_t<Partial>>();
}

}  // namespace fssdp::detail
