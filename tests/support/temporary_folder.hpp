// SPDX-License-Identifier: Apache-2.0
/// A place for files.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <system_error>

namespace support {

/// A folder that is gone with the test.
class temporary_folder {
 public:
  temporary_folder() {
    auto name = (std::filesystem::temp_directory_path() / "fssdp_test_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error{"no temporary folder"};
    path_ = name;
  }
  ~temporary_folder() {
    auto ignored = std::error_code{};
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_folder(temporary_folder const&) = delete;
  temporary_folder& operator=(temporary_folder const&) = delete;

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

[[nodiscard]] inline std::string bytes_of_file(std::filesystem::path const& path) {
  auto in = std::ifstream{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}
/// A new file: to overwrite one would be slow where file systems flush it then.
inline void write_bytes(std::filesystem::path const& path, std::string const& bytes) {
  std::filesystem::remove(path);
  auto out = std::ofstream{path, std::ios::binary};
  out << bytes;
}

}  // namespace support
