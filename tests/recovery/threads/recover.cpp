// SPDX-License-Identifier: Apache-2.0
/// Whenever ranks are lost, all experts go on with those that are left, with the bits that they had
/// after a step that was mirrored.
#include "fssdp/recovery/recover.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/mirrored_training.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::mirror_partners;
using fssdp::mirrored_shard;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::trained_shard;

namespace {

using namespace std::chrono_literals;

constexpr auto last_step = std::uint64_t{6};

/// What goes wrong on a rank, and in which communicator.
struct accident {
  std::optional<fssdp::fault> in_training;
  std::optional<fssdp::fault> in_mirroring;
  bool in_recovery = false;  ///< leaves when others recover, when it has been asked for room
};

/// What has become of a rank.
struct outcome {
  std::uint64_t step = 0;      ///< that it has gone on from, if it has recovered
  std::uint64_t mirrored = 0;  ///< the last one that it had begun to mirror
  int recoveries = 0;
  int wrong = 0;              ///< values, of any moment
  bool is_through = false;    ///< it has trained to the end
  std::vector<rank_id> left;  ///< who was there then
  std::string lost;           ///< what state_lost says
};

/// A rank that trains, mirrors every so many steps, and recovers when others are lost.
class training_rank {
 public:
  training_rank(thread_communicator& comm, support::mirrored_ranks const& of, accident const& own,
                std::uint64_t mirror_every)
      : left_{comm},
        of_{of},
        accident_{own},
        every_{mirror_every},
        shard_{std::make_unique<trained_shard>(of.layout, comm.rank())},
        mirror_{std::make_unique<mirrored_shard>(of.layout, mirror_partners{of.topo}, comm.rank(),
                                                 shard_->state())} {}

  [[nodiscard]] outcome run() {
    auto layout = of_.layout;
    auto accident = accident_;
    for (auto step = std::uint64_t{0};;) {
      auto const before = step;
      try {
        train(before, accident);
        result_.is_through = true;
        result_.left.assign(left_.ranks().begin(), left_.ranks().end());
        return result_;
      } catch (fssdp::rank_left const&) {
        return result_;
      } catch (fssdp::transport_error const&) {
      }
      accident = {};
      auto next = std::unique_ptr<trained_shard>{};
      try {
        auto const now = fssdp::recover(
            left_, *mirror_, fssdp::even_owners{},
            [&](fssdp::table_layout const& to, rank_id rank) {
              if (accident_.in_recovery) throw fssdp::rank_left{"in the recovery of others"};
              next = std::make_unique<trained_shard>(to, rank);
              return next->state();
            },
            of_.topo);
        step = now.step;
        layout = now.layout;
      } catch (fssdp::rank_left const&) {
        return result_;
      } catch (fssdp::state_lost const& error) {
        result_.lost = error.what();
        result_.left.assign(left_.ranks().begin(), left_.ranks().end());
        return result_;
      }
      ++result_.recoveries;
      result_.step = step;
      shard_ = std::move(next);
      result_.wrong += shard_->wrong(step);
      fssdp::check_layout(layout);
    }
  }

 private:
  /// From a step to the last one. The mirror of before is kept: here nobody is lost twice in a row.
  void train(std::uint64_t from, accident const& goes_wrong) {
    auto& comm = left_.comm();
    auto duplicate = comm.duplicate();
    auto frail = fssdp::faulty{comm, goes_wrong.in_training.value_or(fssdp::fault{})};
    auto frail_mirror = fssdp::faulty{duplicate, goes_wrong.in_mirroring.value_or(fssdp::fault{})};
    auto stream = fssdp::host_stream{};
    auto behind = fssdp::on_stream(frail_mirror, stream);
    auto const mirrors = from == 0;
    try {
      if (from == 0) shard_->step_to(0);
      for (auto step = from + 1; step <= last_step; ++step) {
        (void)fssdp::all_reduce(frail, std::array{1L});  // forward, backward
        if (mirrors) mirror_->finish(behind);
        shard_->step_to(step);
        if (!mirrors || step % every_ != 0) continue;
        result_.mirrored = step;
        mirror_->write(behind, step, shard_->state());
      }
      if (mirrors) mirror_->finish(behind);
      (void)fssdp::all_reduce(frail, std::array{1L});
      result_.wrong += shard_->wrong(last_step);
    } catch (...) {
      try {
        mirror_->finish(behind);
      } catch (fssdp::error const&) {
      }
      throw;
    }
  }

