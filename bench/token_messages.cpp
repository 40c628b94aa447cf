// SPDX-License-Identifier: Apache-2.0
// How long a dispatch and a combine take: with a message for each segment; with one for each rank,
// whose rows are packed and unpacked; and with rows that are sorted by rank at the sender or at
// both ends, where nothing needs to be packed. Without arguments between four threads; with an
// argument and under mpirun between processes.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/token/dispatch.hpp"
#ifdef FSSDP_BENCH_MPI
#include "fssdp/comm/mpi.hpp"
#endif
#include "fssdp/comm/thread.hpp"

namespace {

using fssdp::row_order;

constexpr auto experts_of_rank = 8;
constexpr auto one_message = static_cast<std::size_t>(-1);

/// The median, in microseconds.
template <class Comm>
[[nodiscard]] double time_of(Comm& comm, fssdp::token_plan const& plan, std::size_t row_bytes,
                             std::size_t pack_below) {
  using clock = std::chrono::steady_clock;
  auto sent = std::vector<std::byte>(plan.sent_rows() * row_bytes);
  auto received = std::vector<std::byte>(plan.received_rows() * row_bytes);
  auto const here = fssdp::rows_view<std::byte>{sent.data(), plan.sent_rows(), row_bytes};
  auto const there = fssdp::rows_view<std::byte>{received.data(), plan.received_rows(), row_bytes};
  auto scratch = fssdp::scratch_memory{};
  auto const how = fssdp::token_options{.pack_below = pack_below, .scratch = &scratch};
  auto const calls =
      std::clamp((std::size_t{64} << 20U) / sent.size(), std::size_t{15}, std::size_t{400});
  auto times = std::vector<double>{};
  for (std::size_t call = 0; call < calls; ++call) {
    auto const begin = clock::now();
    dispatch(comm, plan, here, there, how);
    combine(comm, plan, there, here, how);
    times.push_back(std::chrono::duration<double, std::micro>{clock::now() - begin}.count());
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

template <class Comm>
void compare(Comm& comm) {
  auto const prints = comm.rank().value() == 0;
  auto const layout =
      fssdp::cyclic_layout{{.experts = experts_of_rank * comm.size(), .ranks = comm.size()}};
  if (prints)
    std::printf("%d ranks of %d experts, us for dispatch and combine\n%13s%10s%10s%12s%12s\n",
                comm.size(), experts_of_rank, "segment bytes", "segments", "packed", "sent by rank",
                "all by rank");
  for (auto bytes = std::size_t{512}; bytes <= std::size_t{512} << 10U; bytes *= 2) {
    auto const row_bytes = std::min(bytes, std::size_t{4096});
    auto const pairs = static_cast<std::size_t>(comm.size() * layout.experts());
    auto const counts = fssdp::token_counts{comm.size(), layout.experts(),
                                            std::vector<std::uint64_t>(pairs, bytes / row_bytes)};
    auto const plan_of = [&](row_order sent, row_order received) {
      return fssdp::token_plan{counts, fssdp::placement{layout}, comm.rank(), {}, {sent, received}};
    };
    auto const by_expert = plan_of(row_order::by_expert, row_order::by_expert);
    auto const segments = time_of(comm, by_expert, row_bytes, 0);
    auto const packed = time_of(comm, by_expert, row_bytes, one_message);
    auto const sent_by_rank =
        time_of(comm, plan_of(row_order::by_rank, row_order::by_expert), row_bytes, one_message);
    auto const all_by_rank =
        time_of(comm, plan_of(row_order::by_rank, row_order::by_rank), row_bytes, one_message);
    if (!prints) continue;
    std::printf("%13zu%10.1f%10.1f%12.1f%12.1f\n", bytes, segments, packed, sent_by_rank,
                all_by_rank);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char**) {
  if (argc == 1) {
    fssdp::thread_world{4}.run([](fssdp::thread_communicator& comm) { compare(comm); });
    return 0;
  }
#ifdef FSSDP_BENCH_MPI
  fssdp::mpi_world{}.run([](auto& comm) { compare(comm); });
  return 0;
#else
  std::fputs("token_messages was built without MPI\n", stderr);
  return 1;
#endif
}
