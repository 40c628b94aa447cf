// SPDX-License-Identifier: Apache-2.0
/// Conversions and sums as values: what the collectives do to elements whose type they do not know.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

#include "fssdp/element/accumulate.hpp"
#include "fssdp/element/convert.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/element_kind.hpp"
#include "fssdp/element/write_mode.hpp"

namespace fssdp::detail {

/// How elements of one type become those of another.
struct element_conversion {
  std::size_t from_bytes = 1;  ///< of an element
  std::size_t to_bytes = 1;
  /// Null if the types are equal: then bytes are copied, and the kinds say nothing.
  void (*on_host)(void const* from, void* to, std::size_t elements) = nullptr;
  element_kind from_kind = element_kind::fp32;
  element_kind to_kind = element_kind::fp32;

  [[nodiscard]] bool changes_type() const { return on_host != nullptr; }
};

template <class From, class To>
[[nodiscard]] constexpr element_conversion make_conversion() {
  static_assert(std::is_trivially_copyable_v<From>);
  auto of = element_conversion{.from_bytes = sizeof(From), .to_bytes = sizeof(To)};
  if constexpr (!std::same_as<From, To>) {
    of.from_kind = kind_of<From>;
    of.to_kind = kind_of<To>;
    of.on_host = [](void const* from, void* to, std::size_t elements) {
      convert(std::span{static_cast<From const*>(from), elements},
              std::span{static_cast<To*>(to), elements});
    };
  }
  return of;
}

/// How sums of one type are formed and what they become.
struct element_sum {
  std::size_t result_bytes = 1;  ///< of an element
  /// As `accumulate`.
  void (*on_host)(std::span<summand const>, void* out, std::size_t elements, double scale,
                  write_mode how) = nullptr;
  element_kind partials = element_kind::fp32;
  element_kind results = element_kind::fp32;
};

template <element T, element Out>
[[nodiscard]] constexpr element_sum make_sum() {
  return {.result_bytes = sizeof(Out),
          .on_host =
              [](std::span<summand const> summands, void* out, std::size_t elements, double scale,
                 write_mode how) {
                accumulate<T>(summands, std::span{static_cast<Out*>(out), elements},
                              static_cast<accumulator_t<T>>(scale), how);
              },
          .partials = kind_of<T>,
          .results = kind_of<Out>};
}

}  // namespace fssdp::detail
