// SPDX-License-Identifier: Apache-2.0
// The processes that mpirun has started.
#include <mpi.h>
#include <pthread.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "process_team.hpp"

namespace perf {
namespace {

/// Memory that all processes see, with a barrier at which they sleep.
struct shared_state {
  pthread_barrier_t barrier;
};

class mpi_team : public process_team {
  using clock = std::chrono::steady_clock;  // one for the whole machine

 public:
  explicit mpi_team(int ranks) {
    auto provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (provided < MPI_THREAD_SERIALIZED || size_ != ranks) {
      MPI_Finalize();
      throw std::invalid_argument{provided < MPI_THREAD_SERIALIZED
                                      ? std::string{"this MPI lets only one thread call it"}
                                      : std::to_string(size_) + " processes for " +
                                            std::to_string(ranks) + " ranks; expected mpirun -np " +
                                            std::to_string(ranks)};
    }
    auto const bytes = rank_ == 0 ? static_cast<MPI_Aint>(sizeof(shared_state)) : MPI_Aint{0};
    void* memory = nullptr;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window_);
    auto size = MPI_Aint{};
    auto unit = 0;
    MPI_Win_shared_query(window_, 0, &size, &unit, &memory);
    state_ = static_cast<shared_state*>(memory);
    if (rank_ == 0) {
      auto attributes = pthread_barrierattr_t{};
      pthread_barrierattr_init(&attributes);
      pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
      pthread_barrier_init(&state_->barrier, &attributes, static_cast<unsigned>(size_));
      pthread_barrierattr_destroy(&attributes);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~mpi_team() override {
    wait();
    MPI_Win_free(&window_);
    MPI_Finalize();
  }

  [[nodiscard]] fssdp::rank_id rank() const override { return fssdp::rank_id{rank_}; }
  void wait() override { pthread_barrier_wait(&state_->barrier); }
  double time(std::function<void()> const& work) override {
    wait();
    auto const begin = seconds();
    work();
    auto const end = seconds();
    wait();
    auto span = std::array{-begin, end};
    MPI_Allreduce(MPI_IN_PLACE, span.data(), 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return span[0] + span[1];
  }
  std::size_t sum(std::size_t value) override {
    wait();
    auto total = static_cast<unsigned long long>(value);
    MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    return static_cast<std::size_t>(total);
  }
  void abort() override { MPI_Abort(MPI_COMM_WORLD, 2); }

 private:
  static double seconds() {
    return std::chrono::duration<double>{clock::now().time_since_epoch()}.count();
  }

  int rank_ = 0;
  int size_ = 0;
  MPI_Win window_ = MPI_WIN_NULL;
  shared_state* state_ = nullptr;
};

}  // namespace

std::unique_ptr<process_team> join_processes(int ranks) {
  return std::make_unique<mpi_team>(ranks);
}

}  // namespace perf
