// SPDX-License-Identifier: Apache-2.0
/// Which trace is drawn, and what of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace draw {

struct options {
  std::filesystem::path trace = {};
  std::filesystem::path svg = {};        ///< empty: the standard output
  std::optional<double> from = {};       ///< milliseconds; none: the first begin
  std::optional<double> to = {};         ///< milliseconds; none: the last end
  std::vector<std::int64_t> ranks = {};  ///< empty: all
  std::string title = {};                ///< empty: the name of the file
};

/// @throws std::invalid_argument that names the option, its value and what was expected
inline void validate(options const& of) {
  auto const require = [](bool holds, std::string const& what) {
    if (!holds) throw std::invalid_argument{what};
  };
  require(!of.from || !of.to || *of.from < *of.to,
          "--from " + std::to_string(of.from.value_or(0)) + " --to " +
              std::to_string(of.to.value_or(0)) + ": expected an end behind the begin");
  if (of.svg.empty()) return;
  auto const folder = of.svg.has_parent_path() ? of.svg.parent_path() : ".";
  require(std::filesystem::is_directory(folder),
          "--svg " + of.svg.string() + ": there is no directory " + folder.string());
}

}  // namespace draw
