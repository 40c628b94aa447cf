// SPDX-License-Identifier: Apache-2.0
/// Loads from CSV: a line per iteration and layer, a column per expert.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <istream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "load_trace.hpp"

namespace sim {

namespace detail {

inline std::vector<std::string_view> cells_of(std::string_view line) {
  auto cells = std::vector<std::string_view>{};
  for (auto at = std::size_t{0};;) {
    auto const comma = line.find(',', at);
    cells.push_back(line.substr(at, comma == std::string_view::npos ? comma : comma - at));
    if (comma == std::string_view::npos) return cells;
    at = comma + 1;
  }
}

/// What stands in a file, for a message: its beginning, and numbers for what does not print.
inline std::string shown(std::string_view text) {
  constexpr auto most = std::size_t{40};
  constexpr auto digits = std::string_view{"0123456789abcdef"};
  auto result = std::string{"'"};
  for (auto const c : text.substr(0, most)) {
    auto const byte = static_cast<unsigned char>(c);
    if (c >= ' ' && c <= '~')
      result += c;
    else
      result += {'\\', 'x', digits[byte / 16], digits[byte % 16]};
  }
  return result + (text.size() > most ? "...'" : "'");
}

/// Reads one file; knows the line it is at.
class load_reader {
 public:
  load_reader(std::istream& in, std::string name) : in_{in}, name_{std::move(name)} {}

  load_trace read() {
    if (!next()) refuse("it is empty; expected the columns iter,layer,e0,e1,...");
    auto const experts = read_head();
    while (next()) {
      if (!text_.empty()) read_row(experts);
    }
    return finish();
  }

 private:
  struct row {
    std::size_t line;
    fssdp::expert_loads loads;
  };

  bool next() {
    if (!std::getline(in_, text_)) {
      if (in_.bad()) refuse("cannot be read any further; expected the end of the file");
      return false;
    }
    ++line_;
    if (!text_.empty() && text_.back() == '\r') text_.pop_back();
    return true;
  }

  [[noreturn]] void refuse(std::string const& what) const { refuse_at(line_, what); }
  [[noreturn]] void refuse_at(std::size_t line, std::string const& what) const {
    throw std::invalid_argument{name_ + ":" + std::to_string(line) + ": " + what};
  }

  std::size_t read_head() {
    auto const cells = cells_of(text_);
    auto const name = [](std::size_t column) {
      if (column < 2) return std::string{column == 0 ? "iter" : "layer"};
      return "e" + std::to_string(column - 2);
    };
    for (std::size_t n = 0; n < std::max<std::size_t>(cells.size(), 3); ++n) {
      if (n >= cells.size()) refuse("no column " + name(n) + "; expected iter,layer,e0,e1,...");
      if (cells[n] != name(n))
        refuse("column " + std::to_string(n + 1) + " is called " + shown(cells[n]) + "; expected " +
               name(n));
    }
    return cells.size() - 2;
  }

  std::uint64_t number(std::string_view cell, std::string const& column) const {
    auto value = std::uint64_t{0};
    auto const* const end = cell.data() + cell.size();
    auto const [stop, error] = std::from_chars(cell.data(), end, value);
    if (error != std::errc{} || stop != end || value > most)
      refuse(column + " is " + shown(cell) + "; expected a whole number from 0 to " +
             std::to_string(most));
    return value;
  }

  void read_row(std::size_t experts) {
    auto const cells = cells_of(text_);
    if (cells.size() < 2) refuse(shown(text_) + "; expected iter,layer and a load per expert");
    auto const iter = static_cast<std::int64_t>(number(cells[0], "iter"));
    auto const layer = number(cells[1], "layer");
    if (cells.size() != experts + 2)
      refuse("layer " + std::to_string(layer) + " has loads of " +
             std::to_string(cells.size() - 2) + " experts; expected " + std::to_string(experts) +
             ", as in the first line");
    auto loads = fssdp::expert_loads{};
    for (std::size_t e = 0; e < experts; ++e)
      loads.push_back(number(cells[e + 2], "e" + std::to_string(e)));
    auto const [known, is_new] = rows_[iter].try_emplace(layer, row{line_, std::move(loads)});
    if (!is_new)
      refuse("iteration " + std::to_string(iter) + ", layer " + std::to_string(layer) +
             " stands in line " + std::to_string(known->second.line) + " already");
  }

  load_trace finish() {
    if (rows_.empty())
      refuse("no loads below the columns; expected a line per iteration and layer");
    auto trace = load_trace{};
    auto const layers = rows_.begin()->second.size();
    for (auto& [iter, of_iter] : rows_) {
      auto sample = load_sample{.iter = iter};
      auto last = std::size_t{0};
      for (auto& [layer, one] : of_iter) {
        if (layer != sample.layers.size())
          refuse_at(one.line, "iteration " + std::to_string(iter) + " has layer " +
                                  std::to_string(layer) + ", but no layer " +
                                  std::to_string(sample.layers.size()) +
                                  "; expected layers without gaps");
        last = one.line;
        sample.layers.push_back(std::move(one.loads));
      }
      if (sample.layers.size() != layers)
        refuse_at(last, "iteration " + std::to_string(iter) + " has " +
                            std::to_string(sample.layers.size()) + " layers; expected " +
                            std::to_string(layers) + ", as iteration " +
                            std::to_string(rows_.begin()->first) + " has");
      trace.push_back(std::move(sample));
    }
    if (mean_tokens(trace) == 0) refuse("all loads are 0; expected some tokens");
    return trace;
  }

  static constexpr auto most = std::uint64_t{1'000'000'000'000};  // sums of them never overflow

  std::istream& in_;
  std::string name_;
  std::string text_ = {};
  std::size_t line_ = 0;
  std::map<std::int64_t, std::map<std::uint64_t, row>> rows_ = {};
};

}  // namespace detail

/// @param name how messages call it
/// @throws std::invalid_argument that names the line, what stands there, and what was expected
[[nodiscard]] inline load_trace read_loads(std::istream& in, std::string name) {
  return detail::load_reader{in, std::move(name)}.read();
}

/// @throws std::invalid_argument also if the file cannot be opened
[[nodiscard]] inline load_trace read_loads(std::filesystem::path const& path) {
  if (std::filesystem::is_character_file(path))  // /dev/zero has no end
    throw std::invalid_argument{"--trace " + path.string() + " is a device; expected a file"};
  auto file = std::ifstream{path};
  if (!file || std::filesystem::is_directory(path))
    throw std::invalid_argument{"--trace " + path.string() + ": cannot be read; expected a file"};
  return read_loads(file, path.string());
}

}  // namespace sim
