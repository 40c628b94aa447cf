// SPDX-License-Identifier: Apache-2.0
/// The processes of a test program, started by mpirun: all of them run the same test cases and
/// compare the same results, so that they fail together.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/mpi.hpp"
#include "fssdp/core/error.hpp"
#include "mpi/lent_memory.hpp"
#include "support/differences.hpp"

namespace mpi_tests {

/// MPI from the first use to the end of the process. What it waits for it waits for asleep: there
/// are more processes than cores, and most have no part in most tests.
class process_group {
 public:
  process_group() {
    exit_unless_memory_can_be_read();
    auto provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    lent_ = lent_memory(rank_);
  }
  process_group(process_group const&) = delete;
  process_group& operator=(process_group const&) = delete;
  ~process_group() {
    (void)total(0);
    MPI_Finalize();
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// What this process has the others read in place; null if nothing.
  [[nodiscard]] fssdp::shared_memory const* lent() const { return lent_; }

  /// The first processes as a communicator; null on the others.
  [[nodiscard]] MPI_Comm first(int count) {
    auto const [at, fresh] = first_.try_emplace(count, MPI_COMM_NULL);
    (void)total(0);
    if (fresh)
      MPI_Comm_split(MPI_COMM_WORLD, rank_ < count ? 0 : MPI_UNDEFINED, rank_, &at->second);
    return at->second;
  }
  [[nodiscard]] long total(long here) {
    auto sum = 0L;
    auto request = MPI_Request{};
    MPI_Iallreduce(&here, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &request);
    wait(request);
    return sum;
  }
  /// [process]
  template <class Value>
  [[nodiscard]] std::vector<Value> all(Value const& here) {
    static_assert(std::is_trivially_copyable_v<Value>);
    auto values = std::vector<Value>(static_cast<std::size_t>(size_));
    auto request = MPI_Request{};
    auto const bytes = static_cast<int>(sizeof(Value));
    MPI_Iallgather(&here, bytes, MPI_BYTE, values.data(), bytes, MPI_BYTE, MPI_COMM_WORLD,
                   &request);
    wait(request);
    return values;
  }

 private:
  static void wait(MPI_Request& request) {
    auto done = 0;
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); done == 0;
         MPI_Test(&request, &done, MPI_STATUS_IGNORE))
      std::this_thread::sleep_for(std::chrono::microseconds{100});
  }

  int rank_ = 0;
  int size_ = 0;
  fssdp::shared_memory const* lent_ = nullptr;
  std::map<int, MPI_Comm> first_;
};

[[nodiscard]] inline process_group& processes() {
  static auto group = process_group{};
  return group;
}

/// Whether there are too few processes for a test; then it is skipped. Its tag, [at_least_2] for
/// one, leaves it out of the entries of ctest with fewer.
[[nodiscard]] inline bool lacks_processes(int wanted) {
  auto const size = processes().size();
  if (size >= wanted) return false;
  skip_test(std::to_string(size) + " of " + std::to_string(wanted) + " processes");
  return true;
}

/// How a rank has ended.
struct ending {
  std::array<char, 32> kind = {};  ///< of the exception, empty if there is none
  std::array<char, 640> text = {};
  int failed_rank = -1;
  double seconds = 0;

  [[nodiscard]] std::string what() const { return std::string{kind.data()} + ": " + text.data(); }
  [[nodiscard]] bool is(char const* exception) const {
    return std::string{kind.data()} == exception;
  }
};

[[nodiscard]] inline ending ending_of(std::exception_ptr const& thrown) {
  auto result = ending{};
  if (!thrown) return result;
  auto const say = [&](std::string const& kind, std::string const& text, int failed_rank) {
    kind.copy(result.kind.data(), result.kind.size() - 1);
    text.copy(result.text.data(), result.text.size() - 1);
    result.failed_rank = failed_rank;
  };
  try {
    std::rethrow_exception(thrown);
  } catch (fssdp::peer_failed const& error) {
    say("peer_failed", error.what(), error.failed_rank().value());
  } catch (fssdp::deadline_exceeded const& error) {
    say("deadline_exceeded", error.what(), error.failed_rank().value());
  } catch (fssdp::ranks_disagree const& error) {
    say("ranks_disagree", error.what(), error.failed_rank().value());
  } catch (fssdp::transport_error const& error) {
    say("transport_error", error.what(), error.failed_rank().value());
  } catch (fssdp::argument_error const& error) {
    say("argument_error", error.what(), -1);
  } catch (std::exception const& error) {
    say("exception", error.what(), -1);
  }
  return result;
}

/// How the first `ranks` processes end that run work(comm) in a world of their own, where they read
/// what is lent: [rank].
template <class Work>
[[nodiscard]] std::vector<ending> endings(int ranks, fssdp::mpi_options options, Work work) {
  options.shared = processes().lent();
  auto const comm = processes().first(ranks);
  auto thrown = std::exception_ptr{};
  auto const begin = std::chrono::steady_clock::now();
  if (comm != MPI_COMM_NULL) {
    try {
      fssdp::mpi_world{options}.run_in(comm, work);
    } catch (...) {
      thrown = std::current_exception();
    }
  }
  auto mine = ending_of(thrown);
  mine.seconds = std::chrono::duration<double>{std::chrono::steady_clock::now() - begin}.count();
  auto all = processes().all(mine);
  all.resize(static_cast<std::size_t>(ranks));
  return all;
}

/// What differs in all processes; each says it of its own.
[[nodiscard]] inline support::differences total(support::differences const& here) {
  return here + support::differences{processes().total(here.count()) - here.count()};
}

/// The sum of what work(comm) returns on these ranks, none of which throws. Each process says what
/// differs on its own.
/// @throws std::runtime_error on all processes if one does
template <class Work>
[[nodiscard]] support::differences sum_over(int ranks, fssdp::mpi_options const& options,
                                            Work work) {
  auto sum = support::differences{};
  auto const all = endings(ranks, options, [&](auto& comm) { sum += work(comm); });
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].is(""))
      throw std::runtime_error{"rank " + std::to_string(rank) + ": " + all[rank].what()};
  return total(sum);
}

}  // namespace mpi_tests
