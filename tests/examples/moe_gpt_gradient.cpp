// SPDX-License-Identifier: Apache-2.0
// The gradients of the whole model, as they arrive at the owners, against finite differences.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/solver/sparse_materialization.hpp"
#include "moe_gpt/batch.hpp"
#include "moe_gpt/gpt.hpp"
#include "moe_gpt/placement_rule.hpp"
#include "moe_gpt/wire.hpp"

namespace {

using model_type = moe_gpt::gpt<double>;

constexpr auto shape =
    moe_gpt::model_shape{.layers = 2, .d_model = 8, .heads = 2, .seq = 6, .experts = 5, .top_k = 2};
constexpr auto sequences = std::size_t{3};
constexpr auto global_tokens = sequences * shape.seq;

/// A rank's share of three fixed sequences.
moe_gpt::byte_batch share(fssdp::rank_id rank, int ranks) {
  constexpr auto length = shape.seq + 1;
  auto bytes = std::vector<std::uint8_t>{};
  for (std::size_t i = 0; i < length * sequences; ++i)
    bytes.push_back(static_cast<std::uint8_t>(moe_gpt::mix({i}) % 9 * 28));
  return moe_gpt::share_of(sequences, rank, ranks, [&](std::size_t i) {
    auto const text = std::span<std::uint8_t const>{bytes}.subspan(i * length, length);
    return moe_gpt::sample{text.first(shape.seq), text.subspan(1)};
  });
}

struct slope {
  double analytic = 0;
  double numeric = 0;
};

/// The slopes of the loss along every `stride`-th element of a rank's shard of some parameters.
/// All ranks take part; the owner moves the element.
template <class Real, class Layout, fssdp::communicator Comm, class Loss>
void probe(Comm& comm, moe_gpt::optimizer_shard<Real, Layout>& shard, fssdp::rank_id owner,
           std::size_t stride, Loss loss, std::vector<slope>& slopes) {
  auto const mine = comm.rank() == owner;
  auto const& layout = shard.layout();
  for (std::size_t k = 0; k < shard.weights().tensors().size(); ++k)
    for (std::size_t slot = 0; slot < layout.owned(owner).size(); ++slot) {
      auto const elements = shard.weights().tensors()[k].elements;
      for (std::size_t i = stride / 2; i < elements; i += stride) {
        auto found = slope{};
        constexpr auto step = 1e-5;
        auto const loss_at = [&](double offset) {
          if (mine) shard.weights().tensors()[k][slot][i] += offset;
          auto const value = loss();
          if (mine) shard.weights().tensors()[k][slot][i] -= offset;
          return value;
        };
        found.numeric = (loss_at(step) - loss_at(-step)) / (2 * step);
        auto const gradient = std::vector{mine ? shard.gradients().tensors()[k][slot][i] : Real{0}};
        found.analytic = fssdp::all_reduce(comm, gradient)[0];
        slopes.push_back(found);
      }
    }
}

/// `slices` of every expert, dealt out to the ranks.
std::vector<slope> slopes_of(int ranks, int nodes, int slices) {
  auto result = std::vector<slope>{};
  fssdp::thread_world{ranks}.run([&](fssdp::thread_communicator& comm) {
    auto const topo = fssdp::topology{{.nodes = nodes, .ranks = ranks}};
    auto const layout = fssdp::cyclic_layout{
        {.experts = static_cast<int>(shape.experts), .ranks = ranks, .slices = slices}};
    auto const layouts = moe_gpt::expert_layouts{std::vector(shape.layers, as_table(layout))};
    auto const chosen = moe_gpt::options{.spare_slots = 2, .overlap = 3};
    auto experts_lane = comm.duplicate();
    auto model = model_type{shape,
                            5,
                            experts_lane,
                            layouts,
                            {.placement = moe_gpt::placement_rule{chosen, topo}},
                            {.replica_slots = 20, .partial_slots = 20, .topology = topo}};
    auto const batch = share(comm.rank(), ranks);
    auto const loss = [&] {
      model.dense().gather(comm);
      auto const sum =
          moe_gpt::cross_entropy(batch.targets, model.forward(comm, batch.inputs), 0.0);
      model.experts().step();  // the next loss is that of other parameters
      return fssdp::all_reduce(comm, std::vector{sum})[0] / static_cast<double>(global_tokens);
    };
    model.dense().gather(comm);
    model.forward_backward(comm, batch.inputs, batch.targets, {.global_tokens = global_tokens});
    model.experts().step();
    model.dense().reduce(comm);

    auto slopes = std::vector<slope>{};
    for (auto const owner : fssdp::first_n<fssdp::rank_id>(ranks)) {
      probe(comm, model.dense().shard(), owner, 37, loss, slopes);
      probe(comm, model.arena().shard(), owner, 23, loss, slopes);
    }
    if (comm.rank() == fssdp::rank_id{0}) result = slopes;
  });
  return result;
}

}  // namespace

TEST_CASE("gradients that arrive at the owners are the slopes of the loss") {
  struct setting {
    int ranks, nodes, slices;
  };
  for (auto const& [ranks, nodes, slices] :
       {setting{1, 1, 1}, setting{3, 1, 1}, setting{4, 2, 1}, setting{3, 1, 3}}) {
    CAPTURE(ranks, nodes, slices);
    auto const slopes = slopes_of(ranks, nodes, slices);
    REQUIRE(slopes.size() > 200);
    auto const moving =
        std::ranges::count_if(slopes, [](slope const& s) { return std::abs(s.analytic) > 1e-6; });
    CHECK(moving > 60);  // the others are bytes and experts that the batch does not reach
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      CAPTURE(i);
      CHECK(std::abs(slopes[i].analytic - slopes[i].numeric) <
            1e-7 + 1e-5 * std::abs(slopes[i].numeric));
    }
  }
}
