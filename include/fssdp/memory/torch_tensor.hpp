// SPDX-License-Identifier: Apache-2.0
/// at::Tensor. In C++20, clang needs another header before that of torch 1.13.
#pragma once

#include <torch/version.h>
#if TORCH_VERSION_MAJOR < 2
#include <ATen/core/ivalue.h>
#endif

#include <ATen/core/Tensor.h>
