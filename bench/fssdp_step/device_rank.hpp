// SPDX-License-Identifier: Apache-2.0
/// One emulated device: its shards, its materializer, its part of every iteration.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "contents.hpp"
#include "emulation.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/runtime/materializer.hpp"
#include "fssdp/stream/host_stream.hpp"
#include "fssdp/token/token_plan.hpp"
#include "fssdp/trace/trace_output.hpp"
#include "job.hpp"
#include "measurement.hpp"

namespace step {

/// What the devices exchange: tokens, experts, and what is small and goes past the emulated links.
struct links {
  fssdp::communicator_ref tokens;
  fssdp::communicator_ref experts;
  fssdp::communicator_ref control;
};

/// Times of one device in one iteration; those of the host, slowed down.
struct device_times {
  double exposed = 0;
  double moving = 0;
  double tokens = 0;
  double solving = 0;   ///< of solver and planner that the device waits for; not slowed
  double planning = 0;  ///< of those on other threads, likewise
  double replica_slots = 0;
  double expert_bytes = 0;  ///< over all devices
  double token_rows = 0;    ///< that left this device, one way
  double processor = 0;     ///< of all threads of its process, counted once
};

/// What solvers and planners have taken, on the thread of the device, which makes this, and on
/// others.
class planning_times {
 public:
  /// An iteration begins. What is planned ahead for it may still be under way, and counts for it.
  void begin() {
    on_caller_ = 0;
    beside_ = 0;
  }
  void add(double seconds) {
    (std::this_thread::get_id() == caller_ ? on_caller_ : beside_) += seconds;
  }
  [[nodiscard]] double on_caller() const { return on_caller_; }
  [[nodiscard]] double beside() const { return beside_; }

 private:
  std::thread::id const caller_ = std::this_thread::get_id();
  std::atomic<double> on_caller_ = 0;
  std::atomic<double> beside_ = 0;
};

class device_rank {
 public:
  /// @param first the layouts to begin with
  /// @pre everything outlives it
  device_rank(links const& through, job const& what, shared_work& shared,
              fssdp::layer_stack<fssdp::table_layout> const& first, fssdp::trace_output trace);
  ~device_rank();

  /// Lets the predictors know loads of earlier iterations.
  void remember(std::size_t sample);
  /// Expects loads of another iteration, whatever has been.
  void expect(std::size_t layer, fssdp::expert_loads const& loads);
  /// Forward and backward of all layers.
  /// @param recorded whether the loads count for the next ones
  device_times iterate(std::size_t sample, bool recorded);
  /// How the layers of the last iteration went.
  [[nodiscard]] std::vector<layer_record> const& layers() const { return records_; }

 private:
  struct layer_tokens {
    std::optional<fssdp::token_plan> plan;
    std::vector<std::uint8_t> sent;      // [sent, row_bytes]
    std::vector<std::uint8_t> received;  // [received, row_bytes]
  };

  void forward(std::size_t sample, fssdp::layer_id layer, bool recorded);
  void backward(fssdp::layer_id layer);
  /// There and back; the device computes in between, and calls meanwhile() before.
  template <class Meanwhile>
  void move_tokens(layer_tokens& of, fssdp::layer_id layer, double seconds_per_row, int pass,
                   Meanwhile meanwhile);
  void gather_ahead(fssdp::layer_id layer, int step);
  void check_experts(fssdp::layer_id layer) const;
  void write_partials(fssdp::layer_id layer);
  /// The optimizer: every parameter becomes larger by 1.
  void update(std::size_t sample);
  void fill_weights();

  [[nodiscard]] fssdp::token_counts counts_of(std::size_t sample, fssdp::layer_id layer);
  [[nodiscard]] fssdp::token_plan plan_of(fssdp::token_counts const& counts,
                                          fssdp::placement const& where) const;
  [[nodiscard]] fssdp::materializer_policy policy_of();
  [[nodiscard]] fssdp::materializer_options options_of(
      fssdp::layer_stack<fssdp::table_layout> const& first) const;
  [[nodiscard]] std::vector<std::size_t> slice_sizes(
      fssdp::layer_stack<fssdp::table_layout> const& of) const;
  [[nodiscard]] std::size_t arena_slots(fssdp::layer_stack<fssdp::table_layout> const& first) const;
  [[nodiscard]] double non_moe_seconds() const;
  [[nodiscard]] double control_seconds(std::size_t bytes) const;
  [[nodiscard]] auto range(fssdp::trace_track track, fssdp::static_text what,
                           fssdp::layer_id layer) const {
    return fssdp::trace_range{&trace_, track, what, {.layer = layer.value()}};
  }

  links through_;
  job const& job_;
  shared_work& shared_;
  sim::setting const& where_;
  fssdp::rank_id rank_;
  fssdp::trace_output trace_;
  emulated_device device_;
  marked_rows rows_;
  std::array<std::size_t, 1> elements_;
  fssdp::expert_buffer<float> weights_;
  fssdp::expert_buffer<float> gradients_;
  fssdp::expert_buffer<float> moments_;  // and main weights: 6 times the parameters
  fssdp::host_stream stream_;
  fssdp::queued_communicator<fssdp::communicator_ref> beside_;
  device_times times_;
  planning_times planning_;
  std::optional<fssdp::materializer> layers_;
  std::vector<layer_tokens> tokens_;  // [layers]
  std::vector<layer_record> records_;
  fssdp::scratch_memory token_scratch_;
  int steps_ = 0;
};

}  // namespace step
