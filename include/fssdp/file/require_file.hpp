// SPDX-License-Identifier: Apache-2.0
/// The check that throws a file_error.
#pragma once

#include <filesystem>
#include <system_error>

#include "fssdp/core/error.hpp"

namespace fssdp::detail {

/// Throws a file_error made of the file's name and the parts.
template <class... Parts>
[[noreturn]] void refuse_file(std::filesystem::path const& file, Parts const&... parts) {
  throw file_error{text(file.string(), ": ", parts...)};
}
/// The same unless a condition holds.
template <class... Parts>
void require_file(bool condition, std::filesystem::path const& file, Parts const&... parts) {
  if (!condition) refuse_file(file, parts...);
}
/// The same with an action that has failed, and the system's text for the errno.
template <class... Deed>
[[noreturn]] void refuse_file_for(int error, std::filesystem::path const& file,
                                  Deed const&... deed) {
  refuse_file(file, "cannot ", deed..., ": ", std::generic_category().message(error));
}

}  // namespace fssdp::detail
