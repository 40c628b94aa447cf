// SPDX-License-Identifier: Apache-2.0
/// A step of a training in which one process is killed or stopped, somewhere: the others say so,
/// and end. mpi_broken_step SEED kill|stop MILLISECONDS: of the deadline. Memory is lent as
/// FSSDP_TEST_LENDS says.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <unistd.h>

#include "fssdp/comm/mpi.hpp"
#include "mpi/lent_memory.hpp"
#include "support/allocation_counter.hpp"
#include "support/dice.hpp"
#include "support/whole_step.hpp"

using support::fault_place;
using support::step_kind;

namespace {

/// Says what this process does, and when: in milliseconds, by the clock of the machine.
void say(std::string const& what) {
  auto const now = std::chrono::steady_clock::now().time_since_epoch();
  std::printf(
      "%s in process %d at %lld\n", what.c_str(), static_cast<int>(getpid()),
      static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()));
  std::fflush(stdout);
}

void be_killed() {
  say("the victim is killed");
  std::raise(SIGKILL);
}
void stop() {
  say("the victim stops");
  std::raise(SIGSTOP);
}

/// Any of all visits to all places, and any moment of it.
[[nodiscard]] support::placed_fault draw_fault(support::dice& draw,
                                               support::place_visits const& visits, void (*act)()) {
  auto all = std::vector<support::placed_fault>{};
  for (int p = 0; p < support::fault_places; ++p)
    for (int visit = 1; visit <= visits[static_cast<std::size_t>(p)]; ++visit)
      for (auto const moment : support::moments_at(fault_place{p}))
        all.push_back(
            {fault_place{p},
             {.kind = fssdp::fault_kind::acts, .exchange = visit, .moment = moment, .act = act}});
  return draw.one_of(all);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  auto draw = support::dice{std::strtoull(argv[1], nullptr, 10)};
  auto* const act = std::string{argv[2]} == "kill" ? be_killed : stop;
  auto const deadline = std::chrono::milliseconds{std::atoi(argv[3])};
  try {
    auto const* const lent = mpi_tests::lent_memory(0);
    fssdp::mpi_world{{.deadline = deadline, .shared = lent}}.run(
        [&](fssdp::communicator auto& comm) {
          auto const kind = step_kind{.over = step_kind::wire{draw.between(0, 3)},
                                      .ranks = comm.size(),
                                      .nodes = std::min(2, comm.size()),
                                      .slices = draw.chance(50) ? 1 : comm.size(),
                                      .in_pieces = draw.chance(70)};
          auto const visits = take_whole_step(comm, kind, {});
          auto const is_victim = comm.rank().value() == draw.between(0, comm.size() - 1);
          auto const fault = draw_fault(draw, visits, act);
          if (is_victim)
            say(fssdp::detail::text("rank ", comm.rank(), " breaks at place ",
                                    static_cast<int>(fault.place), ", visit ", fault.what.exchange,
                                    ", moment ", static_cast<int>(fault.what.moment),
                                    ": it has begun"));
          try {
            (void)take_whole_step(comm, kind, is_victim ? fault : support::placed_fault{});
          } catch (fssdp::transport_error const& error) {
            say(fssdp::detail::text("survivor ", comm.rank(), " names rank ", error.failed_rank(),
                                    " (", error.what(), ")"));
            throw;
          }
        });
  } catch (fssdp::transport_error const&) {
    return 1;
  }
}
