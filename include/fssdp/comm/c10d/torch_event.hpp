// SPDX-License-Identifier: Apache-2.0
/// Streams and events of torch, whatever the device: without a header of CUDA's, or its libraries.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

namespace fssdp {

/// Torch's stream: what is enqueued on the one that is current runs in order.
struct torch_current_stream {};

namespace detail {

/// The stream of a device that is current in this thread.
[[nodiscard]] inline c10::Stream torch_stream_of(c10::Device device) {
  return c10::impl::VirtualGuardImpl{device.type()}.getStream(device);
}

/// A place in a stream of a device. On the CPU, which has no streams, it is passed at once.
/// @throws what torch throws
class torch_event {
 public:
  explicit torch_event(c10::Device device) {
    if (!device.is_cpu()) event_.emplace(device.type());
  }

  /// The place is behind all that is on the stream now.
  void record(c10::Stream const& stream) {
    if (event_.has_value()) event_->record(stream);
  }
  /// What is enqueued on the stream from here on waits for it; the host does not.
  void block(c10::Stream const& stream) const {
    if (event_.has_value()) event_->block(stream);
  }
  /// Whether the device has come there; also if it has not been recorded.
  [[nodiscard]] bool is_over() const { return !event_.has_value() || event_->query(); }

 private:
  std::optional<c10::Event> event_;
};

}  // namespace detail
}  // namespace fssdp
