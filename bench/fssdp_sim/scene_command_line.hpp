// SPDX-License-Identifier: Apache-2.0
/// The options that name clusters, models and loads, for every program that needs some.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cluster.hpp"
#include "model.hpp"
#include "options.hpp"
#include "program/not_empty.hpp"
#include "program/number_like.hpp"

namespace sim {
namespace detail {

[[nodiscard]] inline std::string list_of(auto const& all) {
  auto list = std::string{};
  for (auto const& one : all) list.append(list.empty() ? "" : ", ").append(one.name);
  return list;
}

/// What the names stand for; "all" stands for everything.
template <class All>
[[nodiscard]] auto chosen_from(std::string const& option, std::vector<std::string> const& names,
                               All const& all) {
  auto chosen = std::vector<typename All::value_type const*>{};
  for (auto const& name : names) {
    auto found = false;
    for (auto const& one : all) {
      if (name != "all" && one.name != name) continue;
      found = true;
      if (std::ranges::count(chosen, &one) == 0) chosen.push_back(&one);
    }
    if (!found)
      throw std::invalid_argument{option + " " + name + ": expected some of " + list_of(all) +
                                  ", or all"};
  }
  return chosen;
}

template <class Value>
CLI::Option* add(CLI::App& app, char const* group, char const* type, char const* name, Value& value,
                 std::string const& what) {
  auto* const option =
      app.add_option(name, value, what)->type_name(type)->group(group)->capture_default_str();
  if constexpr (std::is_integral_v<Value>)
    option->check(program::number_like<Value>("a whole number"));
  else if constexpr (std::is_floating_point_v<Value>)
    option->check(program::number_like<Value>("a number"));
  return option;
}
template <class Values>
CLI::Option* add_list(CLI::App& app, char const* group, char const* type, char const* name,
                      Values& values, std::string const& what) {
  auto* const option = add(app, group, type, name, values, what)->delimiter(',');
  using element = typename Values::value_type;
  if constexpr (std::is_integral_v<element>)
    option->check(program::number_like<element>("a whole number"));
  else if constexpr (std::is_floating_point_v<element>)
    option->check(program::number_like<element>("a number"));
  return option;
}

/// @throws std::invalid_argument if a number is less than another
template <class Value>
void require_at_least(char const* name, Value value, Value least) {
  if (value < least)
    throw std::invalid_argument{std::string{name} + " " + std::to_string(value) + ": expected " +
                                std::to_string(least) + " or more"};
}
template <class Value>
void require_at_most(char const* name, Value value, Value most) {
  if (value > most)
    throw std::invalid_argument{std::string{name} + " " + std::to_string(value) +
                                ": expected at most " + std::to_string(most)};
}
/// @throws std::invalid_argument unless a number lies between 0 and another
inline void require_within(char const* name, double value, double most) {
  if (!(value >= 0 && value <= most))
    throw std::invalid_argument{std::string{name} + " " + std::to_string(value) +
                                ": expected 0 to " + std::to_string(most)};
}

}  // namespace detail

/// Declares them, and takes them over into `chosen` when they have been read.
class scene_command_line {
 public:
  explicit scene_command_line(options& chosen) : chosen_{chosen} {}
  scene_command_line(scene_command_line const&) = delete;
  scene_command_line& operator=(scene_command_line const&) = delete;

  void declare_loads(CLI::App& app) {
    constexpr auto group = "Loads";
    detail::add(app, group, "FILE", "--trace", trace_,
                "Loads as CSV: iter,layer,e0,e1,...; by default\nsynthetic loads")
        ->check(program::not_empty("a file"));
    detail::add_list(app, group, "N,N", "--iters", chosen_.iters,
                     "Iterations of the trace to use; by default all");
    detail::add(
        app, group, "N", "--stale", stale_,
        "Placements are chosen by the loads of N iterations\nbefore; 0: by the real ones. By "
        "default: by the\nmean of the last 5 samples")
        ->default_str("");
  }

