// SPDX-License-Identifier: Apache-2.0
/// A device_staging without a device: it copies as late as it may.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "fssdp/memory/device_staging.hpp"

namespace support {

/// Copies are made when a wait for a later one begins, all in order: code that reads a
/// buffer before, or fills it too early, has wrong bytes.
class late_staging final : public fssdp::device_staging {
 public:
  explicit late_staging(std::size_t bytes) : bytes_{bytes}, memory_(2 * bytes) {}
  ~late_staging() override {
    await(0);
    await(1);
  }

  [[nodiscard]] std::span<std::byte> buffer(int which) override {
    return std::span{memory_}.subspan(static_cast<std::size_t>(which) * bytes_, bytes_);
  }
  void begin_read(int which, std::size_t first, std::span<std::byte const> from) override {
    auto const to = buffer(which).subspan(first, from.size());
    std::ranges::fill(to, std::byte{0xe7});
    begin({which, to.data(), from.data(), from.size()});
  }
  void begin_write(int which, std::size_t first, std::span<std::byte> to) override {
    auto const from = buffer(which).subspan(first, to.size());
    begin({which, to.data(), from.data(), to.size()});
  }
  void await(int which) override {
    auto behind = begun_.end();
    for (auto it = begun_.begin(); it != begun_.end(); ++it)
      if (it->which == which) behind = it + 1;
    if (behind == begun_.end() && (begun_.empty() || begun_.back().which != which)) return;
    for (auto it = begun_.begin(); it != behind; ++it) std::memcpy(it->to, it->from, it->bytes);
    begun_.erase(begun_.begin(), behind);
  }

  /// How many copies have been begun.
  [[nodiscard]] std::size_t copies() const { return copies_; }
  /// The most bytes that were under way at once.
  [[nodiscard]] std::size_t most_under_way() const { return most_; }
  /// From now on the n-th copy fails.
  void fail_at(std::size_t n) { fails_at_ = copies_ + n; }

 private:
  struct copy {
    int which;
    std::byte* to;
    std::byte const* from;
    std::size_t bytes;
  };
  void begin(copy const& of) {
    if (++copies_ == fails_at_) throw std::runtime_error{"the device is gone"};
    begun_.push_back(of);
    auto sum = std::size_t{0};
    for (auto const& each : begun_) sum += each.bytes;
    most_ = std::max(most_, sum);
  }

  std::size_t bytes_;
  std::vector<std::byte> memory_;
  std::vector<copy> begun_;
  std::size_t copies_ = 0;
  std::size_t most_ = 0;
  std::size_t fails_at_ = 0;
};

}  // namespace support
