// SPDX-License-Identifier: Apache-2.0
/// Reads parts of the tensors of a safetensors file.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/checksum.hpp"
#include "fssdp/checkpoint/parse_safetensors.hpp"
#include "fssdp/checkpoint/place_elements.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/file/posix_file.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/memory/staged_copies.hpp"

namespace fssdp {

namespace detail {

/// The notes in which this library stores checksums: of every block of every tensor, in the order
/// of the file; each tensor begins a new block.
inline constexpr auto block_bytes_note = std::string_view{"fssdp.block_bytes"};
inline constexpr auto checksums_note = std::string_view{"fssdp.xxh3"};

[[nodiscard]] constexpr std::uint64_t block_count(std::uint64_t bytes, std::uint64_t block_bytes) {
  return bytes / block_bytes + (bytes % block_bytes == 0 ? 0 : 1);
}

}  // namespace detail

/// A file that is open for reading. Its header is checked when it is opened. If the file has
/// checksums, all that is read is checked, too.
class safetensors_file {
 public:
  /// @cost reads the header, which has at most 100 MB; memory in proportion to it
  /// @throws file_error that names the file and the cause
  explicit safetensors_file(std::filesystem::path const& path)
      : file_{detail::posix_file::open(path)} {
    constexpr auto prefix = std::uint64_t{8};
    auto const all = file_.bytes();
    detail::require_file(all >= prefix, path, "has ", all, " bytes; expected 8 or more");
    auto length_bytes = std::array<std::byte, prefix>{};
    file_.read_at(0, length_bytes);
    auto length = std::uint64_t{0};
    for (auto i = prefix; i-- > 0;)
      length = length << 8U | std::to_integer<std::uint64_t>(length_bytes[i]);
    detail::require_file(length <= longest_safetensors_header, path, "has a header of ", length,
                         " bytes; expected at most ", longest_safetensors_header);
    detail::require_file(length <= all - prefix, path, "has a header of ", length, " bytes in ",
                         all, "; it is cut off, or no safetensors file");
    auto text = std::string(static_cast<std::size_t>(prefix + length), '\0');
    file_.read_at(0, std::as_writable_bytes(std::span{text}));
    header_checksum_ = checksum(text);
    data_begin_ = prefix + length;
    try {
      header_ = parse_safetensors(std::string_view{text}.substr(prefix), all - data_begin_);
    } catch (file_error const& error) {
      detail::refuse_file(path, error.what());
    }
    read_checksums();
  }

  [[nodiscard]] std::filesystem::path const& path() const { return file_.path(); }
  [[nodiscard]] safetensors_header const& header() const { return header_; }
  /// The checksum of everything before the tensors.
  [[nodiscard]] std::uint64_t header_checksum() const { return header_checksum_; }
  [[nodiscard]] std::uint64_t bytes() const { return data_begin_ + header_.data_bytes(); }
  /// Whether the file has checksums of its tensors.
  [[nodiscard]] bool has_checksums() const { return !first_block_.empty(); }

