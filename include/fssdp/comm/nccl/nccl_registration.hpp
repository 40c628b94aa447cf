// SPDX-License-Identifier: Apache-2.0
/// Registers memory with NCCL, so that it need not copy.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <span>
#include <utility>

#include "fssdp/comm/nccl/nccl_communicator.hpp"
#include "fssdp/comm/nccl/nccl_memory.hpp"

namespace fssdp {

/// Memory that is registered with a communicator during this object's lifetime. Register an arena
/// once, and use parts of it as shards, replicas and scratch; memory of cudaMallocAsync cannot be
/// registered. There is one constructor for each kind of memory. Move-only.
class nccl_registration {
 public:
  /// Registers any device memory, on this rank only.
  /// @pre communicator and memory outlive it
  /// @throws transport_error
  nccl_registration(nccl_ref& comm, std::span<std::byte> memory) : nccl_registration{comm} {
    register_alone(memory);
  }
  /// Registers memory of NCCL as a window that all ranks open, which allows more optimizations: for
  /// NCCL from 2.27 on, where the devices support it; otherwise as above. Collective: waits for the
  /// stream, and for all ranks.
  /// @pre every rank calls it with the same size, in the same order; the memory outlives it, and it
  ///      is destroyed before the communicator is closed
  /// @throws transport_error; deadline_exceeded if a rank does not come
  nccl_registration(nccl_ref& comm, nccl_memory const& memory) : nccl_registration{comm} {
    open_window(memory.bytes());
    if (!is_window()) register_alone(memory.bytes());
  }
  nccl_registration(nccl_registration&& other) noexcept
      : comm_{other.comm_},
        registered_with_{other.registered_with_},
        handle_{std::exchange(other.handle_, nullptr)},
        window_{std::exchange(other.window_, nullptr)} {}
  nccl_registration& operator=(nccl_registration&&) = delete;
  ~nccl_registration() {
    if (comm_->handle() != registered_with_) return;  // aborted or closed: this ended with it
    if (comm_->has_failed()) return;                  // whoever owns it aborts it, or already has
    if (handle_ != nullptr) ncclCommDeregister(registered_with_, handle_);
    close_window();
  }

  /// Whether NCCL has accepted the memory, which it need not.
  [[nodiscard]] bool is_registered() const { return handle_ != nullptr || is_window(); }
  /// Whether it is a window of all ranks.
  [[nodiscard]] bool is_window() const { return window_ != nullptr; }

 private:
  explicit nccl_registration(nccl_ref& comm) : comm_{&comm}, registered_with_{comm.handle()} {}

  void register_alone(std::span<std::byte> memory) {
    detail::nccl_require(ncclCommRegister(registered_with_, memory.data(), memory.size(), &handle_),
                         comm_->rank(), "ncclCommRegister");
  }
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  using window_handle = ncclWindow_t;

  void open_window(std::span<std::byte> memory) {
    comm_->synchronize();  // devices map one another's memory: no kernel may wait for a peer
    auto& context = *comm_->context();
    context.guarded([&] {
      context.settle(ncclCommWindowRegister(registered_with_, memory.data(), memory.size(),
                                            &window_, NCCL_WIN_COLL_SYMMETRIC),
                     "ncclCommWindowRegister");
    });
  }
  void close_window() {
    if (is_window()) ncclCommWindowDeregister(registered_with_, window_);
  }
#else
  using window_handle = void*;

  void open_window(std::span<std::byte>) {}
  void close_window() {}
#endif

  nccl_ref* comm_;
  ncclComm_t registered_with_;
  void* handle_ = nullptr;
  window_handle window_ = nullptr;
};

}  // namespace fssdp
