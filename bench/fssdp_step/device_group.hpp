// SPDX-License-Identifier: Apache-2.0
/// The devices that are measured: emulated by threads or processes, or real ones.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "job.hpp"
#include "measurement.hpp"

namespace step {

class device_group {
 public:
  struct node_shape {
    int nodes;
    int ranks;
  };

  device_group() = default;
  device_group(device_group const&) = delete;
  device_group& operator=(device_group const&) = delete;
  virtual ~device_group() = default;

  /// Whether results are known here.
  [[nodiscard]] virtual bool has_rank_0() const = 0;
  /// How the devices lie on nodes, if that is not for the cluster to say.
  [[nodiscard]] virtual std::optional<node_shape> nodes() const = 0;
  /// Those for so many ranks, by number and name; empty where they are emulated.
  [[nodiscard]] virtual std::string devices_for(int /*ranks*/) const { return {}; }

  /// Measures the iterations of a policy. Every process calls it.
  /// @param timeline where the last iteration is written to, for ui.perfetto.dev; empty: nowhere
  /// @return where rank 0 is, the measurement
  /// @throws std::runtime_error if a device finds wrong bytes; errors of the library
  [[nodiscard]] virtual measurement measure(job const& what,
                                            std::filesystem::path const& timeline) = 0;
};

/// Links are the ports of the emulated cluster.
[[nodiscard]] std::unique_ptr<device_group> join_threads(std::chrono::milliseconds deadline);
/// Links are those between the processes.
/// @throws std::invalid_argument if the program was built without MPI, or processes are not spread
///         evenly over hosts
[[nodiscard]] std::unique_ptr<device_group> join_processes(std::chrono::milliseconds deadline);
/// Devices of this process read each other's memory. Ranks that are more than these share them in turn.
/// @throws std::invalid_argument if the program was built without CUDA, or finds no device
[[nodiscard]] std::unique_ptr<device_group> join_cuda(std::chrono::milliseconds deadline);
/// Devices of this process over NCCL, one for each rank: else `measure` throws std::invalid_argument.
/// @throws std::invalid_argument if the program was built without NCCL
[[nodiscard]] std::unique_ptr<device_group> join_nccl(std::chrono::milliseconds deadline);

}  // namespace step
