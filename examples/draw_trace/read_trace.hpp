// SPDX-License-Identifier: Apache-2.0
/// Reads a file of the Trace Event Format.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "trace.hpp"

namespace draw {

namespace detail {

/// One event of the file, with its number for those who look for what is wrong.
struct raw_event {
  nlohmann::json const& json;
  std::size_t number;

  [[nodiscard]] bool is(char const* key, char const* value) const {
    auto const found = json.find(key);
    return found != json.end() && *found == value;
  }
  [[nodiscard]] double time(char const* key) const {
    auto const found = json.find(key);
    if (found == json.end() || !found->is_number()) fail("no number", key);
    return found->get<double>() / 1000;
  }
  [[nodiscard]] std::int64_t integer(char const* key) const {
    auto const found = json.find(key);
    if (found == json.end() || !found->is_number_integer()) fail("no integer", key);
    return found->get<std::int64_t>();
  }
  [[nodiscard]] std::string text(char const* key, std::string otherwise = {}) const {
    auto const found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>()
                                                     : std::move(otherwise);
  }
  [[noreturn]] void fail(char const* what, char const* key) const {
    throw std::runtime_error{fmt::format("event {} has {} \"{}\": {:.200}", number, what, key,
                                         json.dump(-1, ' ', true))};
  }
};

/// `key value` of all arguments, one to a line.
[[nodiscard]] inline std::string details(nlohmann::json const& arguments) {
  auto lines = std::string{};
  for (auto const& [key, value] : arguments.items())
    lines +=
        fmt::format("\n{} {}", key, value.is_string() ? value.get<std::string>() : value.dump());
  return lines;
}

inline void add_range(trace& to, raw_event const& event) {
  auto const arguments = event.json.value("args", nlohmann::json::object());
  auto one = bar{.begin = event.time("ts"), .name = event.text("name", "(no name)")};
  one.end = one.begin + event.time("dur");
  if (!(one.end >= one.begin) || !std::isfinite(one.end)) event.fail("an impossible", "dur");
  one.comm = event.text("cat");
  one.details = details(arguments);
  if (auto const layer = arguments.find("layer");
      layer != arguments.end() && layer->is_number_integer())
    one.layer = layer->get<std::int64_t>();
  to[event.integer("pid")].rows[event.integer("tid")].bars.push_back(std::move(one));
}

inline void add_metadata(trace& to, raw_event const& event) {
  auto const found = event.json.value("args", nlohmann::json::object());
  auto const arguments = raw_event{found, event.number};
  auto const what = event.text("name");
  if (what == "process_name") to[event.integer("pid")].name = arguments.text("name");
  if (what == "process_labels") to[event.integer("pid")].remark = arguments.text("labels");
  if (what == "thread_name")
    to[event.integer("pid")].rows[event.integer("tid")].name = arguments.text("name");
}

/// Names what has none, orders the ranges, and takes out what has nothing to show.
inline void complete(trace& of) {
  for (auto& [rank, process] : of) {
    if (process.name.empty()) process.name = fmt::format("rank {}", rank);
    std::erase_if(process.rows, [](auto const& row) { return row.second.bars.empty(); });
    for (auto& [thread, row] : process.rows) {
      if (row.name.empty()) row.name = fmt::format("thread {}", thread);
      for (auto& bar : row.bars)
        if (bar.comm.empty()) bar.comm = row.name;
      std::ranges::stable_sort(row.bars, {}, [](bar const& one) {
        return std::tuple{one.begin, -one.end};
      });
    }
  }
  std::erase_if(of, [](auto const& process) { return process.second.rows.empty(); });
}

[[nodiscard]] inline trace to_trace(nlohmann::json const& file) {
  auto const* events = &file;
  if (file.is_object() && file.contains("traceEvents")) events = &file.at("traceEvents");
  if (!events->is_array())
    throw std::runtime_error{"no trace: expected an array of events, or \"traceEvents\" with one"};
  auto read = trace{};
  auto number = std::size_t{0};
  for (auto const& json : *events) {
    auto const event = raw_event{json, number++};
    if (!json.is_object())
      throw std::runtime_error{fmt::format("event {} is not an object", number - 1)};
    if (event.is("ph", "X")) add_range(read, event);
    if (event.is("ph", "M")) add_metadata(read, event);
  }
  complete(read);
  if (read.empty()) throw std::runtime_error{"no range (an event of phase X) in it"};
  return read;
}

}  // namespace detail

/// @throws std::runtime_error that names the file and what is wrong with it
[[nodiscard]] inline trace read_trace(std::filesystem::path const& path) {
  try {
    auto file = std::ifstream{path};
    if (!file || std::filesystem::is_directory(path)) throw std::runtime_error{"cannot be read"};
    return detail::to_trace(nlohmann::json::parse(file));
  } catch (nlohmann::json::exception const& error) {
    throw std::runtime_error{path.string() + ": no valid JSON: " + error.what()};
  } catch (std::runtime_error const& error) {
    throw std::runtime_error{path.string() + ": " + error.what()};
  }
}

}  // namespace draw
