// SPDX-License-Identifier: Apache-2.0
// A layer of experts, forward and backward, on a device. Four ranks share it, each with a stream
// of its own. The library, Thrust and cuBLAS enqueue all work there. Apart from allocations and
// copies of short lists of addresses, the host waits once: for the counts of the router. Results
// are compared with plain loops.
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/transform.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "08_cuda_layer/expert_products.hpp"
#include "08_cuda_layer/plain_loops.hpp"
#include "08_cuda_layer/problem.hpp"
#include "fssdp/comm/cuda/cuda_kernels.cuh"
#include "fssdp/comm/cuda/cuda_mirror.hpp"
#include "fssdp/comm/peer.hpp"
#include "fssdp/fssdp.hpp"
#include "fssdp/token/device_order.hpp"
#include "fssdp/token/device_permute.hpp"
#include "fssdp/token/dispatch.hpp"
#include "fssdp/token/gather_counts.hpp"
#include "fssdp/token/rows_view.hpp"
#include "fssdp/token/token_plan.hpp"
#include "program/standard_output.hpp"

namespace {

using namespace cuda_layer;

template <class T>
using device = thrust::device_vector<T>;

template <class T>
[[nodiscard]] std::span<T> view(device<T>& all) {
  return {thrust::raw_pointer_cast(all.data()), all.size()};
}
[[nodiscard]] fssdp::rows_view<float> rows(device<float>& all) {
  return {thrust::raw_pointer_cast(all.data()), all.size() / width, width};
}
[[nodiscard]] fssdp::rows_view<float const> rows(device<float> const& all) {
  return {thrust::raw_pointer_cast(all.data()), all.size() / width, width};
}
template <class T>
[[nodiscard]] std::vector<T> to_host(device<T> const& all) {
  auto here = std::vector<T>(all.size());
  thrust::copy(all.begin(), all.end(), here.begin());
  return here;
}

struct positive_part {
  __host__ __device__ float operator()(float value) const { return value > 0 ? value : 0; }
};
struct where_positive {
  __host__ __device__ float operator()(float gradient, float value) const {
    return value > 0 ? gradient : 0;
  }
};

[[nodiscard]] outcome<float> layer_on_device(fssdp::peer_communicator& comm, batch const& mine) {
  auto const rank = comm.rank();
  auto const on = thrust::cuda::par_nosync.on(comm.stream());
  auto const mirrored = [&](auto buffer) {
    return fssdp::cuda_mirror{std::move(buffer), comm.stream()};
  };

  // the router's choices, by expert; their counts, of all ranks
  auto choices = device<fssdp::expert_id>{mine.choices};
  auto gate = device<float>{mine.gate};
  auto counts = device<std::uint64_t>(experts);
  auto row_of = device<std::uint32_t>(choices.size());
  auto choice_of = device<std::uint32_t>(choices.size());
  auto expert_of = device<int>(choices.size());
  auto const order = fssdp::device_expert_order{view(counts), view(row_of), view(choice_of),
                                                view(expert_of), per_token};
  fssdp::order_by_expert(on, std::span<fssdp::expert_id const>{view(choices)}, order);
  comm.synchronize();
  auto const counted = fssdp::gather_counts(comm, to_host(counts));

  // who holds what, what moves, where tokens go
  auto const layout = fssdp::block_layout{{.experts = experts, .ranks = ranks}};
  auto const solve = fssdp::sparse_materialization{.overlap = 3, .spare_slots = 2};
  auto const where = solve(counted.loads(), layout);
  auto const plan = fssdp::make_plan(layout, where);
  auto const routes = fssdp::token_plan{counted, where, rank};

  // owners -> replicas
  auto shard = fssdp::make_shard<float>(layout, rank, sizes);
  for (std::size_t slot = 0; auto const chunk : layout.owned(rank)) {
    for (std::size_t k = 0; k < sizes.size(); ++k)
      std::ranges::copy(parameters(chunk.expert, k), shard.tensors()[k][slot].begin());
    ++slot;
  }
  auto const weights = mirrored(std::move(shard));                           // [owned, sizes]
  auto replicas = mirrored(fssdp::make_replicas<float>(plan, rank, sizes));  // [remote, sizes]
  auto partials =
      mirrored(fssdp::make_partials<float>(plan, rank, sizes));  // [materialized, sizes]
  auto gradients = mirrored(fssdp::make_shard<float>(layout, rank, sizes));  // [owned, sizes]
  fssdp::sparse_all_gather(comm, plan, weights, replicas);

  // each expert's matrices: its rows, its parameters, its partial gradients
  auto const held = fssdp::view_experts(plan, rank, weights, replicas);
  auto const of_rows = [&](device<float>& all, std::size_t columns) {
    auto list = matrices{};
    for (auto const& group : routes.groups())
      list.of.push_back({thrust::raw_pointer_cast(all.data()) + group.first * columns,
                         static_cast<int>(group.rows), static_cast<int>(columns)});
    return list;
  };
  auto w1 = matrices{}, w2 = matrices{}, d_w1 = matrices{}, d_w2 = matrices{};
  for (std::size_t e = 0; e < held.size(); ++e) {
    auto const tensors = held[e].tensors;
    w1.of.push_back({const_cast<float*>(tensors[0].data()), width, hidden});
    w2.of.push_back({const_cast<float*>(tensors[1].data()), hidden, width});
    d_w1.of.push_back({partials.tensors()[0][e].data(), width, hidden});
    d_w2.of.push_back({partials.tensors()[1][e].data(), hidden, width});
  }
  auto multiply = expert_products{comm.stream(), held.size()};

  // forward: y = sum over a token's experts of gate * (positive part of x w1) w2
  auto x = device<float>{mine.x};
  auto y = device<float>(x.size());
  auto sent = device<float>(routes.sent_rows() * width);
  auto received = device<float>(routes.received_rows() * width);
  auto inside = device<float>(routes.received_rows() * hidden);
  auto computed = device<float>(received.size());
  auto returned = device<float>(sent.size());
  auto const gates = std::span<float const>{view(gate)};
  fssdp::permute(on, order, rows(x), rows(sent));
  fssdp::dispatch(comm, routes, rows(sent), rows(received));
  multiply(of_rows(received, width), w1, of_rows(inside, hidden));
  thrust::transform(on, inside.begin(), inside.end(), inside.begin(), positive_part{});
  multiply(of_rows(inside, hidden), w2, of_rows(computed, width));
  fssdp::combine(comm, routes, rows(computed), rows(returned));
  fssdp::unpermute(on, order, gates, rows(returned), rows(y));

  // backward, the same way back
  auto d_x = device<float>(x.size());
  auto d_gate = device<float>(gate.size());
  auto d_returned = device<float>(returned.size());
  auto d_computed = device<float>(computed.size());
  auto d_inside = device<float>(inside.size());
  auto d_received = device<float>(received.size());
  auto d_sent = device<float>(sent.size());
  fssdp::unpermute_backward(on, order, gates, rows(std::as_const(returned)), rows(std::as_const(y)),
                            rows(d_returned), view(d_gate));
  fssdp::dispatch(comm, routes, rows(d_returned), rows(d_computed));
  multiply(transposed(of_rows(inside, hidden)), of_rows(d_computed, width), d_w2);
  multiply(of_rows(d_computed, width), transposed(w2), of_rows(d_inside, hidden));
  thrust::transform(on, d_inside.begin(), d_inside.end(), inside.begin(), d_inside.begin(),
                    where_positive{});
  multiply(transposed(of_rows(received, width)), of_rows(d_inside, hidden), d_w1);
  multiply(of_rows(d_inside, hidden), transposed(w1), of_rows(d_received, width));
  fssdp::combine(comm, routes, rows(d_received), rows(d_sent));
  fssdp::permute_backward(on, order, rows(d_sent), rows(d_x));

  // replicas -> owners
  fssdp::sparse_reduce_scatter(comm, plan, partials, gradients);
  comm.synchronize();
  gradients.synchronize_to_host();

  auto result = outcome<float>{.y = to_host(y), .d_x = to_host(d_x), .d_gate = to_host(d_gate)};
  result.held = held.size();
  result.rows = routes.received_rows();
  for (std::size_t slot = 0; slot < plan.owned_count(rank); ++slot) {
    auto& of_expert = result.d_experts.emplace_back();
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      auto const tensor = gradients.host().tensors()[k][slot];
      of_expert[k].assign(tensor.begin(), tensor.end());
    }
  }
  return result;
}

