// SPDX-License-Identifier: Apache-2.0
/// A training that goes on when ranks are lost.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "any_survivable.hpp"
#include "checkpoint.hpp"
#include "expert_stream.hpp"
#include "model_mirror.hpp"
#include "options.hpp"
#include "topology_of.hpp"
#include "train_on.hpp"
#include "trainer.hpp"

namespace moe_gpt {

/// What a rank is from one loss to the next: communicators between the ranks that are left, and
/// the model. It stays until what it has is recovered.
template <class Real>
class rank_life {
 public:
  /// @param job outlives it
  rank_life(any_survivable& comm, rank_job job, model_mirror<Real>& mirror, run_so_far& so_far)
      : experts_{comm.duplicate()},
        plans_{comm.duplicate()},
        mirrors_{comm.duplicate()},
        job_{std::move(job)},
        tokens_{comm.ref()},
        moves_{experts_.ref()},
        copies_{mirrors_.ref()},
        streamed_{moves_, overlaps()},
        trainer_{tokens_, streamed_, with_plans(), so_far, &mirror},
        behind_{copies_, overlaps()} {
    mirror.through(behind_);
  }
  rank_life(rank_life const&) = delete;
  rank_life& operator=(rank_life const&) = delete;

  void run(std::function<void(int step)> const& begun) { trainer_.run(begun); }

 private:
  using streamed = expert_stream<fssdp::communicator_ref>;

  [[nodiscard]] overlap_rule overlaps() const {
    return job_.chosen.no_overlap ? overlap_rule::off : overlap_rule::on;
  }

  [[nodiscard]] rank_job const& with_plans() {
    job_.plans = plans_.ref();
    return job_;
  }

  any_survivable experts_, plans_, mirrors_;
  rank_job job_;
  fssdp::communicator_ref tokens_, moves_, copies_;
  streamed streamed_;
  rank_trainer<Real, fssdp::communicator_ref, streamed> trainer_;
  mirror_stream behind_;  // last, so that it is destroyed first: it reads the model
};

/// A rank through all losses.
template <class Real>
class mirrored_training {
 public:
  mirrored_training(any_survivable& comm, rank_job const& job)
      : job_{job},
        chosen_{job.chosen},
        me_{comm.rank().value()},
        mirror_{comm, job.topo.ranks() > 0 ? job.topo : topology_of(job.chosen)} {}

  [[nodiscard]] run_record run() {
    for (;;) try {
        life_ = std::make_unique<rank_life<Real>>(mirror_.comm(), job_now(), mirror_, so_far_);
        life_->run([this](int) { tell(); });
        life_.reset();
        return std::move(so_far_.record);
      } catch (fssdp::transport_error const& error) {
        recover(error);
      } catch (fssdp::poisoned_stream const& error) {  // by a transport_error
        recover(error);
      }
  }

 private:
  using clock = std::chrono::steady_clock;

  /// What this rank is told now.
  [[nodiscard]] rank_job job_now() {
    auto job = job_;
    job.topo = mirror_.topo();
    chosen_.ranks = job.topo.ranks();
    chosen_.nodes = job.topo.nodes();
    if (auto const& from = mirror_.goes_on(); from.has_value()) {
      chosen_.resume.clear();
      job.owners = from->layouts;
    }
    if (!chosen_.lose.empty())
      job.at = [this](int step, run_phase phase) {
        step_ = step;
        stop_if_told(step, phase);
      };
    else
      job.at = [this](int step, run_phase) { step_ = step; };
    return {.chosen = chosen_,
            .text = job.text,
            .trace = job.trace,
            .observe = job.observe,
            .memory = job.memory,
            .planner = job.planner,
            .topo = job.topo,
            .owners = job.owners,
            .at = job.at};
  }
  void stop_if_told(int step, run_phase phase) const {
    for (auto const& lost : chosen_.lose)
      if (lost.rank == me_ && lost.phase == phase &&
          (phase == run_phase::recovery ? step >= lost.step : step == lost.step))
        job_.stop();
  }
  /// @param error what went wrong; ranks are lost, whatever threw it
  void recover(std::exception const& error) {
    auto const noticed = clock::now();
    auto const what = std::string{error.what()};
    auto lost = mirror_.lost().size();
    auto const before = lost;
    for (;;) try {
        mirror_.recover(chosen_.layers, [&] { stop_if_told(step_, run_phase::recovery); });
        break;
      } catch (fssdp::state_lost const& gone) {
        throw fssdp::state_lost{gone.rank(), gone.partner(), {}, text_of(gone)};
      } catch (fssdp::argument_error const& refusal) {
        throw std::runtime_error{what + "; " + refusal.what() + "; " + where_to_resume(chosen_)};
      } catch (fssdp::transport_error const&) {
        if (mirror_.lost().size() == lost && !may_try_again()) throw;
        lost = mirror_.lost().size();
      }
    if (mirror_.lost().size() == before && !may_try_again()) throw std::runtime_error{what};
    life_.reset();  // recovery has what it needs of it
    if (!begun_.has_value()) begun_ = noticed;
  }
  /// Nobody is lost, and yet something has failed: a few times in a run that may be.
  [[nodiscard]] bool may_try_again() { return failures_++ < most_failures; }
  [[nodiscard]] std::string text_of(fssdp::state_lost const& lost) const {
    auto text = std::string{lost.what()};
    if (lost.partner().has_value()) {
      auto const all = chosen_.layers * chosen_.experts;
      auto const experts = std::ranges::count_if(
          lost.chunks(), [&](fssdp::chunk_id chunk) { return chunk.expert.value() < all; });
      text = "rank " + std::to_string(lost.rank().value()) + " and its partner, rank " +
             std::to_string(lost.partner()->value()) + ", are lost, and with them " +
             std::to_string(experts) + (experts == 1 ? " expert" : " experts") +
             (job_.chosen.mode == mode::fsep ? " in part" : "") +
             " and a part of the dense parameters";
    }
    return text + "; " + where_to_resume(chosen_);
  }
  /// All is in place again.
  void tell() {
    if (!begun_.has_value()) return;
    auto const& from = *mirror_.goes_on();
    auto& record = so_far_.record;
    auto told =
        recovery_record{.lost = {},
                        .ranks = mirror_.comm().size(),
                        .step = from.step,
                        .steps_again = step_ - from.step,
                        .seconds = std::chrono::duration<double>(clock::now() - *begun_).count(),
                        .bytes = from.bytes};
    for (auto const rank : mirror_.lost()) {
      auto const known = [&](recovery_record const& of) {
        return std::ranges::count(of.lost, rank.value()) != 0;
      };
      if (std::ranges::none_of(record.recoveries, known)) told.lost.push_back(rank.value());
    }
    record.recoveries.push_back(std::move(told));
    std::erase_if(record.steps, [&](step_record const& of) { return of.step > from.step; });
    begun_.reset();
  }

  static constexpr int most_failures = 3;

  rank_job const& job_;
  options chosen_;  // with as many ranks as are left
  int me_;          // this rank, before any was lost
  model_mirror<Real> mirror_;
  run_so_far so_far_;
  std::unique_ptr<rank_life<Real>> life_;   // uses what is above
  int step_ = 0;                            // that this rank has begun
  int failures_ = 0;                        // without a lost rank
  std::optional<clock::time_point> begun_;  // to recover
};

}  // namespace moe_gpt
