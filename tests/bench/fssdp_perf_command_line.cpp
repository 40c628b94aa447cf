// SPDX-License-Identifier: Apache-2.0
// The command line of fssdp_perf.
#include <cstddef>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp_perf/command_line.hpp"

namespace {

program::command_line<perf::options> read(std::vector<char const*> arguments) {
  arguments.insert(arguments.begin(), "fssdp_perf");
  return perf::read_command_line(static_cast<int>(arguments.size()), arguments.data());
}

std::string refusal(std::vector<char const*> const& arguments) {
  auto const line = read(arguments);
  CHECK(!line.chosen.has_value());
  CHECK(line.exit_code == 2);
  return line.message;
}

bool has(std::string const& text, char const* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("lists are split at commas, sizes have units, all cases are all cases") {
  auto const line = read({"--collective", "ag,rs", "--case", "all", "--bytes", "4096,256K,16M",
                          "--baseline", "mpi-broadcast", "--buffers", "cold", "--latency",
                          "1e-6,2e-6", "--piece-bytes", "64K", "--check"});
  REQUIRE(line.chosen.has_value());
  auto const& of = *line.chosen;
  CHECK(of.collectives == std::vector{perf::collective::ag, perf::collective::rs});
  CHECK(of.cases.size() == 5);
  CHECK(of.bytes == std::vector<std::size_t>{4096, 256 << 10U, 16 << 20U});
  CHECK(of.baseline == perf::baseline::mpi_broadcast);
  CHECK(of.memory == perf::memory::cold);
  CHECK(of.link_latency == 1e-6);
  CHECK(of.nic_latency == 2e-6);
  CHECK(of.piece_bytes == 64 << 10U);
  CHECK(of.check);
  CHECK(!of.json);
  CHECK(perf::expert_count(of) == 8);
}

TEST_CASE("an option that cannot be measured is an error that names it") {
  CHECK(
      has(refusal({"--backend", "gpu"}), "--backend gpu: expected one of thread, mpi, nccl, cuda"));
  CHECK(has(refusal({"--backend", "mpi", "--rate", "1e6"}), "expected 0 with --backend mpi"));
  CHECK(has(refusal({"--backend", "mpi", "--simulate"}), "expected no --backend mpi"));
  CHECK(has(refusal({"--backend", "mpi", "--baseline", "broadcast", "--collective", "rs", "--dtype",
                     "bf16"}),
            "--dtype bf16: expected fp32 or fp64"));
  CHECK(has(refusal({"--case", "warm"}), "--case warm: expected one of pairs, hot, zipf"));
  CHECK(has(refusal({"--bytes", "4X"}), "--bytes 4X"));
  CHECK(has(refusal({"--bytes", "-4"}), "--bytes -4"));
  CHECK(has(refusal({"--piece-bytes", "x"}), "--piece-bytes x: expected a whole number"));
  CHECK(has(refusal({"--case", "hot,blocks", "--piece-bytes", "64K"}),
            "--piece-bytes 65536: expected 0 for arrays of blocks"));
  CHECK(has(refusal({"--bytes", "6"}), "--bytes 6: expected a multiple of 4"));
  CHECK(has(refusal({"--bytes", "0"}), "--bytes 0"));
  CHECK(has(refusal({"--nodes", "5"}), "--nodes 5: expected at most --ranks, 4"));
  CHECK(has(refusal({"--iters", "0"}), "--iters 0"));
  CHECK(has(refusal({"--collective", "rs", "--dtype", "bf16", "--baseline", "gloo-broadcast"}),
            "--dtype bf16: expected fp32 or fp64"));
  CHECK(has(refusal({"--rate", "-1"}), "--rate"));
  CHECK(has(refusal({"--ranks", "2147483647"}), "--ranks 2147483647: expected at most 4096"));
  CHECK(has(refusal({"--experts", "2147483647"}), "--experts 2147483647: expected at most"));
  CHECK(has(refusal({"--iters", "2147483647"}), "--iters 2147483647: expected at most"));
  CHECK(has(refusal({"--bytes", "1024G"}), "--bytes 1099511627776 for each of 8 experts"));
  CHECK(read({"--bytes", "1024G", "--simulate"}).chosen.has_value());
}

TEST_CASE("every dtype is accepted, also where another library only moves its bytes") {
  auto const help = read({"--help"}).message;
  for (auto const* type : {"fp32", "fp64", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"}) {
    CAPTURE(type);
    CHECK(has(help, type));
    auto const both = read({"--dtype", type, "--collective", "ag,rs", "--bytes", "4096"});
    REQUIRE(both.chosen.has_value());
    CHECK(perf::name_of(both.chosen->dtype) == type);
    for (auto const* baseline : {"mpi-broadcast", "gloo-broadcast"})
      CHECK(read({"--dtype", type, "--baseline", baseline}).chosen.has_value());
    for (auto const* baseline : {"neighbor", "gloo", "dense"})  // whose sums are ours
      CHECK(
          read({"--dtype", type, "--baseline", baseline, "--collective", "rs"}).chosen.has_value());
    CHECK(
        read({"--dtype", type, "--baseline", "broadcast", "--backend", "nccl"}).chosen.has_value());
  }
  CHECK(read({"--dtype", "fp8_e5m2", "--bytes", "7"}).chosen.has_value());
}

TEST_CASE("a type that a baseline's library cannot sum is an error that lists those that it can") {
  for (auto const* type : {"fp8_e4m3", "fp8_e5m2"}) {
    auto const refused = [type](char const* back_end, char const* baseline,
                                std::string const& can) {
      return has(refusal({"--backend", back_end, "--baseline", baseline, "--collective", "ag,rs",
                          "--dtype", type}),
                 ("--dtype " + std::string{type} + ": expected " + can +
                  ", which the library behind --baseline " + baseline + " can sum")
                     .c_str());
    };
    CHECK(refused("thread", "mpi-broadcast", "fp32 or fp64"));
    CHECK(refused("thread", "gloo-broadcast", "fp32 or fp64"));
    CHECK(refused("mpi", "broadcast", "fp32 or fp64"));
    CHECK(refused("nccl", "broadcast", "fp32, fp64, bf16 or fp16"));
  }
}

TEST_CASE("options that make no sense between devices are errors, all others are accepted") {
  for (auto const* back_end : {"cuda", "nccl"}) {
    CAPTURE(back_end);
    auto const refused = [back_end](char const* option, char const* value) {
      return has(refusal({"--backend", back_end, option, value}),
                 (std::string{option} + " " + value + ": expected").c_str());
    };
    CHECK(refused("--nodes", "2"));
    CHECK(refused("--buffers", "cold"));
    for (auto const* other :
         {"chain", "star", "neighbor", "mpi-broadcast", "gloo", "gloo-broadcast"})
      CHECK(refused("--baseline", other));
    CHECK(has(refusal({"--backend", back_end, "--rate", "1e9"}), "--rate 1000000000"));
    CHECK(has(refusal({"--backend", back_end, "--simulate"}), "--simulate: expected no --backend"));
    for (auto const* own : {"none", "direct", "broadcast", "dense"})
      CHECK(
          read({"--backend", back_end, "--baseline", own, "--dtype", "bf16", "--collective", "rs"})
              .chosen.has_value());
  }
}

TEST_CASE("cases of blocks have names, and options for experts only or blocks only are errors") {
  auto const line = read({"--case", "blocks,zipf-blocks", "--baseline", "mpi-v", "--ranks", "6"});
  REQUIRE(line.chosen.has_value());
  CHECK(line.chosen->cases == std::vector{perf::case_kind::blocks, perf::case_kind::zipf_blocks});
  CHECK(perf::expert_count(*line.chosen) == 6);
  CHECK(perf::needs_processes(*line.chosen));
  for (auto const* own :
       {"none", "direct", "broadcast", "mpi-broadcast", "gloo-broadcast", "gloo-v"})
    CHECK(read({"--case", "blocks", "--baseline", own, "--collective", "rs"}).chosen.has_value());
  for (auto const* other : {"mpi-v", "gloo-v"})
    CHECK(has(refusal({"--baseline", other}), "expected one for experts with --case pairs"));
  for (auto const* other : {"dense", "neighbor", "gloo"})
    CHECK(has(refusal({"--case", "zipf-blocks", "--baseline", other}),
              "expected one for blocks with --case zipf-blocks"));
  CHECK(
      has(refusal({"--case", "blocks", "--experts", "8"}), "--experts 8: expected 0 with --case"));
  CHECK(has(refusal({"--case", "blocks", "--baseline", "mpi-v", "--bytes", "512M"}),
            "expected less than 2 GiB in all with --baseline mpi-v"));
  CHECK(has(refusal({"--case", "blocks", "--backend", "cuda", "--baseline", "gloo-v"}),
            "--baseline gloo-v: expected none, direct"));
  CHECK(has(refusal({"--case", "blocks", "--baseline", "gloo-v", "--collective", "rs", "--dtype",
                     "bf16"}),
            "--dtype bf16: expected fp32 or fp64"));
}

TEST_CASE("help explains cases, columns and baselines") {
  auto const line = read({"--help"});
  CHECK(line.exit_code == 0);
  for (auto const* word : {"busbw", "hot-node", "zipf-blocks", "mpi-broadcast", "gloo-v",
                           "efficiency", "--nic-bandwidth"})
    CHECK(has(line.message, word));
}
