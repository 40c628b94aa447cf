// SPDX-License-Identifier: Apache-2.0
/// Messages that go one behind the other, though they get ready in another order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace fssdp::detail {

/// Keeps the order of a plan where a rank has much to send at once: what is ready early would else
/// keep a port busy that another message needs, which others wait for.
class send_order {
 public:
  /// @param ready memory for as many flags as there are messages
  explicit send_order(std::span<std::uint8_t> ready) : ready_{ready} {
    std::ranges::fill(ready_, std::uint8_t{0});
  }

  void set_ready(std::size_t message) { ready_[message] = 1; }
  /// Calls go(message) for what may go now: all that is ready and has nothing before it that is
  /// not.
  template <class Go>
  void advance(Go go) {
    while (next_ < ready_.size() && ready_[next_] != 0) go(next_++);
  }

 private:
  std::span<std::uint8_t> ready_;
  std::size_t next_ = 0;
};

}  // namespace fssdp::detail
