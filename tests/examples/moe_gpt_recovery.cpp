// SPDX-License-Identifier: Apache-2.0
// A rank of moe_gpt is lost, wherever in a step: the others go on, with the bits of a run that was
// started from a checkpoint with them.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "examples/small_training.hpp"
#include "fssdp/checkpoint/checkpoint_folder.hpp"
#include "fssdp/checkpoint/checkpoint_index.hpp"
#include "fssdp/comm/lost_ranks.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/recovery/chunks_left.hpp"
#include "fssdp/recovery/even_owners.hpp"
#include "fssdp/recovery/mirror_partners.hpp"
#include "fssdp/topology/topology_of.hpp"
#include "moe_gpt/command_line.hpp"
#include "moe_gpt/placement_rule.hpp"
#include "moe_gpt/sharding_rule.hpp"
#include "moe_gpt/topology_of.hpp"
#include "moe_gpt/train.hpp"
#include "moe_gpt/train_on.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using fssdp::rank_id;
using moe_gpt::mode;
using moe_gpt::options;
using moe_gpt::run_phase;
using moe_gpt::run_record;

constexpr auto all_steps = 6;
constexpr auto ranks = 4;

[[nodiscard]] options small() {
  auto chosen = options{};
  chosen.ranks = ranks;
  chosen.experts = 6;
  chosen.layers = 2;
  chosen.d_model = 8;
  chosen.heads = 2;
  chosen.seq = 8;
  chosen.batch = 5;
  chosen.steps = all_steps;
  chosen.seed = 7;
  chosen.overlap = 3;
  chosen.spare_slots = 2;
  chosen.sample = 4;
  chosen.deadline = 120;
  chosen.mirror_every = 1;
  return chosen;
}
[[nodiscard]] moe_gpt::corpus words(options const& chosen) {
  auto bytes = std::vector<std::uint8_t>{};
  for (std::uint64_t i = 0; bytes.size() < 2000; ++i)
    bytes.push_back(static_cast<std::uint8_t>('a' + moe_gpt::mix({i / 3}) % 20));
  return {std::move(bytes), static_cast<std::size_t>(chosen.seq), chosen.seed, "words"};
}
[[nodiscard]] run_record train(options const& chosen) {
  return moe_gpt::train(chosen, words(chosen), [](moe_gpt::step_record const&) {});
}

/// Runs that are started with some of the ranks, from a checkpoint of the run of all of them.
class references {
 public:
  explicit references(options of) : chosen_{std::move(of)} {
    auto saving = chosen_;
    saving.mirror_every = 0;
    saving.save = folder_.path();
    saving.save_every = 1;
    (void)train(saving);
  }

  /// @param lost ascending
  [[nodiscard]] run_record const& without(std::vector<rank_id> const& lost, int step) {
    auto& run = runs_[{lost, step}];
    if (!run.has_value()) run = made(lost, step);
    return *run;
  }

