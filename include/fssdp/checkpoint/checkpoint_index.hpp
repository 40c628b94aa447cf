// SPDX-License-Identifier: Apache-2.0
/// The index of a checkpoint: the file that makes it complete.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/checkpoint/checksum.hpp"
#include "fssdp/checkpoint/parse_json.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/file/posix_file.hpp"
#include "fssdp/layout/table_layout.hpp"

namespace fssdp {

/// One file of a checkpoint, written by one rank.
struct rank_file {
  std::string name;  ///< in the folder of the index
  std::uint64_t bytes = 0;
  std::uint64_t header = 0;  ///< checksum of its header, which has the checksums of its tensors
};

/// The contents of a checkpoint, and a text of the caller.
struct checkpoint_index {
  std::uint64_t step = 0;
  std::string state;
  std::vector<rank_file> files;  ///< [ranks]
  std::vector<part_description> parts;

  /// @throws argument_error if there is no part of that name
  [[nodiscard]] part_description const& part(std::string_view name) const {
    auto const at = std::ranges::find(parts, name, &part_description::name);
    if (at == parts.end()) {
      auto there = std::string{};
      for (auto const& part : parts) there += (there.empty() ? "'" : ", '") + part.name + "'";
      throw argument_error{
          detail::text("checkpoint: no part '", name, "'; expected one of ", there)};
    }
    return *at;
  }
  /// The owners of the chunks of a part. Expert e of layer l is expert l * experts / layers + e.
  [[nodiscard]] table_layout layout(std::string_view name) const {
    auto owners = std::vector<rank_id>{};
    for (auto const owner : part(name).owners) owners.emplace_back(owner);
    return {{.ranks = static_cast<int>(files.size()), .slices = part(name).slices},
            std::move(owners)};
  }
};

/// The version of the file format that this library writes, and the only one that it reads.
inline constexpr int checkpoint_version = 1;
/// The limit of the size of an index, in bytes.
inline constexpr std::uint64_t longest_checkpoint_index = std::uint64_t{64} << 20U;

namespace detail {

inline constexpr auto index_begin = std::string_view{R"({"fssdp_checkpoint":)"};
inline constexpr auto index_checksum = std::string_view{",\"checksum\":\""};
inline constexpr auto index_content = std::string_view{"\",\n\"content\":"};
inline constexpr auto index_end = std::string_view{"}\n"};

[[nodiscard]] inline nlohmann::json to_json(part_description const& part) {
  auto tensors = nlohmann::json::array();
  for (auto const& tensor : part.tensors)
    tensors.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
  auto groups = nlohmann::json::array();
  for (auto const& group : part.groups)
    groups.push_back({{"name", group.name}, {"dtype", std::string{name_of(group.dtype)}}});
  return {{"name", part.name},     {"pattern", part.pattern.text}, {"layers", part.layers},
          {"slices", part.slices}, {"tensors", tensors},           {"groups", groups},
          {"owners", part.owners}};
}

[[nodiscard]] inline part_description part_from(nlohmann::json const& from, std::size_t ranks) {
  constexpr auto most = std::uint64_t{std::numeric_limits<int>::max()};
  auto part = part_description{.name = text_at(from, "name"),
                               .pattern = {text_at(from, "pattern")},
                               .layers = static_cast<int>(number_at(from, "layers", 1, most)),
                               .slices = static_cast<int>(number_at(from, "slices", 1, most)),
                               .tensors = {},
                               .groups = {},
                               .owners = {}};
  for (auto const& owner : list_at(from, "owners"))
    part.owners.push_back(static_cast<int>(whole_number(owner, "owners", 0, ranks - 1)));
  auto const chunks = part.owners.size();
  auto const slices = static_cast<std::size_t>(part.slices);
  if (chunks == 0 || chunks > most || chunks % slices != 0 ||
      chunks / slices % static_cast<std::size_t>(part.layers) != 0)
    throw file_error{text("part '", part.name, "' has ", chunks, " owners; expected ", slices,
                          " for each expert of ", part.layers, " layers")};
  for (auto const& tensor : list_at(from, "tensors")) {
    auto& whole = part.tensors.emplace_back(whole_tensor{text_at(tensor, "name"), {}});
    for (auto const& size : list_at(tensor, "shape"))
      whole.shape.push_back(
          whole_number(size, "shape", 0, std::uint64_t{std::numeric_limits<std::int64_t>::max()}));
    if (!tensor_bytes(whole.shape, file_dtype::f64).has_value())
      throw file_error{text("tensor '", whole.name, "' has a shape of too many elements")};
  }
  for (auto const& group : list_at(from, "groups")) {
    auto const dtype = file_dtype_named(text_at(group, "dtype"));
    if (!dtype.has_value() || !is_element(*dtype))
      throw file_error{text("group '", text_at(group, "name"), "' is of type '",
                            text_at(group, "dtype"),
                            "'; expected F64, F32, F16, BF16, F8_E5M2 or F8_E4M3")};
    part.groups.push_back({text_at(group, "name"), *dtype});
  }
  try {
    (void)part.pattern({});
  } catch (argument_error const& error) {
    throw file_error{error.what()};
  }
  return part;
}

}  // namespace detail

/// The text of an index file.
/// @throws argument_error if a string in it is not UTF-8, or it is too long
[[nodiscard]] inline std::string to_text(checkpoint_index const& index) {
  auto files = nlohmann::json::array();
  for (auto const& file : index.files)
    files.push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"header", detail::to_hex(file.header)}});
  auto parts = nlohmann::json::array();
  for (auto const& part : index.parts) parts.push_back(detail::to_json(part));
  auto const content = nlohmann::json{
      {"step", index.step}, {"state", index.state}, {"files", files}, {"parts", parts}};
  auto json = std::string{};
  try {
    json = content.dump();
  } catch (nlohmann::json::exception const& error) {
    throw argument_error{
        detail::text("checkpoint: a name or the state is not UTF-8: ", error.what())};
  }
  detail::require(json.size() < longest_checkpoint_index - 1024, "checkpoint: an index of ",
                  json.size(), " bytes; expected less than ", longest_checkpoint_index,
                  ": a shorter state");
  auto whole = std::string{detail::index_begin};
  whole += std::to_string(checkpoint_version);
  whole += detail::index_checksum;
  whole += detail::to_hex(checksum(json));
  whole += detail::index_content;
  whole += json;
  return whole += detail::index_end;
}

