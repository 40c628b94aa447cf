// SPDX-License-Identifier: Apache-2.0
/// The command line of moe_gpt, and its report.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "catch.hpp"
#include "moe_gpt/blas.hpp"
#include "moe_gpt/command_line.hpp"
#include "moe_gpt/progress.hpp"
#include "moe_gpt/summary.hpp"
#include "moe_gpt/write_json.hpp"
#include "support/temporary_folder.hpp"

using namespace moe_gpt;

namespace {

[[nodiscard]] program::command_line<options> read(std::initializer_list<char const*> arguments) {
  auto all = std::vector<char const*>{"moe_gpt"};
  all.insert(all.end(), arguments);
  return read_command_line(static_cast<int>(all.size()), all.data());
}

[[nodiscard]] run_record two_steps() {
  auto const step = [](int number, double loss) {
    return step_record{.step = number,
                       .loss = loss,
                       .tokens_per_second = 1000,
                       .load_max_over_mean_ep = 2,
                       .load_max_over_mean = 1.25,
                       .gathered_bytes = 1536,
                       .reduced_bytes = 512};
  };
  return {.parameters = 3200000,
          .heldout_loss = 2.5,
          .peak_replica_bytes = 3 << 20,
          .steps = {step(1, 5.5), step(2, 4.5)},
          .sample = {"for (", "auto\x1b[2J"}};
}

}  // namespace

TEST_CASE("command line: defaults and every option", "[moe_gpt]") {
  auto const none = read({});
  REQUIRE(none.chosen.has_value());
  CHECK(none.chosen->mode == mode::fssdp);
  CHECK(none.chosen->text.empty());
  CHECK(none.chosen->offload == offload::none);

  auto const all = read({"--text",
                         "a",
                         "b",
                         "--ranks",
                         "6",
                         "--nodes",
                         "2",
                         "--experts",
                         "8",
                         "--layers",
                         "3",
                         "--d-model",
                         "96",
                         "--heads",
                         "3",
                         "--seq",
                         "32",
                         "--batch",
                         "12",
                         "--steps",
                         "7",
                         "--lr",
                         "1e-3",
                         "--aux-loss",
                         "0.01",
                         "--mode",
                         "ep",
                         "--wire",
                         "bf16",
                         "--spare-slots",
                         "1",
                         "--overlap",
                         "2",
                         "--seed",
                         "18446744073709551615",
                         "--json",
                         "out.json",
                         "--held-out",
                         "4096",
                         "--sample",
                         "0",
                         "--quiet",
                         "--reshard-every",
                         "9",
                         "--micro-batches",
                         "4",
                         "--rematerialize",
                         "--prefetch",
                         "2",
                         "--replica-slots",
                         "5",
                         "--calibrate",
                         "--seconds-per-row",
                         "2e-6",
                         "--solver",
                         "cheapest",
                         "--routing",
                         "balanced",
                         "--predict",
                         "average",
                         "--no-overlap",
                         "--rate",
                         "1e9",
                         "--deadline",
                         "2.5",
                         "--trace",
                         "trace.json",
                         "--offload",
                         "moments",
                         "--offload-folder",
                         "."});
  CAPTURE(all.message);
  REQUIRE(all.chosen.has_value());
  auto const& chosen = *all.chosen;
  CHECK(chosen.text == std::vector<std::filesystem::path>{"a", "b"});
  CHECK(chosen.ranks == 6);
  CHECK(chosen.nodes == 2);
  CHECK(chosen.experts == 8);
  CHECK(chosen.layers == 3);
  CHECK(chosen.d_model == 96);
  CHECK(chosen.heads == 3);
  CHECK(chosen.seq == 32);
  CHECK(chosen.batch == 12);
  CHECK(chosen.steps == 7);
  CHECK(chosen.lr == 1e-3);
  CHECK(chosen.aux_loss == 0.01);
  CHECK(chosen.mode == mode::ep);
  CHECK(chosen.wire == wire::bf16);
  CHECK(chosen.spare_slots == 1);
  CHECK(chosen.overlap == 2);
  CHECK(chosen.seed == 18446744073709551615U);
  CHECK(chosen.json == "out.json");
  CHECK(chosen.reshard_every == 9);
  CHECK(chosen.held_out == 4096);
  CHECK(chosen.sample == 0);
  CHECK(chosen.quiet);
  CHECK(chosen.micro_batches == 4);
  CHECK(chosen.rematerialize);
  CHECK(chosen.prefetch == 2);
  CHECK(chosen.replica_slots == 5);
  CHECK(chosen.calibrate);
  CHECK(chosen.seconds_per_row == 2e-6);
  CHECK(chosen.solver == moe_gpt::solver::cheapest);
  CHECK(chosen.routing == fssdp::routing_rule::balanced);
  CHECK(chosen.predict == moe_gpt::prediction::average);
  CHECK(chosen.no_overlap);
  CHECK(chosen.rate == 1e9);
  CHECK(chosen.backend == moe_gpt::backend::thread);
  CHECK(moe_gpt::deadline_of(chosen) == std::chrono::milliseconds{2500});
  CHECK(chosen.trace == "trace.json");
  CHECK(chosen.offload == moe_gpt::offload::moments);
  CHECK(chosen.offload_folder == ".");
}

