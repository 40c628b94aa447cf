// SPDX-License-Identifier: Apache-2.0
/// An event that is reached when work on a stream has run.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

namespace fssdp {

/// Waits for one piece of work in a queue. Can be reused.
///
/// The work holds a mark and reaches it. If the stream has failed and drops the work, the mark is
/// destroyed, which ends the wait as well.
class stream_event {
 public:
  /// The object that the work holds. Move-only.
  class mark {
   public:
    explicit mark(stream_event& event) : event_{&event} {}
    mark(mark&& other) noexcept : event_{std::exchange(other.event_, nullptr)} {}
    mark& operator=(mark&&) = delete;
    ~mark() {
      if (event_ != nullptr) event_->end(state::dropped);
    }
    /// To be called when the work has run.
    void reach() { std::exchange(event_, nullptr)->end(state::reached); }

   private:
    stream_event* event_;
  };

  stream_event() = default;
  stream_event(stream_event const&) = delete;
  stream_event& operator=(stream_event const&) = delete;

  /// A mark for work that is about to be enqueued.
  /// @pre the last one has been reached or dropped; the event outlives it
  [[nodiscard]] mark next() {
    auto const lock = std::scoped_lock{mutex_};
    now_ = state::awaited;
    return mark{*this};
  }
  /// Waits for the mark; returns at once if there has been none.
  /// @return false if it was dropped: synchronize the stream to get the error
  [[nodiscard]] bool wait() {
    auto lock = std::unique_lock{mutex_};
    changed_.wait(lock, [this] { return now_ != state::awaited; });
    return now_ == state::reached;
  }
  /// Whether there is nothing to wait for.
  [[nodiscard]] bool is_over() const {
    auto const lock = std::scoped_lock{mutex_};
    return now_ != state::awaited;
  }

 private:
  enum class state { awaited, reached, dropped };

  void end(state how) {
    auto const lock = std::scoped_lock{mutex_};
    now_ = how;
    changed_.notify_all();  // under the lock, as a waiting thread may destroy the event
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  state now_ = state::reached;
};

}  // namespace fssdp
