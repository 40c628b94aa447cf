// SPDX-License-Identifier: Apache-2.0
/// at::Tensor. In C++20 clang takes the header of torch 1.13 only behind that of its values.
#pragma once

#include <torch/version.h>
#if TORCH_VERSION_MAJOR < 2
#include <ATen/core/ivalue.h>
#endif

#include <ATen/core/Tensor.h>