TEST_CASE("command line: --help explains every option", "[moe_gpt]") {
  auto const help = read({"--help"});
  CHECK(!help.chosen.has_value());
  CHECK(help.exit_code == 0);
  for (auto const* const word : {"--text",          "--ranks",      "--nodes",
                                 "--experts",       "--layers",     "--d-model",
                                 "--heads",         "--seq",        "--batch",
                                 "--steps",         "--lr",         "--aux-loss",
                                 "--mode",          "--wire",       "--spare-slots",
                                 "--overlap",       "--seed",       "--json",
                                 "--quiet",         "Examples",     "replica",
                                 "--reshard-every", "fsep",         "--rate",
                                 "--trace",         "--calibrate",  "--rematerialize",
                                 "--no-overlap",    "--prefetch",   "--replica-slots",
                                 "--micro-batches", "--backend",    "--deadline",
                                 "--save",          "--save-every", "--keep",
                                 "--resume",        "--offload",    "--offload-folder",
                                 "--sample",        "--held-out"})
    CHECK_THAT(help.message, mentions(word));
}

TEST_CASE("command line: an error names the value and what was expected", "[moe_gpt]") {
  struct wrong {
    std::vector<char const*> arguments;
    char const* value;
    char const* expected;
  };
  auto const all = std::vector<wrong>{
      {{"--ranks", "four"}, "four", "a whole number"},
      {{"--ranks", "2.5"}, "2.5", "a whole number"},
      {{"--ranks", "99999999999"}, "99999999999", "a whole number"},
      {{"--ranks", "0"}, "--ranks 0", "1 or more"},
      {{"--ranks", "2", "--nodes", "3"}, "--nodes 3", "at most --ranks, 2"},
      {{"--d-model", "130"}, "--d-model 130", "a multiple of --heads, 4"},
      {{"--experts", "1"}, "--experts 1", "2 or more"},
      {{"--steps", "0"}, "--steps 0", "1 or more"},
      {{"--micro-batches", "0"}, "--micro-batches 0", "1 or more"},
      {{"--micro-batches", "9", "--batch", "8"}, "--micro-batches 9", "at most --batch, 8"},
      {{"--prefetch", "-1"}, "--prefetch -1", "0 or more"},
      {{"--rate", "-1"}, "--rate -1", "0 or more"},
      {{"--backend", "carrier"}, "carrier", "thread"},
      {{"--backend", "mpi", "--ranks", "-1"}, "--ranks -1", "0 or more"},
      {{"--backend", "mpi", "--rate", "1e9"}, "--rate 1000000000", "0 with --backend mpi"},
      {{"--deadline", "0"}, "--deadline 0", "0.001 to"},
      {{"--trace", "nowhere/t.json"}, "--trace nowhere/t.json", "no directory"},
      {{"--overlap", "-1"}, "--overlap -1", "0 or more"},
      {{"--sample", "-1"}, "--sample -1", "0 or more"},
      {{"--held-out", "0"}, "--held-out 0", "1 or more"},
      {{"--lr", "fast"}, "fast", "a number"},
      {{"--lr", "0"}, "--lr 0", "more than 0"},
      {{"--seed", "-1"}, "-1", "0 or more"},
      {{"--mode", "dp"}, "dp", "fssdp"},
      {{"--seconds-per-row", "-1"}, "--seconds-per-row -1", "0 or more"},
      {{"--solver", "best"}, "--solver: best", "cheapest"},
      {{"--reshard-every", "-1"}, "--reshard-every -1", "0 or more"},
      {{"--mode", "fsep", "--reshard-every", "5"}, "--reshard-every 5", "0 with --mode fsep"},
      {{"--wire", "fp8"}, "fp8", "bf16"},
      {{"--json", "no/such/folder/x.json"}, "x.json", "no directory no/such/folder"},
      {{"--offload", "weights"}, "--offload: weights", "moments"},
      {{"--offload-folder", "."}, "--offload-folder .", "--offload moments or all with it"},
      {{"--offload", "all", "--offload-folder", "no/such"}, "--offload-folder no/such", "no such"},
      {{"--offload", "all", "--offload-folder", "/dev/null"},
       "--offload-folder /dev/null",
       "no such"},
      {{"--turbo"}, "--turbo", "expected"},
      {{"--save", ""}, "--save", "expected a folder"},
      {{"--resume", ""}, "--resume", "expected a folder"},
      {{"--offload", "all", "--offload-folder", ""}, "--offload-folder", "expected a folder"},
      {{"--json", ""}, "--json", "expected a file"},
      {{"--trace", ""}, "--trace", "expected a file"},
      {{"--text", ""}, "--text", "expected a file"},
      {{"--prefetch", "2147483647"}, "--prefetch 2147483647", "at most 4096"},
      {{"--ranks", "2147483647"}, "--ranks 2147483647", "at most 4096"},
      {{"--experts", "2147483647"}, "--experts 2147483647", "at most 65536"},
      {{"--d-model", "60000", "--experts", "60000"}, "--d-model 60000", "10^12 parameters"},
      {{"--seq", "60000", "--batch", "1000000"}, "--seq 60000", "10^12 numbers"},
  };
  for (auto const& [arguments, value, expected] : all) {
    auto argv = std::vector<char const*>{"moe_gpt"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    auto const result = read_command_line(static_cast<int>(argv.size()), argv.data());
    CHECK(!result.chosen.has_value());
    CHECK(result.exit_code != 0);
    CHECK_THAT(result.message, mentions(value) && mentions(expected));
  }
}

TEST_CASE("report: the file has all documented fields and appears at once", "[moe_gpt]") {
  auto const folder = std::filesystem::temp_directory_path() /
                      ("moe_gpt_report_" + std::to_string(std::random_device{}()));
  std::filesystem::create_directories(folder);
  auto chosen = options{.json = folder / "run.json"};
  write_json(chosen, two_steps());
  auto const read_back = nlohmann::ordered_json::parse(std::ifstream{chosen.json});
  CHECK(read_back == to_json(chosen, two_steps()));
  CHECK(read_back.dump().find(R"({"mode":"fssdp","ranks":4,"nodes":1,"experts":16,"layers":4,)"
                              R"("parameters":3200000,"heldout_loss":2.5,)"
                              R"("peak_replica_bytes":3145728,"steps":[{"step":1,"loss":5.5,)"
                              R"("tokens_per_second":1000.0,"load_max_over_mean_ep":2.0,)"
                              R"("load_max_over_mean":1.25,"gathered_bytes":1536,)"
                              R"("reduced_bytes":512,"moved_bytes":0,"bytes_inside_nodes":0,)") ==
        0);
  CHECK(std::distance(std::filesystem::directory_iterator{folder}, {}) == 1);
  chosen.json = folder / "gone" / "run.json";
  CHECK_THROWS_WITH(write_json(chosen, two_steps()), mentions("there is no directory"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("report: a target that is not a regular file is written to, and stays what it is",
          "[moe_gpt]") {
  namespace fs = std::filesystem;
  auto const folder = support::temporary_folder{};
  auto chosen = options{.json = folder.path() / "link.json"};
  auto const expected = to_json(chosen, two_steps()).dump(1) + '\n';
  auto const elsewhere = folder.path() / "elsewhere.json";
  fs::create_symlink(elsewhere, chosen.json);
  write_json(chosen, two_steps());
  CHECK(fs::is_symlink(chosen.json));
  CHECK(support::bytes_of_file(elsewhere) == expected);

  chosen.json = folder.path() / "pipe";
  REQUIRE(::mkfifo(chosen.json.c_str(), 0600) == 0);
  auto const pipe = ::open(chosen.json.c_str(), O_RDWR | O_NONBLOCK);
  REQUIRE(pipe >= 0);
  write_json(chosen, two_steps());
  auto received = std::string(expected.size() + 1, '\0');
  auto const bytes = ::read(pipe, received.data(), received.size());
  ::close(pipe);
  CHECK(received.substr(0, bytes < 0 ? 0 : static_cast<std::size_t>(bytes)) == expected);
  CHECK(fs::is_fifo(chosen.json));

  auto const precious = folder.path() / "precious";
  support::write_bytes(precious, "precious");
  chosen.json = folder.path() / "whole.json";
  fs::create_symlink(precious, folder.path() / "whole.json.partial");
  write_json(chosen, two_steps());
  CHECK(support::bytes_of_file(chosen.json) == expected);
  CHECK(support::bytes_of_file(precious) == "precious");

  chosen.json = folder.path() / "full";
  fs::create_symlink("/dev/full", chosen.json);
  CHECK_THROWS_WITH(write_json(chosen, two_steps()), mentions("No space left on device"));
}

TEST_CASE("report: table and sample", "[moe_gpt]") {
  auto const table = summary_table(options{}, two_steps());
  for (auto const* const part : {"5.500 at first, 5.000 over", "2.500", "1.0k", "2.00 under EP",
                                 "1.25 now", "1.5 KiB per step, 3.0 KiB in all", "512 B per step",
                                 "at most 3.0 MiB", "3.2M in 4 layers of 16 experts"})
    CHECK_THAT(table, mentions(part));
  CHECK_THAT(table, !mentions("in files"));
  auto record = two_steps();
  record.offloaded_bytes = 5 << 20;
  CHECK_THAT(summary_table({.offload = offload::moments}, record),
             mentions("5.0 MiB over all ranks, the moments of what they own"));
  CHECK_THAT(summary_table({.offload = offload::all}, record), mentions("all that they own"));
  CHECK_THAT(sample_text(two_steps().sample), mentions("for (") && mentions("auto\\x1b[2J"));
  CHECK_THAT(summary_table(options{}, run_record{}), mentions("held-out"));
}

TEST_CASE("report: help, table and file name the library of matrix products", "[moe_gpt]") {
  auto const name = products_by();
  CHECK_THAT(
      name, mentions("OpenBLAS ") || mentions("BLIS ") || mentions("MKL ") || mentions("own loop"));
  CHECK((name.find("own loop") == 0) == !moe_gpt::detail::has_blas);
  CHECK((name.find(", 1 thread a rank") != std::string::npos) == moe_gpt::detail::has_blas);
  CHECK_THAT(read({"--help"}).message, mentions("Here: " + name));
  CHECK_THAT(summary_table(options{}, two_steps()), mentions("matrix products      " + name));
  CHECK(to_json(options{}, two_steps()).at("matrix_products") == name);
}

TEST_CASE("report: control characters and invalid bytes are escaped", "[moe_gpt]") {
  CHECK(printable("a\tb\nc") == "a  b\nc");
  CHECK(printable(std::string{"\0\x7f\r", 3}) == "\\x00\\x7f\\x0d");
  CHECK(printable("gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x90\xb8") ==
        "gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x90\xb8");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");           // a control character
  CHECK(printable("\xe2\x82") == "\\xe2\\x82");           // cut off
  CHECK(printable("\xc0\x80\xff") == "\\xc0\\x80\\xff");  // not UTF-8
  CHECK(readable_bytes(0) == "0 B");
  CHECK(readable_bytes(1536) == "1.5 KiB");
  CHECK(readable_seconds(75.2) == "1:15");
  CHECK(readable_seconds(3675) == "1:01:15");
}

TEST_CASE("progress: a line fits its terminal and shows both loads", "[moe_gpt]") {
  auto const at = step_record{.step = 100,
                              .loss = 2.345,
                              .tokens_per_second = 12345,
                              .load_max_over_mean_ep = 1.98,
                              .load_max_over_mean = 1.21};
  for (std::size_t width = 1; width < 140; ++width)
    CHECK(progress_line(at, 200, 12345, 20, width).size() <= width);
  auto const usual = progress_line(at, 200, 12345, 20, 79);
  CHECK_THAT(usual, mentions("[#") && mentions("-]") && mentions("100/200") && mentions("2.345") &&
                        mentions("12.3k tok/s") && mentions("1.21 (EP 1.98)") &&
                        mentions("0:20 left"));
  auto const wide = progress_line(at, 200, 12345, 20, 130);
  CHECK(std::count(wide.begin(), wide.end(), '#') == 15);
}
