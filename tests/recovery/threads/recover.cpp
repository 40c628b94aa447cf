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
struct what_became {
  std::uint64_t step = 0;   ///< that it has gone on from
  std::uint64_t begun = 0;  ///< the last one that it has begun to mirror
  int recoveries = 0;
  int wrong = 0;              ///< values, of any moment
  bool is_through = false;    ///< it has trained to the end
  std::vector<rank_id> left;  ///< with whom it has gone on
  std::string lost;           ///< what state_lost says
};

/// A rank that trains, mirrors every so many steps, and recovers when others are lost.
class training_rank {
 public:
  /// @param accidents the first until it has recovered once, and so on
  training_rank(thread_communicator& comm, support::mirrored_ranks const& of,
                std::vector<accident> const& accidents, std::uint64_t mirror_every)
      : left_{comm},
        of_{of},
        accidents_{accidents},
        every_{mirror_every},
        shard_{std::make_unique<trained_shard>(of.layout, comm.rank())},
        mirror_{of.layout, mirror_partners{of.topo}, comm.rank(), shard_->state()} {}

  [[nodiscard]] what_became run() {
    for (;;) try {
        try {
          train(accident_now());
          result_.is_through = true;
          return result_;
        } catch (fssdp::transport_error const&) {
          recover(accident_now());
        }
      } catch (fssdp::rank_left const&) {
        return result_;
      } catch (fssdp::state_lost const& error) {
        result_.lost = error.what();
        return result_;
      }
  }

 private:
  [[nodiscard]] accident accident_now() const {
    auto const life = static_cast<std::size_t>(result_.recoveries);
    return life < accidents_.size() ? accidents_[life] : accident{};
  }
  /// From the step that has been recovered to the last one.
  void train(accident const& goes_wrong) {
    auto& comm = left_.comm();
    auto duplicate = comm.duplicate();
    auto frail = fssdp::faulty{comm, goes_wrong.in_training.value_or(fssdp::fault{})};
    auto frail_mirror = fssdp::faulty{duplicate, goes_wrong.in_mirroring.value_or(fssdp::fault{})};
    auto stream = fssdp::host_stream{};
    auto behind = fssdp::on_stream(frail_mirror, stream);
    auto const mirror = [&](std::uint64_t step) {
      result_.begun = step;
      mirror_.write(behind, step, shard_->state());
    };
    try {
      if (result_.recoveries != 0) mirror(result_.step);
      for (auto step = result_.step + 1; step <= last_step; ++step) {
        (void)fssdp::all_reduce(frail, std::array{1L});  // forward, backward
        mirror_.finish(behind);
        shard_->step_to(step);
        if (step % every_ == 0) mirror(step);
      }
      mirror_.finish(behind);
      (void)fssdp::all_reduce(frail, std::array{1L});
      result_.wrong += shard_->wrong(last_step);
    } catch (...) {
      try {
        mirror_.finish(behind);
      } catch (fssdp::error const&) {
      }
      throw;
    }
  }
  void recover(accident const& goes_wrong) {
    auto next = std::unique_ptr<trained_shard>{};
    auto const room = [&](fssdp::table_layout const& to, rank_id rank) {
      if (goes_wrong.in_recovery) throw fssdp::rank_left{"in the recovery of others"};
      next = std::make_unique<trained_shard>(to, rank);
      return next->state();
    };
    auto const now = fssdp::recover(left_, mirror_, fssdp::even_owners{}, room, of_.topo);
    ++result_.recoveries;
    result_.wrong += now.step + every_ < result_.begun ? 1 : 0;  // no more is lost
    result_.step = now.step;
    result_.left.assign(left_.ranks().begin(), left_.ranks().end());
    shard_ = std::move(next);
    result_.wrong += shard_->wrong(now.step);
    fssdp::check_layout(now.layout);
    auto const partners = mirror_partners{fssdp::topology_of(of_.topo, left_.ranks())};
    mirror_.renew(now.layout, partners, left_.comm().rank(), shard_->state(), left_.ranks());
  }

  fssdp::survivors<thread_communicator> left_;
  support::mirrored_ranks const& of_;
  std::vector<accident> accidents_;
  std::uint64_t every_;
  std::unique_ptr<trained_shard> shard_;
  mirrored_shard mirror_;
  what_became result_;
};

[[nodiscard]] fssdp::fault fault_by_chance(support::dice& draw, int exchanges) {
  return {.kind = draw.chance(50) ? fssdp::fault_kind::throws : fssdp::fault_kind::leaves,
          .exchange = draw.between(1, exchanges),
          .moment = draw.one_of(
              std::vector{fssdp::fault_moment::before_exchange, fssdp::fault_moment::in_post,
                          fssdp::fault_moment::behind_post, fssdp::fault_moment::behind_exchange})};
}

}  // namespace

TEST_CASE("after any loss in any step, all experts continue with the bits of one step") {
  auto recovered = 0;
  auto twice = 0;
  auto all_lost = 0;
  for (auto seed = std::uint64_t{1}; seed <= 200; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{seed + 1000};
    auto const of = support::mirrored_ranks_by_chance(seed, 2);
    auto const size = static_cast<std::size_t>(of.topo.ranks());
    auto const every = static_cast<std::uint64_t>(draw.between(1, 3));
    auto accidents = std::vector<std::vector<accident>>(size, std::vector<accident>(3));
    auto life = std::size_t{0};
    for (int unlucky = draw.between(1, 3); unlucky > 0; --unlucky) {
      auto& own =
          accidents[static_cast<std::size_t>(draw.between(0, static_cast<int>(size) - 1))][life];
      auto const steps = static_cast<int>(life == 0 ? last_step : 2);
      if (draw.chance(30))
        own.in_recovery = true;
      else if (draw.chance(50))
        own.in_training = fault_by_chance(draw, steps);
      else
        own.in_mirroring = fault_by_chance(draw, 2 * steps / static_cast<int>(every));
      if (draw.chance(60)) ++life;
    }
    auto results = std::vector<what_became>(size);
    auto world = fssdp::thread_world{{.ranks = of.topo.ranks(), .deadline = 30s}};
    try {
      world.run([&](thread_communicator& comm) {
        auto rank = training_rank{comm, of, accidents[comm.rank().index()], every};
        results[comm.rank().index()] = rank.run();
      });
    } catch (fssdp::injected_fault const&) {  // nobody was left to go on, or able to
    }
    for (auto const& result : results) {
      REQUIRE(result.wrong == 0);
      recovered += result.is_through && result.recoveries > 0 ? 1 : 0;
      twice += result.is_through && result.recoveries > 1 ? 1 : 0;
      if (result.lost.empty()) continue;
      ++all_lost;
      REQUIRE_THAT(result.lost, mentions("load the last checkpoint"));
      if (result.lost.find("no step") == std::string::npos) continue;
      REQUIRE(result.begun <= every);
      REQUIRE(result.recoveries == 0);
    }
    for (auto const& one : results)  // the remaining ranks have the same result
      for (auto const& other : results) {
        if (!one.is_through || !other.is_through) continue;
        REQUIRE(one.step == other.step);
        REQUIRE(one.left == other.left);
      }
  }
  CAPTURE(recovered, twice, all_lost);
  CHECK(recovered > 100);
  CHECK(twice > 20);
  CHECK(all_lost > 5);
}
