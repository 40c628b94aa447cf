// SPDX-License-Identifier: Apache-2.0
/// NCCL's communicator of a process group of PyTorch, lent to a nccl_ref. Needs fssdp::nccl and a torch
/// that was built with CUDA and gives its communicator away (ProcessGroupNCCL::getCommPtr), and its
/// libtorch_cuda. With a torch for the host alone there is nothing here.
#pragma once

#if __has_include(<c10/cuda/impl/cuda_cmake_macros.h>) && __has_include(<nccl.h>)

// What torch was built with, which its headers do not say by themselves.
#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL
#endif
#include <c10/cuda/CUDAStream.h>
#include <nccl.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#if __has_include(<torch/csrc/distributed/c10d/nccl2/ProcessGroupNCCL.hpp>)
#include <torch/csrc/distributed/c10d/nccl2/ProcessGroupNCCL.hpp>
#endif

#include <cstdint>

#include "fssdp/comm/c10d/c10d_backend.hpp"
#include "fssdp/comm/nccl.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp {

/// The communicator that a group has for the current device; it stays torch's:
///
///     auto comm = fssdp::nccl_of_group(group, {.kernels = fssdp::cuda_kernels()});
///
/// Everything goes to torch's current stream. When something fails, torch aborts the communicator by
/// its own rules, the nccl_ref never does.
/// @pre the group is not used for anything else while a collective of this one runs, and outlives it;
///      NCCL's communicator is there: pass device_id to init_process_group, or have the group do
///      something first
/// @throws argument_error if the group is not NCCL's, has no communicator yet, or may_abort is set; as
///         nccl_ref
[[nodiscard]] inline nccl_ref nccl_of_group(c10::intrusive_ptr<c10d::ProcessGroup> const& group,
                                            nccl_options const& options = {}) {
  detail::require(!options.may_abort,
                  "nccl_of_group: may_abort of a communicator that is torch's; expected false");
  auto const backend = detail::c10d_backend_of(group, c10::DeviceType::CUDA);
  auto handle = std::int64_t{0};
  if (auto* const nccl = dynamic_cast<c10d::ProcessGroupNCCL*>(backend.get()))
    handle = nccl->getCommPtr();
#if __has_include(<torch/csrc/distributed/c10d/nccl2/ProcessGroupNCCL.hpp>)
  else if (auto* const newer = dynamic_cast<c10d::nccl2::ProcessGroupNCCL*>(backend.get()))
    handle = newer->getCommPtr();
#endif
  else
    detail::require(false, "nccl_of_group: a group over ", backend->getBackendName(),
                    "; expected one over NCCL");
  detail::require(handle != 0,
                  "nccl_of_group: a group without a communicator yet; expected one that was made "
                  "with device_id, or has been used");
  return {reinterpret_cast<ncclComm_t>(handle), c10::cuda::getCurrentCUDAStream().stream(),
          options};
}

}  // namespace fssdp

#endif
