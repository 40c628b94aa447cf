// SPDX-License-Identifier: Apache-2.0
/// Results that are the same on all emulated devices are computed once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "emulation.hpp"

namespace step {

/// Real devices have hosts of their own; emulated ones share one, which cannot do the work of all.
/// So the first that asks works it out, and all are told how long that took on one core, to spend
/// that time as well. Any number of threads may ask at once.
template <class Key, class Value>
class shared_answers {
 public:
  struct answer {
    Value value;
    double seconds = 0;  ///< of a processor
  };

  /// @param capacity how many answers are kept: those that are youngest
  explicit shared_answers(std::size_t capacity) : capacity_{capacity} {}

  /// @param make() is called by the first that asks; if it throws, by the next one
  template <class Make>
  [[nodiscard]] answer operator()(Key const& key, Make make) {
    auto lock = std::unique_lock{mutex_};
    for (;;) {
      auto const at = find(key);
      if (at == entries_.end()) break;
      if (at->made.has_value()) return *at->made;
      changed_.wait(lock);
    }
    entries_.push_front({key, {}});
    auto const mine = entries_.begin();
    lock.unlock();
    try {
      auto const begin = thread_seconds();
      auto value = make();
      auto const seconds = thread_seconds() - begin;
      lock.lock();
      mine->made = answer{std::move(value), seconds};
      changed_.notify_all();
      auto result = *mine->made;
      while (entries_.size() > capacity_ && entries_.back().made.has_value()) entries_.pop_back();
      return result;
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      entries_.erase(mine);
      changed_.notify_all();
      throw;
    }
  }

 private:
  struct entry {
    Key key;
    std::optional<answer> made;
  };

  [[nodiscard]] auto find(Key const& key) {
    auto at = entries_.begin();
    while (at != entries_.end() && !(at->key == key)) ++at;
    return at;
  }

  std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<entry> entries_;  // the youngest first
};

}  // namespace step
