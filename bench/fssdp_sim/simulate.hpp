// SPDX-License-Identifier: Apache-2.0
/// Plays a policy through the iterations of a trace.
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

#include "fssdp/layout/block_layout.hpp"
#include "fssdp/solver/heterogeneous_sharding.hpp"
#include "layer_figures.hpp"
#include "load_trace.hpp"
#include "policy.hpp"
#include "prediction.hpp"
#include "result.hpp"
#include "setting.hpp"
#include "split_loads.hpp"

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

/// The owners of a policy, renewed now and then, as moving them costs.
class shards {
 public:
  shards(scenario const& of, sharding how) : of_{of}, how_{how} {
    auto const ranks = of.where->cluster.ranks();
    auto const blocks =
        fssdp::as_table(fssdp::block_layout{{.experts = of.where->experts, .ranks = ranks}});
    layouts_.assign(layer_count(*of.loads), blocks);
  }

  std::vector<fssdp::table_layout> const& at(std::size_t sample) {
    constexpr auto interval = std::int64_t{100};  // the paper's
    auto const iter = (*of_.loads)[sample].iter;
    if (how_ == sharding::blocks || (made_.has_value() && iter < *made_ + interval))
      return layouts_;
    auto loads = std::vector<fssdp::expert_loads>{};
    for (std::size_t layer = 0; layer < layouts_.size(); ++layer)
      loads.push_back(of_.predicts(*of_.loads, sample, layer));
    auto const overlap =
        how_ == sharding::by_load && of_.goal == objective::time && of_.slots > 0 ? of_.overlap : 0;
    layouts_ = fssdp::heterogeneous_sharding{.overlap = overlap}(loads, of_.where->cluster);
    made_ = iter;
    return layouts_;
  }

 private:
  scenario const& of_;
  sharding how_;
  std::vector<fssdp::table_layout> layouts_;
  std::optional<std::int64_t> made_ = {};
};

/// What the devices hold of the experts of all layers, in experts' parameters.
class device_memory {
 public:
  explicit device_memory(int ranks) : owned_(static_cast<std::size_t>(ranks)), extra_(owned_) {}

  void add(layer_answer const& answer, traits const& of) {
    auto const ranks = owned_.size();
    auto now = std::vector<double>(ranks);
    auto const sliced = of.moves == movement::sliced;
    if (sliced)
      for (auto& owned : owned_)
        owned += with_state * answer.where.experts() / static_cast<double>(ranks);
    for (auto const expert : fssdp::first_n<fssdp::expert_id>(answer.where.experts())) {
      auto const owner = answer.owners.owner(expert);
      if (!sliced) owned_[owner.index()] += with_state;
      for (auto const rank : answer.where.holders(expert))
        if (sliced || rank != owner)
          now[rank.index()] += of.keeps == replica_state::optimizer_too ? with_state : 1;
    }
    for (std::size_t rank = 0; rank < ranks; ++rank)  // this layer's, and the one's before it
      extra_[rank] = of.replicas == lifetime::iteration
                         ? extra_[rank] + now[rank]
                         : std::max(extra_[rank], now[rank] + (last_.empty() ? 0 : last_[rank]));
    last_ = std::move(now);
  }

  /// On the device that has most; whatever adds up over layers, `scale` times.
  /// @param owned experts that every device owns over all layers, if that is known
  [[nodiscard]] double most(lifetime of, double scale, std::optional<double> owned = {}) const {
    auto const times = of == lifetime::iteration ? scale : 1.0;
    auto most = 0.0;
    for (std::size_t rank = 0; rank < owned_.size(); ++rank) {
      auto const here = owned.has_value() ? *owned * with_state : owned_[rank] * scale;
      most = std::max(most, here + extra_[rank] * times);
    }
    return most;
  }

 private:
  static constexpr auto with_state = 7.0;  // parameters, and 6 times as much of optimizer state
  std::vector<double> owned_;
  std::vector<double> extra_;
  std::vector<double> last_ = {};
};

}  // namespace detail

/// @pre at least one sample and layer
[[nodiscard]] inline policy_result simulate(policy const& which, scenario const& of,
                                            layer_observer const& observe = {}) {
  auto const& where = *of.where;
  auto const layers = layer_count(*of.loads);
  auto result = policy_result{.policy = std::string{which.name},
                              .model = std::string{where.model->name},
                              .cluster = std::string{where.kind->name},
                              .devices = where.cluster.ranks(),
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
    auto memory = detail::device_memory{where.cluster.ranks()};
    for (std::size_t layer = 0; layer < layers; ++layer) {
      auto const predicted = of.predicts(*of.loads, sample, layer);
      auto const counts = split_loads((*of.loads)[sample].layers[layer], where.cluster.ranks());
      auto const question = layer_question{.cluster = &where.cluster,
                                           .rates = where.rates,
                                           .owners = &layouts[layer],
                                           .predicted = &predicted,
                                           .counts = &counts,
                                           .slots = of.slots,
                                           .overlap = of.overlap,
                                           .goal = of.goal};
      auto const answer = which.answer(question);
      auto const figures = figures_of(question, answer, which.costs);
      auto& mean_of = result.per_layer[layer];
      mean_of.compute_seconds += figures.cost.compute_seconds / count;
      mean_of.token_seconds += figures.cost.token_seconds / count;
      mean_of.exposed_seconds += figures.cost.exposed_seconds / count;
      mean_of.max_over_mean += figures.max_over_mean / count;
      result.max_over_mean.push_back(figures.max_over_mean);
      result.bytes += figures.bytes * result.scale() / count;
      memory.add(answer, which.costs);
      if (observe)
        observe({(*of.loads)[sample].iter, of.layer_ids[layer], question, answer, figures});
    }
    auto owned = std::optional<double>{};  // some layers alone cannot be shared out so evenly
    if (which.shards != sharding::blocks && result.scale() > 1)
      owned = std::ceil(static_cast<double>(where.layers) * where.experts / where.cluster.ranks());
    auto const experts = memory.most(which.costs.replicas, result.scale(), owned);
    result.memory_bytes =
        std::max(result.memory_bytes, experts * static_cast<double>(where.rates.expert_bytes));
  }
  return result;
}

}  // namespace sim
