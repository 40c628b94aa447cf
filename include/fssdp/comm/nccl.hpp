// SPDX-License-Identifier: Apache-2.0
/// Ranks that are devices, over NCCL: 2.19 or later.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/nccl/nccl_communicator.hpp"
#include "fssdp/comm/nccl/nccl_memory.hpp"
#include "fssdp/comm/nccl/nccl_registration.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp {

/// Runs a function once per device of this process, each in its own thread:
///
///     fssdp::nccl_world{{.kernels = fssdp::cuda_kernels()}}.run([](auto& comm) { ... });
///
/// In programs with several processes, every rank makes its own nccl_communicator.
class nccl_world {
 public:
  /// @param ranks the number of devices; 0: all
  /// @throws transport_error if there are not as many devices; argument_error
  explicit nccl_world(nccl_options const& options = {}, int ranks = 0)
      : options_{detail::nccl_checked(options)}, ranks_{ranks} {
    auto devices = 0;
    detail::cuda_require(cudaGetDeviceCount(&devices), {}, "cudaGetDeviceCount");
    if (ranks_ == 0) ranks_ = devices;
    detail::require(ranks_ >= 1 && ranks_ <= devices, "nccl_world: ", ranks_, " ranks on ", devices,
                    " devices; expected a device for each");
  }
  [[nodiscard]] int size() const { return ranks_; }

  /// Calls `rank_main(comm)` on every rank, on its own stream, and waits for all of them.
  /// @throws the exception of the lowest rank that has failed; otherwise, one of closing a
  ///         communicator
  template <class Main>
  void run(Main&& rank_main) {
    auto id = ncclUniqueId{};
    detail::nccl_require(ncclGetUniqueId(&id), {}, "ncclGetUniqueId");
    auto endings = std::vector<ending>(static_cast<std::size_t>(ranks_));
    auto threads = std::vector<std::jthread>{};  // joined in any case
    for (auto const rank : first_n<rank_id>(ranks_))
      threads.emplace_back([&, rank] { endings[rank.index()] = run(rank, id, rank_main); });
    threads.clear();
    auto failed = false;
    for (auto const& of : endings) {
      if (of.thrown) std::rethrow_exception(of.thrown);
      failed = failed || of.failed;
    }
    for (auto const& of : endings)  // if a rank has failed, the others cannot close
      if (of.thrown_by_close && !failed) std::rethrow_exception(of.thrown_by_close);
  }

 private:
  struct ending {
    std::exception_ptr thrown;
    std::exception_ptr thrown_by_close;
    bool failed = false;  ///< whether rank_main threw, and what
  };

  template <class Main>
  [[nodiscard]] ending run(rank_id rank, ncclUniqueId const& id, Main& rank_main) const {
    auto result = ending{};
    try {
      detail::cuda_require(cudaSetDevice(rank.value()), rank, "cudaSetDevice");
      auto const stream = make_cuda_stream(rank);
      auto comm = nccl_communicator{id, ranks_, rank, stream.get(), options_};
      rank_main(comm);
      result.failed = comm.has_failed();
      try {
        comm.close();
      } catch (...) {
        result.thrown_by_close = std::current_exception();
      }
    } catch (...) {
      result.thrown = std::current_exception();
    }
    return result;
  }

  nccl_options options_;
  int ranks_;
};

}  // namespace fssdp
