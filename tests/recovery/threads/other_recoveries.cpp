// SPDX-License-Identifier: Apache-2.0
/// What recovery costs, what other owners it takes, and what it cannot do.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <span>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/collective/transfer_between.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/plan/distribution.hpp"
#include "fssdp/plan/redistribution.hpp"
#include "fssdp/recovery/even_owners.hpp"
#include "fssdp/recovery/recover.hpp"
#include "fssdp/solver/heterogeneous_sharding.hpp"
#include "support/mirrored_training.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::mirror_partners;
using fssdp::mirrored_shard;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::trained_shard;

namespace {

using namespace std::chrono_literals;

/// Four ranks on two nodes, with three experts each.
constexpr auto size = 4;
[[nodiscard]] fssdp::topology two_nodes() { return fssdp::topology{{.nodes = 2, .ranks = size}}; }
[[nodiscard]] fssdp::table_layout three_each() {
  return fssdp::as_table(fssdp::block_layout{{.experts = 3 * size, .ranks = size}});
}

/// Mirrors a step on all ranks, then calls fail(comm) on rank 1 and go_on(comm, mirror) on the
/// others, whose texts of errors come back.
template <class Fail, class GoOn>
[[nodiscard]] std::vector<std::string> lose_rank_1(fssdp::thread_world& world, Fail fail,
                                                   GoOn go_on) {
  auto texts = std::vector<std::string>(size);
  auto mirrored = std::latch{size};
  world.run([&](thread_communicator& comm) {
    auto shard = trained_shard{three_each(), comm.rank()};
    auto mirror =
        mirrored_shard{three_each(), mirror_partners{two_nodes()}, comm.rank(), shard.state()};
    shard.step_to(5);
    mirror.write(comm, 5, shard.state());
    mirror.finish(comm);
    mirrored.arrive_and_wait();  // before one asks who is lost, and another's finish throws
    shard.step_to(6);
    if (comm.rank() == rank_id{1}) return fail(comm);
    try {
      (void)fssdp::all_reduce(comm, std::array{1L});
    } catch (fssdp::transport_error const&) {
      try {
        texts[comm.rank().index()] = go_on(comm, mirror);
      } catch (fssdp::error const& error) {
        texts[comm.rank().index()] = error.what();
      }
    }
  });
  return texts;
}
void leaves(thread_communicator&) {}

/// Recovers, and says what is wrong; "right" if nothing is.
template <class Owners>
[[nodiscard]] std::string recovered(thread_communicator& comm, mirrored_shard& mirror,
                                    Owners owners, std::uint64_t moved_experts) {
  auto left = fssdp::survivors{comm};
  auto next = trained_shard{{{.ranks = 1}, {rank_id{0}}}, rank_id{0}};
  auto const now = fssdp::recover(
      left, mirror, owners,
      [&](fssdp::table_layout const& layout, rank_id rank) {
        next = trained_shard{layout, rank};
        return next.state();
      },
      two_nodes());
  if (now.step != 5 || next.wrong(5) != 0) return "other bits";
  if (left.lost() != std::vector{rank_id{1}}) return "other ranks";
  auto const expert_bytes = (24 + 7) * (sizeof(float) + sizeof(double));
  return now.bytes == moved_experts * expert_bytes
             ? "right"
             : fssdp::detail::text(now.bytes, " bytes moved; expected ",
                                   moved_experts * expert_bytes);
}

}  // namespace

TEST_CASE("only experts that their new owner does not have travel, once each") {
  // rank 3 has the mirror of rank 1: 6 of 12 experts, of which each rank is to own 4
  auto world = fssdp::thread_world{size};
  auto const texts = lose_rank_1(world, leaves, [](auto& comm, mirrored_shard& mirror) {
    return recovered(comm, mirror, fssdp::even_owners{}, 2);
  });
  for (auto const rank : {0U, 2U, 3U}) CHECK(texts[rank] == "right");
}

TEST_CASE("any sharding solver can choose the new owners") {
  auto world = fssdp::thread_world{size};
  auto const texts = lose_rank_1(world, leaves, [](auto& comm, mirrored_shard& mirror) {
    auto moves = std::uint64_t{0};
    auto const by_load = [&](fssdp::distribution const& has, std::span<rank_id const> ranks) {
      auto loads = std::vector<fssdp::expert_loads>(1);
      for (int e = 0; e < has.experts(); ++e) loads[0].push_back(static_cast<std::uint64_t>(e * e));
      auto layout =
          fssdp::heterogeneous_sharding{}(loads, fssdp::topology_of(two_nodes(), ranks)).front();
      for (auto const chunk : fssdp::all_chunks(layout))
        moves += layout.owner(chunk) == has.places(chunk).front().rank ? 0 : 1;
      return layout;
    };
    (void)by_load(fssdp::chunks_left(three_each(), mirror.partners(),
                                     std::vector{rank_id{0}, rank_id{2}, rank_id{3}}),
                  std::vector{rank_id{0}, rank_id{2}, rank_id{3}});
    return recovered(comm, mirror, by_load, moves);
  });
  for (auto const rank : {0U, 2U, 3U}) CHECK(texts[rank] == "right");
}

