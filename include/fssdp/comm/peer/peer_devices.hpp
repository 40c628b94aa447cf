// SPDX-License-Identifier: Apache-2.0
/// The devices of one process; each can read the memory of all others.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// Changes the current device of this thread, and restores it when it is destroyed.
class same_device_after {
 public:
  same_device_after() {
    cuda_require(cudaGetDevice(&before_), {}, "cudaGetDevice");
    now_ = before_;
  }
  same_device_after(same_device_after const&) = delete;
  same_device_after& operator=(same_device_after const&) = delete;
  ~same_device_after() {
    if (now_ != before_) (void)cudaSetDevice(before_);
  }
  /// @cost a call if it is another one
  void use(int device, rank_id me = {}) {
    if (device == now_) return;
    cuda_require(cudaSetDevice(device), me, "cudaSetDevice");
    now_ = device;
  }

 private:
  int before_ = 0;
  int now_ = 0;
};

/// The device of each rank; ranks may share devices. Each device has a memory pool that all others
/// can read.
class peer_devices {
 public:
  /// @param wanted  the number of devices; 0: all
  /// @throws argument_error if there are not as many; transport_error if two of them cannot read
  ///         each other's memory
  explicit peer_devices(int wanted) : count_{checked(wanted)} {
    auto current = same_device_after{};
    for (int device = 0; device < count_; ++device) {
      current.use(device);
      for (int other = 0; other < count_; ++other)
        if (other != device) connect(device, other);
      pools_.push_back(make_pool(device));
    }
    for (int device = 0; device < count_; ++device) open_pool(device);
  }

  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] int device_of(rank_id rank) const { return rank.value() % count_; }
  [[nodiscard]] cudaMemPool_t pool_of(rank_id rank) const {
    return pools_[static_cast<std::size_t>(device_of(rank))].get();
  }
  /// Makes a rank's device the current one of this thread.
  void use(rank_id rank) const {
    cuda_require(cudaSetDevice(device_of(rank)), rank, "cudaSetDevice");
  }

 private:
  struct close_pool {
    void operator()(cudaMemPool_t pool) const { cudaMemPoolDestroy(pool); }
  };
  using memory_pool = std::unique_ptr<std::remove_pointer_t<cudaMemPool_t>, close_pool>;

  static int checked(int wanted) {
    auto there = 0;
    cuda_require(cudaGetDeviceCount(&there), {}, "cudaGetDeviceCount");
    require(wanted >= 0 && wanted <= there, "peer_world: ", wanted, " devices; expected 0 to ",
            there);
    return wanted == 0 ? there : wanted;
  }

  /// Allows the current device to read the memory of another one.
  static void connect(int device, int other) {
    auto can = 0;
    cuda_require(cudaDeviceCanAccessPeer(&can, device, other), {}, "cudaDeviceCanAccessPeer");
    if (can == 0)
      throw transport_error{{},
                            text("device ", device, " cannot read the memory of device ", other)};
    auto const code = cudaDeviceEnablePeerAccess(other, 0);
    if (code == cudaErrorPeerAccessAlreadyEnabled)
      (void)cudaGetLastError();  // clears the error
    else
      cuda_require(code, {}, "cudaDeviceEnablePeerAccess");
  }
  static memory_pool make_pool(int device) {
    auto properties = cudaMemPoolProps{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {.type = cudaMemLocationTypeDevice, .id = device};
    auto pool = cudaMemPool_t{};
    cuda_require_memory(cudaMemPoolCreate(&pool, &properties), {}, 0, "a pool",
                        "cudaMemPoolCreate");
    auto owned = memory_pool{pool};
    auto keeps = std::numeric_limits<std::uint64_t>::max();  // freed memory is kept for reuse
    cuda_require(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keeps), {},
                 "cudaMemPoolSetAttribute");
    return owned;
  }
  /// Allows all other devices to read memory of the pool of a device.
  void open_pool(int device) const {
    auto access = std::vector<cudaMemAccessDesc>{};
    for (int other = 0; other < count_; ++other)
      if (other != device)
        access.push_back({.location = {.type = cudaMemLocationTypeDevice, .id = other},
                          .flags = cudaMemAccessFlagsProtReadWrite});
    if (access.empty()) return;
    cuda_require(cudaMemPoolSetAccess(pools_[static_cast<std::size_t>(device)].get(), access.data(),
                                      access.size()),
                 {}, "cudaMemPoolSetAccess");
  }

  int count_;
  std::vector<memory_pool> pools_;  // [devices]
};

}  // namespace fssdp::detail
