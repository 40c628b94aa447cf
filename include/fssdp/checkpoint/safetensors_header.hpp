// SPDX-License-Identifier: Apache-2.0
/// The header of a safetensors file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/file_dtype.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/trace/json_text.hpp"

namespace fssdp {

/// A tensor in a file.
struct stored_tensor {
  std::string name;
  file_dtype dtype = file_dtype::f32;
  std::vector<std::uint64_t> shape;
  std::uint64_t first = 0;  ///< byte position after the header
  std::uint64_t bytes = 0;

  friend bool operator==(stored_tensor const&, stored_tensor const&) = default;
};

/// The bytes of a tensor of this shape; empty if they overflow.
[[nodiscard]] constexpr std::optional<std::uint64_t> tensor_bytes(
    std::span<std::uint64_t const> shape, file_dtype dtype) {
  constexpr auto most = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (std::ranges::find(shape, std::uint64_t{0}) != shape.end()) return 0;
  auto bytes = std::uint64_t{element_bytes(dtype)};
  for (auto const size : shape) {
    if (bytes > most / size) return {};
    bytes *= size;
  }
  return bytes;
}

/// The key of the notes in a header: no tensor can have this name.
inline constexpr auto safetensors_notes_name = std::string_view{"__metadata__"};

/// The tensors of a file in the order in which they are stored, without gaps; and notes about the
/// file.
class safetensors_header {
 public:
  using notes = std::map<std::string, std::string, std::less<>>;

  safetensors_header() = default;
  /// @throws file_error that names the tensor if names are not unique or equal that of the notes,
  ///         sizes do not fit shapes, or tensors overlap or leave gaps
  explicit safetensors_header(std::vector<stored_tensor> tensors, notes metadata = {})
      : tensors_{std::move(tensors)}, metadata_{std::move(metadata)} {
    std::ranges::sort(tensors_, [](stored_tensor const& a, stored_tensor const& b) {
      return std::pair{a.first, a.bytes} < std::pair{b.first, b.bytes};
    });
    for (auto const& tensor : tensors_) append(tensor);
    for (std::size_t i = 0; i < tensors_.size(); ++i) by_name_.push_back(i);
    auto const name = [this](std::size_t i) -> std::string_view { return tensors_[i].name; };
    std::ranges::sort(by_name_, {}, name);
    auto const twice = std::ranges::adjacent_find(by_name_, {}, name);
    if (twice != by_name_.end())
      throw file_error{detail::text("two tensors have the name '", name(*twice), "'")};
  }

  [[nodiscard]] std::vector<stored_tensor> const& tensors() const { return tensors_; }
  [[nodiscard]] notes const& metadata() const { return metadata_; }
  /// The size of the file after the header.
  [[nodiscard]] std::uint64_t data_bytes() const { return data_bytes_; }
  /// The index of the tensor with this name in tensors(); empty if there is none.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const {
    auto const at = std::ranges::lower_bound(
        by_name_, name, {}, [this](std::size_t i) -> std::string_view { return tensors_[i].name; });
    if (at == by_name_.end() || tensors_[*at].name != name) return {};
    return *at;
  }

 private:
  void append(stored_tensor const& tensor) {
    auto const require = [&](bool holds, auto const&... parts) {
      if (!holds) throw file_error{detail::text("tensor '", tensor.name, "' ", parts...)};
    };
    require(tensor.name != safetensors_notes_name, "has the name under which files keep notes");
    auto const expected = tensor_bytes(tensor.shape, tensor.dtype);
    require(expected.has_value(), "has a shape of too many elements");
    require(tensor.bytes == *expected, "has ", tensor.bytes, " bytes; expected ", *expected,
            " for its shape and type");
    require(tensor.first == data_bytes_, "begins at byte ", tensor.first, "; expected ",
            data_bytes_, ", where the tensor before it ends");
    require(tensor.bytes <= std::uint64_t{std::numeric_limits<std::int64_t>::max()} - data_bytes_,
            "ends beyond the largest file size");
    data_bytes_ += tensor.bytes;
  }

  std::vector<stored_tensor> tensors_;
  notes metadata_;
  std::vector<std::size_t> by_name_;
  std::uint64_t data_bytes_ = 0;
};

/// The longest header that readers accept, by the format's definition, in bytes.
inline constexpr std::uint64_t longest_safetensors_header = 100'000'000;

namespace detail {

/// A shape as in files: [2,3].
[[nodiscard]] inline std::string shape_text(std::span<std::uint64_t const> shape) {
  auto json = std::string{"["};
  for (auto const size : shape) {
    if (json.size() > 1) json += ',';
    json += std::to_string(size);
  }
  return json += ']';
}

/// A number as 8 bytes, the lowest first.
[[nodiscard]] inline std::string little_endian(std::uint64_t value) {
  auto bytes = std::string(8, '\0');
  for (auto& byte : bytes) {
    byte = static_cast<char>(value & 0xffU);
    value >>= 8U;
  }
  return bytes;
}

}  // namespace detail

/// The first bytes of a file: the length of the header, and the header, padded with spaces so that
/// tensors begin at a multiple of 64. The length depends on the lengths of names and notes, not on
/// their contents.
/// @throws file_error if it is longer than readers accept
[[nodiscard]] inline std::string to_text(safetensors_header const& header) {
  constexpr auto alignment = std::size_t{64};
  auto json = std::string{"{"};
  auto const separate = [&] {
    if (json.size() > 1) json += ',';
  };
  if (!header.metadata().empty()) {
    json += R"("__metadata__":{)";
    for (auto const& [key, value] : header.metadata()) {
      if (json.back() != '{') json += ',';
      detail::append_json_text(json, key);
      json += ':';
      detail::append_json_text(json, value);
    }
    json += '}';
  }
  for (auto const& tensor : header.tensors()) {
    separate();
    detail::append_json_text(json, tensor.name);
    json += R"(:{"dtype":")";
    json += name_of(tensor.dtype);
    json += R"(","shape":)" + detail::shape_text(tensor.shape) + R"(,"data_offsets":[)" +
            std::to_string(tensor.first) + ',' + std::to_string(tensor.first + tensor.bytes) + "]}";
  }
  json += '}';
  json.resize((json.size() + 8 + alignment - 1) / alignment * alignment - 8, ' ');
  if (json.size() > longest_safetensors_header)
    throw file_error{detail::text("a header of ", json.size(), " bytes; expected at most ",
                                  longest_safetensors_header, ": fewer tensors in a file")};
  return detail::little_endian(json.size()) + json;
}

}  // namespace fssdp