/// The largest difference, as a part of the largest number; infinite if what is found is no number.
[[nodiscard]] double difference(std::vector<float> const& found,
                                std::vector<double> const& expected) {
  auto apart = 0.0;
  auto largest = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(found[i])) return std::numeric_limits<double>::infinity();
    apart = std::max(apart, std::abs(found[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return apart / largest;
}

/// A line of the table. Whether all numbers are right.
[[nodiscard]] bool print(int rank, outcome<float> const& found, outcome<double> const& expected) {
  auto of_experts = 0.0;
  for (std::size_t slot = 0; slot < expected.d_experts.size(); ++slot)
    for (std::size_t k = 0; k < sizes.size(); ++k)
      of_experts =
          std::max(of_experts, difference(found.d_experts[slot][k], expected.d_experts[slot][k]));
  auto const errors =
      std::array{difference(found.y, expected.y), difference(found.d_x, expected.d_x),
                 difference(found.d_gate, expected.d_gate), of_experts};
  std::printf("%4d | %4zu %4zu %5zu | %7.1e %7.1e %7.1e %7.1e\n", rank, found.d_experts.size(),
              found.held, found.rows, errors[0], errors[1], errors[2], errors[3]);
  return std::ranges::all_of(errors, [](double error) { return error < 1e-5; });
}

}  // namespace

int main() try {
  auto of_ranks = std::vector<batch>{};
  for (unsigned rank = 0; rank < ranks; ++rank) of_ranks.emplace_back(rank);
  auto found = std::vector<outcome<float>>(ranks);
  fssdp::peer_world{{.ranks = ranks, .kernels = fssdp::cuda_kernels()}}.run([&](auto& comm) {
    auto const rank = comm.rank().index();
    found[rank] = layer_on_device(comm, of_ranks[rank]);
  });

  auto const expected = reference(of_ranks);
  auto right = true;
  std::printf("rank | owns holds rows |  y       d_x     d_gate  d_experts: off by\n");
  for (int rank = 0; rank < ranks; ++rank)
    right = print(rank, found[static_cast<std::size_t>(rank)],
                  expected[static_cast<std::size_t>(rank)]) &&
            right;
  std::printf(right ? "as by plain loops\n" : "NOT as by plain loops\n");
  return program::output_was_taken("08_cuda_layer") && right ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
