// SPDX-License-Identifier: Apache-2.0
/// The texts of errors.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <string>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"

namespace fssdp::detail {

FSSDP_INLINE void text_part::append_to(std::string& text) const {
  auto digits = std::array<char, 32>{};
  auto* const begin = digits.data();
  auto* const end = begin + digits.size();
  switch (kind_) {
    case kind::words:
      text += words_;
      return;
    case kind::letter:
      text += static_cast<char>(integer_);
      return;
    case kind::integer:
      text.append(begin, std::to_chars(begin, end, integer_).ptr);
      return;
    case kind::natural:
      text.append(begin, std::to_chars(begin, end, static_cast<std::uint64_t>(integer_)).ptr);
      return;
    case kind::address:
      text += "0x";
      [[fallthrough]];
    case kind::hexadecimal:
      text.append(begin, std::to_chars(begin, end, static_cast<std::uint64_t>(integer_), 16).ptr);
      return;
    case kind::real:
      text.append(begin, std::to_chars(begin, end, real_, std::chars_format::general, 6).ptr);
  }
}

FSSDP_INLINE std::string joined(std::initializer_list<text_part> parts) {
  auto text = std::string{};
  for (auto const& part : parts) part.append_to(text);
  return text;
}

FSSDP_INLINE void refuse(std::initializer_list<text_part> parts) {
  throw argument_error{joined(parts)};
}

FSSDP_INLINE std::string what(std::exception_ptr const& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (std::exception const& known) {
    return known.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace fssdp::detail
