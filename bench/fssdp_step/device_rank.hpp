// SPDX-License-Identifier: Apache-2.0
/// One rank: its shards, its materializer, its part of every iteration, whatever it computes on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "between_device.hpp"
#include "contents.hpp"
#include "device.hpp"
#include "device_blocks.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/runtime/materializer.hpp"
#include "fssdp/token/token_plan.hpp"
#include "fssdp/trace/trace_output.hpp"
#include "job.hpp"
#include "planning_times.hpp"

namespace step {

/// What the devices of a group exchange besides experts: tokens, and what is small and goes past
/// emulated links; and what crosses to other groups, if there are any.
struct links {
  fssdp::communicator_ref tokens;
  fssdp::communicator_ref control;
  std::optional<between_links> between = {};

  /// All devices of all groups.
  [[nodiscard]] fssdp::communicator_ref everyone() const {
    return between.has_value() ? between->everyone : control;
  }
};

class device_rank {
 public:
  /// @param first the layouts to begin with
  /// @pre everything outlives it
  device_rank(links const& through, device& on, job const& what, shared_work& shared,
              fssdp::layer_stack<fssdp::table_layout> const& first);
  ~device_rank();

  /// Lets the predictors know loads of earlier iterations.
  void remember(std::size_t sample);
  /// Expects loads of another iteration, whatever has been.
  void expect(std::size_t layer, fssdp::expert_loads const& loads);
  /// Outside of what is measured: before an iteration, and after it.
  /// @throws fssdp::ranks_disagree, std::runtime_error if what has crossed between groups is wrong
  void prepare(std::size_t sample);
  void check_between(std::size_t sample);
  /// Forward and backward of all layers.
  /// @param recorded whether the loads count for the next ones
  device_times iterate(std::size_t sample, bool recorded);
  /// @throws std::runtime_error if an owned expert is not what all steps of the optimizer make it
  void check_shards();
  /// How the layers of the last iteration went.
  [[nodiscard]] std::vector<layer_record> const& layers() const { return records_; }

 private:
  using byte_rows = fssdp::rows_view<std::uint8_t>;  // as wide as a token

  struct layer_tokens {
    std::optional<fssdp::token_plan> plan;
    row_block received;  // forward
  };

  void forward(std::size_t sample, fssdp::layer_id layer, bool recorded);
  void backward(fssdp::layer_id layer);
  /// There and back; in between, compute(work) begins what takes so long for each row. Before that,
  /// meanwhile().
  template <class Meanwhile, class Compute>
  void move_tokens(fssdp::layer_id layer, row_block& received, double seconds_per_row, int pass,
                   Meanwhile meanwhile, Compute compute);
  [[nodiscard]] std::vector<expert_share> shares_of(fssdp::layer_id layer) const;
  void gather_ahead(fssdp::layer_id layer, int step);
  void prefetch(fssdp::layer_id layer);
  /// What solver and planner take on this thread during a call.
  [[nodiscard]] double on_caller(auto call) const {
    auto const before = planning_.on_caller();
    call();
    return planning_.on_caller() - before;
  }
  void compute_dense(int times);
  void check_experts(fssdp::layer_id layer) const;
  void compute_partials(fssdp::layer_id layer);
  /// The optimizer: every parameter becomes larger by 1.
  void update(std::size_t sample, bool recorded);
  /// Behind so many iterations, the one that warms up included.
  [[nodiscard]] bool owners_may_change(int steps) const;
  [[nodiscard]] std::vector<fssdp::expert_tensor<std::byte>> kept();
  void fill_weights();

  [[nodiscard]] fssdp::token_counts counts_of(std::size_t sample, fssdp::layer_id layer);
  [[nodiscard]] fssdp::token_plan plan_of(fssdp::token_counts const& counts,
                                          fssdp::placement const& where) const;
  [[nodiscard]] fssdp::materializer_policy policy_of();
  [[nodiscard]] fssdp::materializer_options options_of(
      fssdp::layer_stack<fssdp::table_layout> const& first) const;
  [[nodiscard]] std::size_t slice_elements(fssdp::layer_stack<fssdp::table_layout> const& of) const;
  [[nodiscard]] std::size_t arena_slots(fssdp::layer_stack<fssdp::table_layout> const& first) const;
  [[nodiscard]] double non_moe_seconds() const;
  [[nodiscard]] auto range(fssdp::trace_track track, fssdp::static_text what,
                           fssdp::layer_id layer) const {
    return fssdp::trace_range{&trace_, track, what, {.layer = layer.value()}};
  }

  links through_;
  job const& job_;
  shared_work& shared_;
  sim::setting const& where_;
  fssdp::rank_id rank_;
  device& device_;
  device_memory& memory_;
  fssdp::trace_output trace_;
  marked_rows rows_;
  std::array<std::size_t, 1> elements_;
  device_tensor weights_;
  device_tensor gradients_;
  device_tensor moments_;  // with the main weights 6 times the bytes of the parameters
  device_times times_;
  planning_times planning_;
  std::vector<double> solver_seconds_;  // [layers]: for which this thread waited in an iteration
  std::optional<fssdp::materializer> layers_;
  std::vector<layer_tokens> tokens_;  // [layers]
  row_block sent_;
  row_block returned_;  // received in a backward pass
  row_block results_;
  layer_work work_;
  bool checks_ = true;
  std::vector<layer_record> records_;
  fssdp::scratch_memory token_scratch_;
  std::optional<between_device> between_;
  int steps_ = 0;
};

}  // namespace step
