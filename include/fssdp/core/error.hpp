// SPDX-License-Identifier: Apache-2.0
/// The exceptions of the library, and the check that throws them.
///
/// A bad argument throws argument_error before anything is sent. A failed communication throws a
/// transport_error that names the rank that caused it. If device memory is exhausted, out_of_memory
/// is thrown before anything is sent. A file_error names the file.
#pragma once

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

/// The base class of all exceptions of the library.
class error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An invalid argument; the text names it and says what was expected.
class argument_error : public error {
  using error::error;
};

/// A plan that does not realise its placement.
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

/// Another rank has left a collective with an exception, or has ended while others wait for it.
class peer_failed : public transport_error {
  using transport_error::transport_error;
};

/// A rank did not take part within the deadline.
class deadline_exceeded : public transport_error {
  using transport_error::transport_error;
};

/// Two ranks are not in the same collective: their plans, order of calls or message sizes differ.
class ranks_disagree : public transport_error {
  using transport_error::transport_error;
};

/// There is not enough device memory, or pinned host memory. Nothing has been sent, and the
/// communicator stays usable: the call can be repeated when memory is available, before the
/// deadline of the other ranks, which wait. It does not derive from std::bad_alloc, as it derives
/// from std::runtime_error already.
class out_of_memory : public error {
 public:
  /// @param device the number of the device; -1: pinned host memory
  out_of_memory(rank_id rank, int device, std::size_t bytes, std::string const& what)
      : error{what}, rank_{rank}, device_{device}, bytes_{bytes} {}
  /// The rank that asked for the memory; 0 if that is not known.
  [[nodiscard]] rank_id rank() const { return rank_; }
  [[nodiscard]] int device() const { return device_; }
  /// The bytes that were asked for; 0 if that is not known.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  rank_id rank_;
  int device_;
  std::size_t bytes_;
};

/// A file that cannot be read or written, or whose contents are not as expected; the text names it.
class file_error : public error {
  using error::error;
};

/// Work was enqueued on a stream on which earlier work has failed.
class poisoned_stream : public error {
  using error::error;
};

namespace detail {

/// A number to be printed in hexadecimal digits.
struct hexadecimal {
  std::uint64_t value = 0;
};

/// A part of a message, of one of a few types, so that the code that prints it is compiled once.
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

  /// Numbers are printed as in C++, independent of the locale; other than integers with 6 digits.
  void append_to(std::string& text) const;

 private:
  enum class kind { words, letter, integer, natural, hexadecimal, address, real };

  kind kind_;
  std::string_view words_;
  std::int64_t integer_ = 0;
  double real_ = 0;
};

[[nodiscard]] std::string joined(std::initializer_list<text_part> parts);
[[noreturn, gnu::cold]] void refuse(std::initializer_list<text_part> parts);

/// The parts as one text.
template <class... Parts>
[[nodiscard]] std::string text(Parts const&... parts) {
  return joined({text_part{parts}...});
}

/// Throws an argument_error with these parts as text unless the condition holds.
template <class... Parts>
void require(bool condition, Parts const&... parts) {
  if (!condition) [[unlikely]]
    refuse({text_part{parts}...});
}

/// The text of any exception.
[[nodiscard]] std::string what(std::exception_ptr const& failure);

}  // namespace detail
}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/core/error_inl.hpp"
#endif
