// SPDX-License-Identifier: Apache-2.0
/// Which folder is looked at, and how.
#pragma once

#include <filesystem>

namespace stored {

struct options {
  std::filesystem::path folder;  ///< or one safetensors file
  bool headers_only = false;     ///< no checksum is verified
  bool json = false;
};

}  // namespace stored
