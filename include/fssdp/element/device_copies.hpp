// SPDX-License-Identifier: Apache-2.0
/// Copies on a device, in the order of a stream.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "fssdp/element/element_lanes.hpp"
#include "fssdp/element/host_device.hpp"
#include "fssdp/element/part_of.hpp"

namespace fssdp {

/// Copies to be made in one launch. Small enough for the arguments of a kernel, so no list has to
/// be copied to the device.
struct device_copies {
  static constexpr std::size_t most = 128;

  struct copy {
    std::byte* to;
    std::byte const* from;
    std::size_t bytes;
  };

  std::size_t count = 0;
  /// The number of thread blocks that copy, each on its own multiprocessor; 0: as many as fill the
  /// device. A small number leaves multiprocessors to other work.
  std::size_t most_blocks = 0;
  std::array<copy, most> copies;
};

namespace detail {

/// Up to `Most` device_copies in tiles, which thread blocks take one by one.
template <std::size_t Most>
struct copy_kernel {
  std::size_t tile_bytes;  // such that each thread of a block has four reads in flight
  std::size_t count;
  std::array<device_copies::copy, Most> copies;
  std::array<std::uint32_t, Most + 1> first_tile;  // of each copy, and the end

  explicit copy_kernel(device_copies const& of)
      : tile_bytes{std::size_t{of.most_blocks == 0 ? 16U : 64U} << 10U}, count{of.count} {
    auto const shift = std::countr_zero(tile_bytes);
    first_tile[0] = 0;
    for (std::size_t i = 0; i < count; ++i) {
      copies[i] = of.copies[i];
      first_tile[i + 1] =
          first_tile[i] + static_cast<std::uint32_t>((copies[i].bytes + tile_bytes - 1) >> shift);
    }
  }
  /// The number of tiles.
  [[nodiscard]] std::size_t tiles() const { return first_tile[count]; }

  /// Copies the part of a tile that belongs to one of several threads.
  FSSDP_HOST_DEVICE void operator()(std::size_t tile, std::size_t thread,
                                    std::size_t threads) const {
    auto const i = part_of(first_tile.data(), count, tile);
    auto const& [to, from, bytes] = copies[i];
    auto const first = (tile - first_tile[i]) * tile_bytes;
    auto const left = bytes - first;
    auto const part =
        device_copies::copy{to + first, from + first, left < tile_bytes ? left : tile_bytes};
    auto const address =
        reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
    if (address % sizeof(wide_block) == 0)
      move<wide_block>(part, thread, threads);
    else if (address % sizeof(narrow_block) == 0)
      move<narrow_block>(part, thread, threads);
    else
      move<std::byte>(part, thread, threads);
  }

 private:
  template <class Block>
  FSSDP_HOST_DEVICE static void move(device_copies::copy const& of, std::size_t thread,
                                     std::size_t threads) {
    constexpr auto at_once = std::size_t{4};  // reads in flight before the first write
    auto const blocks = of.bytes / sizeof(Block);
    auto* const to = reinterpret_cast<Block*>(of.to);
    auto const* const from = reinterpret_cast<Block const*>(of.from);
    auto i = thread;
    for (; i + (at_once - 1) * threads < blocks; i += at_once * threads) {
      Block held[at_once];
      for (std::size_t k = 0; k < at_once; ++k) held[k] = from[i + k * threads];
      for (std::size_t k = 0; k < at_once; ++k) to[i + k * threads] = held[k];
    }
    for (; i < blocks; i += threads) to[i] = from[i];
    for (auto rest = blocks * sizeof(Block) + thread; rest < of.bytes; rest += threads)
      of.to[rest] = of.from[rest];
  }
};

/// Calls launch(kernel) with the smallest kernel that has room for the copies: the larger its
/// arguments, the longer a launch takes.
template <class Launch>
void with_kernel(device_copies const& of, Launch launch) {
  if (of.count <= 16)
    launch(copy_kernel<16>{of});
  else if (of.count <= 64)
    launch(copy_kernel<64>{of});
  else
    launch(copy_kernel<device_copies::most>{of});
}

}  // namespace detail
}  // namespace fssdp
