// SPDX-License-Identifier: Apache-2.0
/// Binds a communicator between devices of torch's to the stream in which its caller computes.
#pragma once

#include "fssdp/memory/torch_tensor.hpp"  // ahead of torch's own headers

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/c10d/torch_event.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/memory/torch_view.hpp"

namespace fssdp {

/// A side_stream_communicator on a stream of torch's own pools: what is submitted to it runs behind
/// all that the caller has enqueued on torch's current stream until then; the caller's stream goes
/// on, and waits for the communicator only where `await` says so. The host waits for neither. On
/// the CPU, which has no streams, everything has run when a call returns.
///
/// The caller's stream is the one that is current in the call, whichever that is. Memory of torch's
/// allocator that the caller lets go before it has awaited what uses it has to be kept (`keep`).
/// @cost two events for each piece of work, and one to wait for
template <device_communicator Comm>
requires std::same_as<stream_type_of<Comm>, torch_current_stream>
class torch_side_stream {
 public:
  using stream_type = torch_current_stream;
  using memory_space = device_memory;

  /// @param device of the communicator, with its number
  /// @pre the communicator outlives it
  /// @throws what torch throws
  torch_side_stream(Comm& comm, c10::Device device)
      : comm_{&comm}, stream_{stream_for(device)}, is_enqueued_{device} {
    has_run_.reserve(most_events);
    while (has_run_.size() < most_events) has_run_.emplace_back(device);
  }

  [[nodiscard]] rank_id rank() const { return comm_->rank(); }
  [[nodiscard]] int size() const { return comm_->size(); }
  [[nodiscard]] c10::Device device() const { return stream_.device(); }
  /// The one that work runs on.
  [[nodiscard]] c10::Stream stream() const { return stream_; }

  template <class Post>
  void exchange(Post&& post) {
    submit([&post](Comm& comm) { comm.exchange(post); });
  }
  /// @throws what work throws, and torch
  template <class Work>
  void submit(Work work) {
    is_enqueued_.record(callers());
    is_enqueued_.block(stream_);
    prepare(std::move(work));
    has_run_[(position_ + 1) % most_events].record(stream_);
    ++position_;
  }
  template <class Work>
  void prepare(Work work) {
    auto const beside = c10::StreamGuard{stream_};
    work(*comm_);
  }
  void synchronize() {
    prepare([](Comm& comm) { fssdp::synchronize(comm); });
  }
  /// Of the host, and at once: it is not what `position` counts.
  void gather_values(std::span<std::byte const> mine,
                     std::span<std::byte> all) requires gathering_communicator<Comm> {
    prepare([&](Comm& comm) { comm.gather_values(mine, all); });
  }

  [[nodiscard]] std::uint64_t position() const { return position_; }
  /// @pre the communicator has come to this position
  void await(std::uint64_t position) {
    if (position != 0) has_run_[position % most_events].block(callers());
  }
  /// Whether the device has come to a position, as far as it is known: after more than 31 later
  /// ones, whether it has come to one of these.
  /// @pre likewise
  [[nodiscard]] bool has_run(std::uint64_t position) const {
    return position == 0 || has_run_[position % most_events].is_over();
  }
  void clear(std::span<std::byte> memory) {
    if (memory.empty()) return;
    (void)detail::torch_view(memory.data(), memory.size(), c10::kByte, device()).zero_();
  }

  /// When a tensor is let go, torch's allocator gives its memory to nobody before all that has been
  /// submitted by then has run.
  void keep(at::Tensor const& tensor) const {
    guard().recordDataPtrOnStream(tensor.storage().data_ptr(), stream_);
  }

 private:
  static constexpr std::size_t most_events = 32;

  [[nodiscard]] static c10::Stream stream_for(c10::Device device) {
    auto const of = c10::impl::VirtualGuardImpl{device.type()};
    constexpr auto is_urgent = true;  // its kernels are short, and others wait for them
    return device.is_cpu() ? of.getStream(device) : of.getStreamFromGlobalPool(device, is_urgent);
  }
  [[nodiscard]] c10::impl::VirtualGuardImpl guard() const {
    return c10::impl::VirtualGuardImpl{stream_.device_type()};
  }
  [[nodiscard]] c10::Stream callers() const { return detail::torch_stream_of(device()); }

  Comm* comm_;
  c10::Stream stream_;
  detail::torch_event is_enqueued_;
  std::vector<detail::torch_event> has_run_;  // of the last positions: later ones stand for older
  std::uint64_t position_ = 0;
};

/// `comm` as a communicator beside torch's current stream: for a materializer over devices.
///
///     auto transfers = fssdp::c10d_device_communicator{group, device};
///     auto comm = fssdp::on_side_stream(transfers, device);
///     auto pools = fssdp::torch_memory{device};
///     auto layers = fssdp::materializer{
///         comm, {layouts, sizes, weights, gradients}, {.placement = solve},
///         {.replica_slots = 6, .partial_slots = 9, .memory = &pools}};
///     layers.acquire(l);  // what is enqueued from here on finds the experts there
///
/// @cost a stream of torch's pool and 33 events; nothing is sent
/// @throws what torch throws
template <device_communicator Comm>
requires std::same_as<stream_type_of<Comm>, torch_current_stream>
[[nodiscard]] torch_side_stream<Comm> on_side_stream(Comm& comm, c10::Device device) {
  return {comm, device};
}

}  // namespace fssdp
