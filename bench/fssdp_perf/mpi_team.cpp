// SPDX-License-Identifier: Apache-2.0
// The processes that mpirun has started.
#include <mpi.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fssdp/memory/copy_bytes.hpp"
#include "process_team.hpp"

namespace perf {
namespace {

/// A communicator that is freed, and our place in it.
class process_group {
 public:
  explicit process_group(MPI_Comm comm) : comm_{comm} {
    if (comm == MPI_COMM_NULL) return;
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
  }
  process_group(process_group const&) = delete;
  process_group& operator=(process_group const&) = delete;
  ~process_group() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  [[nodiscard]] MPI_Comm get() const { return comm_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

 private:
  MPI_Comm comm_;
  int rank_ = -1;
  int size_ = 0;
};

[[nodiscard]] MPI_Comm processes_of_this_host() {
  auto comm = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
  return comm;
}
[[nodiscard]] MPI_Comm split(bool inside) {
  auto comm = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, inside ? 0 : MPI_UNDEFINED, 0, &comm);
  return comm;
}

/// The processes of one host, with a barrier in memory that all of them see, at which they sleep.
class host_barrier {
 public:
  explicit host_barrier(process_group const& host) {
    auto const bytes = host.rank() == 0 ? static_cast<MPI_Aint>(sizeof(*barrier_)) : MPI_Aint{0};
    void* memory = nullptr;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, host.get(), &memory, &window_);
    auto size = MPI_Aint{};
    auto unit = 0;
    MPI_Win_shared_query(window_, 0, &size, &unit, &memory);
    barrier_ = static_cast<pthread_barrier_t*>(memory);
    if (host.rank() == 0) {
      auto attributes = pthread_barrierattr_t{};
      pthread_barrierattr_init(&attributes);
      pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
      pthread_barrier_init(barrier_, &attributes, static_cast<unsigned>(host.size()));
      pthread_barrierattr_destroy(&attributes);
    }
    MPI_Barrier(host.get());
  }
  host_barrier(host_barrier const&) = delete;
  host_barrier& operator=(host_barrier const&) = delete;
  ~host_barrier() { MPI_Win_free(&window_); }

  void wait() { pthread_barrier_wait(barrier_); }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  pthread_barrier_t* barrier_ = nullptr;
};

class mpi_team : public process_team {
  using clock = std::chrono::steady_clock;  // one for all processes of a host

 public:
  mpi_team()
      : host_{processes_of_this_host()}, leaders_{split(host_.rank() == 0)}, barrier_{host_} {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    nodes_ = leaders_.size();
    MPI_Bcast(&nodes_, 1, MPI_INT, 0, host_.get());
    auto const in_a_row = size_ == nodes_ * host_.size() && rank_ % host_.size() == host_.rank();
    auto fine = in_a_row ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &fine, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    is_even_ = fine == 1;
  }
  ~mpi_team() override { wait(); }

  /// Whether all hosts have as many ranks, in a row.
  [[nodiscard]] bool is_even() const { return is_even_; }
  [[nodiscard]] fssdp::rank_id rank() const override { return fssdp::rank_id{rank_}; }
  [[nodiscard]] int nodes() const override { return nodes_; }

