// SPDX-License-Identifier: Apache-2.0
/// The law that a materializer on devices, beside a stream that computes, leaves the bits of
/// threads.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/cuda/cuda_pinned_memory.hpp"
#include "fssdp/comm/cuda/cuda_side_stream.hpp"
#include "fssdp/comm/thread.hpp"
#include "gpu_double/gpu_double.hpp"
#include "support/on_all_ranks.hpp"
#include "support/toy_model.hpp"

namespace support {

/// A stream that computes on the host, in order, while the host goes on.
class computing_stream {
 public:
  [[nodiscard]] cudaStream_t get() const { return stream_.get(); }
  void enqueue(std::function<void()> work) {
    cudaLaunchHostFunc(
        get(), [](void* function) { (*static_cast<std::function<void()>*>(function))(); },
        &functions_.emplace_back(std::move(work)));
  }
  void synchronize() const { cudaStreamSynchronize(get()); }

 private:
  fssdp::cuda_stream stream_ = fssdp::make_cuda_stream();
  std::deque<std::function<void()>> functions_;  // live until the stream has run them
};

/// Iterations of which the host waits for none; in the middle owners change.
/// @param enqueue(work) has work() done where the model computes
template <class Enqueue>
void train_behind(toy_model& model, fssdp::materializer& layers, Enqueue enqueue) {
  constexpr auto micro_batches = 2;
  auto const count = model.shape().layers;
  for (int i = 0; i < 5; ++i) {
    for (int m = 0; m < micro_batches; ++m) {
      for (auto const layer : fssdp::first_n<fssdp::layer_id>(count)) {
        layers.acquire(layer, m);
        layers.record(layer, model.loads(layer, i));
        layers.release(layer, m);
      }
      for (int l = count; l-- != 0;) {
        auto const layer = fssdp::layer_id{l};
        layers.acquire(layer, m, fssdp::training_pass::backward);
        auto const experts = layers.experts<float>(layer);
        auto ids = std::vector<fssdp::expert_id>{};
        auto tensors = std::vector<std::span<float const>>{};
        for (std::size_t e = 0; e < experts.size(); ++e) {
          ids.push_back(experts[e].id);
          for (auto const& tensor : experts[e].tensors) tensors.push_back(tensor);
        }
        auto const views = layers.partials<float>(layer);
        enqueue([&model, m, ids, tensors, partials = views] {
          model.backward(fssdp::materialized_experts<float const>{ids, tensors},
                         std::span{partials}, m);
        });
        layers.release(layer, m);
        if (m + 1 == micro_batches) layers.reduce(layer);
      }
    }
    layers.step([&](auto const&) { enqueue([&model] { model.update(); }); },
                fssdp::bytes_of(model.weights()));
  }
}

[[nodiscard]] inline std::vector<std::vector<float>> trained_on_threads(
    toy_shape const& shape, fssdp::materializer_options const& options,
    fssdp::link_coding const& coding) {
  return on_all_ranks(shape.ranks, [&](fssdp::thread_communicator& comm) {
    auto model = toy_model{shape, comm.rank()};
    auto layers = make_layers(comm, model, options, three_replicas(), one_rank_on{}, coding);
    train_behind(model, layers, [](auto work) { work(); });
    return model.parameters();
  });
}

/// A rank with a device, whose gathers and reductions have a stream beside the one that computes.
template <class Comm>
[[nodiscard]] std::vector<float> trained_on_device(Comm& comm, toy_shape const& shape,
                                                   fssdp::materializer_options options,
                                                   fssdp::link_coding const& coding) {
  auto pinned = fssdp::cuda_pinned_memory{comm.rank()};
  options.memory = &pinned;
  auto model = toy_model{shape, comm.rank()};
  auto compute = computing_stream{};
  auto streamed = fssdp::on_side_stream(comm, compute.get());
  {
    auto layers = make_layers(streamed, model, options, three_replicas(), one_rank_on{}, coding);
    train_behind(model, layers, [&](auto work) { compute.enqueue(std::move(work)); });
  }
  compute.synchronize();
  return model.parameters();
}

/// @param results_of calls work(comm) on so many ranks and gives what it returned: [rank]
/// @param coding     what is coded on the wire, both ways
template <class ResultsOf>
void check_training_on_devices(ResultsOf results_of, fssdp::link_coding const& coding = {}) {
  gpu_double::reset();
  for (int slices : {1, 4})
    for (auto const replicas : {fssdp::retention::keep, fssdp::retention::rematerialize})
      for (int ahead : {0, 1, 3}) {
        CAPTURE(slices, replicas == fssdp::retention::keep, ahead);
        auto const shape = toy_shape{.slices = slices};
        auto const options = fssdp::materializer_options{.replicas = replicas,
                                                         .prefetch_distance = ahead,
                                                         .replica_slots = 40,
                                                         .partial_slots = 20,
                                                         .reshard_every = 3};
        auto const found = results_of(shape.ranks, [&](auto& comm) {
          return trained_on_device(comm, shape, options, coding);
        });
        REQUIRE(found == trained_on_threads(shape, options, coding));
      }
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

}  // namespace support
