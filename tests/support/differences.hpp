// SPDX-License-Identifier: Apache-2.0
/// What differs from what was expected: how much of it, and where the first of it is.
#pragma once

#include <cstddef>
#include <ostream>
#include <ranges>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "fssdp/core/error.hpp"

namespace support {

/// Stands where a count of wrong elements would: it is added up over tensors and ranks and compared
/// with 0. An assertion that fails prints it as "3, the first: rank 2, expert 5, element 17: 3.5,
/// expected 4".
class differences {
 public:
  differences() = default;
  /// So many, of which nothing else is known.
  differences(long count) : count_{count} {}

  /// Notes it if the two differ; `where` says, in any number of parts, where they are.
  template <class There, class Expected, class... Where>
  void compare(There const& there, Expected const& expected, Where const&... where) {
    if (there == expected) return;
    note(where..., ": ", printable(there), ", expected ", printable(expected));
  }
  /// The same for all elements of two ranges, and their sizes.
  template <std::ranges::sized_range There, std::ranges::sized_range Expected, class... Where>
  void compare_all(There const& there, Expected const& expected, Where const&... where) {
    if (std::ranges::size(there) != std::ranges::size(expected))
      return note(where..., ": ", std::ranges::size(there), " elements, expected ",
                  std::ranges::size(expected));
    auto wanted = std::ranges::begin(expected);
    auto i = std::size_t{0};
    for (auto const& value : there) compare(value, *wanted++, where..., ", element ", i++);
  }
  /// Something else that is wrong.
  template <class... What>
  void note(What const&... what) {
    if (count_++ != 0) return;
    auto text = std::ostringstream{};
    ((text << printable(what)), ...);
    first_ = text.str();
  }

  differences& operator+=(differences const& other) {
    if (first_.empty()) first_ = other.first_;
    count_ += other.count_;
    return *this;
  }
  [[nodiscard]] friend differences operator+(differences a, differences const& b) { return a += b; }
  [[nodiscard]] long count() const { return count_; }
  /// The first of them; empty if there are none, or only their number is known.
  [[nodiscard]] std::string const& first() const { return first_; }

  friend bool operator==(differences const& these, long count) { return these.count_ == count; }
  friend std::ostream& operator<<(std::ostream& out, differences const& these) {
    out << these.count_;
    return these.first_.empty() ? out : out << ", the first: " << these.first_;
  }

 private:
  template <class T>
  static auto printable(T const& value) {
    if constexpr (std::is_same_v<T, std::byte>)
      return std::to_integer<int>(value);
    else if constexpr (requires { value.value(); })
      return value.value();  // an index
    else if constexpr (std::is_arithmetic_v<T> || std::is_convertible_v<T, std::string>)
      return value;
    else if constexpr (requires(std::ostream & out) { out << value; })
      return value;  // a place
    else
      return static_cast<double>(value);  // an element
  }

  long count_ = 0;
  std::string first_;
};

/// What differs on any rank.
[[nodiscard]] inline differences total(std::vector<differences> const& of_ranks) {
  auto all = differences{};
  for (auto const& one : of_ranks) all += one;
  return all;
}

/// What differs between two ranges.
template <class There, class Expected, class... Where>
[[nodiscard]] differences differences_of(There const& there, Expected const& expected,
                                         Where const&... where) {
  auto found = differences{};
  found.compare_all(there, expected, where...);
  return found;
}

}  // namespace support
