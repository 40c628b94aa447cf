// SPDX-License-Identifier: Apache-2.0
/// A rank's part of a device that computes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "device.hpp"
#include "device_blocks.hpp"
#include "device_math.hpp"
#include "expert_shape.hpp"
#include "pool_memory.hpp"
#include "stream_trace.hpp"

namespace step {

/// What a rank of a world between devices gives to its cuda_device. All of it outlives that.
struct cuda_rank {
  fssdp::rank_id rank;
  cudaStream_t computing;
  cudaStream_t moving;  ///< gathers and reductions
  cudaMemPool_t pool;   ///< null: CUDA's own
  std::function<fssdp::materializer(fssdp::expert_shards, fssdp::materializer_policy,
                                    fssdp::materializer_options const&)>
      make_materializer;
  std::function<void()> await_computing;  ///< the host waits
  std::function<void()> await_moving;
};

/// Experts and dense layers are products of matrices in fp32, on tensor cores where there are any.
/// Everything is enqueued.
class cuda_device : public device {
 public:
  /// @param experts of a layer
  /// @pre the device of the streams is the current one
  cuda_device(cuda_rank of, expert_shape shape, int layers, int experts,
              fssdp::trace_recorder* trace);
  ~cuda_device() override;

  [[nodiscard]] device_memory& memory() override { return memory_; }
  [[nodiscard]] fssdp::materializer make_materializer(
      fssdp::expert_shards shards, fssdp::materializer_policy policy,
      fssdp::materializer_options const& options) override;
  [[nodiscard]] fssdp::trace_output trace() override { return &trace_; }
  /// An expert finds its rows one after the other.
  [[nodiscard]] fssdp::row_orders orders() const override {
    return {fssdp::row_order::by_rank, fssdp::row_order::by_expert};
  }
  [[nodiscard]] bool checks_always() const override { return false; }

  void compute_dense(double rows, int times) override;
  void forward(layer_work const& work) override;
  void backward(layer_work const& work) override;
  void weight_gradients(layer_work const& work) override;
  void busy(double, clock::time_point) const override {}

  void begin_iteration() override;
  void synchronize() override { of_.await_computing(); }
  void end_iteration(device_times& times) override;

 private:
  struct layer_memory {
    float* received = nullptr;  // [rows, width], the caller's
    row_block inside;           // [rows, hidden]
  };

  [[nodiscard]] matrix w1(float const* expert) const;
  [[nodiscard]] matrix w2(float const* expert) const;
  /// Some rows of [rows, columns].
  [[nodiscard]] static matrix rows_of(float* all, expert_share const& share, std::size_t columns);
  /// A product for each expert that has rows.
  template <class Product>
  void multiply(layer_work const& work, factors how, Product product);

  cuda_rank of_;
  expert_shape shape_;
  std::unique_ptr<device_math> math_;
  pool_memory memory_;
  stream_trace trace_;
  std::vector<layer_memory> layers_;
  row_block gradients_inside_;  // [rows, hidden]
  device_tensor dense_;         // an expert's shape
  row_block dense_rows_;        // [rows, width]
  row_block dense_inside_;      // [rows, hidden]
  std::vector<product> products_;
};

}  // namespace step
