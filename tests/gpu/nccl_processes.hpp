// SPDX-License-Identifier: Apache-2.0
/// Ranks over NCCL that are processes, all of which run the same tests (nccl_processes.sh).
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/comm/nccl.hpp"
#include "gpu/process_meeting.hpp"
#include "gpu_double/gpu_double.hpp"
#include "nccl/devices.hpp"

namespace gpu_tests {

/// This process, among the others. Processes may share a device.
class nccl_processes {
 public:
  using communicator = fssdp::nccl_communicator;

  /// Makes the device of this process the current one.
  /// @param file  as process_meeting
  nccl_processes(fssdp::rank_id me, int ranks, std::filesystem::path const& file)
      : meeting_{me.value(), ranks, file, patience} {
    auto devices = 0;
    fssdp::detail::cuda_require(cudaGetDeviceCount(&devices), me, "cudaGetDeviceCount");
    fssdp::detail::cuda_require(cudaSetDevice(me.value() % devices), me, "cudaSetDevice");
  }

  [[nodiscard]] fssdp::rank_id rank() const { return fssdp::rank_id{meeting_.rank()}; }
  [[nodiscard]] int size() const { return meeting_.size(); }
  /// Where all of them come to the same calls.
  [[nodiscard]] process_meeting& meeting() { return meeting_; }

  /// A new communicator between all of them, with the kernels of the device.
  [[nodiscard]] communicator made(cudaStream_t stream, fssdp::nccl_options const& options) {
    return made(common_id(), size(), stream, options);
  }

  /// Calls work(comm) in the first of the processes, and waits for all. Communicators are used
  /// again: to connect processes takes long. Deadlines are longer where they are too short for it.
  /// @throws std::runtime_error in all processes if work throws in one
  template <class Work>
  void run(nccl_tests::world of, Work const& work) {
    of.deadline = std::max<std::chrono::milliseconds>(of.deadline, shortest_deadline);
    auto const [at, is_new] = worlds_.try_emplace({of.ranks, of.deadline});
    auto& in = at->second;
    auto const id = is_new ? common_id() : ncclUniqueId{};
    auto mine = ending{};
    if (rank().value() < of.ranks) {
      try {
        if (is_new) in.comm.emplace(made(id, of.ranks, in.stream.get(), {.deadline = of.deadline}));
        work(*in.comm);
        mine.has_failed = in.comm->has_failed();
      } catch (std::exception const& error) {
        mine = {true, true, {}};
        std::string{error.what()}.copy(mine.text.data(), mine.text.size() - 1);
      }
    }
    auto const all = meeting_.all(mine);
    if (std::ranges::any_of(all, &ending::has_failed)) worlds_.erase(at);
    for (auto const who : fssdp::first_n<fssdp::rank_id>(size()))
      if (all[who.index()].has_thrown)
        throw std::runtime_error{"rank " + std::to_string(who.value()) + ": " +
                                 all[who.index()].text.data()};
  }
  /// What work(comm) returned, of whatever message_form has: [rank].
  /// @throws as run
  template <class Work>
  [[nodiscard]] auto results_of(nccl_tests::world const& of, Work work) {
    using result = std::invoke_result_t<Work&, communicator&>;
    auto mine = result{};
    run(of, [&](communicator& comm) { mine = work(comm); });
    auto all = meeting_.all(mine);
    all.resize(static_cast<std::size_t>(of.ranks));
    return all;
  }

  /// Closes the communicators that are used again. If that is not called, they are aborted.
  void close() {
    for (auto& [of, in] : worlds_)
      if (in.comm) in.comm->close();
    worlds_.clear();
  }

 private:
  static constexpr auto shortest_deadline = std::chrono::seconds{10};
  static constexpr auto patience = std::chrono::seconds{120};  // of a meeting

  struct open_world {
    fssdp::cuda_stream stream = fssdp::make_cuda_stream();
    std::optional<communicator> comm;  // none in a process that has no part in it
  };
  struct ending {
    bool has_failed = false;  ///< the communicator, or what was done with it
    bool has_thrown = false;
    std::array<char, 1022> text = {};
  };

  [[nodiscard]] ncclUniqueId common_id() {
    auto id = ncclUniqueId{};
    if (rank() == fssdp::rank_id{0})
      fssdp::detail::nccl_require(ncclGetUniqueId(&id), rank(), "ncclGetUniqueId");
    return meeting_.all(id).front();
  }
  [[nodiscard]] communicator made(ncclUniqueId const& id, int ranks, cudaStream_t stream,
                                  fssdp::nccl_options options) const {
    options.kernels = gpu_double::kernels();
    return {id, ranks, rank(), stream, options};
  }

  process_meeting meeting_;
  std::map<std::pair<int, std::chrono::milliseconds>, open_world> worlds_;
};

}  // namespace gpu_tests
