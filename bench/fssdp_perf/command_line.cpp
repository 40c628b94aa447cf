// SPDX-License-Identifier: Apache-2.0
// The options as CLI11 knows them.
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "help.hpp"
#include "program/parse_arguments.hpp"

namespace perf {
namespace {

/// What is not a plain number passes through these strings.
struct raw_options {
  std::string backend = "thread";
  std::vector<std::string> collectives = {"ag"};
  std::vector<std::string> cases = {"pairs"};
  std::vector<std::string> bytes = {"1M"};
  std::string dtype = "fp32";
  std::string baseline = "none";
  std::string memory = "hot";
  std::string piece_bytes = "0";
  std::string nic_per = "rank";
  std::vector<double> latency = {5e-6, 15e-6};
};

template <class Choice>
[[nodiscard]] Choice chosen_from(std::string const& option, std::string const& name) {
  if (auto const choice = named<Choice>(name)) return *choice;
  throw std::invalid_argument{option + " " + name + ": expected one of " + list_of_names<Choice>()};
}

/// "4M" is 4 MiB.
[[nodiscard]] std::size_t size_from(std::string const& option, std::string const& text) {
  auto value = std::uint64_t{0};
  auto const* const end = text.data() + text.size();
  auto const [stop, error] = std::from_chars(text.data(), end, value);
  auto const unit = std::string{stop, end};
  auto shift = -1;
  if (unit.empty()) shift = 0;
  if (unit == "K" || unit == "KiB") shift = 10;
  if (unit == "M" || unit == "MiB") shift = 20;
  if (unit == "G" || unit == "GiB") shift = 30;
  if (error != std::errc{} || shift < 0 || value > UINT64_MAX >> 31U)
    throw std::invalid_argument{option + ' ' + text +
                                ": expected a whole number, alone or followed by K, M or G"};
  return static_cast<std::size_t>(value << static_cast<unsigned>(shift));
}

template <class Value>
CLI::Option* add(CLI::App& app, char const* group, char const* type, char const* name, Value& value,
                 std::string const& what) {
  return app.add_option(name, value, what)->type_name(type)->group(group)->capture_default_str();
}
template <class Value>
void add_list(CLI::App& app, char const* group, char const* type, char const* name, Value& value,
              std::string const& what) {
  add(app, group, type, name, value, what + ";\nseveral with commas between")->delimiter(',');
}

void declare_measured(CLI::App& app, options& chosen, raw_options& raw) {
  constexpr auto what = "What is measured";
  add(app, what, "NAME", "--backend", raw.backend, "What ranks are: " + list_of_names<backend>());
  add(app, what, "N", "--ranks", chosen.ranks, "Number of ranks");
  add(app, what, "N", "--nodes", chosen.nodes, "Nodes that the ranks are on");
  add_list(app, what, "NAME", "--collective", raw.collectives,
           "ag: sparse_all_gather, rs: sparse_reduce_scatter; of blocks\nall_gather_v, "
           "reduce_scatter_v");
  add_list(app, what, "NAME", "--case", raw.cases,
           "Who holds what: " + list_of_names<case_kind>() + ",\nor all: the first five");
  add(app, what, "N", "--experts", chosen.experts,
      "Experts; 0: two for each rank, or as many blocks as ranks");
  add_list(app, what, "SIZE", "--bytes", raw.bytes,
           "Bytes of one expert, or of an average block: 4096, 256K, 16M");
  add(app, what, "TYPE", "--dtype", raw.dtype, "Element type: " + list_of_names<fssdp::dtype>());
  add(app, what, "NAME", "--baseline", raw.baseline,
      "What to compare with: none, direct, broadcast, dense,\nneighbor, mpi-broadcast, gloo, "
      "gloo-broadcast, mpi-v,\ngloo-v");
}

void declare_manner(CLI::App& app, options& chosen, raw_options& raw) {
  constexpr auto how = "How it is measured";
  add(app, how, "N", "--iters", chosen.iterations, "Calls that are measured");
  add(app, how, "N", "--warmup", chosen.warmup, "Calls before them that are not measured");
  add(app, how, "N", "--seed", chosen.seed, "Seed of the random cases");
  add(app, how, "NAME", "--buffers", raw.memory,
      "hot: before each measured call there is one that is not measured;\ncold: the caches are "
      "emptied instead");
  add(app, how, "SIZE", "--piece-bytes", raw.piece_bytes,
      "Length of the pieces of an expert, about, where plans are scheduled;\n0: over MPI 64K, or a "
      "64th of it if that is more; elsewhere what\nthe scheduler finds best");
  app.add_flag("!--messages", chosen.in_place,
               "Processes of a host send messages, and do not read each other's\nmemory in place")
      ->group(how);
  app.add_flag("--check", chosen.check, "Check the value of every element")->group(how);
  app.add_flag("--json", chosen.json, "Print a JSON array instead of the table")->group(how);
}

void declare_model(CLI::App& app, options& chosen, raw_options& raw) {
  constexpr auto model = "The port model (--simulate, --rate)";
  app.add_flag("--simulate", chosen.simulate,
               "Print the same table from the port model, without measuring")
      ->group(model);
  add(app, model, "B/S", "--rate", chosen.rate,
      "Emulate links of this bandwidth, and NICs in proportion; 0: do not");
  add(app, model, "B/S", "--link-bandwidth", chosen.link_bandwidth,
      "Bandwidth of a rank inside its node");
  add(app, model, "B/S", "--nic-bandwidth", chosen.nic_bandwidth, "Bandwidth between nodes");
  add(app, model, "NAME", "--nic-per", raw.nic_per, "What has a NIC: " + list_of_names<nic_per>());
  add(app, model, "S,S", "--latency", raw.latency, "Seconds inside a node and between nodes")
      ->delimiter(',')
      ->expected(2);
}

void take_over(raw_options const& raw, options& chosen) {
  chosen.backend = chosen_from<backend>("--backend", raw.backend);
  chosen.dtype = chosen_from<fssdp::dtype>("--dtype", raw.dtype);
  chosen.baseline = chosen_from<baseline>("--baseline", raw.baseline);
  chosen.memory = chosen_from<memory>("--buffers", raw.memory);
  chosen.nic_per = chosen_from<nic_per>("--nic-per", raw.nic_per);
  chosen.link_latency = raw.latency.at(0);
  chosen.nic_latency = raw.latency.at(1);
  chosen.collectives.clear();
  for (auto const& name : raw.collectives)
    chosen.collectives.push_back(chosen_from<collective>("--collective", name));
  chosen.cases.clear();
  for (auto const& name : raw.cases) {
    if (name != "all") {
      chosen.cases.push_back(chosen_from<case_kind>("--case", name));
      continue;
    }
    for (auto const each : cases::case_names) chosen.cases.push_back(*named<case_kind>(each));
  }
  chosen.bytes.clear();
  for (auto const& text : raw.bytes) chosen.bytes.push_back(size_from("--bytes", text));
  chosen.piece_bytes = size_from("--piece-bytes", raw.piece_bytes);
}

}  // namespace

program::command_line<options> read_command_line(int argc, char const* const* argv) {
  auto chosen = options{};
  auto raw = raw_options{};
  auto app = CLI::App{detail::about, "fssdp_perf"};
  app.get_formatter()->column_width(28);
  app.footer(detail::footer);
  declare_measured(app, chosen, raw);
  declare_manner(app, chosen, raw);
  declare_model(app, chosen, raw);
  return program::parse_arguments(app, argc, argv, chosen, [&] {
    take_over(raw, chosen);
    validate(chosen);
  });
}

}  // namespace perf
