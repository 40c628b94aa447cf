// SPDX-License-Identifier: Apache-2.0
/// What files hold, and whether it is what was written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "fssdp/checkpoint/safetensors_file.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "inspection.hpp"

namespace stored::detail {

/// Reads a tensor whole, so that its checksums are compared.
/// @throws fssdp::file_error if one differs
inline void read_whole(fssdp::safetensors_file const& file, std::size_t tensor,
                       fssdp::scratch_memory& memory, fssdp::scratch_memory& blocks) {
  constexpr auto at_once = std::uint64_t{8} << 20U;
  auto const& about = file.header().tensors()[tensor];
  auto const size = fssdp::element_bytes(about.dtype);
  for (auto done = std::uint64_t{0}; done < about.bytes;) {
    auto const n = std::min(at_once, about.bytes - done);
    file.read(tensor, done / size, about.dtype, memory.reserve(static_cast<std::size_t>(n)),
              blocks);
    done += n;
  }
}

/// Opens a file and adds it, and what is wrong with it, to what is shown.
/// @param verify its checksums are compared, if it has some
/// @return the file, if it can be read
[[nodiscard]] inline std::optional<fssdp::safetensors_file> look_at_file(
    std::filesystem::path const& path, bool verify, inspection& shown) {
  auto file = std::optional<fssdp::safetensors_file>{};
  try {
    file.emplace(path);
  } catch (fssdp::file_error const& error) {
    shown.problems.emplace_back(error.what());
    return file;
  }
  auto report = file_report{.name = path.filename().string(),
                            .bytes = file->bytes(),
                            .tensors = file->header().tensors().size(),
                            .has_checksums = file->has_checksums()};
  auto memory = fssdp::scratch_memory{};
  auto blocks = fssdp::scratch_memory{};
  for (std::size_t i = 0; i < report.tensors; ++i) {
    auto const& tensor = file->header().tensors()[i];
    auto& total = shown.types[std::string{name_of(tensor.dtype)}];
    ++total.tensors;
    total.bytes += tensor.bytes;
    if (!verify || !report.has_checksums) continue;
    try {
      read_whole(*file, i, memory, blocks);
      ++report.verified;
    } catch (fssdp::file_error const& error) {
      shown.problems.emplace_back(error.what());
    }
  }
  shown.files.push_back(std::move(report));
  return file;
}

/// Adds one problem for many names: how many there are, and the first of them.
inline void add_problem(inspection& shown, std::uint64_t count, std::string const& what,
                        std::vector<std::string> const& names) {
  constexpr auto most = std::size_t{4};
  if (count == 0) return;
  auto text = std::to_string(count) + ' ' + what + ": ";
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    text += (i == 0 ? "'" : ", '") + names[i] + '\'';
  if (count > most) text += ", ...";
  shown.problems.push_back(std::move(text));
}

}  // namespace stored::detail
