// SPDX-License-Identifier: Apache-2.0
/// What a rank computes on. All that an iteration does by itself is device_rank's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device_memory.hpp"
#include "device_times.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/runtime/materializer.hpp"
#include "fssdp/token/rows_view.hpp"
#include "fssdp/token/token_plan.hpp"
#include "fssdp/trace/trace_output.hpp"

namespace step {

/// An expert that a device computes with, and its rows among those that were received.
struct expert_share {
  fssdp::expert_id expert = {};
  std::span<float const> parameters = {};
  std::span<float> partial = {};  ///< their gradients, where these are computed
  std::size_t first = 0;          ///< where its rows begin, if they lie by expert
  std::size_t rows = 0;
};

/// The experts of a layer on one device, and what they work on. A row is as many bytes as a token.
struct layer_work {
  fssdp::layer_id layer;
  std::vector<expert_share> experts;
  fssdp::rows_view<std::uint8_t> received;  ///< tokens; in the backward pass their gradients
  fssdp::rows_view<std::uint8_t> results;
};

/// A device either computes, and then its caller only enqueues, or stands for one by `busy`.
class device {
 public:
  using clock = std::chrono::steady_clock;

  device() = default;
  device(device const&) = delete;
  device& operator=(device const&) = delete;
  virtual ~device() = default;

  /// It outlives what is allocated from it.
  [[nodiscard]] virtual device_memory& memory() = 0;
  /// A materializer whose gathers and reductions run beside what the device computes.
  [[nodiscard]] virtual fssdp::materializer make_materializer(
      fssdp::expert_shards shards, fssdp::materializer_policy policy,
      fssdp::materializer_options const& options) = 0;
  /// Where ranges go.
  [[nodiscard]] virtual fssdp::trace_output trace() = 0;
  /// How the rows lie that it sends and receives.
  [[nodiscard]] virtual fssdp::row_orders orders() const = 0;
  /// Whether contents are checked in all iterations, or only in the one that does not count.
  [[nodiscard]] virtual bool checks_always() const = 0;

  /// Attention and what is dense, so many times, for rows of which each is as much work as one
  /// through an expert.
  virtual void compute_dense(double rows, int times) = 0;
  virtual void forward(layer_work const& work) = 0;
  /// The gradients of the rows.
  /// @pre the layer has gone forward; what it received there is still in place
  virtual void backward(layer_work const& work) = 0;
  /// The gradients of the parameters, which are added to partial.
  /// @pre the layer has just gone backward; what it received there is still in place
  virtual void weight_gradients(layer_work const& work) = 0;
  /// Takes as long as so many seconds of the device that it stands for, from `begin` on; one that
  /// computes takes its own time. Any thread of the rank may call it.
  virtual void busy(double seconds, clock::time_point begin) const = 0;

  virtual void begin_iteration() = 0;
  /// The host waits for what computes.
  virtual void synchronize() = 0;
  /// Waits for everything.
  /// @param times of the host; where it only enqueues, those of the device take their place
  virtual void end_iteration(device_times& times) = 0;
};

}  // namespace step
