// SPDX-License-Identifier: Apache-2.0
/// Reads and writes memory block by block; device memory through a device_staging.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/core/error.hpp"
#include "fssdp/memory/aligned_memory.hpp"
#include "fssdp/memory/device_staging.hpp"

namespace fssdp::detail {

/// A block of bytes; `by` is null if it is in host memory.
struct source_block {
  std::span<std::byte const> bytes;
  device_staging* by;
};

/// Waits for all copies of both buffers, after which the memory that they use may be freed.
inline void settle(device_staging& by) noexcept {
  for (auto const which : {0, 1}) try {
      by.await(which);
    } catch (...) {  // an earlier error is the one to report
    }
}

/// Makes blocks of device memory readable by the host; the next ones are copied while it reads
/// some.
class staged_blocks {
 public:
  /// @throws argument_error if a block is larger than a buffer
  staged_blocks(device_staging& by, std::span<source_block const> blocks)
      : by_{by}, blocks_{blocks} {
    for (auto const& block : blocks)
      require(block.bytes.size() <= by.buffer(0).size(), "device_staging: buffers of ",
              by.buffer(0).size(), " bytes; expected ", block.bytes.size(), " or more");
  }
  staged_blocks(staged_blocks const&) = delete;
  staged_blocks& operator=(staged_blocks const&) = delete;
  ~staged_blocks() { settle(by_); }

  /// Calls use(bytes) for each block, in order. The bytes are valid until release() is called.
  template <class Use, class Release>
  void for_each(Use use, Release release) {
    auto first = std::size_t{0};
    auto end = begin_copies(0, first);
    for (auto which = 0; first < blocks_.size(); which = 1 - which) {
      auto const next_end = begin_copies(1 - which, end);
      by_.await(which);
      for (auto at = std::size_t{0}; first < end; at += blocks_[first++].bytes.size())
        use(std::span<std::byte const>{by_.buffer(which)}.subspan(at, blocks_[first].bytes.size()));
      release();
      end = next_end;
    }
  }

 private:
  /// Fills a buffer with blocks, from the first on. Adjacent blocks are copied together.
  /// @returns the first block for which there is no room
  [[nodiscard]] std::size_t begin_copies(int which, std::size_t first) {
    auto const room = by_.buffer(which).size();
    auto run = std::span<std::byte const>{};
    auto begin = std::size_t{0};  // of the run of adjacent blocks, in the buffer
    auto const copy = [&] {
      if (!run.empty()) by_.begin_read(which, begin, run);
      begin += run.size();
    };
    for (; first < blocks_.size(); ++first) {
      auto const next = blocks_[first].bytes;
      if (begin + run.size() + next.size() > room) break;
      auto const follows = run.data() + run.size() == next.data();
      if (!follows) copy();
      run = follows ? std::span{run.data(), run.size() + next.size()} : next;
    }
    copy();
    return first;
  }

  device_staging& by_;
  std::span<source_block const> blocks_;
};

/// Calls use(bytes) for each block, in order, where the host can read it, and release() before
/// bytes are overwritten.
template <class Use, class Release>
void for_each_block(std::span<source_block const> blocks, Use use, Release release) {
  for (std::size_t first = 0, end = 0; first < blocks.size(); first = end) {
    auto* const by = blocks[first].by;
    while (end < blocks.size() && blocks[end].by == by) ++end;
    auto const alike = blocks.subspan(first, end - first);
    if (by != nullptr) {
      staged_blocks{*by, alike}.for_each(use, release);
    } else {
      for (auto const& block : alike) use(block.bytes);
    }
  }
}

/// Memory that the host fills part by part: device memory through the two buffers, one of which is
/// copied while the other one is filled.
class staged_target {
 public:
  /// @param by null for host memory
  explicit staged_target(device_staging* by) : by_{by} {}
  staged_target(staged_target const&) = delete;
  staged_target& operator=(staged_target const&) = delete;
  ~staged_target() {
    if (by_ != nullptr) settle(*by_);
  }

  /// How many bytes can be filled in one step; 0: no limit.
  [[nodiscard]] std::size_t most() const { return by_ == nullptr ? 0 : by_->buffer(0).size(); }
  /// Where the host writes a part of the memory; aligned for all element types if the memory is.
  [[nodiscard]] std::span<std::byte> room_for(std::span<std::byte> part) {
    if (by_ == nullptr) return part;
    if (used_ + part.size() > most()) {
      which_ = 1 - which_;
      by_->await(which_);
      used_ = 0;
    }
    return by_->buffer(which_).subspan(used_, part.size());
  }
  /// To be called when the host has written a part.
  void filled(std::span<std::byte> part) {
    if (by_ == nullptr) return;
    by_->begin_write(which_, used_, part);
    used_ += padded(part.size());
  }
  /// Returns when all of the memory is written.
  void finish() {
    if (by_ != nullptr) by_->await(0), by_->await(1);
    used_ = 0;
  }

 private:
  device_staging* by_;
  int which_ = 0;
  std::size_t used_ = 0;  // bytes of the buffer
};

}  // namespace fssdp::detail
