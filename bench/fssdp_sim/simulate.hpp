// SPDX-License-Identifier: Apache-2.0
/// Simulates a policy over the iterations of a trace.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device_memory.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/solver/heterogeneous_sharding.hpp"
#include "layer_figures.hpp"
#include "load_trace.hpp"
#include "planning_seconds.hpp"
#include "policy.hpp"
#include "prediction.hpp"
#include "result.hpp"
#include "setting.hpp"
#include "split_loads.hpp"
#include "stopwatch.hpp"

namespace sim {

/// What is simulated besides the policy.
struct scenario {
  setting const* where;
  load_trace const* loads;             ///< of the simulated layers alone
  std::vector<std::size_t> layer_ids;  ///< [layers of loads]: which layers of the model they are
  std::vector<std::size_t> samples;    ///< of loads: the iterations that count
  int slots = 0;
  int overlap = 0;
  objective goal = objective::time;
  prediction predicts = {};
  bool timed = false;  ///< what solving and planning take here is measured, too
};

/// One layer of one iteration, as a policy has it.
struct layer_record {
  std::int64_t iter;
  std::size_t layer;
  layer_question const& question;
  layer_answer const& answer;
  layer_figures const& figures;
};
using layer_observer = std::function<void(layer_record const&)>;

namespace detail {

/// The owners of a policy, chosen again only every few iterations, as moving them costs time.
class shards {
 public:
  shards(scenario const& of, sharding how) : of_{of}, how_{how} {
    auto const ranks = of.where->topology.ranks();
    auto const blocks =
        fssdp::as_table(fssdp::block_layout{{.experts = of.where->experts, .ranks = ranks}});
    layouts_.assign(layer_count(*of.loads), blocks);
  }

  std::vector<fssdp::table_layout> const& at(std::size_t sample) {
    constexpr auto interval = std::int64_t{100};  // iterations, as in the paper
    auto const iter = (*of_.loads)[sample].iter;
    if (how_ == sharding::blocks || (made_.has_value() && iter < *made_ + interval))
      return layouts_;
    auto loads = std::vector<fssdp::expert_loads>{};
    for (std::size_t layer = 0; layer < layouts_.size(); ++layer)
      loads.push_back(of_.predicts(*of_.loads, sample, layer));
    auto const overlap =
        how_ == sharding::by_load && of_.goal == objective::time && of_.slots > 0 ? of_.overlap : 0;
    layouts_ = fssdp::heterogeneous_sharding{.overlap = overlap}(loads, of_.where->topology);
    made_ = iter;
    return layouts_;
  }

 private:
  scenario const& of_;
  sharding how_;
  std::vector<fssdp::table_layout> layouts_;
  std::optional<std::int64_t> made_ = {};
};

}  // namespace detail

/// [ranks]: how many chunks each owns.
[[nodiscard]] inline std::vector<int> owned_by_rank(fssdp::table_layout const& owners) {
  auto owned = std::vector<int>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(owners.ranks()))
    owned.push_back(static_cast<int>(owners.owned(rank).size()));
  return owned;
}

/// @pre at least one sample and layer
[[nodiscard]] inline policy_result simulate(policy const& which, scenario const& of,
                                            layer_observer const& observe = {}) {
  auto const& where = *of.where;
  auto const layers = layer_count(*of.loads);
  auto result = policy_result{.policy = std::string{which.name},
                              .model = std::string{where.model->name},
                              .cluster = std::string{where.kind->name},
                              .devices = where.topology.ranks(),
                              .slots = of.slots,
                              .overlap = of.overlap,
                              .iterations = of.samples.size(),
                              .layers = where.layers,
                              .simulated = of.layer_ids,
                              .per_layer = std::vector<layer_result>(layers),
                              .non_moe_seconds = where.non_moe_seconds};
  auto const count = static_cast<double>(of.samples.size());
  auto owners = detail::shards{of, which.shards};
  for (auto const sample : of.samples) {
    auto const& layouts = owners.at(sample);
    auto memory = device_memory{where.topology.ranks()};
    for (std::size_t layer = 0; layer < layers; ++layer) {
      auto const predicted = of.predicts(*of.loads, sample, layer);
      auto const counts = split_loads((*of.loads)[sample].layers[layer], where.topology.ranks());
      auto const question = layer_question{.topology = &where.topology,
                                           .rates = where.rates,
                                           .owners = &layouts[layer],
                                           .predicted = &predicted,
                                           .counts = &counts,
                                           .slots = of.slots,
                                           .overlap = of.overlap,
                                           .goal = of.goal};
      auto solving = 0.0;
      auto answers = timed(solving, [&] { return which.answers(question); });
      auto const answer = cheapest(question, std::move(answers), which.costs);
      auto const figures = figures_of(question, answer, which.costs);
      auto& mean_of = result.per_layer[layer];
      mean_of.compute_seconds += figures.cost.compute_seconds / count;
      mean_of.token_seconds += figures.cost.token_seconds / count;
      mean_of.exposed_seconds += figures.cost.exposed_seconds / count;
      mean_of.max_over_mean += figures.max_over_mean / count;
      mean_of.reduction_seconds += figures.reduction_seconds / count;
      mean_of.exposed_backward_seconds += figures.exposed_backward_seconds / count;
      mean_of.owned = owned_by_rank(answer.owners);
      result.max_over_mean.push_back(figures.max_over_mean);
      result.bytes += figures.bytes * result.scale() / count;
      result.interface_bytes += figures.interface_bytes * result.scale() / count;
      if (of.timed) {
        result.solving_seconds.push_back(solving);
        result.planning_seconds.push_back(planning_seconds(question, answer));
      }
      memory.add(answer, which.costs);
      if (observe)
        observe({(*of.loads)[sample].iter, of.layer_ids[layer], question, answer, figures});
    }
    auto owned = std::optional<double>{};  // of a rank, over all layers: one layer may be less even
    if (which.shards != sharding::blocks && result.scale() > 1)
      owned = std::ceil(static_cast<double>(where.layers) * where.experts / where.topology.ranks());
    auto const experts = memory.most(which.costs.replicas, result.scale(), owned);
    result.memory_bytes =
        std::max(result.memory_bytes, experts * static_cast<double>(where.rates.expert_bytes));
  }
  return result;
}

}  // namespace sim
