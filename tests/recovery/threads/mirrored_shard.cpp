// SPDX-License-Identifier: Apache-2.0
/// Mirrors have the bits of their owners, as of a step that is whole.
#include "fssdp/recovery/mirrored_shard.hpp"

#include <cstdint>
#include <future>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/file/file_memory.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "support/allocation_counter.hpp"
#include "support/communicator_archetype.hpp"
#include "support/laws.hpp"
#include "support/mirrored_training.hpp"
#include "support/on_all_ranks.hpp"
#include "support/temporary_folder.hpp"

using fssdp::mirror_partners;
using fssdp::mirrored_shard;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::trained_shard;

namespace {

using step_number = std::optional<std::uint64_t>;

/// How many bytes of what a rank keeps are not those of a step.
[[nodiscard]] std::size_t wrong_copies(mirrored_shard& mirror, std::uint64_t step) {
  auto const& layout = mirror.layout();
  auto const wrong_copy = [&](rank_id of, auto const& copy) {
    auto expected = trained_shard{layout, of};
    expected.step_to(step);
    return support::differing_bytes(expected, layout.owned(of).size(), copy);
  };
  mirror.state().keep(step);
  auto count = wrong_copy(mirror.rank(), mirror.state().own());
  for (auto const other : mirror.partners().mirrored_on(mirror.rank()))
    count += wrong_copy(other, mirror.state().mirror(other, step));
  return count;
}

/// Some steps over any communicator: what is wrong with the copies after each of them.
template <class Comm>
[[nodiscard]] std::size_t wrong_after_steps(Comm& comm, support::mirrored_ranks const& of,
                                            std::pmr::memory_resource* memory) {
  auto const partners = mirror_partners{of.topo};
  auto shard = trained_shard{of.layout, comm.rank()};
  auto mirror = mirrored_shard{of.layout, partners, comm.rank(), shard.state(), memory};
  auto count = std::size_t{mirror.newest().has_value()};
  for (auto const step : {1U, 2U, 5U, 6U}) {
    shard.step_to(step);
    mirror.write(comm, step, shard.state());
    mirror.finish(comm);
    shard.step_to(step + 1);
    count += wrong_copies(mirror, step) + (mirror.newest() == step ? 0 : 1);
  }
  return count;
}

}  // namespace

TEST_CASE("after a step each partner has the bits of the shard, and each owner its own") {
  auto const folder = support::temporary_folder{};
  auto files = fssdp::file_memory{folder.path()};
  for (auto seed = std::uint64_t{1}; seed <= support::law_instances / 20 + 1; ++seed) {
    CAPTURE(seed);
    auto const of = support::mirrored_ranks_by_chance(seed, 1);
    auto const wrong = support::on_all_ranks(of.topo.ranks(), [&](thread_communicator& comm) {
      auto count = wrong_after_steps(comm, of, std::pmr::new_delete_resource());
      auto stream = fssdp::host_stream{};
      auto bare = support::exchange_only{comm};
      auto behind = fssdp::on_stream(bare, stream);
      return count + wrong_after_steps(behind, of, &files);
    });
    for (auto const count : wrong) REQUIRE(count == 0);
  }
}

