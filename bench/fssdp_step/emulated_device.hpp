// SPDX-License-Identifier: Apache-2.0
/// A device that computes by waiting.
#pragma once

#include <thread>
#include <utility>

#include "device.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/stream/host_stream.hpp"
#include "host_memory.hpp"

namespace step {

/// Its memory is the host's; experts move on a thread beside.
class emulated_device : public device {
 public:
  /// @param slow all times are multiplied by it
  /// @param experts what they move through
  emulated_device(double slow, fssdp::communicator_ref const& experts, fssdp::trace_output trace)
      : slow_{slow}, trace_{trace}, experts_{experts}, beside_{experts_, stream_} {}

  /// Where experts move.
  [[nodiscard]] fssdp::host_stream& moving() { return stream_; }
  [[nodiscard]] device_memory& memory() override { return memory_; }
  [[nodiscard]] fssdp::materializer make_materializer(
      fssdp::expert_shards shards, fssdp::materializer_policy policy,
      fssdp::materializer_options const& options) override {
    return {beside_, std::move(shards), std::move(policy), options};
  }
  [[nodiscard]] fssdp::trace_output trace() override { return trace_; }
  /// Rows are sent unchanged.
  [[nodiscard]] fssdp::row_orders orders() const override {
    return {fssdp::row_order::by_rank, fssdp::row_order::by_rank};
  }
  [[nodiscard]] bool checks_always() const override { return true; }

  void compute_dense(double, int) override {}
  void forward(layer_work const&) override {}
  void backward(layer_work const&) override {}
  void weight_gradients(layer_work const&) override {}
  void busy(double seconds, clock::time_point begin) const override {
    if (seconds <= 0) return;
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<clock::duration>(
                                              std::chrono::duration<double>{seconds * slow_}));
  }

  void begin_iteration() override {}
  void synchronize() override {}
  void end_iteration(device_times&) override {}

 private:
  double slow_;
  host_memory memory_;
  fssdp::trace_output trace_;
  fssdp::communicator_ref experts_;
  fssdp::host_stream stream_;
  fssdp::queued_communicator<fssdp::communicator_ref> beside_;
};

}  // namespace step
