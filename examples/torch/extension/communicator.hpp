// SPDX-License-Identifier: Apache-2.0
/// The class Communicator of Python: collectives over a process group, at once or one after the
/// other in a thread of their own.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/memory/torch_tensors.hpp"
#include "fssdp/stream/host_stream.hpp"
#include "fssdp/stream/stream_event.hpp"
#include "group_rank.hpp"

namespace python {

/// What is under way, and the memory that it needs.
struct pending {
  std::vector<at::Tensor> kept;
  fssdp::stream_event over;
};

/// A collective that is under way.
class work {
 public:
  using queue_type = fssdp::queued_communicator<fssdp::communicator_ref>;

  /// @pre the queue outlives it
  work(queue_type& in, std::shared_ptr<pending> what) : in_{in}, what_{std::move(what)} {}

  /// @throws what the work has thrown, or what was before it in the queue
  void wait() {
    if (!what_->over.wait()) in_.synchronize();
  }
  [[nodiscard]] bool is_completed() const { return what_->over.is_over(); }

 private:
  queue_type& in_;
  std::shared_ptr<pending> what_;
};

class communicator {
 public:
  using queue_type = work::queue_type;

  communicator(std::string const& group, double timeout)
      : group_{join_group(group, milliseconds(timeout))}, inner_{group_->communicator()} {}
  communicator(communicator const&) = delete;
  communicator& operator=(communicator const&) = delete;
  ~communicator() {
    auto const unlocked =
        nanobind::gil_scoped_release{};  // tensors that its thread lets go need it
    stream_.reset();
  }

  [[nodiscard]] group_rank& group() const { return *group_; }
  [[nodiscard]] fssdp::rank_id rank() const { return inner_.rank(); }
  [[nodiscard]] int size() const { return inner_.size(); }
  [[nodiscard]] fssdp::scratch_memory& scratch() { return scratch_; }

  /// What runs in a thread of its own: from the first call on, all does.
  [[nodiscard]] queue_type& queue() {
    if (!queue_.has_value()) queue_.emplace(inner_, stream_.emplace());
    return *queue_;
  }

  /// Runs call(communicator), or has it run.
  /// @param kept memory that it needs
  /// @return null if it has finished; else a handle, which this communicator must outlive
  template <class Call>
  std::unique_ptr<work> run(bool asynchronous, std::vector<at::Tensor> kept, Call call) {
    if (!asynchronous && !queue_.has_value()) {
      call(inner_);
      return {};
    }
    call(queue());
    auto what = std::make_shared<pending>();
    what->kept = std::move(kept);
    queue().submit(
        [what, mark = what->over.next()](fssdp::communicator_ref&) mutable { mark.reach(); });
    auto begun = std::make_unique<work>(queue(), std::move(what));
    if (asynchronous) return begun;
    begun->wait();
    return {};
  }

 private:
  static std::chrono::milliseconds milliseconds(double seconds) {
    fssdp::detail::require(seconds > 0 && seconds < 1e9, "Communicator: a timeout of ", seconds,
                           " s; expected more than 0 and less than 1e9");
    return std::chrono::milliseconds{static_cast<long long>(std::ceil(seconds * 1000))};
  }

  std::unique_ptr<group_rank> group_;
  fssdp::communicator_ref inner_;
  fssdp::scratch_memory scratch_;
  std::optional<fssdp::host_stream> stream_;
  std::optional<queue_type> queue_;
};

}  // namespace python
