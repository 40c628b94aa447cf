// SPDX-License-Identifier: Apache-2.0
/// The class Communicator of Python: collectives over a process group, at once or beside the
/// caller, one after the other: in a thread of their own, or on a stream of a device.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "device_rank.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/stream/host_stream.hpp"
#include "fssdp/stream/stream_event.hpp"
#include "group_rank.hpp"

namespace python {

/// A collective that is under way.
class work {
 public:
  work() = default;
  work(work const&) = delete;
  work& operator=(work const&) = delete;
  virtual ~work() = default;

  /// Waits: on a device its current stream does, not the host.
  /// @throws what the work has thrown, or what was before it
  virtual void wait() = 0;
  [[nodiscard]] virtual bool is_completed() const = 0;
};

/// In a thread of its own.
class queued_work final : public work {
 public:
  using queue_type = fssdp::queued_communicator<fssdp::communicator_ref>;

  /// What is under way, and the memory that it needs.
  struct state {
    std::vector<at::Tensor> kept;
    fssdp::stream_event over;
  };

  /// @pre the queue outlives it
  queued_work(queue_type& in, std::shared_ptr<state> what) : in_{in}, what_{std::move(what)} {}

  void wait() override {
    if (!what_->over.wait()) in_.synchronize();
  }
  bool is_completed() const override { return what_->over.is_over(); }

 private:
  queue_type& in_;
  std::shared_ptr<state> what_;
};

/// On a stream of a device.
class enqueued_work final : public work {
 public:
  /// @pre what is submitted last to the stream, which outlives it
  explicit enqueued_work(rank_beside::stream_type& in) : in_{in}, position_{in.position()} {}

  void wait() override { in_.await(position_); }
  bool is_completed() const override { return in_.has_run(position_); }

 private:
  rank_beside::stream_type& in_;
  std::uint64_t position_;
};

class communicator {
 public:
  using queue_type = queued_work::queue_type;

  explicit communicator(group_member const& as)
      : group_{join_group(as)}, inner_{group_->communicator()} {
    if (!inner_.in_host_memory()) beside_.emplace(*group_, device());
  }
  communicator(communicator const&) = delete;
  communicator& operator=(communicator const&) = delete;
  ~communicator() {
    auto const unlocked =
        nanobind::gil_scoped_release{};  // its thread takes the GIL to free tensors
    stream_.reset();
  }

  [[nodiscard]] group_rank& group() const { return *group_; }
  [[nodiscard]] c10::Device device() const { return group_->device(); }
  [[nodiscard]] fssdp::rank_id rank() const { return inner_.rank(); }
  [[nodiscard]] int size() const { return inner_.size(); }
  [[nodiscard]] fssdp::scratch_memory& scratch() { return scratch_; }

  /// Calls visit(queue) with what runs beside the caller: in a thread of its own, from the first
  /// call on all of it; on a device, on a stream.
  template <class Visit>
  decltype(auto) with_queue(Visit visit) {
    return beside_.has_value() ? visit(beside_->stream()) : visit(queue());
  }

  /// Runs call(communicator), or has it run. On a device, all of it is enqueued: on the current
  /// stream, or on that beside it.
  /// @param kept memory that it needs
  /// @return null if it has finished, or what is enqueued next finds it so; else a handle, which
  ///         this communicator must outlive
  template <class Call>
  std::unique_ptr<work> run(bool asynchronous, std::vector<at::Tensor> kept, Call call) {
    if (!asynchronous && !queue_.has_value()) {
      call(inner_);
      return {};
    }
    if (beside_.has_value()) return enqueue(kept, call);
    call(queue());
    auto what = std::make_shared<queued_work::state>();
    what->kept = std::move(kept);
    queue().submit(
        [what, mark = what->over.next()](fssdp::communicator_ref&) mutable { mark.reach(); });
    auto begun = std::make_unique<queued_work>(queue(), std::move(what));
    if (asynchronous) return begun;
    begun->wait();
    return {};
  }

 private:
  [[nodiscard]] queue_type& queue() {
    if (!queue_.has_value()) queue_.emplace(inner_, stream_.emplace());
    return *queue_;
  }
  template <class Call>
  std::unique_ptr<work> enqueue(std::vector<at::Tensor> const& kept, Call call) {
    auto& stream = beside_->stream();
    stream.submit([&](fssdp::communicator_ref& comm) { call(comm); });
    for (auto const& tensor : kept) stream.keep(tensor);
    return std::make_unique<enqueued_work>(stream);
  }

  std::unique_ptr<group_rank> group_;
  fssdp::communicator_ref inner_;
  fssdp::scratch_memory scratch_;
  std::optional<rank_beside> beside_;         // on a device
  std::optional<fssdp::host_stream> stream_;  // of the host
  std::optional<queue_type> queue_;
};

}  // namespace python
