// SPDX-License-Identifier: Apache-2.0
/// Where MPI lets only the main thread call it, an exchange in another one is refused; those in the
/// main thread go on.
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/mpi.hpp"

int main() {
  auto provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  auto refusal = std::string{};
  auto sum = 0;
  fssdp::mpi_world{}.run([&](fssdp::communicator auto& comm) {
    std::jthread{[&] {
      try {
        comm.exchange([](auto&) {});
      } catch (fssdp::argument_error const& error) {
        refusal = error.what();
      }
    }}.join();
    sum = fssdp::all_reduce(comm, std::vector{comm.rank().value() + 1}).front();
  });
  std::printf("sum %d, refused: %s\n", sum, refusal.c_str());
  MPI_Finalize();
  if (provided >= MPI_THREAD_SERIALIZED) return sum == 3 ? 0 : 1;  // more than asked for
  return sum == 3 && refusal.find("in another thread") != std::string::npos ? 0 : 1;
}
