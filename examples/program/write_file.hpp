// SPDX-License-Identifier: Apache-2.0
/// Text into a file.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace program {

/// @throws std::runtime_error that names the file if it cannot be written
inline void write_file(std::filesystem::path const& path, std::string_view text) {
  auto file = std::ofstream{path};
  file << text;
  file.close();
  if (!file) throw std::runtime_error{"cannot write " + path.string()};
}

}  // namespace program
