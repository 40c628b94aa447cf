// SPDX-License-Identifier: Apache-2.0
/// Element types of safetensors files, and conversions between them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "fssdp/core/error.hpp"
#include "fssdp/element/convert.hpp"
#include "fssdp/element/dtype.hpp"

namespace fssdp {

/// The types that a file may contain. Experts may have the first six.
enum class file_dtype {
  f64,
  f32,
  f16,
  bf16,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  c64,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean
};

namespace detail {

struct file_dtype_entry {
  file_dtype dtype;
  std::string_view name;
  std::size_t bytes;
};
inline constexpr auto file_dtypes = std::array<file_dtype_entry, 17>{{
    {file_dtype::f64, "F64", 8},
    {file_dtype::f32, "F32", 4},
    {file_dtype::f16, "F16", 2},
    {file_dtype::bf16, "BF16", 2},
    {file_dtype::f8_e5m2, "F8_E5M2", 1},
    {file_dtype::f8_e4m3, "F8_E4M3", 1},
    {file_dtype::f8_e8m0, "F8_E8M0", 1},
    {file_dtype::c64, "C64", 8},
    {file_dtype::i64, "I64", 8},
    {file_dtype::i32, "I32", 4},
    {file_dtype::i16, "I16", 2},
    {file_dtype::i8, "I8", 1},
    {file_dtype::u64, "U64", 8},
    {file_dtype::u32, "U32", 4},
    {file_dtype::u16, "U16", 2},
    {file_dtype::u8, "U8", 1},
    {file_dtype::boolean, "BOOL", 1},
}};

/// The type in a file for a dtype.
[[nodiscard]] constexpr file_dtype in_a_file(dtype type) {
  constexpr auto names = std::array{file_dtype::f32, file_dtype::f64,     file_dtype::bf16,
                                    file_dtype::f16, file_dtype::f8_e4m3, file_dtype::f8_e5m2};
  return names[static_cast<std::size_t>(type)];
}

}  // namespace detail

/// The type in a file for an element type.
template <element T>
inline constexpr file_dtype file_dtype_of = detail::in_a_file(dtype_of<T>);

/// The name in safetensors files: "F32".
[[nodiscard]] constexpr std::string_view name_of(file_dtype dtype) {
  return detail::file_dtypes[static_cast<std::size_t>(dtype)].name;
}
/// The bytes of one element.
[[nodiscard]] constexpr std::size_t element_bytes(file_dtype dtype) {
  return detail::file_dtypes[static_cast<std::size_t>(dtype)].bytes;
}
/// The type of this name; empty if there is none.
[[nodiscard]] constexpr std::optional<file_dtype> file_dtype_named(std::string_view name) {
  for (auto const& entry : detail::file_dtypes)
    if (entry.name == name) return entry.dtype;
  return {};
}
/// Whether the type is an element type of the library.
[[nodiscard]] constexpr bool is_element(file_dtype dtype) { return dtype <= file_dtype::f8_e4m3; }
/// Whether published values of this type are complete: those of fp8 have scales in other tensors.
[[nodiscard]] constexpr bool needs_no_scale(file_dtype dtype) { return dtype <= file_dtype::bf16; }

namespace detail {

/// Calls visit(T{}) with the element type for a file's type.
/// @throws argument_error unless is_element(dtype)
template <class Visit>
void visit_element(file_dtype dtype, Visit visit) {
  switch (dtype) {
    case file_dtype::f64:
      return visit(double{});
    case file_dtype::f32:
      return visit(float{});
    case file_dtype::f16:
      return visit(fp16{});
    case file_dtype::f8_e5m2:
      return visit(fp8_e5m2{});
    case file_dtype::f8_e4m3:
      return visit(fp8_e4m3{});
    case file_dtype::bf16:
      return visit(bf16{});
    default:
      require(false, "file_dtype: ", name_of(dtype), "; expected a type of the library's elements");
  }
}

/// Converts elements from one type to another, with one rounding.
/// @pre as many elements in both; both are aligned for their types
/// @throws argument_error unless both are element types
inline void convert_elements(file_dtype from_type, std::span<std::byte const> from,
                             file_dtype to_type, std::span<std::byte> to) {
  visit_element(from_type, [&](auto source) {
    using From = decltype(source);
    visit_element(to_type, [&](auto target) {
      using To = decltype(target);
      convert(std::span{reinterpret_cast<From const*>(from.data()), from.size() / sizeof(From)},
              std::span{reinterpret_cast<To*>(to.data()), to.size() / sizeof(To)});
    });
  });
}

}  // namespace detail

static_assert(std::endian::native == std::endian::little, "files have the lowest byte first");
static_assert(element_bytes(file_dtype_of<bf16>) == sizeof(bf16));
static_assert(name_of(file_dtype::boolean) == "BOOL" && !file_dtype_named("F4").has_value());

}  // namespace fssdp
