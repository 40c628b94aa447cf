// SPDX-License-Identifier: Apache-2.0
/// Ranks of a process group of PyTorch: torch 1.13 or later.
#pragma once

#include "fssdp/comm/c10d/c10d_communicator.hpp"
#include "fssdp/comm/c10d/c10d_device_communicator.hpp"
#include "fssdp/comm/c10d/torch_side_stream.hpp"
#include "fssdp/memory/torch_memory.hpp"
#include "fssdp/memory/torch_tensors.hpp"
