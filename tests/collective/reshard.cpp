// SPDX-License-Identifier: Apache-2.0
/// After a reshard every chunk is at its new owner, in its new slot, with all its buffers.
#include "fssdp/collective/reshard.hpp"

#include <memory_resource>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/file/file_memory.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "support/communicator_archetype.hpp"
#include "support/differences.hpp"
#include "support/laws.hpp"
#include "support/moving_buffers.hpp"
#include "support/on_all_ranks.hpp"
#include "support/random_layouts.hpp"
#include "support/temporary_folder.hpp"

using fssdp::chunk_id;
using fssdp::reshard_plan;
using fssdp::thread_communicator;
using support::random_layouts;
using support::wrong_after_reshard;

namespace {

using sizes = std::vector<std::size_t>;

}  // namespace

TEST_CASE("every chunk arrives in its new slot with all its buffers, and comes back") {
  for (auto seed = std::uint64_t{1}; seed <= support::law_instances / 20; ++seed) {
    CAPTURE(seed);
    auto const of = random_layouts{seed};
    auto const wrong = support::on_all_ranks(of.from.ranks(), [&](thread_communicator& comm) {
      auto count = wrong_after_reshard(comm, of);
      auto stream = fssdp::host_stream{};
      auto bare = support::exchange_only{comm};
      auto queued = fssdp::on_stream(bare, stream);
      return count + wrong_after_reshard(queued, of);
    });
    REQUIRE(support::total(wrong) == 0);
  }
}

TEST_CASE("moments in files change owners with parameters in memory") {
  auto const folder = support::temporary_folder{};
  auto files = fssdp::file_memory{folder.path()};
  for (auto seed = std::uint64_t{1}; seed <= support::law_instances / 100; ++seed) {
    CAPTURE(seed);
    auto const of = random_layouts{seed};
    auto const wrong = support::on_all_ranks(of.from.ranks(), [&](thread_communicator& comm) {
      return wrong_after_reshard(comm, of, &files);
    });
    REQUIRE(support::total(wrong) == 0);
  }
}

TEST_CASE("a reshard moves each chunk once and needs the scratch that it was given") {
  for (auto seed = std::uint64_t{1}; seed <= support::law_instances / 100; ++seed) {
    CAPTURE(seed);
    auto const of = random_layouts{seed};
    auto const plan = reshard_plan{of.from, of.to, {.scratch_slots = of.scratch_slots}};
    auto const sent = support::on_all_ranks(of.from.ranks(), [&](thread_communicator& comm) {
      auto counted = fssdp::counting{comm};
      auto scratch = fssdp::scratch_memory{};
      auto shard = fssdp::expert_buffer<float>{plan.slots(comm.rank()), sizes{32, 32}};
      fssdp::reshard(counted, plan, shard, {.scratch = &scratch});
      auto const slots = static_cast<std::size_t>(of.scratch_slots);
      auto const& counts = counted.counts();
      auto const as_documented = scratch.bytes() == slots * 64 * sizeof(float) &&
                                 counts.exchanges == static_cast<std::uint64_t>(plan.rounds()) &&
                                 counts.bytes_sent == counts.messages_sent * 32 * sizeof(float);
      return as_documented ? counts.bytes_sent : ~std::uint64_t{0};
    });
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(plan.ranks())) {
      auto moves = std::uint64_t{0};
      for (auto const& move : plan.moves()) moves += move.source == rank ? 1 : 0;
      REQUIRE(sent[rank.index()] == moves * 64 * sizeof(float));
    }
  }
}

TEST_CASE("a shard without room for both layouts is refused, before anything is sent") {
  auto const from = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const to = support::reversed_layout{2, std::vector(4, fssdp::rank_id{0})};
  auto const plan = reshard_plan{from, to};
  auto const texts = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto counted = fssdp::counting{comm};
    auto small = fssdp::expert_buffer<float>{comm.rank() == fssdp::rank_id{0} ? 3U : 1U, sizes{4}};
    try {
      fssdp::reshard(counted, plan, small);
    } catch (fssdp::argument_error const& error) {
      return counted.counts().exchanges == 0 ? std::string{error.what()} : std::string{};
    }
    return std::string{};
  });
  REQUIRE_THAT(texts[0], mentions("shard has 3 slots") && mentions("expected 4"));
  REQUIRE_THAT(texts[1], mentions("shard has 1 slots") && mentions("expected 2"));
}

