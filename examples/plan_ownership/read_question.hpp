// SPDX-License-Identifier: Apache-2.0
/// Reads a question; every error names the key, and the item if there is one.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "question.hpp"

namespace ownership {

namespace detail {

using nlohmann::json;

/// A part of a question, and what it is called in errors.
class part {
 public:
  part(json const& of, std::string name) : of_{&of}, name_{std::move(name)} {}

  [[noreturn]] void fail(std::string_view expected) const {
    throw std::runtime_error{
        fmt::format("{}: {:.80}; expected {}", name_, of_->dump(-1, ' ', true), expected)};
  }
  void allow(std::initializer_list<std::string_view> keys) const {
    if (!of_->is_object()) fail("an object");
    for (auto const& [key, value] : of_->items()) {
      auto known = false;
      for (auto const one : keys) known = known || one == key;
      if (!known)
        throw std::runtime_error{fmt::format("{}: unknown key \"{}\"; expected one of {}", name_,
                                             key, fmt::join(keys, ", "))};
    }
  }
  [[nodiscard]] bool has(char const* key) const { return of_->contains(key); }
  [[nodiscard]] part at(char const* key) const {
    auto const found = of_->find(key);
    if (found == of_->end())
      throw std::runtime_error{fmt::format("{}: no \"{}\"; expected one", name_, key)};
    return {*found, fmt::format("{}.{}", name_, key)};
  }
  [[nodiscard]] std::vector<part> list() const {
    if (!of_->is_array()) fail("an array");
    auto parts = std::vector<part>{};
    for (auto const& one : *of_)
      parts.emplace_back(one, fmt::format("{}[{}]", name_, parts.size()));
    return parts;
  }
  [[nodiscard]] part called(std::string name) const { return {*of_, std::move(name)}; }

  [[nodiscard]] bool is_null() const { return of_->is_null(); }
  [[nodiscard]] std::string text() const {
    if (!of_->is_string()) fail("a text");
    return of_->get<std::string>();
  }
  [[nodiscard]] bool truth() const {
    if (!of_->is_boolean()) fail("true or false");
    return of_->get<bool>();
  }
  [[nodiscard]] std::uint64_t count() const {
    if (!of_->is_number_unsigned()) fail("an integer of 0 or more, below 2^64");
    return of_->get<std::uint64_t>();
  }
  [[nodiscard]] int integer() const {
    constexpr auto most = std::numeric_limits<int>::max();
    if (!of_->is_number_unsigned() || of_->get<std::uint64_t>() > static_cast<unsigned>(most))
      fail(fmt::format("an integer from 0 to {}", most));
    return of_->get<int>();
  }
  [[nodiscard]] double number() const {
    if (!of_->is_number()) fail("a number");
    return of_->get<double>();
  }

 private:
  json const* of_;
  std::string name_;
};

class question_reader {
 public:
  [[nodiscard]] question read(part const& of) {
    of.allow({"ranks", "nodes", "node_of", "nic_per", "nic_bytes_per_second", "items", "together",
              "apart", "near", "weights", "price_per_byte", "most_moved_bytes", "precision",
              "trials", "exact_items"});
    read_topology(of);
    auto owned = false;
    for (auto const& item : of.at("items").list()) owned = read_item(item) || owned;
    if (!owned) asked_.before.clear();
    read_sets(of, "together", asked_.constraints.together);
    read_sets(of, "apart", asked_.constraints.apart);
    read_sets(of, "near", asked_.constraints.near);
    read_options(of);
    return std::move(asked_);
  }

 private:
  void read_topology(part const& of) {
    auto const ranks = of.at("ranks").integer();
    auto node_of = std::vector<fssdp::node_id>{};
    if (of.has("node_of")) {
      if (of.has("nodes")) of.at("nodes").fail("\"nodes\" or \"node_of\", not both");
      for (auto const& node : of.at("node_of").list()) node_of.emplace_back(node.integer());
      if (node_of.size() != static_cast<std::size_t>(ranks))
        of.at("node_of").fail(fmt::format("{} nodes, one for each rank", ranks));
    } else {
      auto const nodes = of.has("nodes") ? of.at("nodes").integer() : 1;
      auto const even = fssdp::topology{{.nodes = nodes, .ranks = ranks}};
      for (auto const rank : fssdp::first_n<fssdp::rank_id>(ranks))
        node_of.push_back(even.node(rank));
    }
    auto network = fssdp::network_interface::per_rank;
    if (of.has("nic_per")) {
      auto const name = of.at("nic_per").text();
      if (name != "rank" && name != "node") of.at("nic_per").fail("\"rank\" or \"node\"");
      if (name == "node") network = fssdp::network_interface::per_node;
    }
    auto ports = std::vector<fssdp::port_bandwidth>{{}};
    if (of.has("nic_bytes_per_second")) {
      ports.clear();
      for (auto const& speed : of.at("nic_bytes_per_second").list())
        ports.push_back({.between_bytes_per_second = speed.number()});
      if (ports.size() != static_cast<std::size_t>(ranks))
        of.at("nic_bytes_per_second").fail(fmt::format("{} numbers, one for each rank", ranks));
    }
    asked_.topo = fssdp::topology{std::move(node_of), std::move(ports), network};
  }

