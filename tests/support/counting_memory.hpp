// SPDX-License-Identifier: Apache-2.0
/// Ordinary memory that is counted.
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <memory_resource>
#include <new>
#include <utility>

namespace support {

/// A resource that knows what is out, and may have too little.
class counting_memory : public std::pmr::memory_resource {
 public:
  explicit counting_memory(std::size_t most = std::numeric_limits<std::size_t>::max())
      : most_{most} {}

  /// How often memory has been given.
  [[nodiscard]] int allocations() const { return allocations_; }
  /// What has not come back.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// How often something has come back that is not out, or as something else than it was.
  [[nodiscard]] int wrong() const { return wrong_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (bytes > most_ - bytes_) throw std::bad_alloc{};
    auto* const memory = std::pmr::new_delete_resource()->allocate(bytes, alignment);
    out_[memory] = {bytes, alignment};
    bytes_ += bytes;
    ++allocations_;
    return memory;
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    auto const found = out_.find(memory);
    if (found == out_.end() || found->second != std::pair{bytes, alignment}) {
      ++wrong_;
      return;
    }
    out_.erase(found);
    bytes_ -= bytes;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
    return this == &other;
  }

  std::size_t most_;
  std::map<void*, std::pair<std::size_t, std::size_t>> out_;  // bytes, alignment
  std::size_t bytes_ = 0;
  int allocations_ = 0;
  int wrong_ = 0;
};

}  // namespace support