 private:
  [[nodiscard]] run_record made(std::vector<rank_id> const& lost, int step) const {
    auto const all = moe_gpt::topology_of(chosen_);
    auto const left = fssdp::detail::ranks_left(lost, ranks);
    auto chosen = chosen_;
    chosen.mirror_every = 0;
    if (step > 0)
      chosen.resume = fssdp::step_folder(folder_.path(), static_cast<std::uint64_t>(step));
    auto const has = fssdp::chunks_left(owners_after(step), fssdp::mirror_partners{all}, left);
    auto const owners = fssdp::even_owners{}(has);
    auto const topo = fssdp::topology_of(all, left);
    chosen.ranks = topo.ranks();
    auto const text = words(chosen);
    auto record = run_record{};
    auto world = fssdp::thread_world{topo.ranks()};
    world.run([&](fssdp::thread_communicator& comm) {
      auto experts = comm.duplicate();
      auto plans = comm.duplicate();
      auto own = moe_gpt::train_on(fssdp::communicator_ref{comm}, fssdp::communicator_ref{experts},
                                   {.chosen = chosen,
                                    .text = text,
                                    .observe = [](moe_gpt::step_record const&) {},
                                    .plans = fssdp::communicator_ref{plans},
                                    .topo = topo,
                                    .owners = by_layer(owners)});
      if (own.is_of_first_rank) record = std::move(own);
    });
    return record;
  }
  /// Who owns the experts of all layers after so many steps.
  [[nodiscard]] fssdp::table_layout owners_after(int step) const {
    if (step > 0)
      return fssdp::read_checkpoint_index(
                 fssdp::step_folder(folder_.path(), static_cast<std::uint64_t>(step)) /
                 "checkpoint.json")
          .layout("experts");
    auto const topo = moe_gpt::topology_of(chosen_);
    auto const solve = moe_gpt::placement_rule{chosen_, topo};
    return fssdp::as_table(moe_gpt::sharding_rule{chosen_, topo, solve}.at_first());
  }
  [[nodiscard]] moe_gpt::expert_layouts by_layer(fssdp::table_layout const& all) const {
    auto layers = std::vector<fssdp::table_layout>{};
    for (int layer = 0; layer < chosen_.layers; ++layer) {
      auto owners = std::vector<rank_id>{};
      for (auto const chunk :
           fssdp::chunk_range{layer * chosen_.experts * all.slices(),
                              (layer + 1) * chosen_.experts * all.slices(), all.slices()})
        owners.push_back(all.owner(chunk));
      layers.push_back({{.ranks = all.ranks(), .slices = all.slices()}, std::move(owners)});
    }
    return moe_gpt::expert_layouts{std::move(layers)};
  }

  options chosen_;
  support::temporary_folder folder_;
  std::map<std::pair<std::vector<rank_id>, int>, std::optional<run_record>> runs_;
};

/// The figures of a step that do not depend on the clock.
[[nodiscard]] auto clockless_figures(moe_gpt::step_record const& of) {
  return std::tuple{of.step,
                    of.loss,
                    of.load_max_over_mean_ep,
                    of.load_max_over_mean,
                    of.gathered_bytes,
                    of.reduced_bytes,
                    of.moved_bytes};
}
/// What is wrong with a run that has gone on from a step; empty if nothing is.
[[nodiscard]] std::string wrong_with(run_record const& run, run_record const& reference, int from) {
  if (run.steps.size() != all_steps) return "it has not done all steps, each once";
  if (reference.steps.size() + static_cast<std::size_t>(from) != all_steps)
    return "no such reference";
  for (std::size_t i = 0; i < run.steps.size(); ++i)
    if (run.steps[i].step != static_cast<int>(i) + 1) return "steps are in another order";
  for (auto const& step : reference.steps) {
    auto const& other = run.steps[static_cast<std::size_t>(step.step) - 1];
    if (clockless_figures(step) != clockless_figures(other))
      return "step " + std::to_string(step.step) + " differs: loss " + std::to_string(other.loss) +
             ", gathered " + std::to_string(other.gathered_bytes) + ", moved " +
             std::to_string(other.moved_bytes) + "; expected " + std::to_string(step.loss) + ", " +
             std::to_string(step.gathered_bytes) + ", " + std::to_string(step.moved_bytes);
  }
  if (run.heldout_loss != reference.heldout_loss) return "the held-out loss differs";
  if (run.sample.continuation != reference.sample.continuation) return "the sample differs";
  return {};
}

struct variation {
  char const* name;
  void (*change)(options&);
};
[[nodiscard]] std::vector<variation> variations() {
  return {{"fssdp", [](options&) {}},
          {"every second step, owners that change, 2 nodes",
           [](options& o) {
             o.mirror_every = 2;
             o.reshard_every = 2;
             o.nodes = 2;
             o.predict = moe_gpt::prediction::average;
           }},
          {"fsep", [](options& o) { o.mode = mode::fsep; }},
          {"ep, every third step, in micro-batches, nothing behind the computation",
           [](options& o) {
             o.mode = mode::ep;
             o.mirror_every = 3;
             o.micro_batches = 2;
             o.no_overlap = true;
           }},
          {"fsdp in bf16, rematerialized, plans ahead", [](options& o) {
             o.mode = mode::fsdp;
             o.wire = moe_gpt::wire::bf16;
             o.rematerialize = true;
             o.plan_ahead = true;
             o.share_plans = true;
           }}};
}