TEST_CASE("a rank that hangs is left out when the deadline has passed twice") {
  auto world = fssdp::thread_world{{.ranks = size, .deadline = 300ms}};
  auto gate = fssdp::stall_gate{};
  auto const hang = [&](thread_communicator&) { gate.wait(); };
  auto const texts = lose_rank_1(world, hang, [&](auto& comm, mirrored_shard& mirror) {
    auto result = recovered(comm, mirror, fssdp::even_owners{}, 2);
    gate.release();
    return result;
  });
  for (auto const rank : {0U, 2U, 3U}) CHECK(texts[rank] == "right");
}

TEST_CASE("a rank that was left out gets an error, also when it recovers itself") {
  auto world = fssdp::thread_world{{.ranks = size, .deadline = 300ms}};
  auto gate = fssdp::stall_gate{};
  auto of_lost = std::string{};
  auto const come_late = [&](thread_communicator& comm) {
    gate.wait();
    auto left = fssdp::survivors{comm};
    try {
      left.shrink();
    } catch (fssdp::peer_failed const& error) {
      of_lost = error.what();
    }
  };
  auto const texts = lose_rank_1(world, come_late, [&](auto& comm, mirrored_shard& mirror) {
    auto result = recovered(comm, mirror, fssdp::even_owners{}, 2);
    gate.release();
    return result;
  });
  for (auto const rank : {0U, 2U, 3U}) CHECK(texts[rank] == "right");
  CHECK_THAT(of_lost, mentions("rank 1 has been lost"));
}

TEST_CASE("where nothing was mirrored, all ranks are told to load the last checkpoint") {
  auto world = fssdp::thread_world{2};
  auto const texts = support::on_all_ranks(world, [&](thread_communicator& comm) {
    if (comm.rank() == rank_id{1}) return std::string{};
    auto const layout = fssdp::table_layout{{.ranks = 2}, {rank_id{0}, rank_id{1}}};
    auto shard = trained_shard{layout, comm.rank()};
    auto mirror = mirrored_shard{layout, mirror_partners{fssdp::topology{{.nodes = 2, .ranks = 2}}},
                                 comm.rank(), shard.state()};
    auto left = fssdp::survivors{comm};
    try {
      (void)fssdp::recover(left, mirror, fssdp::even_owners{},
                           [&](auto const&, rank_id) { return shard.state(); });
    } catch (fssdp::state_lost const& error) {
      return std::string{error.what()};
    }
    return std::string{};
  });
  CHECK_THAT(texts[0], mentions("no step has been mirrored") && mentions("last checkpoint"));
}

TEST_CASE("room, owners and mirrors that do not fit are refused") {
  auto world = fssdp::thread_world{size};
  auto const with_room = [](auto room) {
    return [room](auto& comm, mirrored_shard& mirror) {
      auto left = fssdp::survivors{comm};
      (void)fssdp::recover(left, mirror, fssdp::even_owners{}, room);
      return std::string{};
    };
  };
  auto const few = lose_rank_1(world, leaves, with_room([](auto const&, rank_id) {
                                 static thread_local auto small = fssdp::expert_buffer<float>{};
                                 small = {2, std::vector<std::size_t>{24, 7, 48, 14}};
                                 return small.tensors();
                               }));
  CHECK_THAT(few[0], mentions("2 slots of 96 bytes") && mentions("expected 4 of 96"));
  auto const none = lose_rank_1(world, leaves, with_room([](auto const&, rank_id) {
                                  return std::vector<fssdp::expert_tensor<float>>{};
                                }));
  CHECK_THAT(none[0], mentions("room of 0 tensors; expected 4"));
  auto const owners = lose_rank_1(world, leaves, [](auto& comm, mirrored_shard& mirror) {
    auto left = fssdp::survivors{comm};
    auto const two = [](auto const&, auto const&) {
      return fssdp::block_layout{{.experts = 12, .ranks = 2}};
    };
    (void)fssdp::recover(left, mirror, two, [](auto const&, rank_id) {
      return std::vector<fssdp::expert_tensor<float>>{};
    });
    return std::string{};
  });
  CHECK_THAT(owners[0], mentions("on 2 ranks; expected 12 in 1 on 3"));
  auto const mirrors = lose_rank_1(world, leaves, [](auto& comm, mirrored_shard& mirror) {
    auto left = fssdp::survivors{comm};
    auto memory = fssdp::expert_buffer<std::byte>{4, mirror.state().slot_bytes()};
    auto tensors = std::vector(memory.tensors().begin(), memory.tensors().end());
    auto places = std::vector<std::byte*>{};
    for (std::size_t slot = 0; slot < 4; ++slot) places.push_back(tensors[0][slot].data());
    places[3] = mirror.state().own()[0][0].data();  // what another attempt would need
    tensors[0].places = places.data();
    (void)fssdp::recover(left, mirror, fssdp::even_owners{},
                         [&](auto const&, rank_id) { return tensors; });
    return std::string{};
  });
  CHECK_THAT(mirrors[0], mentions("recover: the mirror and the room share memory in tensor 0"));
}