/// Parses an index.
/// @cost memory in proportion to the text
/// @throws file_error that says what is wrong
[[nodiscard]] inline checkpoint_index parse_checkpoint_index(std::string_view text) {
  auto const require = [](bool holds, auto const&... parts) {
    if (!holds) throw file_error{detail::text(parts...)};
  };
  require(text.starts_with(detail::index_begin), "it is not an index of a checkpoint");
  text.remove_prefix(detail::index_begin.size());
  auto version = 0;
  auto const [rest, wrong] = std::from_chars(text.data(), text.data() + text.size(), version);
  require(wrong == std::errc{}, "it is not an index of a checkpoint");
  require(version == checkpoint_version, "it is of version ", version, "; expected ",
          checkpoint_version);
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  auto const frame = detail::index_checksum.size() + checksum_digits + detail::index_content.size();
  require(text.size() >= frame + detail::index_end.size() &&
              text.starts_with(detail::index_checksum) && text.ends_with(detail::index_end) &&
              text.substr(0, frame).ends_with(detail::index_content),
          "it is cut off, or was changed");
  auto const sum = detail::from_hex(text.substr(detail::index_checksum.size(), checksum_digits));
  text.remove_prefix(frame);
  text.remove_suffix(detail::index_end.size());
  require(sum == checksum(text), "it is not what was written: its checksum differs");

  auto const content = detail::parse_json(text);
  auto index = checkpoint_index{
      .step = detail::number_at(content, "step", 0, std::numeric_limits<std::uint64_t>::max()),
      .state = detail::text_at(content, "state"),
      .files = {},
      .parts = {}};
  for (auto const& file : detail::list_at(content, "files")) {
    auto const header = detail::from_hex(detail::text_at(file, "header"));
    auto const name = detail::text_at(file, "name");
    require(header.has_value(), "'header' of '", name, "' is not a checksum");
    require(!name.empty() && name.front() != '.' && name.find('/') == name.npos, "'", name,
            "' is not a file name");
    index.files.push_back(
        {name, detail::number_at(file, "bytes", 0, std::numeric_limits<std::uint64_t>::max()),
         *header});
  }
  auto const most = static_cast<std::size_t>(std::numeric_limits<int>::max());
  require(!index.files.empty() && index.files.size() <= most, "it has no files");
  auto const& parts = detail::list_at(content, "parts");
  require(parts.size() <= 4096, "it has ", parts.size(), " parts; expected at most 4096");
  for (auto const& part : parts) {
    index.parts.push_back(detail::part_from(part, index.files.size()));
    require(std::ranges::count(index.parts, index.parts.back().name, &part_description::name) == 1,
            "it has two parts '", index.parts.back().name, "'");
  }
  return index;
}

/// Reads an index file.
/// @throws file_error that names the file and the cause
[[nodiscard]] inline checkpoint_index read_checkpoint_index(std::filesystem::path const& path) {
  auto const file = detail::posix_file::open(path);
  auto const bytes = file.bytes();
  detail::require_file(bytes <= longest_checkpoint_index, path, "has ", bytes,
                       " bytes; expected at most ", longest_checkpoint_index);
  auto text = std::string(static_cast<std::size_t>(bytes), '\0');
  file.read_at(0, std::as_writable_bytes(std::span{text}));
  try {
    return parse_checkpoint_index(text);
  } catch (file_error const& error) {
    detail::refuse_file(path, error.what());
  }
}

}  // namespace fssdp
