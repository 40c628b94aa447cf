// SPDX-License-Identifier: Apache-2.0
/// Writes the file of one rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/checkpoint_index.hpp"
#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/checkpoint/checksum.hpp"
#include "fssdp/checkpoint/safetensors_file.hpp"
#include "fssdp/checkpoint/safetensors_header.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/file/new_file.hpp"
#include "fssdp/memory/device_staging.hpp"
#include "fssdp/memory/staged_copies.hpp"

namespace fssdp::detail {

/// A tensor of the file, and its memory.
struct tensor_source {
  stored_tensor tensor;
  std::span<std::byte const> bytes;
  device_staging* by;  ///< for device memory; null for host memory
};

/// All tensors of a rank, in the order in which they are written: large element types first, so
/// that all are aligned; then in the order of memory, so that many are written in one call. Empty
/// tensors are omitted.
[[nodiscard]] inline std::vector<tensor_source> tensors_to_write(
    std::span<saved_part const> parts) {
  auto all = std::vector<tensor_source>{};
  for (auto const& part : parts) {
    auto const& about = part.about();
    for (std::size_t g = 0; g < about.groups.size(); ++g)
      for (std::size_t k = 0; k < about.tensors.size(); ++k)
        for (std::size_t slot = 0; slot < part.owned().size(); ++slot) {
          auto const extent = part.extent(k, slot);
          if (extent.elements == 0) continue;
          auto const bytes = part.bytes(g, k, slot);
          auto whole = about.tensor_name(part.owned()[slot].expert, k, about.groups[g].name);
          all.push_back({{.name = slice_name(std::move(whole), extent, about.slices),
                          .dtype = about.groups[g].dtype,
                          .shape = about.slices == 1 ? about.tensors[k].shape
                                                     : std::vector<std::uint64_t>{extent.elements},
                          .bytes = bytes.size()},
                         bytes,
                         part.staging(g)});
        }
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, [](tensor_source const& source) {
    return element_bytes(source.tensor.dtype);
  });
  auto first = std::uint64_t{0};
  for (auto& source : all) {
    source.tensor.first = first;
    first += source.tensor.bytes;
  }
  return all;
}

/// Writes memory block after block; adjacent blocks are written in one call.
class gathering_writer {
  static constexpr auto most_at_once = std::size_t{8} << 20U;

 public:
  gathering_writer(new_file& file, std::uint64_t position) : file_{file}, position_{position} {}

  void write(std::span<std::byte const> bytes) {
    auto const follows = pending_.data() + pending_.size() == bytes.data();
    if (!follows || pending_.size() >= most_at_once) drain();
    pending_ =
        pending_.empty() ? bytes : std::span{pending_.data(), pending_.size() + bytes.size()};
  }
  void drain() {
    file_.write_at(position_, pending_);
    position_ += pending_.size();
    pending_ = {};
  }

 private:
  new_file& file_;
  std::uint64_t position_;
  std::span<std::byte const> pending_;
};

/// Writes the parts into a safetensors file with checksums, and finishes it.
/// @return its name, its length and the checksum of its header
/// @cost each byte is read once for its checksum and written once, in long runs; one flush. Device
///       memory passes through two buffers, one of which is filled while the other one is written
/// @throws argument_error if names are not unique, or a staging has buffers of less than 1 MiB and
///         a block does not fit; file_error; exceptions of the staging
[[nodiscard]] inline rank_file write_rank_file(new_file& file, std::span<saved_part const> parts) {
  constexpr auto block_bytes = std::uint64_t{1} << 20U;
  auto const sources = tensors_to_write(parts);
  auto tensors = std::vector<stored_tensor>{};
  auto blocks = std::vector<source_block>{};
  for (auto const& source : sources) {
    tensors.push_back(source.tensor);
    for (auto rest = source.bytes; !rest.empty();) {
      auto const size = std::min(rest.size(), static_cast<std::size_t>(block_bytes));
      blocks.push_back({rest.first(size), source.by});
      rest = rest.subspan(size);
    }
  }
  auto sums = std::string{};
  // The header is first in the file, but depends on what follows: it is written last, into space
  // that was left for it.
  auto const header = [&] {
    auto const length = blocks.size() * checksum_digits;
    auto padded_sums = sums;
    padded_sums.resize(length, '0');
    return to_text(safetensors_header{tensors,
                                      {{"fssdp.version", std::to_string(checkpoint_version)},
                                       {std::string{block_bytes_note}, std::to_string(block_bytes)},
                                       {std::string{checksums_note}, std::move(padded_sums)}}});
  };
  auto const room = [&] {
    try {
      return header().size();
    } catch (file_error const& error) {  // the names come from the caller
      throw argument_error{text("checkpoint: ", error.what())};
    }
  }();
  auto writer = gathering_writer{file, room};
  auto end = std::uint64_t{room};
  for_each_block(
      blocks,
      [&](std::span<std::byte const> block) {
        sums += to_hex(checksum(block));
        writer.write(block);
        end += block.size();
      },
      [&] { writer.drain(); });
  writer.drain();
  auto const text = header();
  file.write_at(0, std::as_bytes(std::span{text}));
  file.finish();
  return {.name = file.path().filename().string(), .bytes = end, .header = checksum(text)};
}

}  // namespace fssdp::detail
