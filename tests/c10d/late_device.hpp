// SPDX-License-Identifier: Apache-2.0
/// A device of torch's whose streams are threads of the host, to see what waits for what.
#pragma once

#include "fssdp/memory/torch_tensor.hpp"  // ahead of torch's own headers

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <utility>

#include "fssdp/stream/host_stream.hpp"

namespace c10d_tests {

/// Torch knows it by its guard alone: it has streams and events, and no operators.
class late_device : public c10::impl::DeviceGuardImplInterface {
 public:
  static constexpr auto kind = c10::DeviceType::PrivateUse1;
  static c10::Device device() { return {kind, 0}; }

  /// Has the stream that is current in this thread do some work.
  template <class Work>
  static void enqueue(Work work) {
    streams()[current()].enqueue(std::move(work));
  }
  static void synchronize() { streams()[current()].synchronize(); }
  /// Whether events are lost: nothing waits for them.
  static inline std::atomic<bool> loses_events = false;
  /// The stream that memory was last kept for, and the memory.
  static inline std::pair<std::int64_t, void const*> kept = {};

  c10::DeviceType type() const override { return kind; }
  c10::Device exchangeDevice(c10::Device) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(current()); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    static auto given = std::atomic<std::size_t>{0};
    return stream(1 + given++ % (most_streams - 1));
  }
  c10::Stream exchangeStream(c10::Stream to) const noexcept override {
    return stream(std::exchange(current(), static_cast<std::size_t>(to.id())));
  }

  void record(void** event, c10::Stream const& on, c10::DeviceIndex,
              c10::EventFlag) const override {
    auto passed = std::make_shared<std::promise<void>>();
    if (*event == nullptr) *event = new place;
    *static_cast<place*>(*event) = passed->get_future().share();
    thread_of(on).enqueue([passed] { passed->set_value(); });
  }
  void block(void* event, c10::Stream const& on) const override {
    if (loses_events) return;
    thread_of(on).enqueue([until = *static_cast<place*>(event)] { until.wait(); });
  }
  bool queryEvent(void* event) const override {
    return static_cast<place*>(event)->wait_for(std::chrono::seconds{0}) ==
           std::future_status::ready;
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<place*>(event);
  }
  void recordDataPtrOnStream(c10::DataPtr const& memory, c10::Stream const& on) const override {
    kept = {on.id(), memory.get()};
  }

 private:
  using place = std::shared_future<void>;
  static constexpr std::size_t most_streams = 8;  // one, and a pool

  static std::array<fssdp::host_stream, most_streams>& streams() {
    static auto all = std::array<fssdp::host_stream, most_streams>{};
    return all;
  }
  static std::size_t& current() {
    thread_local auto id = std::size_t{0};
    return id;
  }
  static c10::Stream stream(std::size_t id) {
    return c10::Stream{c10::Stream::UNSAFE, device(), static_cast<c10::StreamId>(id)};
  }
  static fssdp::host_stream& thread_of(c10::Stream const& of) {
    return streams()[static_cast<std::size_t>(of.id())];
  }
};

}  // namespace c10d_tests