  /// Reads elements of a tensor, from index `first` on, converted if the types differ.
  /// @param tensor its index in header().tensors()
  /// @param to memory for elements of type `dtype`, aligned for them
  /// @pre the tensor has enough elements after the first; where the types differ, both are
  ///      is_element
  /// @cost reads each byte once, directly into `to` if it is not converted; with checksums, whole
  ///       blocks are read even if only a part is needed
  /// @throws file_error if the file was changed after it was written, or cannot be read
  void read(std::size_t tensor, std::uint64_t first, file_dtype dtype, std::span<std::byte> to,
            scratch_memory& scratch) const {
    auto target = detail::staged_target{nullptr};
    read(tensor, first, dtype, to, scratch, target);
  }
  /// The same into the memory of a target.
  void read(std::size_t tensor, std::uint64_t first, file_dtype dtype, std::span<std::byte> to,
            scratch_memory& scratch, detail::staged_target& target) const {
    auto const& from = header_.tensors()[tensor];
    auto const size = element_bytes(from.dtype);
    auto const begin = first * size;
    auto const end = begin + to.size() / element_bytes(dtype) * size;
    auto const in_place = dtype == from.dtype;
    for (auto block = begin / block_bytes_; block * block_bytes_ < end; ++block) {
      auto const low = std::max(begin, block * block_bytes_);
      auto const high = std::min(end, (block + 1) * block_bytes_);
      auto const part = [&](std::uint64_t at) {  // the destination of a byte of the tensor
        return static_cast<std::size_t>((at - begin) / size * element_bytes(dtype));
      };
      auto const into = to.subspan(part(low), part(high) - part(low));
      auto const read_low = has_checksums() ? block * block_bytes_ : low;
      auto const read_high =
          has_checksums() ? std::min(from.bytes, (block + 1) * block_bytes_) : high;
      auto const fits = target.most() == 0 || into.size() <= target.most();
      auto const is_direct = in_place && fits && read_low == low && read_high == high;
      auto const room = static_cast<std::size_t>(read_high - read_low);
      auto const bytes = is_direct ? target.room_for(into) : scratch.reserve(room).first(room);
      file_.read_at(data_begin_ + from.first + read_low, bytes);
      if (has_checksums())
        detail::require_file(checksum(bytes) == checksums_[first_block_[tensor] + block], path(),
                             "block ", block, " of tensor '", from.name,
                             "' is not what was written: its checksum differs");
      if (is_direct) {
        target.filled(into);
        continue;
      }
      auto const wanted = std::span<std::byte const>{bytes}.subspan(
          static_cast<std::size_t>(low - read_low), static_cast<std::size_t>(high - low));
      detail::place_elements(from.dtype, wanted, dtype, into, target);
    }
  }

 private:
  void read_checksums() {
    auto const& notes = header_.metadata();
    auto const size = notes.find(detail::block_bytes_note);
    auto const sums = notes.find(detail::checksums_note);
    if (size == notes.end() || sums == notes.end()) return;
    auto const& digits = size->second;
    auto const [rest, wrong] =
        std::from_chars(digits.data(), digits.data() + digits.size(), block_bytes_);
    auto const is_number = wrong == std::errc{} && rest == digits.data() + digits.size();
    constexpr auto least = std::uint64_t{4096};
    constexpr auto most = std::uint64_t{1} << 28U;
    detail::require_file(is_number && block_bytes_ >= least && block_bytes_ <= most &&
                             std::has_single_bit(block_bytes_),
                         path(), "its ", detail::block_bytes_note, " is '", digits.substr(0, 40),
                         "'; expected a power of two from ", least, " to ", most);
    auto count = std::uint64_t{0};
    for (auto const& tensor : header_.tensors()) {
      first_block_.push_back(count);
      count += detail::block_count(tensor.bytes, block_bytes_);
    }
    auto const& text = sums->second;
    detail::require_file(
        text.size() % checksum_digits == 0 && text.size() / checksum_digits == count, path(),
        "has ", text.size(), " digits of checksums; expected ", checksum_digits,
        " for each of its ", count, " blocks");
    checksums_.reserve(static_cast<std::size_t>(count));
    for (std::size_t at = 0; at < text.size(); at += checksum_digits) {
      auto const sum = detail::from_hex(std::string_view{text}.substr(at, checksum_digits));
      detail::require_file(sum.has_value(), path(), "has a checksum that is not a number");
      checksums_.push_back(*sum);
    }
  }

  detail::posix_file file_;
  std::uint64_t data_begin_ = 0;
  std::uint64_t header_checksum_ = 0;
  safetensors_header header_;
  std::uint64_t block_bytes_ = std::uint64_t{1} << 20U;
  std::vector<std::uint64_t> first_block_;  // of each tensor
  std::vector<std::uint64_t> checksums_;    // of all blocks
};

}  // namespace fssdp
