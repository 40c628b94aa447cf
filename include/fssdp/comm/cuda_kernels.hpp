// SPDX-License-Identifier: Apache-2.0
/// What sums, converts and copies on a device, as a host compiler sees it: functions that launch.
#pragma once

#include <cuda_runtime_api.h>

#include "fssdp/core/device_conversion.hpp"
#include "fssdp/core/device_copies.hpp"
#include "fssdp/core/device_sum.hpp"

namespace fssdp {

/// A communicator whose memory is a device's is given these, from cuda_kernels() in a source that
/// nvcc compiles (cuda_kernels.cuh). Each enqueues its work on the stream and returns what CUDA
/// says about that; it neither allocates nor waits.
struct device_kernels {
  cudaError_t (*sum)(cudaStream_t stream, device_sum const& sum) = nullptr;
  cudaError_t (*convert)(cudaStream_t stream, device_conversion const& conversion) = nullptr;
  cudaError_t (*copy)(cudaStream_t stream, device_copies const& copies) = nullptr;
};

namespace detail {

/// Calls launch(kernel) with the kernel for the types of a sum.
template <class Launch>
void with_kernel(device_sum const& sum, Launch launch) {
  with_element(sum.partials, [&]<class T>(std::type_identity<T>) {
    with_element(sum.results,
                 [&]<class Out>(std::type_identity<Out>) { launch(sum_kernel<T, Out>{sum}); });
  });
}
/// The same for those of a conversion.
template <class Launch>
void with_kernel(device_conversion const& of, Launch launch) {
  with_element(of.from_kind, [&]<class From>(std::type_identity<From>) {
    with_element(of.to_kind, [&]<class To>(std::type_identity<To>) {
      launch(conversion_kernel<From, To>{of});
    });
  });
}

}  // namespace detail
}  // namespace fssdp
