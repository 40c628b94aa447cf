// SPDX-License-Identifier: Apache-2.0
/// Others save into the same folder, or have put links there: what was complete still is, and
/// nothing outside is touched.
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/checkpoint/load_checkpoint.hpp"
#include "fssdp/checkpoint/save_checkpoint.hpp"
#include "fssdp/checkpoint/save_lock.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "support/on_all_ranks.hpp"
#include "support/stored_instance.hpp"
#include "support/temporary_folder.hpp"

using fssdp::rank_id;
using fssdp::thread_communicator;

namespace {

namespace fs = std::filesystem;

auto no_locks = std::atomic<bool>{false};  // the file system knows none

}  // namespace

/// The system's, unless a test wants it to fail.
extern "C" int flock(int descriptor, int operation) noexcept {
  if (!no_locks) return static_cast<int>(::syscall(SYS_flock, descriptor, operation));
  errno = ENOLCK;
  return -1;
}

namespace {

[[nodiscard]] support::stored_model contested_model() { return {4, {{"w1", {30, 20}}}}; }
[[nodiscard]] support::reversed_layout dealt(int ranks) {
  auto owners = std::vector<rank_id>{};
  for (int e = 0; e < 4; ++e) owners.emplace_back(e % ranks);
  return {ranks, owners, 1};
}

/// Saves numbers of this salt with so many ranks: what each rank was told; "" where it succeeded.
[[nodiscard]] std::vector<std::string> told_on_saving(fssdp::save_options const& options, int salt,
                                                      int ranks = 2) {
  return support::on_all_ranks(ranks, [&](thread_communicator& comm) -> std::string {
    try {
      support::save_numbers<float, double>(comm, contested_model(), dealt(ranks), options, salt);
    } catch (fssdp::error const& error) {
      return error.what();
    }
    return "";
  });
}
/// Whether the last checkpoint in a folder, or a step's, loads and has the numbers of this salt.
[[nodiscard]] bool holds(fs::path const& folder, int salt) {
  auto const wrong = support::on_all_ranks(1, [&](thread_communicator& comm) {
    return support::wrong_when_loaded<float, double>(comm, contested_model(), dealt(1), folder,
                                                     salt);
  });
  return wrong[0] == 0;
}

/// Two savers begin at the same time, round by round: `step` says which step saver s saves in
/// round r. After each round the folder has to load, with all that one of them saved.
/// @return how many saves were refused
template <class Step>
[[nodiscard]] int refused_in_rounds(int rounds, int keep, std::array<int, 2> ranks, Step step) {
  auto const folder = support::temporary_folder{};
  for (auto const& said : told_on_saving({.folder = folder.path(), .step = 0}, 0))
    REQUIRE(said.empty());
  auto refused = 0;
  auto before = 0;  // the salt of what is complete
  for (int round = 1; round <= rounds; ++round) {
    auto told = std::array<std::vector<std::string>, 2>{};
    auto start = std::barrier{2};
    auto const salt = [&](std::size_t saver) { return 10 * round + static_cast<int>(saver); };
    auto const save = [&](std::size_t saver) {
      start.arrive_and_wait();
      told[saver] =
          told_on_saving({.folder = folder.path(), .step = step(round, saver), .keep = keep},
                         salt(saver), ranks[saver]);
    };
    {
      auto other = std::thread{save, std::size_t{1}};
      save(0);
      other.join();
    }
    auto successes = std::vector<int>{};
    for (auto const saver : {std::size_t{0}, std::size_t{1}}) {
      auto const& said = told[saver];
      CAPTURE(round, saver, said);
      if (said.front().empty()) successes.push_back(salt(saver));
      if (!said.front().empty()) ++refused;
      for (auto const& of_rank : said) {
        REQUIRE(of_rank.empty() == said.front().empty());  // all ranks know the same
        if (!of_rank.empty() && !no_locks)
          REQUIRE_THAT(of_rank, mentions("checkpoint.lock: is held by another save"));
      }
    }
    REQUIRE(!successes.empty());
    auto candidates = successes;  // of which the last loads; or what there was, if that is later
    candidates.push_back(before);
    auto found = -1;
    for (auto const candidate : candidates)
      if (found < 0 && holds(folder.path(), candidate)) found = candidate;
    CAPTURE(round, successes, before);
    REQUIRE(found >= 10 * round);
    before = found;
  }
  return refused;
}

}  // namespace

TEST_CASE("of two that save the same step at once, one gets an error or both save, and it loads") {
  (void)refused_in_rounds(30, 0, {2, 2}, [](int, std::size_t) { return 0U; });
}

TEST_CASE("two programs that save different steps and remove old ones leave a step that loads") {
  (void)refused_in_rounds(12, 1, {2, 3}, [](int round, std::size_t saver) {
    return static_cast<std::uint64_t>(2 * round) + saver;
  });
}

TEST_CASE("where the file system has no locks, two savers destroy nothing") {
  no_locks = true;
  auto refused = refused_in_rounds(12, 0, {2, 2}, [](int, std::size_t) { return 0U; });
  refused += refused_in_rounds(6, 1, {2, 3}, [](int round, std::size_t saver) {
    return static_cast<std::uint64_t>(2 * round) + saver;
  });
  no_locks = false;
  REQUIRE(refused < 18);  // in each round at least one saves
}

