// SPDX-License-Identifier: Apache-2.0
/// Parses JSON from untrusted files: limited depth, no duplicate keys, numbers within their ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"

namespace fssdp::detail {

/// @throws file_error that says what is wrong
[[nodiscard]] inline nlohmann::json parse_json(std::string_view json) {
  constexpr auto deepest = 8;
  using event = nlohmann::json::parse_event_t;
  auto keys = std::vector<std::set<std::string>>{};  // of the enclosing objects
  auto const check = [&](int depth, event what, nlohmann::json& value) {
    if (what == event::object_start || what == event::array_start) {
      if (depth >= deepest) throw file_error{text("its JSON is over ", deepest, " levels deep")};
      if (what == event::object_start) keys.emplace_back();
    } else if (what == event::object_end) {
      keys.pop_back();
    } else if (what == event::key) {
      auto const& key = value.template get_ref<std::string const&>();
      if (!keys.back().insert(key).second) throw file_error{text("it has '", key, "' twice")};
    }
    return true;
  };
  if (json.find('\0') != json.npos) throw file_error{"its JSON has a zero byte"};
  try {
    return nlohmann::json::parse(json, check);
  } catch (nlohmann::json::exception const& error) {
    throw file_error{text("it is not JSON: ", error.what())};
  }
}

/// The value of a key.
/// @throws file_error if there is none
[[nodiscard]] inline nlohmann::json const& value_at(nlohmann::json const& object, char const* key) {
  if (!object.is_object() || !object.contains(key)) throw file_error{text("it lacks '", key, "'")};
  return object.at(key);
}
/// The same for a list, ...
[[nodiscard]] inline nlohmann::json const& list_at(nlohmann::json const& object, char const* key) {
  auto const& value = value_at(object, key);
  if (!value.is_array()) throw file_error{text("'", key, "' is not a list")};
  return value;
}
/// ... a string, ...
[[nodiscard]] inline std::string text_at(nlohmann::json const& object, char const* key) {
  auto const& value = value_at(object, key);
  if (!value.is_string()) throw file_error{text("'", key, "' is not a string")};
  return value.get<std::string>();
}
/// ... or an integer; `name` is its name in errors.
[[nodiscard]] inline std::uint64_t whole_number(nlohmann::json const& value, std::string_view name,
                                                std::uint64_t least, std::uint64_t most) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < least ||
      value.get<std::uint64_t>() > most)
    throw file_error{text("'", name, "' is not a whole number from ", least, " to ", most)};
  return value.get<std::uint64_t>();
}
[[nodiscard]] inline std::uint64_t number_at(nlohmann::json const& object, char const* key,
                                             std::uint64_t least, std::uint64_t most) {
  return whole_number(value_at(object, key), key, least, most);
}

}  // namespace fssdp::detail
