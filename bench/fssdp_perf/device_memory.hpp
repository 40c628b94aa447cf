// SPDX-License-Identifier: Apache-2.0
/// What one rank gives to a collective and gets from it, in the memory of its device.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "fssdp/collective/memory_required.hpp"
#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "rank_memory.hpp"

namespace perf {

/// The buffers of a rank_memory once more, on a device. The host's are what they are filled from
/// and compared with.
template <class T>
class device_memory {
 public:
  using value_type = T;

  /// @pre the host's outlives it
  /// @throws fssdp::transport_error if the device has not so much
  device_memory(rank_memory<T>& host, int device)
      : host_{&host},
        device_{current(device)},
        stream_{fssdp::make_cuda_stream(host.rank())},
        from_{make_block(host.from().bytes())},
        to_{make_block(host.to().bytes())},
        from_tensor_(placed_at(from_, host.from())),
        to_tensor_(placed_at(to_, host.to())) {
    copy(from_.get(), host.from().tensors().front().data, host.from().bytes(),
         cudaMemcpyHostToDevice);
  }

  [[nodiscard]] fssdp::expert_tensor<T const> const& from() const { return from_tensor_; }
  [[nodiscard]] fssdp::expert_tensor<T> const& to() const { return to_tensor_; }
  [[nodiscard]] fssdp::scratch_memory& scratch() { return host_->scratch(); }
  [[nodiscard]] std::span<std::byte> device_scratch() const { return {scratch_.get(), reserved_}; }
  [[nodiscard]] fssdp::rank_id rank() const { return host_->rank(); }
  [[nodiscard]] fssdp::transfer_plan const& plan() const { return host_->plan(); }
  [[nodiscard]] collective which() const { return host_->which(); }
  [[nodiscard]] std::size_t elements() const { return host_->elements(); }
  [[nodiscard]] std::size_t elements(fssdp::expert_id expert) const {
    return host_->elements(expert);
  }
  [[nodiscard]] std::size_t most_elements() const { return host_->most_elements(); }
  [[nodiscard]] std::vector<fssdp::expert_id> wanted() const { return host_->wanted(); }
  [[nodiscard]] int device() const { return device_; }
  /// Memory of the same device for something on the way.
  [[nodiscard]] fssdp::detail::cuda_bytes make_block(std::size_t bytes) const {
    current(device_);
    return fssdp::detail::allocate_on_device(rank(), bytes, "a block on the way");
  }

  /// An expert in `from` or in `to`.
  /// @pre it is there
  [[nodiscard]] std::span<T const> given(fssdp::expert_id expert) const {
    auto const at_host = host_->given(expert);
    return {from().data + (at_host.data() - host_->from().tensors().front().data), at_host.size()};
  }
  [[nodiscard]] std::span<T> taken(fssdp::expert_id expert) const {
    auto const at_host = host_->taken(expert);
    return {to().data + (at_host.data() - host_->to().tensors().front().data), at_host.size()};
  }

  /// Makes room for what a plan of the same placement relays.
  void reserve_scratch(fssdp::transfer_plan const& plan) {
    auto const use = fssdp::memory_required<T>(plan, rank(), elements());
    auto const needed = which() == collective::ag ? use.gather_scratch : use.reduce_scratch;
    if (needed <= reserved_) return;
    scratch_ = make_block(needed);
    reserved_ = needed;
  }

  void spoil() {
    host_->spoil();
    copy(to_.get(), host_->to().tensors().front().data, host_->to().bytes(),
         cudaMemcpyHostToDevice);
  }
  /// @pre the rank's communicator has been synchronized
  [[nodiscard]] std::size_t wrong() {
    copy(host_->to().tensors().front().data, to_.get(), host_->to().bytes(),
         cudaMemcpyDeviceToHost);
    return host_->wrong();
  }

 private:
  static int current(int device) {
    fssdp::detail::cuda_require(cudaSetDevice(device), {}, "cudaSetDevice");
    return device;
  }
  template <class Buffer>
  [[nodiscard]] static fssdp::expert_tensor<T> placed_at(fssdp::detail::cuda_bytes const& memory,
                                                         Buffer const& host) {
    auto const& shape = host.tensors().front();
    return {.data = reinterpret_cast<T*>(memory.get()),
            .slots = shape.slots,
            .elements = shape.elements,
            .stride = shape.stride,
            .offsets = shape.offsets};
  }
  void copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) const {
    if (bytes == 0) return;
    fssdp::detail::cuda_require(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()), rank(),
                                "cudaMemcpyAsync");
    fssdp::detail::cuda_require(cudaStreamSynchronize(stream_.get()), rank(),
                                "cudaStreamSynchronize");
  }

  rank_memory<T>* host_;
  int device_;
  fssdp::cuda_stream stream_;  // its own stream: copies do not wait for other ranks
  fssdp::detail::cuda_bytes from_;
  fssdp::detail::cuda_bytes to_;
  fssdp::expert_tensor<T const> from_tensor_;
  fssdp::expert_tensor<T> to_tensor_;
  fssdp::detail::cuda_bytes scratch_ = {};
  std::size_t reserved_ = 0;
};

/// @param of [rank]; outlives it
/// @param device_of tells the device of a rank
template <class T, class DeviceOf>
[[nodiscard]] std::deque<device_memory<T>> on_devices(std::deque<rank_memory<T>>& of,
                                                      DeviceOf device_of) {
  auto memory = std::deque<device_memory<T>>{};
  for (auto& host : of) memory.emplace_back(host, device_of(host.rank()));
  return memory;
}

}  // namespace perf