TEST_CASE("a step that is in progress, or has failed, does not count as mirrored") {
  auto world = fssdp::thread_world{2};
  auto const texts = support::on_all_ranks(world, [&](thread_communicator& comm) {
    auto const layout = fssdp::table_layout{{.ranks = 2}, {rank_id{0}, rank_id{1}}};
    auto const partners = mirror_partners{fssdp::topology{{.nodes = 2, .ranks = 2}}};
    auto shard = trained_shard{layout, comm.rank()};
    auto mirror = mirrored_shard{layout, partners, comm.rank(), shard.state()};
    auto const attempt = [](auto call) {
      try {
        call();
      } catch (fssdp::argument_error const& error) {
        return std::string{error.what()};
      } catch (fssdp::transport_error const&) {
      }
      return std::string{};
    };
    auto all = std::string{};
    auto stream = fssdp::host_stream{};
    {
      auto other = comm.duplicate();
      auto behind = fssdp::on_stream(other, stream);
      auto gate = fssdp::stall_gate{};
      stream.enqueue([&] { gate.wait(); });
      mirror.write(behind, 1, shard.state());
      auto left = fssdp::survivors{comm};
      all += attempt([&] {
        (void)fssdp::recover(left, mirror, fssdp::even_owners{},
                             [&](auto const&, rank_id) { return shard.state(); });
      });
      gate.release();
      mirror.finish(behind);
    }
    auto frail = fssdp::faulty{comm, {.exchange = 2}};  // before all have told each other
    try {
      mirror.write(frail, 2, shard.state());
    } catch (fssdp::injected_fault const&) {
    }
    all += attempt([&] { mirror.write(comm, 3, shard.state()); });
    all += attempt([&] { mirror.renew(layout, partners, comm.rank(), shard.state()); });
    return all;
  });
  for (auto const& text : texts) {
    CHECK_THAT(text, mentions("a step is being mirrored; expected finish before"));
    CHECK_THAT(text, mentions("step 3 after step 2 has failed on the way; expected recover"));
    CHECK_THAT(text, mentions("renew after a step that has failed"));
  }
}

TEST_CASE("ranks that join later get their share by a transfer") {
  auto const all = support::on_all_ranks(size, [](thread_communicator& comm) {
    auto owners = std::vector<rank_id>{};  // of a run that has gone on with three ranks
    for (int expert = 0; expert < 12; ++expert) owners.emplace_back(expert / 4);
    auto const of_three = fssdp::table_layout{{.ranks = size}, owners};
    auto const of_four = fssdp::even_owners{}(fssdp::distribution{of_three});
    auto before = trained_shard{of_three, comm.rank()};
    auto after = trained_shard{of_four, comm.rank()};
    before.step_to(7);
    auto const from = before.state();
    auto const to = after.state();
    auto sizes = std::vector<std::size_t>{};  // parameters and moments, as bytes
    for (auto const& tensor : to) sizes.push_back(tensor.elements);
    auto const plan = fssdp::redistribution{fssdp::distribution{of_three},
                                            fssdp::distribution{of_four},
                                            sizes,
                                            two_nodes(),
                                            {.element_bytes = 1}};
    fssdp::transfer_between(comm, plan, from, to);
    auto const expert_bytes = (24 + 7) * (sizeof(float) + sizeof(double));
    return std::vector{static_cast<int>(of_four.owned(comm.rank()).size()), after.wrong(7),
                       static_cast<int>(plan.bytes().total / expert_bytes)};
  });
  // each of the three keeps three of its experts, and gives one away
  for (auto const& of_rank : all) CHECK(of_rank == std::vector{3, 0, 3});
}
