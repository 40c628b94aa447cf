// SPDX-License-Identifier: Apache-2.0
/// The NCCL communicator of a process group of PyTorch, as an nccl_ref. Needs fssdp::nccl and a
/// torch that was built with CUDA and has ProcessGroupNCCL::getCommPtr, and its libtorch_cuda. With
/// a torch without CUDA this header is empty.
#pragma once

#if __has_include(<c10/cuda/impl/cuda_cmake_macros.h>) && __has_include(<nccl.h>)

// How torch was built; its headers do not define this.
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

/// The communicator that a group has for the current device; torch keeps it:
///
///     auto comm = fssdp::nccl_of_group(group, {.kernels = fssdp::cuda_kernels()});
///
/// All work is enqueued on torch's current stream. After a failure, torch aborts the communicator
/// by its own rules; the nccl_ref never does.
/// @pre the group outlives it, and is not used otherwise while one of its collectives runs; NCCL's
///      communicator exists: pass device_id to init_process_group, or use the group once before
/// @throws argument_error if the group is not over NCCL, has no communicator yet, or may_abort is
///         set; as nccl_ref
[[nodiscard]] inline nccl_ref nccl_of_group(c10::intrusive_ptr<c10d::ProcessGroup> const& group,
                                            nccl_options const& options = {}) {
  detail::require(!options.may_abort,
                  "nccl_of_group: may_abort is set for a communicator of torch; expected false");
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
