// SPDX-License-Identifier: Apache-2.0
/// Whatever happens to a save, the checkpoints that were complete still are.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/checkpoint/load_checkpoint.hpp"
#include "fssdp/checkpoint/save_checkpoint.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/faulty.hpp"
#include "support/dice.hpp"
#include "support/differences.hpp"
#include "support/on_all_ranks.hpp"
#include "support/stored_instance.hpp"
#include "support/temporary_folder.hpp"

using fssdp::rank_id;
using fssdp::thread_communicator;

namespace {

[[nodiscard]] support::stored_model model_to_kill() {
  return {6, {{"w1", {40, 50}}, {"b1", {50}}}};
}
[[nodiscard]] support::reversed_layout blocks(int ranks) {
  auto owners = std::vector<rank_id>{};
  for (int e = 0; e < 6; ++e) owners.emplace_back(e % ranks);
  return {ranks, owners, 1};
}

/// Saves one step after the other, each with numbers of its own, until it is killed.
[[noreturn]] void save_for_ever(std::filesystem::path const& folder, std::uint64_t first) {
  try {
    fssdp::thread_world{3}.run([&](thread_communicator& comm) {
      for (auto step = first;; ++step)
        support::save_numbers<float, double>(comm, model_to_kill(), blocks(3),
                                             {.folder = folder, .step = step, .keep = 2},
                                             static_cast<int>(step % 100));
    });
  } catch (...) {
  }
  ::_exit(1);  // it should not have finished
}

/// What is wrong with the checkpoint of a step, loaded by two ranks.
[[nodiscard]] support::differences wrong_in(std::filesystem::path const& folder,
                                            std::uint64_t step) {
  auto const wrong = support::on_all_ranks(2, [&](thread_communicator& comm) {
    return support::wrong_when_loaded<float, double>(comm, model_to_kill(), blocks(2), folder,
                                                     static_cast<int>(step % 100));
  });
  return wrong[0] + wrong[1];
}

void save_step(std::filesystem::path const& folder, std::uint64_t step) {
  fssdp::thread_world{3}.run([&](thread_communicator& comm) {
    support::save_numbers<float, double>(comm, model_to_kill(), blocks(3),
                                         {.folder = folder, .step = step},
                                         static_cast<int>(step % 100));
  });
}

}  // namespace

TEST_CASE("a process that is killed while it saves leaves the last checkpoint") {
  auto const folder = support::temporary_folder{};
  auto const start = std::chrono::steady_clock::now();
  save_step(folder.path(), 1);
  auto const one_save = std::chrono::steady_clock::now() - start;
  auto draw = support::dice{7};
  auto last = std::uint64_t{1};
  auto saved_in_all = std::uint64_t{0};
  auto interrupted = 0;
  // at least fifty times, and until it was killed in the middle of a step and after some
  for (int time = 1; time <= 50 || saved_in_all < 10 || interrupted < 10; ++time) {
    REQUIRE(time <= 1000);
    auto const child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) save_for_ever(folder.path(), last + 1);
    std::this_thread::sleep_for(one_save * draw.between(1, 300) / 100);
    REQUIRE(::kill(child, SIGKILL) == 0);
    auto status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));

    auto const steps = fssdp::complete_steps(folder.path());
    CAPTURE(time, last, steps.size());
    REQUIRE(!steps.empty());
    REQUIRE(steps.back() >= last);
    saved_in_all += steps.back() - last;
    last = steps.back();
    for (auto const step : steps)
      REQUIRE(wrong_in(fssdp::step_folder(folder.path(), step), step) == 0);
    if (std::filesystem::exists(fssdp::step_folder(folder.path(), last + 1))) ++interrupted;
  }
  save_step(folder.path(), last + 1);
  REQUIRE(wrong_in(folder.path(), last + 1) == 0);
}

TEST_CASE("saving a step again replaces it, and old steps are removed when there are too many") {
  auto const folder = support::temporary_folder{};
  for (auto const step : {1U, 2U, 3U}) save_step(folder.path(), step);
  REQUIRE(fssdp::complete_steps(folder.path()) == std::vector<std::uint64_t>{1, 2, 3});
  auto const save = [&](std::uint64_t step, int salt, int keep) {
    fssdp::thread_world{2}.run([&](thread_communicator& comm) {
      support::save_numbers<float, double>(
          comm, model_to_kill(), blocks(2),
          {.folder = folder.path(), .step = step, .state = "again", .keep = keep}, salt);
    });
  };
  save(3, 77, 0);
  REQUIRE(wrong_in(folder.path(), 77) == 0);
  auto files = 0;
  for (auto const& entry : std::filesystem::directory_iterator{folder.path() / "step_00000003"}) {
    (void)entry;
    ++files;
  }
  REQUIRE(files == 3);  // the index and two ranks: those of the first time are gone
  save(4, 4, 2);
  REQUIRE(fssdp::complete_steps(folder.path()) == std::vector<std::uint64_t>{3, 4});
  REQUIRE(!std::filesystem::exists(folder.path() / "step_00000002"));
  save(3, 3, 1);  // later ones stay
  REQUIRE(fssdp::complete_steps(folder.path()) == std::vector<std::uint64_t>{3, 4});
}

