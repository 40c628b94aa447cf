// SPDX-License-Identifier: Apache-2.0
/// Where operator new, as allocation_counter replaces it, takes memory from.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace support {

inline void* (*take_memory)(std::size_t alignment, std::size_t bytes) = std::aligned_alloc;
inline void (*give_memory_back)(void*) = std::free;

}  // namespace support
