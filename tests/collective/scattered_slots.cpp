// SPDX-License-Identifier: Apache-2.0
/// Slots that are allocated one by one, as the parameters of modules are: both collectives give
/// them the bits that they give to slots side by side, and see what they share.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/reshard.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "support/communicator_archetype.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"

using fssdp::expert_buffer;
using fssdp::expert_tensor;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::random_instance;

namespace {

/// A copy of a buffer, each slot of each tensor in memory of its own, in reversed order.
template <class T>
class scattered_copy {
 public:
  explicit scattered_copy(expert_buffer<T>& of) {
    for (auto const& tensor : of.tensors()) {
      auto& memory = memory_.emplace_back(tensor.slots);
      auto& places = places_.emplace_back(tensor.slots);
      for (auto slot = tensor.slots; slot-- != 0;) {
        memory[slot].assign(tensor[slot].begin(), tensor[slot].end());
        memory[slot].resize(tensor.elements + 1);  // none is null
        places[slot] = memory[slot].data();
      }
      tensors_.push_back(
          {.slots = tensor.slots, .elements = tensor.elements, .places = places.data()});
    }
  }
  scattered_copy(scattered_copy const&) = delete;

  [[nodiscard]] std::span<expert_tensor<T> const> tensors() const { return tensors_; }
  void copy_to(expert_buffer<T>& of) const {
    for (std::size_t k = 0; k < tensors_.size(); ++k)
      for (std::size_t slot = 0; slot < tensors_[k].slots; ++slot)
        std::ranges::copy(tensors_[k][slot], of.tensors()[k][slot].begin());
  }

 private:
  std::vector<std::vector<std::vector<T>>> memory_;
  std::vector<std::vector<T*>> places_;
  std::vector<expert_tensor<T>> tensors_;
};

/// What is wrong after both collectives between scattered slots.
template <class Links>
[[nodiscard]] int wrong_on(thread_communicator& comm, random_instance const& of,
                           Links const& links) {
  auto mine = support::rank_buffers<fssdp::bf16, float>{of, comm.rank()};
  auto const shard = scattered_copy{mine.shard};
  auto const replicas = scattered_copy{mine.in_one_piece};
  auto const partials = scattered_copy{mine.partials};
  auto const gradients = scattered_copy{mine.gradients};
  auto other = support::rank_buffers<fssdp::bf16, float>{of, comm.rank()};
  fssdp::sparse_all_gather(comm, of.plan, shard, replicas, links);
  fssdp::sparse_all_gather(comm, of.plan, other.shard, other.in_one_piece, links);
  fssdp::sparse_reduce_scatter(comm, of.plan, partials, gradients, links);
  fssdp::sparse_reduce_scatter(comm, of.plan, other.partials, other.gradients, links);
  replicas.copy_to(mine.in_one_piece);
  gradients.copy_to(mine.gradients);
  auto wrong = 0;
  auto const compare = [&wrong](auto const& a, auto const& b) {
    for (std::size_t k = 0; k < a.tensors().size(); ++k)
      for (std::size_t slot = 0; slot < a.slots(); ++slot)
        wrong += std::ranges::equal(std::as_bytes(a.tensors()[k][slot]),
                                    std::as_bytes(b.tensors()[k][slot]))
                     ? 0
                     : 1;
  };
  compare(std::as_const(mine.in_one_piece), std::as_const(other.in_one_piece));
  compare(std::as_const(mine.gradients), std::as_const(other.gradients));
  return wrong;
}

/// Three slots of two elements, at places of the caller's.
[[nodiscard]] expert_tensor<float> at(std::vector<float*> const& places) {
  return {.slots = places.size(), .elements = 2, .places = places.data()};
}

}  // namespace

TEST_CASE("scattered slots get the same bits as adjacent slots, plain and coded") {
  support::for_random_instances(support::law_instances / 10, [](random_instance const& of) {
    auto const wrong = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      return wrong_on(comm, of, fssdp::uncoded{}) +
             wrong_on(comm, of, fssdp::coded_links{fssdp::int8_codec{}, fssdp::link_class::all});
    });
    REQUIRE(wrong == std::vector(wrong.size(), 0));
  });
}

TEST_CASE("a reshard moves scattered slots in place") {
  auto const before = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const after = fssdp::cyclic_layout{{.experts = 4, .ranks = 2}};
  auto const plan = fssdp::reshard_plan{before, after};
  auto const found = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto memory = std::vector<std::vector<float>>(plan.slots(comm.rank()), {0, 0});
    auto places = std::vector<float*>{};
    for (auto& slot : memory) places.push_back(slot.data());
    for (auto const chunk : before.owned(comm.rank()))
      memory[static_cast<std::size_t>(before.slot(chunk.expert))][1] =
          static_cast<float>(chunk.expert.value());
    fssdp::reshard(comm, plan, at(places));
    auto experts = std::vector<int>{};
    for (auto const chunk : after.owned(comm.rank()))
      experts.push_back(
          static_cast<int>(memory[static_cast<std::size_t>(after.slot(chunk.expert))][1]) -
          chunk.expert.value());
    return experts;
  });
  REQUIRE(found == std::vector{std::vector{0, 0}, std::vector{0, 0}});
}

