// SPDX-License-Identifier: Apache-2.0
/// Safetensors files as another program would write them.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"

namespace support {

/// A file that shares nothing with the library's writer.
class foreign_file {
 public:
  template <class T>
  void add(std::string const& name, std::string const& dtype, std::string const& shape,
           std::vector<T> const& values) {
    auto const begin = data_.size();
    data_.append(reinterpret_cast<char const*>(values.data()), values.size() * sizeof(T));
    json_ += (json_.empty() ? "\"" : ", \"") + name + R"(": {"data_offsets": [)" +
             std::to_string(begin) + ", " + std::to_string(data_.size()) + R"(], "dtype": ")" +
             dtype + R"(", "shape": )" + shape + "}";
  }
  void write(std::filesystem::path const& path) const {
    auto const json = '{' + json_ + '}';
    auto length = std::string(8, '\0');
    auto const size = std::uint64_t{json.size()};
    std::memcpy(length.data(), &size, 8);
    write_bytes(path, length + json + data_);
  }

 private:
  std::string json_;
  std::string data_;
};

}  // namespace support
