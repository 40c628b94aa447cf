// SPDX-License-Identifier: Apache-2.0
/// Tells NCCL about the memory that it will send from and receive into, so that it need not copy.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <span>
#include <utility>

#include "fssdp/comm/nccl_call.hpp"
#include "fssdp/comm/nccl_communicator.hpp"

namespace fssdp {

/// Memory that is registered with a communicator as long as this lives. Register an arena once,
/// and cut shards, replicas and scratch from it; memory of cudaMallocAsync cannot be registered.
///
/// Where NCCL is older than 2.19 it does nothing. Moves, does not copy.
class nccl_registration {
 public:
  /// @pre communicator and memory outlive it
  /// @throws transport_error
  nccl_registration(nccl_ref& comm, std::span<std::byte> memory)
      : comm_{&comm}, registered_with_{comm.handle()} {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
    detail::nccl_require(
        ncclCommRegister(registered_with_, memory.data(), memory.size(), &registration_),
        comm.rank(), "ncclCommRegister");
#endif
  }
  nccl_registration(nccl_registration&& other) noexcept
      : comm_{other.comm_},
        registered_with_{other.registered_with_},
        registration_{std::exchange(other.registration_, nullptr)} {}
  nccl_registration& operator=(nccl_registration&&) = delete;
  ~nccl_registration() {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
    if (registration_ != nullptr &&
        comm_->handle() == registered_with_)  // neither aborted, nor closed
      ncclCommDeregister(registered_with_, registration_);
#endif
  }

  /// Whether NCCL has taken it. It may have reasons not to.
  [[nodiscard]] bool is_registered() const { return registration_ != nullptr; }

 private:
  nccl_ref* comm_;
  ncclComm_t registered_with_;
  void* registration_ = nullptr;
};

}  // namespace fssdp
