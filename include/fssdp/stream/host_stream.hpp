// SPDX-License-Identifier: Apache-2.0
/// A stream on the host: an in-order queue with its own thread.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>

#include "fssdp/core/error.hpp"

namespace fssdp {

namespace detail {

/// A move-only callable of bounded size that never allocates.
class stream_task {
 public:
  static constexpr std::size_t capacity = 1536;  // a coded reduction of six tensors

  stream_task() = default;
  stream_task(stream_task const&) = delete;
  stream_task& operator=(stream_task const&) = delete;
  ~stream_task() { reset(); }

  template <class Work>
  void emplace(Work work) {
    static_assert(sizeof(Work) <= capacity, "what this work captures does not fit; capture less");
    static_assert(std::is_nothrow_move_constructible_v<Work>);
    reset();
    new (memory_.data()) Work(std::move(work));
    run_ = [](void* self) { (*static_cast<Work*>(self))(); };
    destroy_ = [](void* self) noexcept { static_cast<Work*>(self)->~Work(); };
  }
  void operator()() { run_(memory_.data()); }
  void reset() {
    if (destroy_ != nullptr) destroy_(memory_.data());
    destroy_ = nullptr;
  }

 private:
  alignas(std::max_align_t) std::array<std::byte, capacity> memory_;
  void (*run_)(void*) = nullptr;
  void (*destroy_)(void*) noexcept = nullptr;
};

}  // namespace detail

/// Runs work in order in a thread of its own.
/// Runs work in order on its own thread.
///
/// The first exception poisons the stream: later work is dropped, every `synchronize` throws that
/// exception again, and `enqueue` throws poisoned_stream. What the work uses must live until
/// `synchronize` has returned. The destructor drops work that has not begun, and waits for the
/// rest.
/// @cost no allocation after construction; `enqueue` waits while the queue is full (64 entries)
class host_stream {
 public:
  host_stream() : thread_{[this] { serve(); }} {}
  host_stream(host_stream const&) = delete;
  host_stream& operator=(host_stream const&) = delete;
  ~host_stream() {
    {
      auto const lock = std::scoped_lock{mutex_};
      closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// Appends work to the queue.
  /// @throws poisoned_stream if earlier work has failed.
  template <class Work>
  void enqueue(Work work) {
    auto lock = std::unique_lock{mutex_};
    changed_.wait(lock, [this] { return last_ - first_ < queue_.size() || failure_; });
    if (failure_)
      throw poisoned_stream{"enqueue: earlier work on this host_stream has failed: " +
                            detail::what(failure_)};
    queue_[last_ % queue_.size()].emplace(std::move(work));
    ++last_;
    lock.unlock();
    changed_.notify_all();
  }

  /// Waits until all work has run.
  /// @throws the exception of the first work that has failed
  void synchronize() {
    auto lock = std::unique_lock{mutex_};
    changed_.wait(lock, [this] { return first_ == last_; });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void serve() {
    auto lock = std::unique_lock{mutex_};
    for (;;) {
      changed_.wait(lock, [this] { return closing_ || first_ != last_; });
      if (closing_) return;
      auto& task = queue_[first_ % queue_.size()];
      if (!failure_) {
        lock.unlock();
        auto failure = std::exception_ptr{};
        try {
          task();
        } catch (...) {
          failure = std::current_exception();
        }
        lock.lock();
        failure_ = failure;
      }
      task.reset();
      ++first_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<detail::stream_task, 64> queue_;
  std::size_t first_ = 0;
  std::size_t last_ = 0;
  std::exception_ptr failure_;
  bool closing_ = false;
  std::thread thread_;  // last, as it uses all other members
};

}  // namespace fssdp
