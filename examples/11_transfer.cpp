// SPDX-License-Identifier: Apache-2.0
// From a trainer to a rollout engine: each of 16 ranks owns slices of experts in fp32; 8 other
// ranks hold whole experts in bf16, and two replicas of the two busiest. Then the trainer continues
// on 12 ranks. Nothing is gathered in between.
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <vector>

#include "fssdp/collective/transfer_between.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/fssdp.hpp"
#include "program/standard_output.hpp"

namespace {

using fssdp::distribution;
using fssdp::expert_id;
using fssdp::rank_id;

constexpr auto trainers = 16;
constexpr auto engines = 8;
constexpr auto ranks = trainers + engines;
constexpr auto experts = 14;
constexpr auto elements = std::size_t{1 << 16};  // of an expert

[[nodiscard]] std::vector<rank_id> ranks_from(int first, int count) {
  auto list = std::vector<rank_id>{};
  for (int rank = 0; rank < count; ++rank) list.emplace_back(first + rank);
  return list;
}

/// The value of an element, by expert and position, which bf16 can hold, too.
[[nodiscard]] float parameter(expert_id expert, std::size_t i) {
  return static_cast<float>(expert.value()) + static_cast<float>(i % 8) / 8;
}

/// Calls visit(element, expert, which of its elements) for all that a rank has.
template <class T, class Visit>
void for_each_element(distribution const& of, rank_id rank, fssdp::expert_buffer<T>& buffer,
                      Visit visit) {
  auto const slots = of.slots(rank);
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    auto const part = fssdp::slice_extent{elements, slots[slot].slice, of.slices()};
    for (std::size_t i = 0; i < part.elements; ++i)
      visit(buffer.tensors()[0][slot][i], slots[slot].expert, part.first + i);
  }
}
template <class T>
[[nodiscard]] fssdp::expert_buffer<T> memory_for(distribution const& of, rank_id rank) {
  return {of.slots(rank).size(), std::vector{fssdp::slice_elements(elements, of.slices())}};
}

/// Moves experts and returns how many elements are wrong afterwards.
template <class From, class To>
[[nodiscard]] std::size_t moved(fssdp::thread_communicator& comm,
                                fssdp::redistribution const& plan) {
  auto from = memory_for<From>(plan.from(), comm.rank());
  auto to = memory_for<To>(plan.to(), comm.rank());
  for_each_element(plan.from(), comm.rank(), from,
                   [](From& x, expert_id e, std::size_t i) { x = From{parameter(e, i)}; });
  transfer_between(comm, plan, from, to);
  auto wrong = std::size_t{0};
  for_each_element(plan.to(), comm.rank(), to, [&](To& x, expert_id e, std::size_t i) {
    wrong += static_cast<float>(x) != parameter(e, i) ? 1U : 0U;
  });
  return wrong;
}

void print(char const* what, fssdp::redistribution const& plan) {
  auto const [total, between] = plan.bytes();
  std::printf("%-20s %5.2f MB move, %4.2f MB of them between nodes\n", what,
              static_cast<double>(total) / 1e6, static_cast<double>(between) / 1e6);
}

}  // namespace

int main() {
  auto const topo = fssdp::topology{{.nodes = 3, .ranks = ranks}};  // 8 ranks each
  auto const shards =
      distribution{fssdp::block_layout{{.experts = experts, .ranks = trainers, .slices = 8}}}.on(
          ranks_from(0, trainers), ranks);
  auto where = fssdp::placement{fssdp::cyclic_layout{{.experts = experts, .ranks = engines}}};
  where.add(expert_id{0}, rank_id{6});  // the busiest have a second replica
  where.add(expert_id{1}, rank_id{7});
  auto const replicas = distribution{where}.on(ranks_from(trainers, engines), ranks);
  auto const fewer =
      distribution{fssdp::block_layout{{.experts = experts, .ranks = 12, .slices = 6}}}.on(
          ranks_from(0, 12), ranks);

  auto const sizes = std::vector{elements};
  auto const rollout = fssdp::redistribution{shards, replicas, sizes, topo, {.element_bytes = 2}};
  auto const shrunk = fssdp::redistribution{shards, fewer, sizes, topo};
  print("trainer to engine", rollout);
  print("16 ranks to 12", shrunk);

  auto wrong = std::vector<std::size_t>(ranks);
  fssdp::thread_world{ranks}.run([&](fssdp::thread_communicator& comm) {
    wrong[comm.rank().index()] =
        moved<float, fssdp::bf16>(comm, rollout) + moved<float, float>(comm, shrunk);
  });
  auto const all_wrong = std::accumulate(wrong.begin(), wrong.end(), std::size_t{0});
  std::printf("%-20s %5.2f MB would move to the engine\n", "all experts to all",
              2e-6 * engines * experts * static_cast<double>(elements));
  std::printf("%zu elements are wrong\n", all_wrong);
  return all_wrong == 0 && program::output_was_taken("11_transfer") ? 0 : 1;
}