TEST_CASE("while one save goes into a folder, another one is refused before it writes anything") {
  auto const folder = support::temporary_folder{};
  auto const other = folder.path() / "other";
  REQUIRE(told_on_saving({.folder = folder.path(), .step = 1}, 1).front().empty());
  {
    auto const lock = fssdp::detail::save_lock{folder.path()};
    REQUIRE(lock.is_held());
    auto const told = told_on_saving({.folder = folder.path(), .step = 2}, 2, 3);
    auto const cause = folder.path().string() + "/checkpoint.lock: is held by another save";
    REQUIRE(told[0].starts_with(cause));
    for (auto const rank : {1U, 2U})
      REQUIRE(told[rank].starts_with("save_checkpoint: rank 0: " + cause));
    REQUIRE(!fs::exists(folder.path() / "step_00000002"));
    REQUIRE(told_on_saving({.folder = other, .step = 2}, 2).front().empty());
  }
  REQUIRE(holds(folder.path(), 1));
  REQUIRE(told_on_saving({.folder = folder.path(), .step = 2}, 2).front().empty());
  REQUIRE(holds(folder.path(), 2));
}

TEST_CASE("the lock of a killed process is released") {
  auto const folder = support::temporary_folder{};
  auto ends = std::array<int, 2>{};
  REQUIRE(::pipe(ends.data()) == 0);
  auto const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      auto const lock = fssdp::detail::save_lock{folder.path()};
      if (::write(ends[1], "x", 1) == 1) ::pause();
    } catch (...) {
    }
    ::_exit(1);
  }
  auto held = char{};
  REQUIRE(::read(ends[0], &held, 1) == 1);
  auto const while_it_lives = told_on_saving({.folder = folder.path(), .step = 1}, 1);
  REQUIRE(::kill(child, SIGKILL) == 0);
  auto status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  for (auto const end : ends) ::close(end);
  REQUIRE_THAT(while_it_lives.front(), mentions("is held by another save"));
  REQUIRE(told_on_saving({.folder = folder.path(), .step = 1}, 1).front().empty());
  REQUIRE(holds(folder.path(), 1));
}

TEST_CASE("neither saving nor removing follows symbolic links") {
  auto const place = support::temporary_folder{};
  auto const folder = place.path() / "run";
  auto const outside = place.path() / "outside";
  auto const of_step = fssdp::step_folder(folder, 1);
  fs::create_directories(of_step);
  support::write_bytes(outside, "precious");
  // of this version's names of files, and of an earlier one's
  for (auto const* const name :
       {"checkpoint.json", "checkpoint.json.partial", "checkpoint.json.1.partial",
        "rank_0_of_2.1.safetensors", "rank_1_of_2.1.safetensors", "rank_1_of_2.2.safetensors",
        "rank_1_of_2.1.safetensors.partial"})
    fs::create_symlink(outside, of_step / name);
  REQUIRE(told_on_saving({.folder = folder, .step = 1}, 1) == std::vector<std::string>{"", ""});
  REQUIRE(holds(folder, 1));
  REQUIRE(support::bytes_of_file(outside) == "precious");
  auto files = 0;
  for (auto const& entry : fs::directory_iterator{of_step}) files += entry.is_symlink() ? 100 : 1;
  REQUIRE(files == 3);  // the index and two ranks

  auto const archived = place.path() / "archived";
  fs::rename(of_step, archived);
  fs::create_directory_symlink(archived, of_step);
  for (auto const& said : told_on_saving({.folder = folder, .step = 1}, 7))
    REQUIRE_THAT(said, mentions("step_00000001: is a symbolic link; expected a folder"));
  REQUIRE(told_on_saving({.folder = folder, .step = 2, .keep = 1}, 2).front().empty());
  REQUIRE(fssdp::complete_steps(folder) == std::vector<std::uint64_t>{1, 2});
  REQUIRE(holds(of_step, 1));  // where the link leads nothing is removed
  for (auto const* const name : {"step_00000001", "step_00000001/"})
    REQUIRE_THROWS_WITH(fssdp::remove_checkpoint(folder / name), mentions("is a symbolic link"));
  REQUIRE(holds(archived, 1));
  fssdp::remove_checkpoint(fssdp::step_folder(folder, 2));
  REQUIRE(!fs::exists(fssdp::step_folder(folder, 2)));

  fs::remove(folder / "checkpoint.lock");
  fs::create_symlink(place.path() / "new", folder / "checkpoint.lock");
  for (auto const& said : told_on_saving({.folder = folder, .step = 3}, 3))
    REQUIRE_THAT(said, mentions("checkpoint.lock: cannot open: "));
  REQUIRE(!fs::exists(place.path() / "new"));
}

TEST_CASE("a tensor named __metadata__ is an error before anything is written") {
  auto const folder = support::temporary_folder{};
  auto const layout = fssdp::table_layout{{.ranks = 2}, {rank_id{1}}};
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto const weights = fssdp::make_shard<float>(layout, comm.rank(), 4);
    auto part = fssdp::saved_part{
        "dense", layout, comm.rank(), {{"__meta", {4}}}, fssdp::tensor_pattern{"{tensor}{group}"}};
    part.add("data__", weights);
    (void)fssdp::save_checkpoint(comm, std::span{&part, 1}, {.folder = folder.path() / "run"});
  });
  for (auto const& thrown : result.of_rank) {
    REQUIRE(support::is<fssdp::argument_error>(thrown));
    REQUIRE_THAT(support::text(thrown), mentions("a tensor of the name '__metadata__'"));
  }
  REQUIRE_THROWS_WITH(
      (fssdp::safetensors_header{{{.name = "__metadata__", .shape = {1}, .first = 0, .bytes = 4}}}),
      mentions("tensor '__metadata__' has the name"));
}