  fssdp::survivors<thread_communicator> left_;
  support::mirrored_ranks const& of_;
  accident accident_;
  std::uint64_t every_;
  std::unique_ptr<trained_shard> shard_;
  std::unique_ptr<mirrored_shard> mirror_;
  outcome result_;
};

[[nodiscard]] fssdp::fault fault_by_chance(support::dice& draw, int exchanges) {
  return {.kind = draw.chance(50) ? fssdp::fault_kind::throws : fssdp::fault_kind::leaves,
          .exchange = draw.between(1, exchanges),
          .moment = draw.one_of(
              std::vector{fssdp::fault_moment::before_exchange, fssdp::fault_moment::in_post,
                          fssdp::fault_moment::behind_post, fssdp::fault_moment::behind_exchange})};
}

}  // namespace

TEST_CASE("whoever is lost in whichever step, all experts go on with the bits of a step") {
  auto recovered = 0;
  auto all_lost = 0;
  auto twice = 0;
  for (auto seed = std::uint64_t{1}; seed <= 200; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{seed + 1000};
    auto const of = support::mirrored_ranks_by_chance(seed, 2);
    auto const partners = mirror_partners{of.topo};
    auto const size = of.topo.ranks();
    auto const every = static_cast<std::uint64_t>(draw.between(1, 3));
    auto accidents = std::vector<accident>(static_cast<std::size_t>(size));
    auto unlucky = std::vector<rank_id>{};
    for (auto const rank : fssdp::first_n<rank_id>(size)) unlucky.push_back(rank);
    draw.shuffle(unlucky);
    unlucky.resize(draw.chance(70) || size == 2 ? 1 : 2);
    for (std::size_t i = 0; i < unlucky.size(); ++i) {
      auto& own = accidents[unlucky[i].index()];
      auto const exchanges = static_cast<int>(2 * (last_step / every));
      if (i == 1 && draw.chance(60))
        own.in_recovery = true;
      else if (draw.chance(50))
        own.in_training = fault_by_chance(draw, static_cast<int>(last_step));
      else
        own.in_mirroring = fault_by_chance(draw, exchanges);
    }
    auto results = std::vector<outcome>(static_cast<std::size_t>(size));
    auto world = fssdp::thread_world{{.ranks = size, .deadline = 30s}};
    auto thrown = std::string{};
    try {
      world.run([&](thread_communicator& comm) {
        auto const me = comm.rank().index();
        auto rank = training_rank{comm, of, accidents[me], every};
        results[me] = rank.run();
      });
    } catch (fssdp::error const& error) {
      thrown = error.what();
    }
    auto is_over = true;  // nothing is left of some experts
    for (auto const& result : results) {
      REQUIRE(result.wrong == 0);
      if (!result.is_through && result.lost.empty()) continue;
      is_over = is_over && !result.lost.empty();
      if (!result.lost.empty()) {
        REQUIRE_THAT(result.lost, mentions("load the last checkpoint"));
        continue;
      }
      REQUIRE(thrown == "");
      recovered += result.recoveries > 0 ? 1 : 0;
      twice += result.left.size() + 2 == static_cast<std::size_t>(size) ? 1 : 0;
      if (result.recoveries == 0) continue;
      REQUIRE(result.step % every == 0);
      REQUIRE(result.step >= every);
    }
    for (auto const& result : results)  // all that are left have come to the same
      if (result.is_through || !result.lost.empty()) {
        REQUIRE(result.lost.empty() == !is_over);
        for (auto const& other : results)
          if (other.is_through) REQUIRE(other.step == result.step);
      }
    all_lost += is_over ? 1 : 0;
  }
  CAPTURE(recovered, twice, all_lost);
  CHECK(recovered > 100);
  CHECK(twice > 10);
  CHECK(all_lost > 5);
}