TEST_CASE("folders that are not steps are left alone") {
  auto const folder = support::temporary_folder{};
  save_step(folder.path(), 5);
  for (auto const* const name : {"step_6", "step_0000000x", "step_", "notes", "step_00000099"}) {
    std::filesystem::create_directory(folder.path() / name);
    if (std::string{name} != "step_00000099")
      support::write_bytes(folder.path() / name / "checkpoint.json", "{}");
  }
  REQUIRE(fssdp::complete_steps(folder.path()) == std::vector<std::uint64_t>{5});
  REQUIRE(fssdp::last_checkpoint(folder.path()) == folder.path() / "step_00000005");
  REQUIRE(fssdp::step_folder("a", 123'456'789) == std::filesystem::path{"a/step_123456789"});
}

TEST_CASE("a rank that cannot write its file is an error on every rank, and the checkpoint stays") {
  auto const folder = support::temporary_folder{};
  save_step(folder.path(), 1);
  auto const only_second = support::reversed_layout{3, std::vector(6, rank_id{1}), 1};
  auto const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {  // files end at 10,000 bytes there: a disk that is full, for the one who writes
    ::signal(SIGXFSZ, SIG_IGN);
    auto const limit = ::rlimit{10'000, 10'000};
    (void)::setrlimit(RLIMIT_FSIZE, &limit);
    auto const texts = support::on_all_ranks(3, [&](thread_communicator& comm) -> std::string {
      try {
        support::save_numbers<float, double>(comm, model_to_kill(), only_second,
                                             {.folder = folder.path(), .step = 2});
      } catch (fssdp::file_error const& error) {
        return error.what();
      }
      return "";
    });
    auto const cause = std::string{"rank_1_of_3.1.safetensors: cannot write: File too large"};
    for (auto const& text : texts)
      if (!text.ends_with(cause)) ::_exit(1);
    auto const names_rank = [](std::string const& text) {
      return text.starts_with("save_checkpoint: rank 1: ");
    };
    ::_exit(names_rank(texts[0]) && !names_rank(texts[1]) && names_rank(texts[2]) ? 0 : 2);
  }
  auto status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  REQUIRE(fssdp::complete_steps(folder.path()) == std::vector<std::uint64_t>{1});
  REQUIRE(wrong_in(folder.path(), 1) == 0);
  REQUIRE(!std::filesystem::exists(folder.path() / "step_00000002/rank_1_of_3.1.safetensors"));
}

TEST_CASE("an index that cannot be written is an error on every rank, and the checkpoint stays") {
  auto const folder = support::temporary_folder{};
  save_step(folder.path(), 1);
  auto const attempt = [&] {
    return support::on_all_ranks(3, [&](thread_communicator& comm) -> std::string {
      try {
        support::save_numbers<float, double>(comm, model_to_kill(), blocks(3),
                                             {.folder = folder.path(), .step = 2}, 2);
      } catch (fssdp::file_error const& error) {
        return error.what();
      }
      return "";
    });
  };
  auto const of_step = folder.path() / "step_00000002";
  std::filesystem::create_directories(of_step / "checkpoint.json/full");  // where a file belongs
  auto const texts = attempt();
  for (std::size_t r = 0; r < 3; ++r) {
    CAPTURE(r, texts[r]);
    REQUIRE_THAT(texts[r], mentions("checkpoint.json: cannot rename to this: "));
    REQUIRE(texts[r].starts_with("save_checkpoint: rank 0: ") == (r != 0));
  }
  REQUIRE(fssdp::complete_steps(folder.path()) == std::vector<std::uint64_t>{1});
  REQUIRE(wrong_in(folder.path(), 1) == 0);
  std::filesystem::remove_all(of_step);
  support::write_bytes(of_step, "a file where the folder belongs");
  for (auto const& text : attempt()) REQUIRE_THAT(text, mentions("cannot make this folder: "));
  std::filesystem::remove(of_step);
  for (auto const& text : attempt()) REQUIRE(text.empty());
  REQUIRE(wrong_in(folder.path(), 2) == 0);
}