  void declare_process(CLI::App& app) {
    constexpr auto group = "Synthetic loads";
    detail::add(app, group, "N", "--seed", chosen_.seed, "Equal seeds give equal loads");
    detail::add(app, group, "N", "--iterations", chosen_.iterations,
                "How many iterations; they are numbered from 1");
    detail::add(app, group, "N", "--tokens", chosen_.tokens,
                "Tokens of one device in an iteration");
    detail::add(app, group, "N", "--layers", chosen_.layers, "MoE layers; 0: as the model has");
    detail::add(app, group, "N", "--experts", chosen_.experts,
                "Experts of a layer; 0: as the model has");
    detail::add(app, group, "X", "--zipf", chosen_.zipf,
                "The n-th expert has 1 / n^X of the first one's\nload");
    detail::add(app, group, "X", "--drift", chosen_.drift,
                "log(load) of each expert takes a random walk; size\nof a step");
    detail::add(app, group, "P", "--jumps", chosen_.jumps,
                "Probability that two experts of a layer change\nplaces, in an iteration");
    detail::add(app, group, "X", "--noise", chosen_.noise,
                "Independent noise of log(load) in each iteration:\nits standard deviation");
  }

  /// @param group its heading
  void declare_scene(CLI::App& app, char const* group) {
    detail::add_list(app, group, "NAME,...", "--cluster", clusters_,
                     detail::list_of(cluster_kinds));
    detail::add_list(app, group, "N,...", "--devices", chosen_.devices,
                     "Devices; by default 32, or 64 of h100 and h200");
    detail::add_list(app, group, "NAME,...", "--model", models_, "One of the models below, or all");
    detail::add(app, group, "N", "--slots", chosen_.slots,
                "Replicas of a layer that a device has memory for");
    detail::add(app, group, "N", "--overlap", overlap_,
                "How many experts may be gathered (the paper's t);\nby default as many as the "
                "attention before hides")
        ->default_str("");
  }

  void declare_groups(CLI::App& app) {
    constexpr auto group = "Groups";
    auto& of = chosen_.between;
    detail::add(
        app, group, "N", "--groups", of.groups,
        "Groups, each of --devices devices: a group shards\nthe model inside, and exchanges "
        "with the others");
    detail::add_list(app, group, "METHOD,...", "--between", methods_,
                     "How that is compressed: some of the methods below,\nor all");
    detail::add(app, group, "N", "--sync-every", of.rhythm.sync_every,
                "Groups average parameters every N iterations;\n0: they average gradients in every "
                "iteration");
    detail::add(app, group, "NAME", "--outer", outer_,
                "How parameters are combined: average; diloco; co2,\none round late, which hides "
                "the transfer");
    detail::add(app, group, "N", "--fragments", of.rhythm.fragments,
                "Divide the layers into N fragments, sent in turn,\neach once in --sync-every");
    detail::add(app, group, "N", "--sync-delay", of.rhythm.sync_delay,
                "Iterations that groups train on while a fragment\nis being sent");
    detail::add_list(
        app, group, "B/S,...", "--between-rate", of.wires,
        "Bytes per second of a link between groups, in one\ndirection. Each device has one, or "
        "each node, as\nin its cluster. By default as fast as the cluster's")
        ->default_str("");
  }

  /// @throws std::invalid_argument on a name or a number that cannot be
  void accept(CLI::App const& app) {
    chosen_.trace = trace_;
    chosen_.clusters = detail::chosen_from("--cluster", clusters_, cluster_kinds);
    chosen_.models = detail::chosen_from("--model", models_, models);
    if (app.count("--stale") > 0) chosen_.stale = stale_;
    if (app.count("--overlap") > 0) chosen_.overlap = overlap_;
    accept_groups(app);
    check_numbers();
    check_loads();
    for (auto const* kind : chosen_.clusters)
      for (auto const devices : chosen_.devices) static_cast<void>(make_cluster(*kind, devices));
    if (!trace_.empty())
      for (auto const* name : {"--seed", "--iterations", "--tokens", "--layers", "--experts",
                               "--zipf", "--drift", "--jumps", "--noise"})
        if (app.count(name) > 0)
          throw std::invalid_argument{std::string{name} +
                                      ": part of the synthetic process; expected no --trace"};
  }