/// Where ranks are lost, by chance.
[[nodiscard]] std::vector<moe_gpt::lost_at> accident(support::dice& draw, options const& chosen) {
  auto phases =
      std::vector<run_phase>{run_phase::gather, run_phase::forward,   run_phase::backward,
                             run_phase::reduce, run_phase::optimizer, run_phase::recovery};
  auto const step = draw.between(1, all_steps);
  if (step % chosen.mirror_every == 0) phases.push_back(run_phase::mirror);
  if (chosen.reshard_every > 0 && step > 1 && (step - 1) % chosen.reshard_every == 0)
    phases.push_back(run_phase::reshard);
  auto const rank = draw.between(0, ranks - 1);
  auto const phase = draw.one_of(phases);
  if (phase != run_phase::recovery) return {{rank, step, phase}};
  // one that is not its partner
  auto const partners = fssdp::mirror_partners{moe_gpt::topology_of(chosen)};
  auto other = rank;
  while (other == rank || partners.partner(rank_id{rank}) == rank_id{other} ||
         partners.partner(rank_id{other}) == rank_id{rank})
    other = draw.between(0, ranks - 1);
  return {{rank, step, run_phase::forward}, {other, step, run_phase::recovery}};
}

}  // namespace

TEST_CASE("wherever ranks of moe_gpt are lost, the others go on as from a checkpoint") {
  auto const all = variations();
  auto known = std::vector<std::optional<references>>(all.size());
  auto watchdog = support::watchdog{std::chrono::seconds{300}};
  auto const points = std::min(200, 2 * support::law_instances / 3);
  auto together = 0;
  for (int point = 0; point < points; ++point) {
    auto const which = static_cast<std::size_t>(point) % all.size();
    auto draw = support::dice{static_cast<std::uint64_t>(point) + 1};
    auto chosen = small();
    all[which].change(chosen);
    if (!known[which].has_value()) known[which].emplace(chosen);
    chosen.lose = accident(draw, chosen);
    auto const& first = chosen.lose.front();
    auto const what = std::string{all[which].name} + ": rank " + std::to_string(first.rank) +
                      " in step " + std::to_string(first.step) + ", " +
                      std::string{name_of(chosen.lose.back().phase)};
    CAPTURE(point, what);
    auto run = run_record{};
    watchdog.watch(what, [&] { run = train(chosen); });
    REQUIRE(run.recoveries.size() == 1);
    auto const& recovery = run.recoveries.front();
    auto lost = std::vector<int>{};
    for (auto const& of : chosen.lose) lost.push_back(of.rank);
    std::ranges::sort(lost);
    REQUIRE(recovery.lost == lost);
    REQUIRE(recovery.ranks == ranks - static_cast<int>(lost.size()));
    auto const newest = (first.step - 1) / chosen.mirror_every * chosen.mirror_every;
    auto const goes_back = recovery.step == newest || recovery.step == newest - chosen.mirror_every;
    REQUIRE(goes_back);
    REQUIRE(recovery.bytes > 0);
    auto const& reference =
        known[which]->without(std::vector<rank_id>(lost.begin(), lost.end()), recovery.step);

    REQUIRE(wrong_with(run, reference, recovery.step) == "");
    together += lost.size() > 1 ? 1 : 0;
  }
  CAPTURE(together);
  CHECK((points < 50 || together > 5));
}

