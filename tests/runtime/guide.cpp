// SPDX-License-Identifier: Apache-2.0
/// The iteration as the guides show it: the README, and that of include/fssdp/runtime.
#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"
#include "support/toy_model.hpp"

using experts_of_a_layer = fssdp::materialized_experts<float const>;
using partials_of_a_layer = std::vector<fssdp::expert_tensor<float>>;

namespace {

/// The part of a program that a guide does not show: a model of one layer, whose partial gradients
/// are twice the parameters that a rank computes with.
struct around_the_guide {
  explicit around_the_guide(fssdp::rank_id rank)
      : model{{.layers = 1, .experts = 8, .ranks = 4}, rank},
        layouts{model.layouts()},
        sizes{model.shape().elements},
        weights{model.weights()},
        gradients{model.gradients()} {}

  void forward(experts_of_a_layer const& experts) {
    for (std::size_t e = 0; e < experts.size(); ++e) held[experts[e].id.index()] = 1;
  }
  void backward(experts_of_a_layer const& experts, partials_of_a_layer const& partials) const {
    for (std::size_t k = 0; k < partials.size(); ++k)
      for (std::size_t e = 0; e < experts.size(); ++e)
        for (std::size_t i = 0; i < partials[k].elements; ++i)
          partials[k][e][i] += 2 * experts[e].tensors[k][i];
  }
  /// How many gradients are not what all that hold their experts have added up.
  [[nodiscard]] int wrong(fssdp::thread_communicator& comm) const {
    auto const all = fssdp::all_reduce(comm, held);
    auto errors = std::ranges::max(all) > 1 ? 0 : 1;  // there are replicas
    for (std::size_t slot = 0; auto const chunk : layouts.owned(comm.rank())) {
      auto const holders = static_cast<float>(all[chunk.expert.index()]);
      for (std::size_t k = 0; k < sizes.size(); ++k)
        for (std::size_t i = 0; i < sizes[k]; ++i)
          errors += gradients.tensors()[k][slot][i] == 2 * holders * weights.tensors()[k][slot][i]
                        ? 0
                        : 1;
      ++slot;
    }
    return errors;
  }

  support::toy_model model;
  support::toy_model::layouts_type const& layouts;
  std::array<std::size_t, 2> sizes;
  fssdp::expert_buffer<float>& weights;
  fssdp::expert_buffer<float>& gradients;
  std::vector<int> held = std::vector<int>(8);
};

}  // namespace

TEST_CASE("the iteration of the README ends with all gradients at their owners") {
  auto const wrong = support::on_all_ranks(4, [](fssdp::thread_communicator& comm) {
    auto around = around_the_guide{comm.rank()};
    auto const& layouts = around.layouts;
    auto const& sizes = around.sizes;
    auto& weights = around.weights;
    auto& gradients = around.gradients;
    auto const forward = [&](auto const&... of) { around.forward(of...); };
    auto const backward = [&](auto const&... of) { around.backward(of...); };
    auto const solver = fssdp::sparse_materialization{.overlap = 4, .spare_slots = 2};
    auto const l = fssdp::layer_id{0};
#include "guides/README.md/2.inc"
    return around.wrong(comm) + (metrics.exposed_seconds >= 0 ? 0 : 1);
  });
  REQUIRE(wrong == std::vector<int>(4));
}

TEST_CASE("the iteration of the runtime's guide ends with all gradients at their owners") {
  auto const wrong = support::on_all_ranks(4, [](fssdp::thread_communicator& comm) {
    auto around = around_the_guide{comm.rank()};
    auto const& layouts = around.layouts;
    auto const& sizes = around.sizes;
    auto& weights = around.weights;
    auto& gradients = around.gradients;
    auto const forward = [&](auto const&... of) { around.forward(of...); };
    auto const backward = [&](auto const&... of) { around.backward(of...); };
    auto const l = fssdp::layer_id{0};
#include "guides/include/fssdp/runtime/README.md/1.inc"
    return around.wrong(comm);
  });
  REQUIRE(wrong == std::vector<int>(4));
}

TEST_CASE("the loop of the runtime's guide trains, and experts keep their values") {
  constexpr auto iterations = 102;
  auto const wrong = support::on_all_ranks(4, [](fssdp::thread_communicator& comm) {
    auto model = support::toy_model{{.layers = 2, .experts = 8, .ranks = 4}, comm.rank()};
    auto const layouts = model.layouts();
    auto const sizes = model.shape().elements;
    auto& weights = model.weights();
    auto& gradients = model.gradients();
    auto moments = fssdp::make_shard<float>(layouts, comm.rank(), sizes);
    auto const each_moment = [&](auto const& of, auto function) {
      for (std::size_t slot = 0; auto const chunk : of.owned(comm.rank())) {
        for (auto const& tensor : moments.tensors())
          for (auto& moment : tensor[slot]) function(chunk.expert, moment);
        ++slot;
      }
    };
    each_moment(layouts, [](fssdp::expert_id expert, float& moment) {
      moment = static_cast<float>(expert.value());
    });
    auto errors = 0;
    auto passes = 0;
    auto replicas = 0;
    auto updates = 0;
    auto const topology = fssdp::topology{{.nodes = 2, .ranks = 4}};
    auto const router = [&](fssdp::layer_id l) {  // rank 0's experts are busy, as long as it lasts
      auto loads = model.loads(l, 0);
      for (std::size_t e = 0; e < loads.size(); ++e) loads[e] += e < 2 ? 4000 : 0;
      return loads;
    };
    auto const forward = [&](fssdp::layer_id, fssdp::token_plan const& rows,
                             experts_of_a_layer const& experts) {
      errors += rows.groups().size() == experts.size() ? 0 : 1;
      replicas += static_cast<int>(experts.size()) > 2 ? 1 : 0;
    };
    auto const backward = [&](fssdp::layer_id, experts_of_a_layer const& experts,
                              partials_of_a_layer const& partials) {
      for (auto const& tensor : partials)
        for (std::size_t e = 0; e < experts.size(); ++e) tensor[e][0] = 1;
      ++passes;
    };
    auto const optimizer = [&](fssdp::iteration_metrics const&) { ++updates; };
#include "guides/include/fssdp/runtime/README.md/2.inc"
    each_moment(layers.layouts(), [&](fssdp::expert_id expert, float const& moment) {
      errors += moment == static_cast<float>(expert.value()) ? 0 : 1;
    });
    errors += layers.layouts() == layouts ? 1 : 0;  // owners have changed
    return errors + (passes == 2 * iterations && updates == iterations && replicas > 0 ? 0 : 1);
  });
  REQUIRE(wrong == std::vector<int>(4));
}