 private:
  void accept_groups(CLI::App const& app) {
    auto& of = chosen_.between;
    detail::require_at_least("--groups", of.groups, 1);
    detail::require_at_most("--groups", of.groups, 4096);
    for (auto const* name :
         {"--between", "--sync-every", "--outer", "--fragments", "--sync-delay", "--between-rate"})
      if (of.groups == 1 && app.count(name) > 0)
        throw std::invalid_argument{std::string{name} + ": expected --groups 2 or more with it"};
    accept_rhythm(of.rhythm);
    for (auto const wire : of.wires)
      if (!(wire >= 1 && wire <= 1e15))
        throw std::invalid_argument{"--between-rate " + std::to_string(wire) +
                                    ": expected 1 to 1e15"};
    of.methods.clear();
    for (auto const& text : methods_) {
      auto const all =
          std::vector<between::method>(between::methods.begin(), between::methods.end());
      for (auto const& method : text == "all" ? all : std::vector{between::method_of(text)})
        if (std::ranges::count(of.methods, method) == 0) of.methods.push_back(method);
    }
  }
  void accept_rhythm(group_rhythm& of) const {
    detail::require_at_least("--sync-every", of.sync_every, 0);
    detail::require_at_least("--fragments", of.fragments, 1);
    detail::require_at_least("--sync-delay", of.sync_delay, 0);
    constexpr auto outers = std::array{outer::average, outer::diloco, outer::co2};
    auto const found = std::ranges::find(outers, outer_, name_of);
    if (found == outers.end())
      throw std::invalid_argument{"--outer " + outer_ + ": expected average, diloco or co2"};
    of.outer = *found;
    if (of.outer != outer::average && of.sync_every == 0)
      throw std::invalid_argument{"--outer " + outer_ +
                                  ": expected --sync-every 1 or more with it"};
    if (of.fragments > 1 &&
        (of.sync_every == 0 || of.sync_every % of.fragments != 0 || of.outer == outer::co2))
      throw std::invalid_argument{"--fragments " + std::to_string(of.fragments) +
                                  ": expected a divisor of --sync-every, without --outer co2"};
    if (of.sync_delay > 0 &&
        (of.sync_delay >= of.sync_every / of.fragments || of.outer == outer::co2))
      throw std::invalid_argument{
          "--sync-delay " + std::to_string(of.sync_delay) +
          ": expected less than the iterations between two fragments, without --outer co2"};
  }
  void check_numbers() const {
    detail::require_at_least("--slots", chosen_.slots, 0);
    detail::require_at_least("--iterations", chosen_.iterations, 1);
    detail::require_at_least("--tokens", chosen_.tokens, 1);
    detail::require_at_least("--layers", chosen_.layers, 0);
    detail::require_at_least("--experts", chosen_.experts, 0);
    detail::require_at_most("--iterations", chosen_.iterations, 1'000'000);
    detail::require_at_most("--layers", chosen_.layers, 1 << 12);
    detail::require_at_most("--experts", chosen_.experts, 1 << 16);
    detail::require_within("--zipf", chosen_.zipf, 10);
    detail::require_within("--drift", chosen_.drift, 1);
    detail::require_within("--jumps", chosen_.jumps, 1);
    detail::require_within("--noise", chosen_.noise, 1);
    if (chosen_.stale.has_value())
      detail::require_at_least("--stale", *chosen_.stale, std::int64_t{0});
    if (chosen_.overlap.has_value()) detail::require_at_least("--overlap", *chosen_.overlap, 0);
    for (auto const iter : chosen_.iters)
      detail::require_at_least("--iters", iter, std::int64_t{0});
  }
  /// Of the largest process.
  void check_loads() const {
    auto loads = 0.0;
    for (auto const* model : chosen_.models)
      loads = std::max(
          loads, static_cast<double>(chosen_.layers > 0 ? chosen_.layers : model->layers) *
                     (chosen_.experts > 0 ? chosen_.experts : model->experts) * chosen_.iterations);
    if (trace_.empty() && loads > 1e9)
      throw std::invalid_argument{
          "--iterations " + std::to_string(chosen_.iterations) + ", --layers " +
          std::to_string(chosen_.layers) + " and --experts " + std::to_string(chosen_.experts) +
          ": expected at most 10^9 loads, which are iterations * layers * experts"};
  }

  options& chosen_;
  std::string trace_;
  std::vector<std::string> clusters_ = {"flat"};
  std::vector<std::string> models_ = {"gpt-moe-s"};
  std::vector<std::string> methods_ = {"full"};
  std::string outer_ = "average";
  std::int64_t stale_ = -1;
  int overlap_ = -1;
};

}  // namespace sim
