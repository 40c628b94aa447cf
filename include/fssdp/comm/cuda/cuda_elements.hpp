// SPDX-License-Identifier: Apache-2.0
/// CUDA's types as element types: __half, __nv_bfloat16, and both formats of fp8.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "fssdp/core/dtype.hpp"

template <>
inline constexpr fssdp::dtype fssdp::dtype_of<__half> = fssdp::dtype::fp16;
template <>
inline constexpr fssdp::dtype fssdp::dtype_of<__nv_bfloat16> = fssdp::dtype::bf16;
template <>
inline constexpr fssdp::dtype fssdp::dtype_of<__nv_fp8_e4m3> = fssdp::dtype::e4m3;
template <>
inline constexpr fssdp::dtype fssdp::dtype_of<__nv_fp8_e5m2> = fssdp::dtype::e5m2;
