// SPDX-License-Identifier: Apache-2.0
/// The states of a layer during an iteration. README.md has a diagram.
#pragma once

#include <algorithm>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// Whether a layer has its placement for this iteration.
enum class placement_state {
  open,    ///< not yet
  chosen,  ///< the solver's; calibration may still add replicas
  fixed    ///< final: the layer was calibrated or released, or has gradients
};

/// Where the experts of a layer are.
enum class replica_state {
  sharded,      ///< only at their owners
  gathering,    ///< being sent to the ranks of the placement
  materialized  ///< on all ranks of the placement
};

/// The gradients of a layer.
enum class gradient_state {
  none,        ///< none in this iteration
  collecting,  ///< partial gradients are accumulated in the pool
  reducing,    ///< a reduction to the owners is in flight
  reduced      ///< summed at the owners; more may follow
};

namespace detail {

/// The state of a layer, and the events that change it.
class layer_state {
 public:
  explicit layer_state(layer_id layer) : layer_{layer} {}

  [[nodiscard]] placement_state placement() const { return placement_; }
  [[nodiscard]] replica_state replicas() const { return replicas_; }
  [[nodiscard]] gradient_state gradients() const { return gradients_; }
  /// Whether any micro-batch has acquired the layer.
  [[nodiscard]] bool in_use() const { return !users_.empty(); }
  /// Whether the next reduction adds to an earlier one of this iteration.
  [[nodiscard]] bool has_gradients() const { return has_gradients_; }

  void place() { placement_ = placement_state::chosen; }
  void begin_gather() { replicas_ = replica_state::gathering; }
  void end_gather() { replicas_ = replica_state::materialized; }
  void drop_replicas() { replicas_ = replica_state::sharded; }

  /// @throws argument_error if this micro-batch has acquired the layer already
  void require_not_acquired(int micro_batch) const {
    require(!std::ranges::count(users_, micro_batch), "materializer: micro-batch ", micro_batch,
            " acquires layer ", layer_, " again; expected release before");
  }
  void acquire(int micro_batch) { users_.push_back(micro_batch); }
  /// @throws argument_error if this micro-batch has not acquired the layer
  void release(int micro_batch) {
    auto const user = std::ranges::find(users_, micro_batch);
    require(user != users_.end(), "materializer: micro-batch ", micro_batch, " releases layer ",
            layer_, ", which it has not acquired; expected acquire before");
    users_.erase(user);
    placement_ = placement_state::fixed;
  }

  /// @throws argument_error unless exactly one micro-batch uses the layer, the first one of the
  ///         iteration
  void require_calibratable() const {
    require(users_.size() == 1 && placement_ == placement_state::chosen, "materializer: layer ",
            layer_, " is calibrated while ", users_.size(),
            " micro-batches use it; expected one, the first of the iteration");
  }
  void calibrate() { placement_ = placement_state::fixed; }

  void collect() {
    gradients_ = gradient_state::collecting;
    placement_ = placement_state::fixed;
  }
  void begin_reduction() {
    gradients_ = gradient_state::reducing;
    placement_ = placement_state::fixed;
    has_gradients_ = true;
  }
  void end_reduction() { gradients_ = gradient_state::reduced; }

  /// @throws argument_error if the layer has no placement in this iteration yet
  void require_placement() const {
    require(placement_ != placement_state::open, "materializer: layer ", layer_,
            " has no placement yet; expected prefetch or acquire before");
  }
  /// @throws argument_error unless a micro-batch has acquired the layer
  void require_acquired() const {
    require(in_use(), "materializer: layer ", layer_,
            " is not acquired; expected acquire before its experts are used");
  }
  /// @throws argument_error if partial gradients in the pool wait for their reduction
  void require_no_partials() const {
    require(gradients_ != gradient_state::collecting, "materializer: layer ", layer_,
            " has partial gradients in the pool; expected reduce(layer) for them before");
  }
  /// @throws argument_error if a micro-batch has not released the layer, or partials are not
  ///         reduced
  void require_closed() const {
    require(users_.empty(), "materializer: step while ", users_.size(), " micro-batches use layer ",
            layer_, "; expected release before");
    require_no_partials();
  }
  /// @pre require_closed accepts it, no reduction is under way, and the replicas have been dropped
  void end_iteration() {
    placement_ = placement_state::open;
    gradients_ = gradient_state::none;
    has_gradients_ = false;
  }

 private:
  layer_id layer_;
  placement_state placement_ = placement_state::open;
  replica_state replicas_ = replica_state::sharded;
  gradient_state gradients_ = gradient_state::none;
  bool has_gradients_ = false;
  std::vector<int> users_;  // micro-batches
};

}  // namespace detail
}  // namespace fssdp
