// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of this process.
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/plan/plan_cache.hpp"
#include "rank_world.hpp"
#include "topology_of.hpp"
#include "train_in_groups.hpp"
#include "train_on.hpp"

namespace moe_gpt {
namespace {

class thread_ranks : public rank_world {
 public:
  explicit thread_ranks(options const& chosen) : chosen_{chosen} {}

  [[nodiscard]] options const& chosen() const override { return chosen_; }
  [[nodiscard]] bool has_rank_0() const override { return true; }

  run_record train(corpus const& text,
                   std::function<void(step_record const&)> const& observe) override {
    auto result = run_record{};
    auto traces = std::vector<fssdp::trace_recorder>{};
    if (!chosen_.trace.empty())
      for (auto const rank : fssdp::first_n<fssdp::rank_id>(chosen_.ranks))
        traces.emplace_back(fssdp::trace_options{.rank = rank});
    auto world =
        fssdp::thread_world{{.ranks = chosen_.ranks,
                             .deadline = deadline_of(chosen_),
                             .ports = chosen_.rate > 0 ? topology_of(chosen_) : fssdp::topology{}}};
    auto plans = fssdp::plan_cache{static_cast<std::size_t>(4 * chosen_.layers)};
    world.run([&](fssdp::thread_communicator& comm) {
      auto* const trace = traces.empty() ? nullptr : &traces[comm.rank().index()];
      try {
        auto record = train_in_groups(
            comm, {.chosen = chosen_,
                   .text = text,
                   .trace = trace,
                   .observe = observe,
                   .planner = std::ref(plans),
                   .stop = [] { throw fssdp::rank_left{"as --lose has told it"}; }});
        if (record.is_of_first_rank) result = std::move(record);
      } catch (fssdp::rank_left const&) {  // --lose: the rank prints nothing
      }
    });
    if (!traces.empty()) write_trace(chosen_.trace, traces);
    return result;
  }

 private:
  options chosen_;
};

}  // namespace

std::unique_ptr<rank_world> join_world(options const& chosen) {
  if (chosen.backend == backend::mpi) return join_processes(chosen);
  return std::make_unique<thread_ranks>(chosen);
}

}  // namespace moe_gpt