TEST_CASE("a rank of moe_gpt that is lost with its partner is named, and the last checkpoint") {
  auto const folder = support::temporary_folder{};
  auto chosen = small();
  auto const said = [&]() -> std::string {
    try {
      (void)train(chosen);
    } catch (fssdp::state_lost const& error) {
      return error.what();
    }
    return "it has gone on";
  };
  chosen.lose = {{1, 4, run_phase::forward}, {2, 4, run_phase::forward}};
  CHECK_THAT(said(),
             mentions("rank 1 and its partner, rank 2, are lost, and with them 4 experts") &&
                 mentions("there is no checkpoint: --save and --save-every write them"));
  chosen.save = folder.path();
  chosen.save_every = 2;
  CHECK_THAT(said(),
             mentions("the last checkpoint is that of step 2: --resume " + folder.path().string()));

  chosen.lose.clear();  // and that is what it takes
  chosen.resume = folder.path();
  chosen.save.clear();
  chosen.save_every = 0;
  chosen.ranks = 2;
  CHECK(train(chosen).steps.size() == 4);
}

TEST_CASE("ranks of moe_gpt that are lost one after the other are recovered one by one") {
  auto chosen = small();
  chosen.ranks = 5;
  chosen.lose = {{0, 2, run_phase::reduce}, {3, 4, run_phase::forward}, {1, 6, run_phase::gather}};
  auto seen = std::vector<int>{};
  auto told = std::size_t{0};
  auto const run = moe_gpt::train(chosen, words(chosen), [&](moe_gpt::step_record const& at) {
    seen.push_back(at.step);
    told += at.recoveries.size();
  });
  CHECK(told == 3);
  REQUIRE(run.recoveries.size() == 3);
  CHECK(run.recoveries[0].lost == std::vector{0});
  CHECK(run.recoveries[1].lost == std::vector{3});
  CHECK(run.recoveries[2].lost == std::vector{1});
  CHECK(run.recoveries[2].ranks == 2);
  CHECK(run.steps.size() == all_steps);
  CHECK(seen.back() == all_steps);
}

TEST_CASE("options of moe_gpt to mirror and to lose ranks are read and checked") {
  auto const read = [](std::vector<char const*> words) {
    words.insert(words.begin(), "moe_gpt");
    return moe_gpt::read_command_line(static_cast<int>(words.size()), words.data());
  };
  auto const line =
      read({"--mirror-every", "2", "--lose", "2@20", "--lose", "1@4:mirror", "--ranks", "3"});
  REQUIRE(line.chosen.has_value());
  CHECK(line.chosen->mirror_every == 2);
  REQUIRE(line.chosen->lose.size() == 2);
  CHECK(line.chosen->lose[0].rank == 2);
  CHECK(line.chosen->lose[0].step == 20);
  CHECK(line.chosen->lose[0].phase == run_phase::forward);
  CHECK(line.chosen->lose[1].phase == run_phase::mirror);
  auto const refused = [&](std::vector<char const*> words, std::string const& what) {
    CAPTURE(what);
    CHECK_THAT(read(std::move(words)).message, mentions(what));
  };
  refused({"--lose", "2@20"}, "--lose 2@20:forward: expected --mirror-every with it");
  refused({"--mirror-every", "-1"}, "--mirror-every -1: expected 0 or more");
  refused({"--mirror-every", "1", "--groups", "2"}, "--mirror-every 1: expected no --groups");
  refused({"--mirror-every", "1", "--trace", "t.json"}, "--mirror-every 1: expected no --trace");
  for (auto const* text : {"2", "2@", "@2", "2:mirror", "2@3:breakfast", "two@3", "2@3x"})
    refused({"--mirror-every", "1", "--lose", text},
            std::string{"--lose "} + text + ": expected RANK@STEP");
  refused({"--mirror-every", "1", "--lose", "4@2"}, "expected a rank from 0 to 3");
  refused({"--mirror-every", "1", "--lose", "1@201"}, "expected a step from 1 to 200");
  refused({"--mirror-every", "2", "--lose", "1@3:mirror"}, "a multiple of 2");
  refused({"--mirror-every", "2", "--lose", "1@3:reshard"}, "expected --reshard-every");
}
