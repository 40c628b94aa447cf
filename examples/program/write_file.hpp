// SPDX-License-Identifier: Apache-2.0
/// Text into a file.
#pragma once

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace program {

namespace detail {

/// @param mode as std::fopen has it
/// @return what the system says has gone wrong; 0: nothing
[[nodiscard]] inline int written_as(std::filesystem::path const& path, char const* mode,
                                    std::string_view text) {
  errno = 0;
  auto* const file = std::fopen(path.c_str(), mode);
  if (file == nullptr) return errno != 0 ? errno : EIO;
  auto const is_whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  auto const failed = is_whole ? 0 : errno != 0 ? errno : EIO;
  auto const is_closed = std::fclose(file) == 0;
  return failed != 0 || is_closed ? failed : errno != 0 ? errno : EIO;
}
inline void require_written(int failed, std::filesystem::path const& path) {
  if (failed != 0)
    throw std::runtime_error{"cannot write " + path.string() + ": " +
                             std::generic_category().message(failed)};
}

}  // namespace detail

/// Writes into what has this name: a file, which loses what it held, a device, a pipe; where it is
/// a link, into what it leads to.
/// @throws std::runtime_error that names the file if it cannot be written
inline void write_file(std::filesystem::path const& path, std::string_view text) {
  detail::require_written(detail::written_as(path, "wb", text), path);
}

/// The same, but a file appears whole: it has another name, NAME.partial, until then. What is no
/// file is written into, as it is.
/// @throws std::runtime_error that names the file if it cannot be written
inline void write_whole_file(std::filesystem::path const& path, std::string_view text) {
  namespace fs = std::filesystem;
  auto failed = std::error_code{};
  auto const what = fs::symlink_status(path, failed).type();
  if (what != fs::file_type::regular && what != fs::file_type::not_found)
    return write_file(path, text);
  auto partial = path;
  partial += ".partial";
  (void)fs::remove(partial, failed);  // left by a run that was interrupted
  auto cause = detail::written_as(partial, "wbx", text);
  if (cause == 0) {
    fs::rename(partial, path, failed);
    cause = failed.value();
  }
  if (cause != 0 && cause != EEXIST) (void)fs::remove(partial, failed);
  detail::require_written(cause, path);
}

}  // namespace program
