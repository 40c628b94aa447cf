// SPDX-License-Identifier: Apache-2.0
/// The exceptions of the library, and the check that throws them.
///
/// Bad input is refused by an `argument_error` from the call, before anything is sent. Trouble on
/// the wire is a `transport_error` and names the rank that caused it. Trouble with a file is a
/// `file_error` and names the file.
#pragma once

#include <exception>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>

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

/// Communication failed; `culprit()` is the rank that caused it.
class transport_error : public error {
 public:
  transport_error(rank_id culprit, std::string const& what) : error{what}, culprit_{culprit} {}
  [[nodiscard]] rank_id culprit() const { return culprit_; }

 private:
  rank_id culprit_;
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

/// A file that cannot be read or written, or that does not hold what it should; the text names it.
class file_error : public error {
  using error::error;
};

/// Work was given to a stream on which earlier work has failed.
class poisoned_stream : public error {
  using error::error;
};

namespace detail {

template <class Part>
void print(std::ostringstream& out, Part const& part) {
  out << part;
}
template <class Tag>
void print(std::ostringstream& out, strong_index<Tag> part) {
  out << part.value();
}

/// The parts written one after the other, numbers as in C++ whatever the user's locale is.
template <class... Parts>
[[nodiscard]] std::string text(Parts const&... parts) {
  auto out = std::ostringstream{};
  out.imbue(std::locale::classic());
  (print(out, parts), ...);
  return out.str();
}

/// Throws an argument_error made of the parts unless the condition holds.
template <class... Parts>
void require(bool condition, Parts const&... parts) {
  if (!condition) throw argument_error{text(parts...)};
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