TEST_CASE("scattered slots that are null or share memory are refused by name") {
  auto const layout = fssdp::block_layout{{.experts = 3, .ranks = 1}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto alone = support::communicator_archetype{rank_id{0}};
  auto memory = std::vector<float>(20);
  auto const place = [&](std::size_t first) { return memory.data() + first; };
  auto const refuses = [&](std::vector<float*> const& from, std::vector<float*> const& to,
                           char const* text) {
    auto const attempt = [&] { fssdp::sparse_all_gather(alone, plan, at(from), at(to)); };
    REQUIRE_THROWS_AS(attempt(), fssdp::argument_error);
    REQUIRE_THROWS_WITH(attempt(), mentions(text));
  };
  auto const from = std::vector{place(0), place(2), place(4)};
  auto const to = std::vector{place(10), place(16), place(12)};
  REQUIRE_NOTHROW(fssdp::sparse_all_gather(alone, plan, at(from), at(to)));
  refuses({place(0), nullptr, place(4)}, to, "slot 1 of tensor 0 of from is null");
  refuses(from, {place(10), place(11), place(14)}, "slots of tensor 0 of to share memory");
  refuses(from, {place(10), place(5), place(14)}, "from and to share memory in tensor 0");
  REQUIRE_NOTHROW(  // what is only read may be the same
      fssdp::sparse_all_gather(alone, plan, at({place(0), place(0), place(4)}), at(to)));
}

TEST_CASE("bytes_of refers to scattered slots in place") {
  auto memory = std::vector<float>{1, 2, 3, 4, 5, 6};
  auto places = std::vector{memory.data() + 4, memory.data()};
  auto tensor = at(places);
  auto any = any_tensor_of(tensor);
  for (auto const& bytes : {fssdp::bytes_of(tensor)[0], fssdp::bytes_of(any)[0]}) {
    REQUIRE(bytes.slots == 2);
    REQUIRE(bytes.elements == 2 * sizeof(float));
    REQUIRE(static_cast<void const*>(bytes[0].data()) == memory.data() + 4);
    REQUIRE(static_cast<void const*>(bytes[1].data()) == memory.data());
    places[1] = memory.data() + 2;
    REQUIRE(static_cast<void const*>(bytes[1].data()) == memory.data() + 2);
    places[1] = memory.data();
  }
}

TEST_CASE("a reshard moves weights and moments in scattered slots of several types together") {
  auto const before = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const after = fssdp::cyclic_layout{{.experts = 4, .ranks = 2}};
  auto const plan = fssdp::reshard_plan{before, after};
  auto const found = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto weights = std::vector<std::vector<fssdp::bf16>>(2, std::vector<fssdp::bf16>(3));
    auto moments = std::vector<std::vector<double>>(2, std::vector<double>(1));
    auto weight_places = std::vector<void*>{};
    auto moment_places = std::vector<void*>{};
    for (auto const chunk : before.owned(comm.rank())) {
      auto const slot = static_cast<std::size_t>(before.slot(chunk.expert));
      weights[slot][2] = fssdp::bf16{static_cast<float>(chunk.expert.value())};
      moments[slot][0] = 10.0 * chunk.expert.value();
    }
    for (std::size_t slot = 0; slot < 2; ++slot) {
      weight_places.push_back(weights[slot].data());
      moment_places.push_back(moments[slot].data());
    }
    auto const weight = fssdp::any_tensor{
        .type = fssdp::dtype::bf16, .slots = 2, .elements = 3, .places = weight_places.data()};
    auto const moment = fssdp::any_tensor{
        .type = fssdp::dtype::fp64, .slots = 2, .elements = 1, .places = moment_places.data()};
    fssdp::reshard(comm, plan, fssdp::bytes_of(weight, moment));
    auto wrong = 0;
    for (auto const chunk : after.owned(comm.rank())) {
      auto const slot = static_cast<std::size_t>(after.slot(chunk.expert));
      wrong +=
          static_cast<float>(weights[slot][2]) == static_cast<float>(chunk.expert.value()) ? 0 : 1;
      wrong += moments[slot][0] == 10.0 * chunk.expert.value() ? 0 : 1;
    }
    return wrong;
  });
  REQUIRE(found == std::vector{0, 0});
}