TEST_CASE("mirroring sends each shard once, and 8 bytes to every other rank") {
  for (auto seed = std::uint64_t{1}; seed <= support::law_instances / 20 + 1; ++seed) {
    CAPTURE(seed);
    auto const of = support::mirrored_ranks_by_chance(seed, 2);
    auto const partners = mirror_partners{of.topo};
    struct counts {
      fssdp::exchange_counts found;
      std::uint64_t promised;
      std::size_t memory;
    };
    auto const all = support::on_all_ranks(of.topo.ranks(), [&](thread_communicator& comm) {
      auto counted = fssdp::counting{comm};
      auto shard = trained_shard{of.layout, comm.rank()};
      auto mirror = mirrored_shard{of.layout, partners, comm.rank(), shard.state()};
      for (auto const step : {1U, 2U, 3U}) mirror.write(counted, step, shard.state());
      return counts{counted.counts(), mirror.bytes_per_step(), mirror.memory_bytes()};
    });
    auto const chunk = (fssdp::slice_elements(24, of.layout.slices()) +
                        fssdp::slice_elements(7, of.layout.slices())) *
                       (sizeof(float) + sizeof(double));
    auto const ranks = static_cast<std::uint64_t>(of.topo.ranks());
    for (auto const rank : fssdp::first_n<rank_id>(of.topo.ranks())) {
      auto const own = of.layout.owned(rank).size();
      auto const memory_of = [&](rank_id of_rank) {
        auto const whole = std::vector<std::size_t>{24, 7};
        auto const sizes = fssdp::slice_sizes(whole, of.layout.slices());
        auto const slots = of.layout.owned(of_rank).size();
        return fssdp::expert_buffer<float>::bytes_for(slots, sizes) +
               fssdp::expert_buffer<double>::bytes_for(slots, sizes);
      };
      auto expected = memory_of(rank);
      for (auto const other : partners.mirrored_on(rank)) expected += 2 * memory_of(other);
      auto const& [found, promised, memory] = all[rank.index()];
      CHECK(promised == own * chunk + (ranks - 1) * 8);
      CHECK(found.bytes_sent == 3 * promised);
      CHECK(found.exchanges == 6);
      CHECK(found.messages_sent == 3 * (own * 4 + ranks - 1));
      CHECK(memory == expected);
    }
  }
}

TEST_CASE("mirroring allocates in the first steps only") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  auto const layout = fssdp::block_layout{{.experts = 7, .ranks = 3}};
  auto const partners = mirror_partners{fssdp::topology{{.nodes = 3, .ranks = 3}}};
  auto const counts = support::on_all_ranks(3, [&](thread_communicator& comm) {
    auto shard = trained_shard{fssdp::as_table(layout), comm.rank()};
    auto const state = shard.state();
    auto mirror = mirrored_shard{layout, partners, comm.rank(), state};
    for (auto const step : {1U, 2U}) mirror.write(comm, step, state);
    return support::allocations_in([&] {
      for (auto const step : {3U, 4U, 5U}) mirror.write(comm, step, state);
    });
  });
  for (auto const count : counts) CHECK(count == 0);
}

TEST_CASE("while a step is mirrored on a stream, training goes on") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const partners = mirror_partners{fssdp::topology{{.nodes = 2, .ranks = 2}}};
  struct outcome {
    std::size_t wrong;
    double exposed_seconds;
    std::string text;
  };
  auto const all = support::on_all_ranks(2, [&](thread_communicator& comm) {
    auto own = comm.duplicate();
    auto stream = fssdp::host_stream{};
    auto behind = fssdp::on_stream(own, stream);
    auto shard = trained_shard{fssdp::as_table(layout), comm.rank()};
    auto mirror = mirrored_shard{layout, partners, comm.rank(), shard.state()};
    auto result = outcome{};
    shard.step_to(1);
    // Nothing is mirrored before both have reached the first exchange of the iteration.
    auto gate = std::promise<void>{};
    stream.enqueue([opened = gate.get_future().share()] { opened.wait(); });
    mirror.write(behind, 1, shard.state());
    try {
      mirror.write(behind, 2, shard.state());
    } catch (fssdp::argument_error const& error) {
      result.text = error.what();
    }
    comm.exchange([&](auto&) {});
    gate.set_value();
    mirror.finish(behind);
    shard.step_to(2);
    result.wrong = wrong_copies(mirror, 1);
    result.exposed_seconds = mirror.exposed_seconds();
    return result;
  });
  for (auto const& [wrong, exposed, text] : all) {
    CHECK(wrong == 0);
    CHECK(exposed > 0);
    CHECK_THAT(text, mentions("step 2 while an earlier one is under way"));
  }
}

