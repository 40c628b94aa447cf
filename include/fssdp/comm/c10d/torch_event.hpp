// SPDX-License-Identifier: Apache-2.0
/// Streams and events of torch for any device, without headers or libraries of CUDA.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

namespace fssdp {

/// The stream type of torch's current stream, on which work runs in order.
struct torch_current_stream {};

namespace detail {

/// The current stream of a device in this thread.
[[nodiscard]] inline c10::Stream torch_stream_of(c10::Device device) {
  return c10::impl::VirtualGuardImpl{device.type()}.getStream(device);
}

/// An event on a stream of a device. On the CPU, which has no streams, it is reached at once.
/// @throws exceptions of torch
class torch_event {
 public:
  explicit torch_event(c10::Device device) {
    if (!device.is_cpu()) event_.emplace(device.type());
  }

  /// Records the event after all work that is on the stream now.
  void record(c10::Stream const& stream) {
    if (event_.has_value()) event_->record(stream);
  }
  /// Makes later work on the stream wait for the event; the host does not wait.
  void block(c10::Stream const& stream) const {
    if (event_.has_value()) event_->block(stream);
  }
  /// Whether the event has been reached; also true if it was not recorded.
  [[nodiscard]] bool is_over() const { return !event_.has_value() || event_->query(); }

 private:
  std::optional<c10::Event> event_;
};

}  // namespace detail
}  // namespace fssdp
