// SPDX-License-Identifier: Apache-2.0
/// Ten thousand files of loads with random changes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "catch.hpp"
#include "fssdp_sim/read_loads.hpp"
#include "support/dice.hpp"
#include "support/mutated_bytes.hpp"

namespace {

using support::dice;
using words = std::vector<std::string>;

[[nodiscard]] words split(std::string const& text, char at) {
  auto parts = words{""};
  for (auto const c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}
[[nodiscard]] std::string joined(words const& parts, std::string const& by) {
  auto text = parts.empty() ? std::string{} : parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) text += by + parts[i];
  return text;
}
[[nodiscard]] std::string replaced(std::string text, char what, std::string const& by) {
  return joined(split(text, what), by);
}

/// Files of loads as users write them, some with an empty line, some in any order.
[[nodiscard]] std::string random_load_file(dice& draw) {
  auto const experts = draw.between(1, 6);
  auto const layers = draw.between(1, 4);
  auto head = words{"iter", "layer"};
  for (int e = 0; e < experts; ++e) head.push_back("e" + std::to_string(e));
  auto lines = words{};
  for (int iter = 0; iter < draw.between(1, 4); ++iter)
    for (int layer = 0; layer < layers; ++layer) {
      auto row = words{std::to_string(10 * iter), std::to_string(layer)};
      for (int e = 0; e < experts; ++e) row.push_back(std::to_string(draw.between(1, 99'999)));
      lines.push_back(joined(row, ","));
    }
  if (draw.chance(20)) draw.shuffle(lines);
  if (draw.chance(20)) lines.insert(lines.begin() + draw.between(0, 1), "");
  return joined(head, ",") + "\n" + joined(lines, "\n") + "\n";
}

[[nodiscard]] std::size_t any_place(words const& list, dice& draw) {
  return static_cast<std::size_t>(draw.between(0, static_cast<int>(list.size()) - 1));
}

/// What a line, or a cell of one, may become.
void mutate_part(words& parts, dice& draw, words const& strange) {
  auto const at = static_cast<std::ptrdiff_t>(any_place(parts, draw));
  auto const copy = parts[any_place(parts, draw)];
  switch (draw.between(0, 4)) {
    case 0:
      parts.erase(parts.begin() + at);
      break;
    case 1:
      parts.insert(parts.begin() + at, copy);
      break;
    case 2:
      std::swap(parts[static_cast<std::size_t>(at)], parts[any_place(parts, draw)]);
      break;
    default:
      parts[static_cast<std::size_t>(at)] = draw.one_of(strange);
  }
}
void mutate_lines(std::string& text, dice& draw) {
  auto lines = split(text, '\n');
  mutate_part(lines, draw,
              {"", " ", "\r", ",", "0", "0,0", "# iter", std::string(5'000, '7'),
               std::string(2'000, ','), std::string{"\0,\0", 3}});
  text = joined(lines, "\n");
}
void mutate_cells(std::string& text, dice& draw) {
  auto lines = split(text, '\n');
  auto& line = lines[any_place(lines, draw)];
  auto cells = split(line, ',');
  auto eight = std::string(501, '0');
  eight.back() = '8';
  mutate_part(cells, draw,
              {"",
               " 7",
               "7 ",
               "-1",
               "-0",
               "+5",
               "007",
               "1e3",
               "4.0",
               ".5",
               "nan",
               "inf",
               "-inf",
               "0x10",
               "1_000",
               "1'000",
               "\"7\"",
               "\xef\xbc\x97",
               std::string{"7\0", 2},
               "2147483648",
               "1000000000000",
               "1000000000001",
               "9223372036854775808",
               "18446744073709551615",
               "18446744073709551616",
               std::string(500, '9'),
               eight,
               "all",
               "e0"});
  line = joined(cells, ",");
  text = joined(lines, "\n");
}
/// What other programs make of a whole file.
void mutate_file(std::string& text, dice& draw) {
  switch (draw.between(0, 6)) {
    case 0:
      text = replaced(text, '\n', draw.chance(80) ? "\r\n" : "\r");
      break;
    case 1:
      text = replaced(text, ',', draw.one_of(words{";", "\t", " ", ", "}));
      break;
    case 2:
      if (!text.empty()) text.pop_back();
      break;
    case 3:
      text = draw.one_of(words{"\xef\xbb\xbf", "\n", "\xff\xfe", std::string(1, '\0')}) + text;
      break;
    case 4:
      text.resize(static_cast<std::size_t>(draw.between(0, static_cast<int>(text.size()))));
      break;
    case 5:
      text += text;
      break;
    default:
      text = draw.chance(50) ? replaced(text, ',', std::string{",\0", 2}) : "";
  }
}
[[nodiscard]] std::string mutated_load_file(std::string text, dice& draw) {
  constexpr auto bytes_of_csv = std::string_view{"0123456789,,,\n\n\r-+.;\t\"enil \0\xff", 29};
  auto const times = draw.between(1, 3);
  for (int i = 0; i < times; ++i) {
    auto const kind = draw.between(0, 9);
    if (kind < 2) mutate_lines(text, draw);
    if (kind >= 2 && kind < 6) mutate_cells(text, draw);
    if (kind >= 6 && kind < 9) text = support::mutated_bytes(text, draw, bytes_of_csv);
    if (kind == 9) mutate_file(text, draw);
  }
  return text;
}

/// What a file says, read in another way: cell by cell, numbers digit by digit.
struct load_oracle {
  using rows = std::map<std::uint64_t, std::map<std::uint64_t, fssdp::expert_loads>>;
  rows said;
  std::size_t wrong_line = 0;  ///< the first that cannot stand there; 0: all can
  bool whole = false;          ///< and they are the loads of all iterations and layers

  explicit load_oracle(std::string const& text) {
    auto lines = split(text, '\n');
    auto const head = cells(lines.front());
    auto expected = words{"iter", "layer"};
    while (expected.size() < std::max<std::size_t>(head.size(), 3))
      expected.push_back("e" + std::to_string(expected.size() - 2));
    if (head != expected) {
      wrong_line = text.empty() ? 0 : 1;
      return;
    }
    for (std::size_t n = 1; n < lines.size(); ++n)
      if (!lines[n].empty() && lines[n] != "\r" && !take(cells(lines[n]), head.size())) {
        wrong_line = n + 1;
        return;
      }
    auto some = false;
    whole = !said.empty();
    for (auto const& [iter, layers] : said) {
      whole = whole && layers.size() == said.begin()->second.size() &&
              layers.rbegin()->first == layers.size() - 1;
      for (auto const& [layer, loads] : layers)
        some = some || std::ranges::any_of(loads, [](auto load) { return load > 0; });
    }
    whole = whole && some;
  }

 private:
  static words cells(std::string line) {
    if (line.ends_with('\r')) line.pop_back();
    return split(line, ',');
  }
  static std::optional<std::uint64_t> number(std::string digits) {
    if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos) return {};
    digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
    constexpr auto most = std::string_view{"1000000000000"};
    if (digits.size() > most.size() || (digits.size() == most.size() && digits > most)) return {};
    return std::stoull(digits);
  }
  bool take(words const& row, std::size_t columns) {
    auto values = std::vector<std::uint64_t>{};
    for (auto const& cell : row)
      if (auto const value = number(cell)) values.push_back(*value);
    if (row.size() != columns || values.size() != columns) return false;
    return said[values[0]]
        .emplace(values[1], fssdp::expert_loads(values.begin() + 2, values.end()))
        .second;
  }
};

[[nodiscard]] bool same_loads(sim::load_trace const& read, load_oracle::rows const& said) {
  auto wrong = read.size() == said.size() ? 0 : 1;
  auto at = said.begin();
  for (auto sample = read.begin(); wrong == 0 && sample != read.end(); ++sample, ++at) {
    wrong += sample->iter == static_cast<std::int64_t>(at->first) ? 0 : 1;
    auto loads = std::vector<fssdp::expert_loads>{};
    for (auto const& [layer, of_layer] : at->second) loads.push_back(of_layer);
    wrong += sample->layers == loads ? 0 : 1;
  }
  return wrong == 0;
}

}  // namespace

TEST_CASE("a file of loads changed at random is refused by its line, or read as it stands") {
  constexpr auto wanted = 10'000;
  auto accepted = 0;
  for (auto seed = std::uint64_t{1}; seed <= wanted; ++seed) {
    auto draw = dice{seed};
    auto const text = mutated_load_file(random_load_file(draw), draw);
    auto const oracle = load_oracle{text};
    auto said = std::string{};
    try {
      auto in = std::istringstream{text};
      auto const read = sim::read_loads(in, "loads.csv");
      ++accepted;
      if (oracle.whole && same_loads(read, oracle.said)) continue;
    } catch (std::invalid_argument const& error) {
      said = error.what();
      auto const lines = split(text, '\n').size();
      auto const line = said.starts_with("loads.csv:") ? std::stoull(said.substr(10)) : lines + 1;
      auto const is_the_line = oracle.wrong_line == 0 || line == oracle.wrong_line;
      // a sentence for a terminal, whatever the bytes of the file are
      auto const is_readable = said.size() < 300 && std::ranges::all_of(said, [](char c) {
                                 return c >= ' ' && c <= '~';
                               });
      auto const tells_what =
          said.find("expected") != said.npos || said.find("already") != said.npos;
      if (!oracle.whole && line <= lines && is_the_line && is_readable && tells_what) continue;
    }
    CAPTURE(seed, text.substr(0, 1000), said, oracle.wrong_line, oracle.whole);
    REQUIRE(false);
  }
  REQUIRE(accepted > wanted / 20);
  REQUIRE(accepted < wanted / 2);
}

TEST_CASE("a file of loads that cannot be read to its end is refused") {
  struct torn : std::stringbuf {
    using std::stringbuf::stringbuf;
    int underflow() override { throw std::runtime_error{"the disk is gone"}; }
  };
  auto const text = std::string{"iter,layer,e0\n1,0,5\n"};
  auto whole = std::istringstream{text};
  REQUIRE(sim::read_loads(whole, "loads.csv").size() == 1);
  auto buffer = torn{text};
  auto in = std::istream{&buffer};
  REQUIRE_THROWS_WITH(sim::read_loads(in, "loads.csv"),
                      "loads.csv:2: cannot be read any further; expected the end of the file");
}