  /// Between hosts their first processes look after each other, the rest sleeps.
  void wait() override {
    barrier_.wait();
    if (nodes_ == 1) return;
    if (leaders_.get() != MPI_COMM_NULL) {
      auto request = MPI_REQUEST_NULL;
      MPI_Ibarrier(leaders_.get(), &request);
      for (auto done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE), done == 0;)
        std::this_thread::sleep_for(std::chrono::microseconds{20});
    }
    barrier_.wait();
  }
  double time(std::function<void()> const& work) override {
    wait();
    auto const begin = seconds();
    work();
    auto const end = seconds();
    wait();
    auto span = std::array{-begin, end};
    MPI_Allreduce(MPI_IN_PLACE, span.data(), 2, MPI_DOUBLE, MPI_MAX, host_.get());
    auto longest = span[0] + span[1];
    if (nodes_ > 1) MPI_Allreduce(MPI_IN_PLACE, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return longest;
  }
  std::size_t sum(std::size_t value) override {
    wait();
    auto total = static_cast<unsigned long long>(value);
    MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    return static_cast<std::size_t>(total);
  }

  measured_links measure_links() override {
    constexpr auto large = std::size_t{4} << 20U;
    auto const on_host = host_.size();
    auto const first = rank_ - host_.rank();
    auto found = measured_links{};
    if (on_host > 1) {
      auto const next = first + (host_.rank() + 1) % on_host;
      auto const last = first + (host_.rank() + on_host - 1) % on_host;
      found.inside_bytes_per_second = static_cast<double>(large) / ring(true, next, last, large);
      found.inside_latency_seconds = ring(true, next, last, 1);
    }
    if (nodes_ > 1) {
      auto const next = (rank_ + on_host) % size_;
      auto const last = (rank_ + size_ - on_host) % size_;
      auto const leads = host_.rank() == 0;
      found.between_bytes_per_second = static_cast<double>(large) / ring(leads, next, last, large);
      found.between_latency_seconds = ring(leads, next, last, 1);
    }
    if (on_host == 1) {
      found.inside_bytes_per_second = found.between_bytes_per_second;
      found.inside_latency_seconds = found.between_latency_seconds;
    }
    found.copied_bytes_per_second = copy_rate(large / 4);
    MPI_Bcast(&found, sizeof(found), MPI_BYTE, 0, MPI_COMM_WORLD);
    return found;
  }
  fssdp::shared_memory& memory() override { return memory_; }
  void abort() override { MPI_Abort(MPI_COMM_WORLD, 2); }

 private:
  static double seconds() {
    return std::chrono::duration<double>{clock::now().time_since_epoch()}.count();
  }
  /// The shortest time in which all that take part send to one and receive from another.
  double ring(bool takes_part, int to, int from, std::size_t bytes) {
    auto out = std::vector<std::byte>(bytes, std::byte{1});
    auto in = std::vector<std::byte>(bytes);
    auto times = std::vector<double>{};
    for (int turn = 0; turn < 11; ++turn) {
      auto const taken = time([&] {
        if (!takes_part) return;
        MPI_Sendrecv(out.data(), static_cast<int>(bytes), MPI_BYTE, to, 0, in.data(),
                     static_cast<int>(bytes), MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      });
      if (turn > 0) times.push_back(taken);
    }
    return *std::ranges::min_element(times);
  }

  /// Of the first rank, in caches that are as warm as they get.
  double copy_rate(std::size_t bytes) {
    auto const from = std::vector<std::byte>(bytes, std::byte{1});
    auto to = std::vector<std::byte>(bytes);
    auto shortest = std::numeric_limits<double>::max();
    for (int turn = 0; turn < 20; ++turn) {
      auto const by_memcpy = turn % 2 == 0;
      shortest = std::min(shortest, time([&] {
                            if (rank_ != 0) return;
                            if (by_memcpy)
                              std::memcpy(to.data(), from.data(), bytes);
                            else
                              fssdp::copy_bytes(to, from);
                          }));
    }
    return static_cast<double>(bytes) / shortest;
  }

  process_group host_;
  process_group leaders_;  // the first process of every host
  host_barrier barrier_;
  fssdp::shared_memory memory_;
  int rank_ = 0;
  int size_ = 0;
  int nodes_ = 1;
  bool is_even_ = true;
};

/// The time between its begin and its end is that of MPI.
class mpi_session {
 public:
  explicit mpi_session(int ranks) {
    auto provided = 0;
    auto size = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (provided >= MPI_THREAD_SERIALIZED && size == ranks) return;
    MPI_Finalize();
    if (provided < MPI_THREAD_SERIALIZED)
      throw std::invalid_argument{"this MPI lets only one thread call it"};
    throw std::invalid_argument{std::to_string(size) + " processes for " + std::to_string(ranks) +
                                " ranks; expected mpirun -np " + std::to_string(ranks)};
  }
  mpi_session(mpi_session const&) = delete;
  mpi_session& operator=(mpi_session const&) = delete;
  ~mpi_session() { MPI_Finalize(); }
};

/// Both, in this order.
struct mpi_team_in_session : mpi_session, mpi_team {
  explicit mpi_team_in_session(int ranks) : mpi_session{ranks} {}
};

}  // namespace

std::unique_ptr<process_team> join_processes(int ranks) {
  auto team = std::make_unique<mpi_team_in_session>(ranks);
  if (!team->is_even())
    throw std::invalid_argument{
        "hosts with different numbers of processes, or processes in turns; expected as many on "
        "each, in a row"};
  return team;
}

}  // namespace perf