  /// @return whether it has an owner
  bool read_item(part const& of) {
    of.allow({"name", "bytes", "step_cost", "load", "owner", "on_ranks", "same_node"});
    auto const name = of.at("name").text();
    auto const id = fssdp::item_id{asked_.items.size()};
    if (!number_.emplace(name, id).second) of.at("name").fail("a name that no other item has");
    asked_.names.push_back(name);
    auto const of_item = of.called(fmt::format("item \"{}\"", name));
    auto const amount = [&](char const* key) {
      return of_item.has(key) ? of_item.at(key).count() : 0;
    };
    asked_.items.push_back({.bytes = of_item.at("bytes").count(),
                            .step_cost = amount("step_cost"),
                            .load = amount("load")});
    auto const owned = of_item.has("owner") && !of_item.at("owner").is_null();
    asked_.before.push_back(owned ? rank(of_item.at("owner")) : fssdp::rank_id{-1});
    if (of_item.has("on_ranks")) {
      auto& choice = asked_.constraints.on_ranks.emplace_back();
      choice.item = id;
      for (auto const& one : of_item.at("on_ranks").list()) choice.ranks.push_back(rank(one));
    }
    if (of_item.has("same_node") && of_item.at("same_node").truth()) {
      if (!owned) of_item.at("same_node").fail("an \"owner\" for an item that stays on its node");
      asked_.constraints.same_node.push_back(id);
    }
    return owned;
  }
  [[nodiscard]] fssdp::rank_id rank(part const& of) const {
    auto const number = of.integer();
    if (number >= asked_.topo.ranks())
      of.fail(fmt::format("a rank from 0 to {}", asked_.topo.ranks() - 1));
    return fssdp::rank_id{number};
  }

  void read_sets(part const& of, char const* key, std::vector<std::vector<fssdp::item_id>>& sets) {
    if (!of.has(key)) return;
    for (auto const& one : of.at(key).list()) {
      auto& set = sets.emplace_back();
      for (auto const& name : one.list()) {
        auto const found = number_.find(name.text());
        if (found == number_.end()) name.fail("the name of an item");
        set.push_back(found->second);
      }
    }
  }

  void read_options(part const& of) {
    auto& to = asked_.planner;
    if (of.has("weights")) {
      auto const weights = of.at("weights");
      weights.allow({"bytes", "step_cost", "load", "interface"});
      auto const read = [&](char const* key, double& weight) {
        if (weights.has(key)) weight = weights.at(key).number();
      };
      read("bytes", to.weights.bytes);
      read("step_cost", to.weights.step_cost);
      read("load", to.weights.load);
      read("interface", to.weights.interface);
    }
    if (of.has("price_per_byte")) to.price_per_byte = of.at("price_per_byte").number();
    if (of.has("most_moved_bytes")) to.most_moved_bytes = of.at("most_moved_bytes").count();
    if (of.has("precision")) to.precision = of.at("precision").number();
    if (of.has("trials")) to.trials = of.at("trials").integer();
    if (of.has("exact_items")) to.exact_items = of.at("exact_items").integer();
  }

  question asked_;
  std::unordered_map<std::string, fssdp::item_id> number_;
};

}  // namespace detail

/// @param path of a file; -: standard input
/// @throws std::runtime_error that names the file and what is wrong with it
[[nodiscard]] inline question read_question(std::filesystem::path const& path) {
  auto const source = path == "-" ? std::string{"standard input"} : path.string();
  try {
    auto json = nlohmann::json{};
    if (path == "-") {
      json = nlohmann::json::parse(std::cin);
    } else {
      auto file = std::ifstream{path};
      if (!file || std::filesystem::is_directory(path)) throw std::runtime_error{"cannot be read"};
      json = nlohmann::json::parse(file);
    }
    return detail::question_reader{}.read({json, "question"});
  } catch (nlohmann::json::exception const& error) {
    throw std::runtime_error{source + ": no valid JSON: " + error.what()};
  } catch (std::runtime_error const& error) {
    throw std::runtime_error{source + ": " + error.what()};
  }
}

}  // namespace ownership