TEST_CASE("a world of another size than the plan's is refused by a reshard") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto alone = support::communicator_archetype{fssdp::rank_id{0}};
  auto shard = fssdp::expert_buffer<float>{2, sizes{4}};
  auto const attempt = [&] { fssdp::reshard(alone, reshard_plan{layout, layout}, shard); };
  REQUIRE_THROWS_AS(attempt(), fssdp::argument_error);
  REQUIRE_THROWS_WITH(attempt(), mentions("1 ranks") && mentions("expected 2, as in the plan"));

  auto const texts = support::on_all_ranks(4, [&](thread_communicator& comm) {  // too many ranks
    auto room = fssdp::expert_buffer<float>{4, sizes{4}};
    try {
      fssdp::reshard(comm, reshard_plan{layout, layout}, room);
    } catch (fssdp::argument_error const& error) {
      return std::string{error.what()};
    }
    return std::string{};
  });
  for (auto const& text : texts)
    REQUIRE_THAT(text, mentions("4 ranks; expected 2, as in the plan"));
}

TEST_CASE("a rank that throws in a reshard is named by all others") {
  auto const from = fssdp::block_layout{{.experts = 12, .ranks = 4}};
  auto const to = fssdp::cyclic_layout{{.experts = 12, .ranks = 4}};
  auto const plan = reshard_plan{from, to, {.scratch_slots = 1}};
  REQUIRE(plan.rounds() >= 2);
  for (int exchange = 1; exchange <= plan.rounds(); ++exchange) {
    auto world = fssdp::thread_world{4};
    auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
      auto const breaks = comm.rank() == fssdp::rank_id{2};
      auto broken = fssdp::faulty{comm, {.exchange = breaks ? exchange : 0}};
      auto shard = fssdp::make_shard<float>(from, comm.rank(), 4);
      fssdp::reshard(broken, plan, shard);
      (void)fssdp::all_reduce(broken, std::vector{1});
    });
    CAPTURE(exchange);
    REQUIRE(support::is<fssdp::injected_fault>(result.of_run));
    for (std::size_t rank : {0U, 1U, 3U}) REQUIRE(support::failed_rank(result.of_rank[rank]) == 2);
  }
}

TEST_CASE("a reshard refuses null memory, and sizes that overflow") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 1}};
  auto alone = support::communicator_archetype{fssdp::rank_id{0}};
  auto memory = std::vector<float>(8);
  auto const refuses = [&](fssdp::expert_tensor<float> const& bad, char const* a, char const* b) {
    auto const both = std::vector{fssdp::expert_tensor<float>{memory.data(), 2, 4}, bad};
    auto const attempt = [&] { fssdp::reshard(alone, reshard_plan{layout, layout}, both); };
    REQUIRE_THROWS_AS(attempt(), fssdp::argument_error);
    REQUIRE_THROWS_WITH(attempt(), mentions(a) && mentions(b));
  };
  auto const huge = (std::size_t{1} << 62U) + 1;
  refuses({nullptr, 2, 4}, "tensor 1 of shard is null", "expected memory");
  refuses({memory.data(), 2, 4, 1}, "tensor 1 of shard has a stride of 1",
          "at least its 4 elements");
  refuses({memory.data(), 2, huge}, "4611686018427387905 elements", "expected at most");
  refuses({memory.data(), 2, 4, huge}, "stride of 4611686018427387905", "expected at most");
}

TEST_CASE("bytes_of allocates once and names the same memory") {
  auto weights = fssdp::expert_buffer<float>{2, sizes{3, 2}};
  auto moments = fssdp::expert_buffer<double>{2, sizes{4}};
  auto const all = fssdp::bytes_of(weights, moments);
  REQUIRE(all.size() == 3);
  REQUIRE(all.capacity() == 3);
  REQUIRE(all[1].elements == 8);
  REQUIRE(all[2].elements == 32);
  REQUIRE(static_cast<void*>(all[2][1].data()) == moments.tensors()[0][1].data());
}

TEST_CASE("one buffer given twice is refused") {
  auto const layout = fssdp::block_layout{{.experts = 1, .ranks = 1}};
  auto alone = support::communicator_archetype{fssdp::rank_id{0}};
  auto shard = fssdp::expert_buffer<float>{1, sizes{4}};
  auto const attempt = [&] {
    fssdp::reshard(alone, reshard_plan{layout, layout}, fssdp::bytes_of(shard, shard));
  };
  REQUIRE_THROWS_WITH(attempt(), mentions("share memory"));
}
