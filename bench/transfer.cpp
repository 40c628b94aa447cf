// SPDX-License-Identifier: Apache-2.0
// Which share of the bandwidth transfers between distributions reach: from half of the ranks, which
// train, to the others, or to all. `transfer RATE` measures between four threads with emulated
// ports of so many bits per second, in real time; `transfer RATE mpi`, under mpirun, between hosts
// whose links are as fast.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "fssdp/collective/all_gather.hpp"
#include "fssdp/collective/transfer_between.hpp"
#include "fssdp/element/bf16.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/redistribution.hpp"
#include "fssdp/topology/topology.hpp"
#ifdef FSSDP_BENCH_MPI
#include "fssdp/comm/mpi.hpp"
#endif
#include "fssdp/comm/thread.hpp"

namespace {

using fssdp::distribution;
using fssdp::expert_id;
using fssdp::rank_id;

constexpr auto experts = 8;
constexpr auto elements = std::size_t{1'000'000};  // of each
constexpr auto calls = 5;

/// A port for each rank, through which all goes that it sends or receives.
[[nodiscard]] fssdp::topology hosts(int ranks, double bits_per_second) {
  return fssdp::topology{{.nodes = ranks,
                          .ranks = ranks,
                          .ports = {.inside_bytes_per_second = bits_per_second / 8,
                                    .between_bytes_per_second = bits_per_second / 8}}};
}
/// The first half of the ranks, or the second.
[[nodiscard]] std::vector<rank_id> half(int ranks, bool second) {
  auto list = std::vector<rank_id>{};
  for (int rank = 0; rank < ranks / 2; ++rank)
    list.emplace_back(second ? ranks - ranks / 2 + rank : rank);
  return list;
}
/// Experts one by one on the ranks of an engine, and one of them on a second rank, or all on all.
[[nodiscard]] distribution engine(int ranks, bool everywhere) {
  auto where =
      fssdp::placement{fssdp::cyclic_layout{{.experts = experts, .ranks = std::max(1, ranks / 2)}}};
  for (auto const rank : fssdp::first_n<rank_id>(where.ranks()))
    for (auto const expert : fssdp::first_n<expert_id>(everywhere ? experts : 1))
      if (everywhere || rank.value() == where.ranks() - 1) where.add(expert, rank);
  return distribution{where}.on(half(ranks, true), ranks);
}

template <class Comm>
void meet(Comm& comm) {
  auto const mine = char{};
  auto all = std::vector<char>(static_cast<std::size_t>(comm.size()));
  all_gather(comm, std::span{&mine, 1}, std::span{all});
}

/// The median, in seconds, of the slowest rank.
template <class To, class Comm>
[[nodiscard]] double time_of(Comm& comm, fssdp::redistribution const& plan) {
  auto const sizes = [&](distribution const& of) {
    return std::vector{fssdp::slice_elements(elements, of.slices())};
  };
  auto const from =
      fssdp::expert_buffer<float>{plan.from().slots(comm.rank()).size(), sizes(plan.from())};
  auto to = fssdp::expert_buffer<To>{plan.to().slots(comm.rank()).size(), sizes(plan.to())};
  auto times = std::vector<double>{};
  for (int call = 0; call < calls; ++call) {
    meet(comm);
    auto const begin = std::chrono::steady_clock::now();
    transfer_between(comm, plan, from, to);
    meet(comm);
    times.push_back(
        std::chrono::duration<double>{std::chrono::steady_clock::now() - begin}.count());
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

template <class To, class Comm>
void measure(Comm& comm, char const* name, distribution const& to, double bits_per_second) {
  auto const ranks = comm.size();
  auto const layout =
      fssdp::block_layout{{.experts = experts, .ranks = std::max(1, ranks / 2), .slices = 2}};
  auto const from = distribution{layout}.on(half(ranks, false), ranks);
  auto const sizes = std::vector{elements};
  auto const plan = fssdp::redistribution{
      from, to, sizes, hosts(ranks, bits_per_second), {.element_bytes = sizeof(To)}};
  auto const taken = time_of<To>(comm, plan);
  if (comm.rank().value() != 0) return;
  std::printf("%-28s%10.3f%10.3f%8.2f\n", name, taken, plan.bound_seconds(),
              plan.bound_seconds() / taken);
  std::fflush(stdout);
}

template <class Comm>
void measure_all(Comm& comm, double bits_per_second) {
  auto const ranks = comm.size();
  if (comm.rank().value() == 0)
    std::printf("%d ranks, %d experts of %zu elements, %.3g bit/s\n%-28s%10s%10s%8s\n", ranks,
                experts, elements, bits_per_second, "seconds", "taken", "bound", "share");
  measure<fssdp::bf16>(comm, "to an engine, bf16", engine(ranks, false), bits_per_second);
  measure<float>(comm, "to all ranks, fp32",
                 distribution{fssdp::cyclic_layout{{.experts = experts, .ranks = ranks}}},
                 bits_per_second);
  measure<float>(comm, "to all of an engine, fp32", engine(ranks, true), bits_per_second);
}

[[nodiscard]] int refuse(std::string const& why) {
  std::fprintf(stderr, "transfer: %s\nusage: transfer BITS_PER_SECOND [mpi]\n", why.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) return refuse("expected a rate, and mpi or nothing");
  char* end = nullptr;
  auto const rate = std::strtod(argv[1], &end);
  if (end == argv[1] || *end != '\0' || !(rate >= 1e3 && rate <= 1e15))
    return refuse(std::string{argv[1]} + ": expected a rate from 1e3 to 1e15 bits per second");
  if (argc == 2) {
    fssdp::thread_world{{.ranks = 4, .ports = hosts(4, rate)}}.run(
        [&](fssdp::thread_communicator& comm) { measure_all(comm, rate); });
    return 0;
  }
  if (std::strcmp(argv[2], "mpi") != 0) return refuse(std::string{argv[2]} + ": expected mpi");
#ifdef FSSDP_BENCH_MPI
  fssdp::mpi_world{}.run([&](auto& comm) { measure_all(comm, rate); });
  return 0;
#else
  return refuse("built without MPI");
#endif
}
