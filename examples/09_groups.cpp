// SPDX-License-Identifier: Apache-2.0
// Two process groups on overlapping ranks: hybrid sharding. 8 ranks are a 4 x 2 mesh. Experts are
// sharded over the 2 ranks of a row, and each of the 4 rows has a copy of them. While a rank
// gathers experts in its row, it averages gradients in its column, over the copies.
#include <array>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/fssdp.hpp"
#include "program/standard_output.hpp"

namespace {

constexpr auto rows = 4;
constexpr auto columns = 2;
constexpr auto size = std::size_t{1000};  // parameters of one expert

/// What a rank has seen.
struct result {
  float remote = 0;  // the first parameter of the expert that it has gathered
  float mean = 0;    // the mean of the gradients of its own first expert over all rows
};

result step(fssdp::thread_communicator& comm) {
  auto const row = comm.rank().value() / columns;
  auto const column = comm.rank().value() % columns;
  auto experts = comm.split(row);  // as MPI_Comm_split: every rank calls it, in the same order
  auto data = comm.split(column);
  auto const rank = experts->rank();  // 0 or 1, within the row

  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = columns}};
  auto const loads = fssdp::expert_loads{3, 90, 5, 40};
  auto const solve = fssdp::sparse_materialization{.overlap = 2, .spare_slots = 1};
  auto const plan = fssdp::make_plan(layout, solve(loads, layout));  // one for each row: 2 ranks

  auto weights = fssdp::make_shard<float>(layout, rank, size);    // [owned, size]
  auto replicas = fssdp::make_replicas<float>(plan, rank, size);  // [remote, size]
  for (std::size_t slot = 0; slot < weights.slots(); ++slot)
    for (auto& value : weights.tensors()[0][slot])
      value = static_cast<float>(10 * column + static_cast<int>(slot));
  auto const gradient = std::vector<float>(size, static_cast<float>(row));  // of an owned expert
  auto sums = std::vector<float>{};

  auto streams = std::array<fssdp::host_stream, 2>{};  // a thread each: neither waits for the other
  auto gathers = fssdp::on_stream(*experts, streams[0]);
  auto averages = fssdp::on_stream(*data, streams[1]);
  fssdp::sparse_all_gather(gathers, plan, weights, replicas);
  averages.submit([&](auto& group) { sums = fssdp::all_reduce(group, gradient); });
  gathers.synchronize();   // your forward and backward
  averages.synchronize();  // your optimizer

  return {replicas.tensors()[0][0][0], sums[0] / rows};
}

}  // namespace

int main() {
  auto results = std::array<result, rows * columns>{};
  fssdp::thread_world{rows * columns}.run(
      [&](fssdp::thread_communicator& comm) { results[comm.rank().index()] = step(comm); });

  auto wrong = 0;
  std::printf("rank  row  column  remote parameter  mean gradient\n");
  for (int rank = 0; rank < rows * columns; ++rank) {
    auto const& [remote, mean] = results[static_cast<std::size_t>(rank)];
    std::printf("%4d %4d %7d %17.1f %14.1f\n", rank, rank / columns, rank % columns,
                static_cast<double>(remote), static_cast<double>(mean));
    auto const expected = rank % columns == 0 ? 11.0F : 1.0F;  // the busiest of the other rank
    wrong += remote == expected && mean == 1.5F ? 0 : 1;
  }
  return wrong == 0 && program::output_was_taken("09_groups") ? 0 : 1;
}
