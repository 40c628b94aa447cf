// SPDX-License-Identifier: Apache-2.0
/// What a call needs besides memory is copied or shared into it: plans, views and lists of views
/// may be temporaries, also where a stream runs the call later. A temporary that owns memory is
/// refused there; where the work is done within the call, it is taken, too.
#include <array>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/collective/any_tensors.hpp"
#include "fssdp/collective/reshard.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/token/dispatch.hpp"
#include "support/on_all_ranks.hpp"
#include "support/stream_gate.hpp"

namespace lifetimes {

using bound = fssdp::queued_communicator<fssdp::thread_communicator>&;
using in_line = fssdp::thread_communicator&;
using plan = fssdp::transfer_plan const&;
using buffer = fssdp::expert_buffer<float>;
using tensor = fssdp::expert_tensor<float>;
using tensors = std::vector<tensor>;
using any = std::vector<fssdp::any_tensor>;
using bytes = decltype(fssdp::bytes_of(std::declval<buffer&>()));
using shard = decltype(layer_shard(std::declval<fssdp::layer_stack<fssdp::block_layout> const&>(),
                                   fssdp::layer_id{0}, fssdp::rank_id{0}, std::declval<buffer&>()));
using links = fssdp::coded_links<fssdp::bf16_codec> const&;
using uncoded = fssdp::uncoded;
using rows = fssdp::rows_view<float>;
using support::stream_gate;

constexpr auto gather = [](auto&&... arguments) requires requires {
  sparse_all_gather(std::forward<decltype(arguments)>(arguments)...);
}
{};
constexpr auto reduce = [](auto&&... arguments) requires requires {
  sparse_reduce_scatter(std::forward<decltype(arguments)>(arguments)...);
}
{};
constexpr auto move = [](auto&&... arguments) requires requires {
  reshard(std::forward<decltype(arguments)>(arguments)...);
}
{};
constexpr auto send = [](auto&&... arguments) requires requires {
  dispatch(std::forward<decltype(arguments)>(arguments)...);
}
{};
constexpr auto bring_back = [](auto&&... arguments) requires requires {
  combine(std::forward<decltype(arguments)>(arguments)...);
}
{};

/// Whether a collective compiles with arguments of these types: a temporary where it is no
/// reference.
template <class... Arguments>
struct with {
  template <class Collective>
  static constexpr bool compiles(Collective const&) {
    return std::is_invocable_v<Collective const&, Arguments...>;
  }
};

// what has a name, and spans of that
static_assert(with<bound, plan, buffer&, buffer&>::compiles(gather));
static_assert(
    with<bound, plan, std::span<tensor const>, std::span<tensor const>>::compiles(gather));
static_assert(with<bound, plan, tensor const&, tensor const&, links>::compiles(gather));
static_assert(with<bound, plan, buffer&, buffer&, uncoded>::compiles(gather));
static_assert(with<bound, plan, bytes const&, bytes const&>::compiles(gather));
static_assert(with<bound, plan, shard const&, buffer&>::compiles(gather));
static_assert(with<bound, plan, buffer&, buffer&>::compiles(reduce));
static_assert(with<bound, plan, buffer&, buffer&, links>::compiles(reduce));
static_assert(with<bound, plan, buffer&, buffer&, links, buffer&>::compiles(reduce));
static_assert(with<bound, plan, buffer&, buffer&, uncoded>::compiles(reduce));
static_assert(with<bound, fssdp::reshard_plan const&, buffer&>::compiles(move));
static_assert(with<bound, fssdp::reshard_plan, bytes>::compiles(move));
static_assert(with<bound, fssdp::token_plan const&, rows, rows>::compiles(send));
static_assert(with<bound, fssdp::token_plan const&, rows, rows>::compiles(bring_back));

// temporary views and lists of them: they are copied
static_assert(with<bound, plan, bytes, bytes>::compiles(gather));
static_assert(with<bound, plan, tensor, buffer&>::compiles(gather));
static_assert(with<bound, plan, buffer&, tensors>::compiles(gather));
static_assert(with<bound, plan, shard, buffer&>::compiles(gather));
static_assert(with<bound, plan, std::array<tensor, 1>, buffer&, links>::compiles(gather));
static_assert(with<bound, plan, bytes, buffer&, uncoded>::compiles(gather));
static_assert(with<bound, plan, tensors, tensor>::compiles(reduce));
static_assert(with<bound, plan, buffer&, tensors, links, tensors>::compiles(reduce));
static_assert(with<bound, plan, buffer&, tensors, uncoded>::compiles(reduce));
static_assert(with<bound, plan, any, any>::compiles(gather));
static_assert(with<bound, plan, any, any, links, tensors>::compiles(reduce));
static_assert(with<bound, fssdp::reshard_plan const&, any>::compiles(move));

// temporary buffers
static_assert(!with<bound, plan, buffer&, buffer>::compiles(gather));
static_assert(!with<bound, plan, buffer const, buffer&, links>::compiles(gather));
static_assert(!with<bound, plan, buffer, buffer&, links>::compiles(reduce));
static_assert(!with<bound, plan, buffer&, buffer&, links, buffer>::compiles(reduce));
static_assert(!with<bound, plan, buffer, buffer&, uncoded>::compiles(reduce));
static_assert(!with<bound, plan, any, buffer>::compiles(gather));
static_assert(!with<bound, plan, buffer, any, uncoded>::compiles(reduce));
static_assert(!with<bound, fssdp::reshard_plan const&, buffer>::compiles(move));

// temporary plans: a call keeps its own handle
static_assert(with<bound, fssdp::transfer_plan, buffer&, buffer&>::compiles(gather));
static_assert(with<bound, fssdp::transfer_plan const, bytes, bytes>::compiles(gather));
static_assert(with<bound, fssdp::transfer_plan, buffer&, buffer&, links>::compiles(gather));
static_assert(with<bound, fssdp::transfer_plan, buffer&, buffer&, uncoded>::compiles(gather));
static_assert(with<bound, fssdp::transfer_plan, buffer&, buffer&>::compiles(reduce));
static_assert(with<bound, fssdp::transfer_plan const, buffer&, buffer&, links>::compiles(reduce));
static_assert(
    with<bound, fssdp::transfer_plan, buffer&, buffer&, links, buffer&>::compiles(reduce));
static_assert(with<bound, fssdp::transfer_plan, buffer&, buffer&, uncoded>::compiles(reduce));
static_assert(with<bound, fssdp::token_plan, rows, rows>::compiles(send));
static_assert(with<bound, fssdp::token_plan const, rows, rows>::compiles(bring_back));
static_assert(with<bound, fssdp::transfer_plan, any, any>::compiles(gather));
static_assert(with<bound, fssdp::transfer_plan, any, any, links>::compiles(gather));
static_assert(with<bound, fssdp::transfer_plan, any, any, uncoded>::compiles(gather));
static_assert(with<bound, fssdp::transfer_plan, any, any>::compiles(reduce));
static_assert(with<bound, fssdp::transfer_plan, any, any, links>::compiles(reduce));
static_assert(with<bound, fssdp::transfer_plan, any, any, links, buffer&>::compiles(reduce));
static_assert(with<bound, fssdp::transfer_plan, any, any, uncoded>::compiles(reduce));

// all of them where the work is done within the call
static_assert(with<in_line, plan, bytes, bytes>::compiles(gather));
static_assert(with<in_line, fssdp::transfer_plan, buffer&, buffer&>::compiles(gather));
static_assert(with<in_line, plan, buffer, tensors>::compiles(reduce));
static_assert(with<in_line, fssdp::transfer_plan const, buffer&, buffer&>::compiles(reduce));
static_assert(with<in_line, fssdp::token_plan, rows, rows>::compiles(send));
static_assert(with<in_line, fssdp::token_plan const, rows, rows>::compiles(bring_back));

/// Has the collectives run long after their arguments are gone.
template <class Links>
[[nodiscard]] std::vector<float> sums_by_temporaries(fssdp::thread_communicator& comm,
                                                     Links const& coding) {
  constexpr auto count = std::size_t{8};  // of tensors: more than a list keeps in place
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const plan_of = [&] { return fssdp::make_plan(layout, fssdp::everywhere{}(layout)); };
  auto const sizes = std::vector<std::size_t>(count, 1);
  auto weights = buffer{1, sizes};
  auto replicas = buffer{2, sizes};
  auto gradients = buffer{1, sizes};
  for (auto const& each : weights.tensors())
    each[0][0] = static_cast<float>(comm.rank().value() + 1);
  auto const copy = [](buffer& of) { return tensors(of.tensors().begin(), of.tensors().end()); };
  auto stream = fssdp::host_stream{};
  auto queued = fssdp::on_stream(comm, stream);
  auto gate = stream_gate{stream};
  sparse_all_gather(queued, plan_of(), copy(weights), copy(replicas), coding);
  sparse_reduce_scatter(queued, plan_of().reduced_by(plan_of()), copy(replicas), copy(gradients),
                        coding);
  gate.open();
  queued.synchronize();
  auto sums = std::vector<float>{};
  for (auto const& each : gradients.tensors()) sums.push_back(each[0][0]);
  return sums;
}

/// The chunks of a rank, moved by a plan that is gone before they are.
[[nodiscard]] std::vector<float> resharded_by_temporaries(fssdp::thread_communicator& comm) {
  auto const before = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const after = fssdp::cyclic_layout{{.experts = 4, .ranks = 2}};
  auto const sizes = std::vector<std::size_t>(8, 1);
  auto moved = buffer{2, sizes};
  for (auto const& each : moved.tensors())
    for (std::size_t slot = 0; slot < 2; ++slot)
      each[slot][0] = static_cast<float>(2 * comm.rank().value()) + static_cast<float>(slot);
  auto stream = fssdp::host_stream{};
  auto queued = fssdp::on_stream(comm, stream);
  auto gate = stream_gate{stream};
  reshard(queued, fssdp::reshard_plan{before, after},
          tensors(moved.tensors().begin(), moved.tensors().end()));
  gate.open();
  queued.synchronize();
  auto found = std::vector<float>{};
  for (auto const& each : moved.tensors())
    for (std::size_t slot = 0; slot < 2; ++slot) found.push_back(each[slot][0]);
  return found;
}

}  // namespace lifetimes

TEST_CASE("temporary plans and views may end before a stream-bound communicator runs") {
  auto const run = [](auto const& coding) {
    return support::on_all_ranks(2, [&](fssdp::thread_communicator& comm) {
      return lifetimes::sums_by_temporaries(comm, coding);
    });
  };
  auto const expected =
      std::vector{std::vector<float>(8, 2), std::vector<float>(8, 4)};  // of two replicas each
  REQUIRE(run(fssdp::uncoded{}) == expected);
  REQUIRE(run(fssdp::coded_links{fssdp::bf16_codec{}, fssdp::link_class::all}) == expected);
}

TEST_CASE("a temporary plan and views of a shard may end before a stream-bound reshard runs") {
  auto expected = std::vector<std::vector<float>>(2);
  for (int tensor = 0; tensor < 8; ++tensor)
    for (std::size_t rank = 0; rank < 2; ++rank)
      for (std::size_t slot = 0; slot < 2; ++slot)
        expected[rank].push_back(static_cast<float>(rank + 2 * slot));  // the number of the expert
  REQUIRE(support::on_all_ranks(2, lifetimes::resharded_by_temporaries) == expected);
}
