// SPDX-License-Identifier: Apache-2.0
/// The index of a model in several safetensors files, as in Hugging Face models: which tensor is in
/// which file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "fssdp/checkpoint/parse_json.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/file/posix_file.hpp"
#include "fssdp/file/require_file.hpp"

namespace fssdp {

/// The name of the index in the folder of the files.
inline constexpr auto safetensors_index_name = std::string_view{"model.safetensors.index.json"};
/// The limit of the size of an index, in bytes.
inline constexpr std::uint64_t longest_safetensors_index = std::uint64_t{256} << 20U;

/// The file of each tensor, within one folder.
struct safetensors_index {
  std::uint64_t total_bytes = 0;  ///< of all tensors; 0 if the file does not say
  std::map<std::string, std::string, std::less<>> files;  ///< by the name of the tensor

  friend bool operator==(safetensors_index const&, safetensors_index const&) = default;
};

/// The text of an index file.
/// @throws argument_error if a name is not UTF-8
[[nodiscard]] inline std::string to_text(safetensors_index const& index) {
  auto json = nlohmann::json{{"metadata", {{"total_size", index.total_bytes}}},
                             {"weight_map", nlohmann::json::object()}};
  for (auto const& [tensor, file] : index.files) json["weight_map"][tensor] = file;
  try {
    return json.dump(2) + '\n';
  } catch (nlohmann::json::exception const& error) {
    throw argument_error{detail::text("safetensors_index: a name is not UTF-8: ", error.what())};
  }
}

/// Reads an index file of any origin.
/// @cost memory in proportion to it
/// @throws file_error that names the file and the cause
[[nodiscard]] inline safetensors_index read_safetensors_index(std::filesystem::path const& path) {
  auto const file = detail::posix_file::open(path);
  auto const bytes = file.bytes();
  detail::require_file(bytes <= longest_safetensors_index, path, "has ", bytes,
                       " bytes; expected at most ", longest_safetensors_index);
  auto text = std::string(static_cast<std::size_t>(bytes), '\0');
  file.read_at(0, std::as_writable_bytes(std::span{text}));
  try {
    auto const json = detail::parse_json(text);
    auto index = safetensors_index{};
    auto const& map = detail::value_at(json, "weight_map");
    if (!map.is_object()) throw file_error{"'weight_map' is not an object"};
    for (auto const& [tensor, in_file] : map.items()) {
      if (!in_file.is_string())
        throw file_error{detail::text("'weight_map' has no text for '", tensor, "'")};
      index.files.emplace(tensor, in_file.get<std::string>());
    }
    if (json.contains("metadata") && json["metadata"].is_object()) {
      auto const& notes = json["metadata"];
      if (notes.contains("total_size") && notes["total_size"].is_number_unsigned())
        index.total_bytes = notes["total_size"].get<std::uint64_t>();
    }
    return index;
  } catch (file_error const& error) {
    detail::refuse_file(path, error.what());
  }
}

}  // namespace fssdp
