// SPDX-License-Identifier: Apache-2.0
/// Buffers that do not fit are refused by name, before anything is sent.
#include "fssdp/collective/check_buffers.hpp"

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "support/on_all_ranks.hpp"
#include "support/refusal.hpp"

using fssdp::expert_tensor;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::refuses;

namespace {

/// Rank 0 owns three experts and gets one more; rank 1 owns two.
struct five_experts {
  fssdp::block_layout layout{{.experts = 5, .ranks = 2}};
  fssdp::transfer_plan plan;

  five_experts() : plan{planned(layout)} {}

  static fssdp::transfer_plan planned(fssdp::block_layout const& layout) {
    auto where = fssdp::placement{layout};
    where.add(fssdp::expert_id{4}, rank_id{0});
    return fssdp::make_plan(layout, where);
  }
};

using sizes = std::vector<std::size_t>;

[[nodiscard]] fssdp::expert_buffer<float> buffer(std::size_t slots, sizes const& elements = {4}) {
  return {slots, elements};
}

}  // namespace

TEST_CASE("a gather refuses buffers that do not fit, by name, before anything is sent") {
  auto const of = five_experts{};
  auto const gather = [&](auto from, auto to, char const* a, char const* b) {
    refuses([&](auto& comm) { fssdp::sparse_all_gather(comm, of.plan, from, to); }, a, b);
  };
  auto memory = std::vector<float>(64);
  auto const at = [&](std::size_t first, std::size_t slots) {
    return expert_tensor<float>{memory.data() + first, slots, 4};
  };
  auto two = std::array{at(0, 3), at(12, 3)};
  auto one_to = std::array{at(24, 1)};
  gather(two, one_to, "from has 2 tensors", "to has 1");
  gather(at(0, 3), expert_tensor<float>{memory.data() + 32, 1, 5}, "4 elements in from", "5 in to");
  gather(at(0, 2), at(32, 1), "from has 2 slots", "expected 3");
  gather(at(0, 3), at(32, 2), "to has 2 slots", "expected 1");
  gather(at(0, 3), at(8, 1), "share memory", "disjoint");
  gather(at(0, 3), at(0, 1), "share memory", "tensor 0");
  auto const other = expert_tensor<float>{memory.data() + 40, 1, 4};
  auto twice = std::array{at(32, 1), at(34, 1)};  // its two tensors overlap
  gather(two, twice, "tensors 0 and 1 of to share memory", "disjoint");
  gather(expert_tensor<float>{nullptr, 3, 4}, other, "tensor 0 of from is null", "3 slots of 4");
  gather(expert_tensor<float>{memory.data(), 3, 4, 2}, other, "stride of 2", "at least its 4");
  auto const huge = std::numeric_limits<std::size_t>::max() / 4;
  gather(expert_tensor<float>{memory.data(), 3, 4, huge}, other, "from has 3 slots with a stride",
         "expected at most");
  gather(expert_tensor<float>{memory.data(), 3, huge}, expert_tensor<float>{memory.data(), 1, huge},
         "elements", "expected at most");
  auto mixed = std::array{at(24, 1), at(32, 4)};
  gather(two, mixed, "to has 4 slots", "expected 1");
  auto aliased = std::array{at(32, 1), at(8, 1)};  // with the other tensor of from
  gather(two, aliased, "share memory", "disjoint");
}

TEST_CASE("a reduction refuses buffers that do not fit, by name, before anything is sent") {
  auto const of = five_experts{};
  auto const reduce = [&](auto const& from, auto& to, char const* a, char const* b) {
    refuses([&](auto& comm) { fssdp::sparse_reduce_scatter(comm, of.plan, from, to); }, a, b);
  };
  auto good = buffer(3);
  reduce(buffer(3), good, "from has 3 slots", "expected 4");
  auto short_to = buffer(2);
  reduce(buffer(4), short_to, "to has 2 slots", "expected 3");
  reduce(buffer(4, {4, 4}), good, "to has 1 tensors", "from has 2");
  reduce(buffer(4, {5}), good, "4 elements in to", "5 in from");
  auto memory = std::vector<float>(64);
  auto overlapping = expert_tensor<float>{memory.data() + 15, 3, 4};
  reduce(expert_tensor<float>{memory.data(), 4, 4}, overlapping, "share memory", "disjoint");
}

TEST_CASE("a world of another size than the plan's is refused") {
  auto const of = five_experts{};
  auto texts = support::on_all_ranks(3, [&](thread_communicator& comm) {
    auto const attempt = [](auto call) {
      try {
        call();
      } catch (fssdp::argument_error const& error) {
        return std::string{error.what()};
      }
      return std::string{};
    };
    auto from = buffer(0);
    auto to = buffer(0);
    auto text = attempt([&] { fssdp::sparse_all_gather(comm, of.plan, from, to); });
    text += attempt([&] { fssdp::sparse_reduce_scatter(comm, of.plan, from, to); });
    return text;
  });
  for (auto const& text : texts)
    REQUIRE_THAT(text,
                 mentions("sparse_all_gather: the communicator has 3 ranks; expected 2") &&
                     mentions("sparse_reduce_scatter: the communicator has 3 ranks; expected 2"));
}

TEST_CASE(
    "on a stream, too, bad buffers are refused by the call itself, and the stream still works") {
  auto const of = five_experts{};
  auto const sound = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto stream = fssdp::host_stream{};
    auto queued = fssdp::on_stream(comm, stream);
    auto from = fssdp::make_shard<float>(of.layout, comm.rank(), 4);
    auto wrong = buffer(9);
    auto refused = 0;
    try {
      fssdp::sparse_all_gather(queued, of.plan, from, wrong);
    } catch (fssdp::argument_error const&) {
      refused = 1;
    }
    auto to = fssdp::make_replicas<float>(of.plan, comm.rank(), 4);
    fssdp::sparse_all_gather(queued, of.plan, from, to);
    queued.synchronize();
    return refused;
  });
  REQUIRE(sound == std::vector{1, 1});
}

TEST_CASE("adjacent buffers in one block, and interleaved ones, are accepted") {
  auto const of = five_experts{};
  auto const copied = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto const own = of.layout.owned(comm.rank()).size();
    auto const remote = of.plan.remote(comm.rank()).size();
    auto memory = std::vector<float>(64, static_cast<float>(comm.rank().value() + 1));
    auto const from = expert_tensor<float>{memory.data(), own, 2, 4};
    auto const to = expert_tensor<float>{memory.data() + 2, remote, 2, 4};
    fssdp::sparse_all_gather(comm, of.plan, from, to);
    return memory[2];
  });
  REQUIRE(copied == std::vector{2.0F, 2.0F});
}
