// SPDX-License-Identifier: Apache-2.0
/// Element types as values: for work that is handed to a device.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "fssdp/element/dtype.hpp"

namespace fssdp {

/// Which of the types that are elements.
enum class element_kind : std::uint8_t { fp32, fp64, bf16, fp16, e4m3, e5m2 };

inline constexpr std::array all_element_kinds = {element_kind::fp32, element_kind::fp64,
                                                 element_kind::bf16, element_kind::fp16,
                                                 element_kind::e4m3, element_kind::e5m2};

[[nodiscard]] constexpr std::string_view name_of(element_kind kind) {
  constexpr auto names =
      std::array<std::string_view, 6>{"fp32", "fp64", "bf16", "fp16", "fp8 e4m3", "fp8 e5m2"};
  return names[static_cast<std::size_t>(kind)];
}

/// The kind of an element type.
template <element T>
inline constexpr element_kind kind_of = std::same_as<T, float>      ? element_kind::fp32
                                        : std::same_as<T, double>   ? element_kind::fp64
                                        : std::same_as<T, bf16>     ? element_kind::bf16
                                        : std::same_as<T, fp16>     ? element_kind::fp16
                                        : std::same_as<T, fp8_e4m3> ? element_kind::e4m3
                                                                    : element_kind::e5m2;

/// The type in which sums of that type are formed, as accumulator_t.
[[nodiscard]] constexpr element_kind accumulator_kind(element_kind kind) {
  return kind == element_kind::fp64 ? element_kind::fp64 : element_kind::fp32;
}

/// Calls visit(std::type_identity<T>{}) for the type T of that kind, and returns what it does.
template <class Visit>
decltype(auto) with_element(element_kind kind, Visit visit) {
  switch (kind) {
    case element_kind::fp32:
      return visit(std::type_identity<float>{});
    case element_kind::fp64:
      return visit(std::type_identity<double>{});
    case element_kind::bf16:
      return visit(std::type_identity<bf16>{});
    case element_kind::fp16:
      return visit(std::type_identity<fp16>{});
    case element_kind::e4m3:
      return visit(std::type_identity<fp8_e4m3>{});
    case element_kind::e5m2:
      break;
  }
  return visit(std::type_identity<fp8_e5m2>{});
}

}  // namespace fssdp