TEST_CASE("whenever mirroring breaks down, all ranks still have a step in common") {
  constexpr auto ranks = 4;
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = ranks}};
  auto const layout = fssdp::as_table(fssdp::block_layout{{.experts = 6, .ranks = ranks}});
  auto const partners = mirror_partners{topo};
  for (int at = 1; at <= 6; ++at)  // two exchanges in each of three steps
    for (auto const when : {fssdp::fault_moment::before_exchange, fssdp::fault_moment::behind_post,
                            fssdp::fault_moment::behind_exchange})
      for (auto const failed : fssdp::first_n<rank_id>(ranks)) {
        CAPTURE(at, static_cast<int>(when), failed.value());
        auto mirrors = std::vector<std::unique_ptr<mirrored_shard>>(ranks);
        auto shards = std::vector<std::unique_ptr<trained_shard>>(ranks);
        auto world = fssdp::thread_world{ranks};
        auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
          auto const me = comm.rank();
          auto& shard = shards[me.index()];
          shard = std::make_unique<trained_shard>(layout, me);
          auto& mirror = mirrors[me.index()];
          mirror = std::make_unique<mirrored_shard>(layout, partners, me, shard->state());
          auto breaks = fssdp::faulty{comm, {.exchange = me == failed ? at : 0, .moment = when}};
          for (auto const step : {1U, 2U, 3U}) {
            shard->step_to(step);
            mirror->write(breaks, step, shard->state());
          }
        });
        REQUIRE(support::is<fssdp::injected_fault>(result.of_run));
        auto common = step_number{~std::uint64_t{0}};
        for (auto const rank : fssdp::first_n<rank_id>(ranks))
          if (rank != failed) common = std::min(common, mirrors[rank.index()]->newest());
        auto const begun = static_cast<std::uint64_t>((at + 1) / 2);
        REQUIRE(common >= (begun == 1 ? step_number{} : step_number{begun - 1}));
        REQUIRE(common <= step_number{begun});
        if (!common.has_value()) continue;
        for (auto const rank : fssdp::first_n<rank_id>(ranks))
          if (rank != failed) REQUIRE(wrong_copies(*mirrors[rank.index()], *common) == 0);
      }
}

TEST_CASE("ranks that mirror different steps get an error, and none goes on") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 3}};
  auto const partners = mirror_partners{fssdp::topology{{.nodes = 3, .ranks = 3}}};
  auto world = fssdp::thread_world{3};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto shard = trained_shard{fssdp::as_table(layout), comm.rank()};
    auto mirror = mirrored_shard{layout, partners, comm.rank(), shard.state()};
    mirror.write(comm, comm.rank() == rank_id{1} ? 3 : 2, shard.state());
  });
  REQUIRE(support::is<fssdp::ranks_disagree>(result.of_run));

  auto const without_labels = support::fallout_of(world, [&](thread_communicator& comm) {
    auto bare = support::exchange_only{comm};
    auto shard = trained_shard{fssdp::as_table(layout), comm.rank()};
    auto mirror = mirrored_shard{layout, partners, comm.rank(), shard.state()};
    mirror.write(bare, comm.rank() == rank_id{1} ? 3 : 2, shard.state());
  });
  REQUIRE(support::is<fssdp::ranks_disagree>(without_labels.of_run));
}

TEST_CASE("impossible mirrors are refused before anything is sent") {
  auto const layout = fssdp::as_table(fssdp::block_layout{{.experts = 2, .ranks = 1}});
  auto const alone = mirror_partners{fssdp::topology{{.nodes = 1, .ranks = 1}}};
  auto const two = mirror_partners{fssdp::topology{{.nodes = 1, .ranks = 2}}};
  auto shard = trained_shard{layout, rank_id{0}};
  REQUIRE_THROWS_WITH((mirrored_shard{layout, two, rank_id{0}, shard.state()}),
                      mentions("partners of 2 ranks") && mentions("expected 1"));
  REQUIRE_THROWS_WITH((mirrored_shard{layout, alone, rank_id{1}, shard.state()}),
                      mentions("rank 1") && mentions("expected 0 to 0"));
  auto comm = support::communicator_archetype{rank_id{0}};
  auto mirror = mirrored_shard{layout, alone, rank_id{0}, shard.state()};
  mirror.write(comm, 7, shard.state());
  REQUIRE(mirror.newest() == std::uint64_t{7});
  REQUIRE_THROWS_WITH(mirror.write(comm, 7, shard.state()),
                      mentions("step 7 after step 7") && mentions("expected a later one"));
  auto one = fssdp::expert_buffer<float>{2, std::vector<std::size_t>{24}};
  REQUIRE_THROWS_WITH(mirror.write(comm, 8, one), mentions("1 tensors") && mentions("expected 4"));
  auto other = fssdp::expert_buffer<float>{1, std::vector<std::size_t>{24, 7, 24, 7}};
  REQUIRE_THROWS_WITH(mirror.write(comm, 8, other),
                      mentions("1 slots of 96 bytes") && mentions("expected 2 of 96"));
}