TEST_CASE("names that are not unique on one rank are an error on every rank") {
  auto const folder = support::temporary_folder{};
  auto const uneven = fssdp::table_layout{{.ranks = 2}, {rank_id{0}, rank_id{1}, rank_id{1}}};
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto const weights = fssdp::make_shard<float>(uneven, comm.rank(), 4);
    auto part = fssdp::saved_part{
        "experts", uneven, comm.rank(), {{"w", {4}}}, fssdp::tensor_pattern{"{tensor}.{group}"}};
    part.add("weight", weights);
    (void)fssdp::save_checkpoint(comm, std::span{&part, 1}, {.folder = folder.path()});
  });
  REQUIRE(support::is<fssdp::argument_error>(result.of_rank[1]));
  REQUIRE(support::is<fssdp::file_error>(result.of_rank[0]));
  for (auto const& thrown : result.of_rank)
    REQUIRE_THAT(support::text(thrown), mentions("two tensors have the name 'w.weight'"));
}

TEST_CASE("a rank that fails in a save's exchanges is named, and the checkpoint stays") {
  for (int exchange = 1; exchange <= 3; ++exchange)
    for (auto const moment :
         {fssdp::fault_moment::before_exchange, fssdp::fault_moment::behind_exchange}) {
      auto const folder = support::temporary_folder{};
      save_step(folder.path(), 1);
      auto world = fssdp::thread_world{3};
      auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
        auto const breaks = comm.rank() == rank_id{2};
        auto broken = fssdp::faulty{comm, {.exchange = breaks ? exchange : 0, .moment = moment}};
        support::save_numbers<float, double>(broken, model_to_kill(), blocks(3),
                                             {.folder = folder.path(), .step = 2}, 2);
        (void)fssdp::all_reduce(broken, std::vector{1});
      });
      CAPTURE(exchange, moment == fssdp::fault_moment::before_exchange);
      REQUIRE(support::is<fssdp::injected_fault>(result.of_run));
      for (auto const rank : {0U, 1U}) REQUIRE(support::failed_rank(result.of_rank[rank]) == 2);
      auto const steps = fssdp::complete_steps(folder.path());
      REQUIRE(steps.front() == 1);
      REQUIRE(wrong_in(fssdp::step_folder(folder.path(), 1), 1) == 0);
      // If rank 0 has got far enough, the second step is complete: then it is whole.
      if (steps.size() == 2) REQUIRE(wrong_in(folder.path(), 2) == 0);
      REQUIRE(
          (exchange < 3 || moment == fssdp::fault_moment::before_exchange || steps.size() == 2));
      if (exchange < 2) REQUIRE(steps.size() == 1);
    }
}

TEST_CASE("ranks that save different parts, or other ranks than the parts are for, get an error") {
  auto const folder = support::temporary_folder{};
  auto world = fssdp::thread_world{3};
  auto const differ = support::fallout_of(world, [&](thread_communicator& comm) {
    support::save_numbers<float, double>(
        comm, model_to_kill(), blocks(3),
        {.folder = folder.path(), .step = comm.rank() == rank_id{1} ? 5U : 4U});
  });
  for (auto const& thrown : differ.of_rank) {
    REQUIRE(support::is<fssdp::ranks_disagree>(thrown));
    REQUIRE_THAT(support::text(thrown), mentions("rank 1 has other parts, or another step"));
  }
  auto pair = fssdp::thread_world{2};
  auto const others = support::fallout_of(pair, [&](thread_communicator& comm) {
    support::save_numbers<float, double>(comm, model_to_kill(), blocks(3),
                                         {.folder = folder.path()});
  });
  REQUIRE(support::is<fssdp::argument_error>(others.of_rank[0]));
  REQUIRE_THAT(support::text(others.of_rank[0]),
               mentions("is of rank 0 of 3; this is rank 0 of 2"));
  auto const binary = support::fallout_of(pair, [&](thread_communicator& comm) {
    support::save_numbers<float, double>(comm, model_to_kill(), blocks(2),
                                         {.folder = folder.path(), .state = "\xff"});
  });
  REQUIRE_THAT(support::text(binary.of_rank[0]), mentions("not UTF-8"));
  REQUIRE_THAT(support::text(binary.of_rank[1]), mentions("rank 0") && mentions("not UTF-8"));
  REQUIRE(fssdp::complete_steps(folder.path()).empty());
}

TEST_CASE("a rank that cannot read is an error on every rank") {
  auto const folder = support::temporary_folder{};
  save_step(folder.path(), 1);
  auto const damaged = folder.path() / "step_00000001" / "rank_2_of_3.1.safetensors";
  auto bytes = support::bytes_of_file(damaged);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  support::write_bytes(damaged, bytes);
  auto const texts = support::on_all_ranks(3, [&](thread_communicator& comm) -> std::string {
    try {
      (void)support::wrong_when_loaded<float, double>(comm, model_to_kill(), blocks(3),
                                                      folder.path(), 1);
    } catch (fssdp::file_error const& error) {
      return error.what();
    }
    return "";
  });
  REQUIRE_THAT(texts[2], mentions(damaged.string()) && mentions("its checksum differs"));
  for (auto const rank : {0U, 1U})
    REQUIRE_THAT(texts[rank],
                 mentions("load_checkpoint: rank 2: ") && mentions("checksum differs"));
}
