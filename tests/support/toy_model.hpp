// SPDX-License-Identifier: Apache-2.0
/// A model of experts with trivial arithmetic, to train with a materializer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/all.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "support/dice.hpp"

namespace support {

struct toy_shape {
  int layers = 3;
  int experts = 8;
  int ranks = 4;
  int slices = 1;
  std::array<std::size_t, 2> elements = {300, 7};
};

/// What the ranks of a toy model own, and its loads, which drift.
class toy_model {
 public:
  using layouts_type = fssdp::layer_stack<fssdp::table_layout>;

  toy_model(toy_shape const& shape, fssdp::rank_id rank)
      : shape_{shape},
        rank_{rank},
        layouts_{std::vector(
            static_cast<std::size_t>(shape.layers),
            fssdp::as_table(fssdp::block_layout{
                {.experts = shape.experts, .ranks = shape.ranks, .slices = shape.slices}}))},
        weights_{fssdp::make_shard<float>(layouts_, rank, shape.elements)},
        gradients_{fssdp::make_shard<float>(layouts_, rank, shape.elements)} {
    auto draw = dice{static_cast<std::uint64_t>(rank.value()) + 1};
    for (auto const& tensor : weights_.tensors())
      for (std::size_t slot = 0; slot < tensor.slots; ++slot)
        for (auto& value : tensor[slot]) value = static_cast<float>(draw.between(-99, 99)) / 64;
  }

  [[nodiscard]] toy_shape const& shape() const { return shape_; }
  [[nodiscard]] layouts_type const& layouts() const { return layouts_; }
  [[nodiscard]] fssdp::expert_buffer<float>& weights() { return weights_; }
  [[nodiscard]] fssdp::expert_buffer<float>& gradients() { return gradients_; }

  /// Tokens of each expert in a layer and iteration: other experts are hot after a while.
  [[nodiscard]] fssdp::expert_loads loads(fssdp::layer_id layer, int iteration) const {
    auto draw = dice{static_cast<std::uint64_t>(layer.value() * 1000 + iteration / 4)};
    auto loads = fssdp::expert_loads{};
    for (int e = 0; e < shape_.experts; ++e)
      loads.push_back(std::uint64_t{1} << draw.between(0, 9));
    return loads;
  }

  /// What a rank adds to the partial gradient of an expert that it holds.
  template <class Experts, class Partials>
  void backward(Experts const& experts, Partials partials, int micro_batch) const {
    for (std::size_t i = 0; i < experts.size(); ++i)
      for (std::size_t k = 0; k < shape_.elements.size(); ++k)
        for (std::size_t j = 0; j < partials[k].elements; ++j)
          partials[k][i][j] += experts[i].tensors[k][j] * static_cast<float>(rank_.value() + 1) +
                               static_cast<float>(micro_batch) / 3;
  }
  /// The optimizer.
  void update() {
    for (std::size_t k = 0; k < shape_.elements.size(); ++k) {
      auto const& weight = weights_.tensors()[k];
      auto const& gradient = gradients_.tensors()[k];
      for (std::size_t slot = 0; slot < weight.slots; ++slot)
        for (std::size_t j = 0; j < weight.elements; ++j) weight[slot][j] -= gradient[slot][j] / 64;
    }
  }
  /// All parameters that the rank owns.
  [[nodiscard]] std::vector<float> parameters() const {
    auto all = std::vector<float>{};
    for (auto const& tensor : weights_.tensors())
      for (std::size_t slot = 0; slot < tensor.slots; ++slot)
        all.insert(all.end(), tensor[slot].begin(), tensor[slot].end());
    return all;
  }

 private:
  toy_shape shape_;
  fssdp::rank_id rank_;
  layouts_type layouts_;
  fssdp::expert_buffer<float> weights_;
  fssdp::expert_buffer<float> gradients_;
};

/// Up to three replicas of a layer on each rank.
[[nodiscard]] inline fssdp::sparse_materialization three_replicas() {
  return {.overlap = 5, .spare_slots = 3};
}

/// A resharding solver: all owners one rank on.
struct one_rank_on {
  struct other_owners {
    std::optional<std::vector<fssdp::table_layout>> layouts;
  };
  [[nodiscard]] other_owners operator()(std::span<fssdp::table_layout const> now,
                                        std::span<fssdp::expert_loads const>,
                                        fssdp::topology const&) const {
    auto next = std::vector<fssdp::table_layout>{};
    for (auto const& layout : now) {
      auto owners = std::vector<fssdp::rank_id>{};
      for (auto const chunk : fssdp::all_chunks(layout))
        owners.emplace_back((layout.owner(chunk).value() + 1) % layout.ranks());
      next.push_back({{.ranks = layout.ranks(), .slices = layout.slices()}, std::move(owners)});
    }
    return {std::move(next)};
  }
};

/// A materializer over all that a rank of a toy model owns.
template <class Comm>
[[nodiscard]] fssdp::materializer make_layers(
    Comm& streamed, toy_model& model, fssdp::materializer_options const& options,
    fssdp::any_placement_solver const& solver = three_replicas(),
    fssdp::any_sharding_solver const& sharding = {}, fssdp::link_coding const& coding = {}) {
  return fssdp::materializer{
      streamed,
      fssdp::expert_shards{model.layouts(), model.shape().elements, model.weights(),
                           model.gradients()},
      {.placement = solver, .sharding = sharding, .gather_coding = coding, .reduce_coding = coding},
      options};
}

/// Whether what moves waits in a stream while a rank computes.
enum class overlap { off, on };

/// Calls run(communicator): over the communicator itself, or with a stream of its own.
template <class Comm, class Run>
void run_on_stream(Comm& comm, overlap how, Run run) {
  if (how == overlap::off) {
    run(comm);
  } else {
    auto stream = fssdp::host_stream{};
    auto streamed = fssdp::on_stream(comm, stream);
    run(streamed);
  }
}

/// Forward and backward pass of a toy model, in the order in which a trainer goes through its
/// layers.
inline void go_through(toy_model& model, fssdp::materializer& layers, int iteration,
                       int micro_batches = 1) {
  auto const count = model.shape().layers;
  for (int m = 0; m < micro_batches; ++m) {
    for (auto const layer : fssdp::first_n<fssdp::layer_id>(count)) {
      layers.acquire(layer, m);
      layers.record(layer, model.loads(layer, iteration));
      layers.release(layer, m);
    }
    for (int l = count; l-- != 0;) {
      auto const layer = fssdp::layer_id{l};
      layers.acquire(layer, m, fssdp::training_pass::backward);
      auto const experts = layers.experts<float>(layer);
      model.backward(experts, layers.partials<float>(layer), m);
      layers.release(layer, m);
      if (m + 1 == micro_batches) layers.reduce(layer);
    }
  }
}

/// One iteration.
inline fssdp::iteration_metrics train_once(toy_model& model, fssdp::materializer& layers,
                                           int iteration, int micro_batches = 1) {
  go_through(model, layers, iteration, micro_batches);
  auto const metrics = layers.step();
  model.update();
  return metrics;
}

}  // namespace support
