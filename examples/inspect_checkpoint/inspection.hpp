// SPDX-License-Identifier: Apache-2.0
/// All that is shown of a folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/checkpoint/published_experts.hpp"

namespace stored {

struct file_report {
  std::string name;
  std::uint64_t bytes = 0;
  std::size_t tensors = 0;
  bool has_checksums = false;
  std::size_t verified = 0;  ///< tensors that are what was written
};

/// What a rank owned of a part.
struct rank_share {
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;  ///< of all groups
};

struct part_report {
  fssdp::part_description about;
  std::vector<rank_share> ranks;
};

struct checkpoint_report {
  std::uint64_t step = 0;
  std::vector<std::uint64_t> complete_steps;  ///< beside it, in the same folder, and itself
  std::vector<std::uint64_t> incomplete_steps;
  std::uint64_t state_bytes = 0;
  std::vector<part_report> parts;
};

struct model_report {
  bool has_index = false;
  std::optional<fssdp::published_experts> experts;
  std::string why_none;  ///< why there are no experts
};

struct type_total {
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
};

struct inspection {
  std::filesystem::path folder;  ///< of the step, the model, or the file
  std::vector<file_report> files;
  std::map<std::string, type_total> types;
  std::optional<checkpoint_report> checkpoint;  ///< none: it is a model
  model_report model;
  std::vector<std::string> problems;  ///< what is missing, damaged or cannot be read

  [[nodiscard]] std::uint64_t bytes() const {
    auto sum = std::uint64_t{0};
    for (auto const& file : files) sum += file.bytes;
    return sum;
  }
  [[nodiscard]] std::size_t tensors() const {
    auto sum = std::size_t{0};
    for (auto const& file : files) sum += file.tensors;
    return sum;
  }
};

}  // namespace stored
