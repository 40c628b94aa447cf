// SPDX-License-Identifier: Apache-2.0
/// The options of overlap.
#pragma once

#include <charconv>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>

#include "fssdp/comm/peer/peer_options.hpp"
#include "program/command_line.hpp"

namespace overlap {

struct options {
  int ranks = 4;
  int layers = 4;
  int width = 4096;
  int rows = 4096;  // fewer: a product would take memory longer than processors
  int repeats = 11;
  fssdp::copied_by copies = fssdp::copied_by::engines;
  int blocks = 0;                    ///< of threads that copy; 0: as many as fill the device
  int spare = 0;                     ///< multiprocessors that products beside gathers leave free
  std::filesystem::path trace = {};  ///< empty: none
};

[[nodiscard]] inline char const* name_of(fssdp::copied_by copies) {
  return copies == fssdp::copied_by::engines ? "engines" : "kernels";
}

inline constexpr auto help =
    "usage: overlap [OPTION VALUE]...\n"
    "Ranks that share one device gather the experts of a layer while they compute with those of\n"
    "the layer before. Prints which share of the gathers' time is hidden, and whether all values "
    "are\n"
    "right. Defaults are in parentheses.\n"
    "  --ranks N      ranks that share the device, and experts of each layer (4)\n"
    "  --layers N     layers, one after the other (4)\n"
    "  --width N      experts are matrices of N x N in bf16 (4096)\n"
    "  --rows N       rows that an expert is multiplied by (4096)\n"
    "  --repeats N    runs; the median is printed (11)\n"
    "  --copies WHAT  what copies the experts: engines or kernels (engines)\n"
    "  --blocks N     blocks of a copying kernel, each on a multiprocessor (as many as fit)\n"
    "  --spare N      multiprocessors that products leave free for copies (0)\n"
    "  --trace FILE   write a timeline for ui.perfetto.dev or draw_trace (none)\n";

/// Reads and validates the arguments; prints nothing.
[[nodiscard]] inline program::command_line<options> read_command_line(int argc,
                                                                      char const* const* argv) {
  using line = program::command_line<options>;
  auto chosen = options{};
  auto const refused = [](std::string_view name, char const* expected) {
    return line{.message = "overlap: " + std::string{name} + ": expected " + expected +
                           "\noverlap --help explains the options.\n",
                .exit_code = 2};
  };
  auto const numbers = std::map<std::string_view, int*>{
      {"--ranks", &chosen.ranks}, {"--layers", &chosen.layers}, {"--width", &chosen.width},
      {"--rows", &chosen.rows},   {"--blocks", &chosen.blocks}, {"--repeats", &chosen.repeats},
      {"--spare", &chosen.spare}};
  for (int i = 1; i < argc; i += 2) {
    auto const name = std::string_view{argv[i]};
    if (name == "--help") return {.message = help};
    auto const value = std::string_view{i + 1 < argc ? argv[i + 1] : ""};
    if (auto const found = numbers.find(name); found != numbers.end()) {
      auto const* const end = value.data() + value.size();
      auto const [stop, error] = std::from_chars(value.data(), end, *found->second);
      if (error != std::errc{} || stop != end || *found->second < 1 || *found->second > 65'536)
        return refused(name, "a number from 1 to 65536");
    } else if (name == "--copies") {
      if (value != "engines" && value != "kernels") return refused(name, "engines or kernels");
      chosen.copies = value == "engines" ? fssdp::copied_by::engines : fssdp::copied_by::kernels;
    } else if (name == "--trace") {
      if (value.empty()) return refused(name, "a file");
      chosen.trace = value;
    } else {
      return refused(name, "an option");
    }
  }
  if (chosen.layers < 2) return refused("--layers", "2 or more");
  if (chosen.ranks * chosen.layers > 256)  // each expert has a number of its own
    return refused("--ranks times --layers", "at most 256, the whole numbers that bf16 has");
  return {.chosen = chosen};
}

}  // namespace overlap
