// SPDX-License-Identifier: Apache-2.0
/// What a communicator offers besides exchange, and what the README of include/fssdp/comm says.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "fssdp/comm/communicator.hpp"

namespace support {

/// The names of the extras, in the order of the README's columns.
template <fssdp::communicator Comm, class Batch>
[[nodiscard]] std::vector<std::string> extras_of() {
  auto names = std::vector<std::string>{};
  auto const add = [&](bool offered, char const* name) {
    if (offered) names.emplace_back(name);
  };
  add(fssdp::labelled_batch<Batch>, "label");
  add(fssdp::lending_communicator<Comm>, "lend");
  add(fssdp::forwarding_communicator<Comm>, "forward");
  add(fssdp::agreeing_communicator<Comm>, "agree");
  add(fssdp::announcing_communicator<Comm>, "announce");
  add(fssdp::connecting_communicator<Comm>, "connect");
  add(fssdp::duplicable_communicator<Comm>, "duplicate");
  add(fssdp::splittable_communicator<Comm>, "split");
  add(fssdp::shrinkable_communicator<Comm>, "without");
  add(fssdp::survivable_communicator<Comm>, "find_lost");
  add(fssdp::gathering_communicator<Comm>, "gather_values");
  add(fssdp::submitting_communicator<Comm>, "submit");
  add(fssdp::device_communicator<Comm>, "device work");
  add(fssdp::coding_communicator<Comm>, "encode");
  add(fssdp::side_stream_communicator<Comm>, "side stream");
  return names;
}
/// The same of a communicator that can exchange now: it says itself what its batch is. Collective.
template <fssdp::communicator Comm>
[[nodiscard]] std::vector<std::string> extras_of(Comm& comm) {
  auto names = std::vector<std::string>{};
  comm.exchange([&]<class Batch>(Batch&) { names = extras_of<Comm, Batch>(); });
  return names;
}

/// The columns that have "yes" in the row of `name` in the README's table.
[[nodiscard]] inline std::vector<std::string> extras_in_readme(std::string const& name) {
  auto const tests = std::filesystem::path{__FILE__}.parent_path().parent_path();
  auto file = std::ifstream{tests.parent_path() / "include/fssdp/comm/README.md"};
  auto const cells_of = [](std::string const& line) {
    auto cells = std::vector<std::string>{};
    auto stream = std::istringstream{line};
    for (auto cell = std::string{}; std::getline(stream, cell, '|');) {
      std::erase(cell, '`');
      auto const first = cell.find_first_not_of(' ');
      auto const last = cell.find_last_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
    }
    return cells;
  };
  auto columns = std::vector<std::string>{};
  for (auto line = std::string{}; std::getline(file, line);) {
    auto const cells = cells_of(line);
    if (cells.size() > 2 && cells[1] == "back end") columns = cells;
    if (columns.empty() || cells.size() != columns.size() || cells[1] != name) continue;
    auto names = std::vector<std::string>{};
    for (std::size_t i = 2; i < cells.size(); ++i)
      if (cells[i] == "yes") names.push_back(columns[i]);
    return names;
  }
  return {"no row of " + name};
}

}  // namespace support
