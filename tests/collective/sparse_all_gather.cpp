// SPDX-License-Identifier: Apache-2.0
/// Guarantees of a gather beside the adjoint law.
#include "fssdp/collective/sparse_all_gather.hpp"

#include <array>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "support/differences.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"

using fssdp::expert_tensor;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::random_instance;

namespace {

/// A buffer with a gap after every slot.
struct gapped {
  static constexpr std::size_t gap = 3;
  std::vector<float> memory;
  expert_tensor<float> tensor;

  gapped(std::size_t slots, std::size_t elements)
      : memory(slots * (elements + gap), -1.0F),
        tensor{memory.data(), slots, elements, elements + gap} {}
  gapped(gapped const&) = delete;

  [[nodiscard]] int overwritten_gaps() const {
    auto count = 0;
    for (std::size_t slot = 0; slot < tensor.slots; ++slot)
      for (std::size_t i = 0; i < gap; ++i)
        count += memory[slot * tensor.stride + tensor.elements + i] != -1.0F ? 1 : 0;
    return count;
  }
};

}  // namespace

TEST_CASE("when a gather has returned, the owner may write: no peer reads its shard any more") {
  support::for_random_instances(support::law_instances / 100 + 1, [](random_instance const& of) {
    auto const wrong = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto mine = support::rank_buffers<float>{of, comm.rank()};
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.replicas);
      for (auto const& tensor : mine.shard.tensors())  // the optimizer steps
        for (std::size_t slot = 0; slot < tensor.slots; ++slot)
          for (auto& value : tensor[slot]) value = -100;
      return mine.wrong_replicas();
    });
    REQUIRE(support::total(wrong) == 0);
  });
}

TEST_CASE("buffers may have gaps, into which nothing is written") {
  auto const layout = support::reversed_layout{3, {rank_id{2}, rank_id{0}, rank_id{2}, rank_id{1}}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto const wrong = support::on_all_ranks(3, [&](thread_communicator& comm) {
    auto const me = comm.rank();
    auto shard = gapped{layout.owned(me).size(), 2};
    auto replicas = gapped{plan.remote(me).size(), 2};
    for (auto const chunk : layout.owned(me))
      for (auto& value : shard.tensor[plan.owner_slot(chunk)])
        value = static_cast<float>(chunk.expert.value());
    fssdp::sparse_all_gather(comm, plan, shard.tensor, replicas.tensor);
    auto count = replicas.overwritten_gaps() + shard.overwritten_gaps();
    for (std::size_t slot = 0; slot < replicas.tensor.slots; ++slot)
      for (auto const value : replicas.tensor[slot])
        count += value != static_cast<float>(plan.remote(me)[slot].value()) ? 1 : 0;
    return count;
  });
  REQUIRE(wrong == std::vector(3, 0));
}

TEST_CASE("any trivially copyable element can be gathered, in any range of tensors") {
  struct pair {
    char tag;
    int number;
  };
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto const got = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto own = std::vector{pair{'a', comm.rank().value()}, pair{'b', 10 + comm.rank().value()}};
    auto other = std::vector<pair>(2);
    auto const from = std::array{expert_tensor<pair const>{own.data(), 1, 1},
                                 expert_tensor<pair const>{own.data() + 1, 1, 1}};
    auto const to = std::vector{expert_tensor<pair>{other.data(), 1, 1},
                                expert_tensor<pair>{other.data() + 1, 1, 1}};
    fssdp::sparse_all_gather(comm, plan, from, to);
    return std::vector{int{other[0].tag}, other[0].number, int{other[1].tag}, other[1].number};
  });
  REQUIRE(got[0] == std::vector<int>{'a', 1, 'b', 11});
  REQUIRE(got[1] == std::vector<int>{'a', 0, 'b', 10});
}

TEST_CASE("a tensor without elements moves nothing and disturbs nothing") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto const sizes = std::array<std::size_t, 3>{2, 0, 1};
  auto const got = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto shard = fssdp::make_shard<float>(layout, comm.rank(), sizes);
    auto replicas = fssdp::make_replicas<float>(plan, comm.rank(), sizes);
    shard.tensors()[2][0][0] = static_cast<float>(comm.rank().value() + 5);
    fssdp::sparse_all_gather(comm, plan, shard, replicas);
    return replicas.tensors()[2][0][0];
  });
  REQUIRE(got == std::vector{6.0F, 5.0F});
}
