// SPDX-License-Identifier: Apache-2.0
/// The exceptions of the library, and the check that throws them.
///
/// Bad input is refused by an `argument_error` from the call, before anything is sent. Trouble on
/// the wire is a `transport_error` and names the rank that caused it. A device that has no memory
/// left is an `out_of_memory`, before anything is sent. Trouble with a file is a `file_error` and
/// names the file.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "fssdp/core/index.hpp"

namespace fssdp {

/// What every exception of the library derives from.
class error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A value that a function cannot work with; the text names it and says what was expected.
class argument_error : public error {
  using error::error;
};

/// A plan that would not deliver what its placement promises.
class plan_error : public error {
  using error::error;
};

/// Communication failed; `failed_rank()` is the rank that caused it.
class transport_error : public error {
 public:
  transport_error(rank_id failed_rank, std::string const& what)
      : error{what}, failed_rank_{failed_rank} {}
  [[nodiscard]] rank_id failed_rank() const { return failed_rank_; }

 private:
  rank_id failed_rank_;
};

/// Another rank has left: a collective by an exception, or for good while it is awaited.
class peer_failed : public transport_error {
  using transport_error::transport_error;
};

/// A rank did not take part within the deadline.
class deadline_exceeded : public transport_error {
  using transport_error::transport_error;
};

/// Two ranks are not in the same collective: plans, order or message sizes differ.
class ranks_disagree : public transport_error {
  using transport_error::transport_error;
};

/// A device has not as much memory as is wanted, or the host not as much pinned memory. Nothing has
/// been sent, and the communicator goes on: what was called can be called again when there is more,
/// in time for the other ranks, which wait. It is no std::bad_alloc, which is memory of the host: a
/// class can be only one of two kinds of std::exception.
class out_of_memory : public error {
 public:
  /// @param device the number of the device; -1: pinned memory of the host
  out_of_memory(rank_id rank, int device, std::size_t bytes, std::string const& what)
      : error{what}, rank_{rank}, device_{device}, bytes_{bytes} {}
  /// The rank that wanted it; 0 if nobody has said which one that is.
  [[nodiscard]] rank_id rank() const { return rank_; }
  [[nodiscard]] int device() const { return device_; }
  /// How many were wanted; 0 if that is not known.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  rank_id rank_;
  int device_;
  std::size_t bytes_;
};

/// A file that cannot be read or written, or that does not hold what it should; the text names it.
class file_error : public error {
  using error::error;
};

/// Work was given to a stream on which earlier work has failed.
class poisoned_stream : public error {
  using error::error;
};

namespace detail {

/// A number that is to be written in hexadecimal digits.
struct hexadecimal {
  std::uint64_t value = 0;
};

/// Something that a message is made of, of few types: whatever prints messages is compiled once.
class text_part {
 public:
  text_part(std::string_view words) : kind_{kind::words}, words_{words} {}
  text_part(std::string const& words) : text_part{std::string_view{words}} {}
  text_part(char const* words) : text_part{std::string_view{words}} {}
  text_part(hexadecimal number)
      : kind_{kind::hexadecimal}, integer_{static_cast<std::int64_t>(number.value)} {}
  text_part(void const* address)
      : kind_{kind::address}, integer_{reinterpret_cast<std::intptr_t>(address)} {}
  text_part(char letter) : kind_{kind::letter}, integer_{letter} {}
  template <std::integral Number>
  text_part(Number number)
      : kind_{std::is_signed_v<Number> ? kind::integer : kind::natural},
        integer_{static_cast<std::int64_t>(number)} {}
  template <std::floating_point Number>
  text_part(Number number) : kind_{kind::real}, real_{static_cast<double>(number)} {}
  template <class Tag>
  text_part(strong_index<Tag> index) : text_part{index.value()} {}

  /// Numbers as in C++ whatever the user's locale is, of 6 digits at most if they are not whole.
  void append_to(std::string& text) const {
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

 private:
  enum class kind { words, letter, integer, natural, hexadecimal, address, real };

  kind kind_;
  std::string_view words_;
  std::int64_t integer_ = 0;
  double real_ = 0;
};

[[nodiscard]] inline std::string joined(std::initializer_list<text_part> parts) {
  auto text = std::string{};
  for (auto const& part : parts) part.append_to(text);
  return text;
}
[[noreturn, gnu::cold, gnu::noinline]] inline void refuse(std::initializer_list<text_part> parts) {
  throw argument_error{joined(parts)};
}

/// The parts written one after the other.
template <class... Parts>
[[nodiscard]] std::string text(Parts const&... parts) {
  return joined({text_part{parts}...});
}

/// Throws an argument_error made of the parts unless the condition holds.
template <class... Parts>
void require(bool condition, Parts const&... parts) {
  if (!condition) [[unlikely]]
    refuse({text_part{parts}...});
}

/// The text of any exception.
[[nodiscard]] inline std::string what(std::exception_ptr const& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (std::exception const& known) {
    return known.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace detail
}  // namespace fssdp
