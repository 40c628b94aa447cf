// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "blas.hpp"
#include "options.hpp"
#include "program/not_empty.hpp"
#include "program/number_like.hpp"
#include "program/parse_arguments.hpp"

namespace moe_gpt {

namespace {

constexpr auto about =
    "Trains a small GPT with mixture-of-experts layers on bytes. Ranks are threads of this "
    "process,\n"
    "or processes under mpirun. fssdp shards parameters and optimizer state over them.";

constexpr auto footer =
    R"(How FSSDP works
  Every expert has one owner: the rank that keeps its parameters and optimizer state. Before a
  layer runs, copies of some experts (replicas) are gathered on other ranks, so that several ranks
  share the tokens of a popular expert. Afterwards its gradients are summed at the owner.
  --mode ep     No replicas. Tokens go to the owners, and all ranks wait for the one with the
                popular experts.
  --mode fsdp   Replicas of all experts on all ranks: even load, most bytes.
  --mode fssdp  Between the two. The --overlap most loaded experts get replicas, in the
                --spare-slots of each rank. More of either: more even load, more bytes, more memory.
  --mode fsep   As fssdp, but each rank owns a slice of every expert instead of whole experts.
  --reshard-every moves experts to other owners as the loads change.
  All modes compute the same model: with the same seed their losses agree.

Examples
  moe_gpt --text book.txt --mode ep --json ep.json
  moe_gpt --steps 3 --rematerialize --rate 2e8 --trace trace.json
  mpirun -np 4 moe_gpt --backend mpi --steps 50
  moe_gpt --ranks 4 --nodes 2 --groups 2 --between demo:4 --rate 1e7
  moe_gpt --mirror-every 1 --lose 2@20
  moe_gpt --save run --save-every 50   (after an interruption add --resume run)
  moe_gpt --ranks 8 --nodes 2 --experts 32 --overlap 8 --spare-slots 4 --steps 500

Matrix products
  OpenBLAS, BLIS or MKL, whichever was found when this was built
  (cmake -DFSSDP_EXAMPLES_BLAS=...), or else a loop in this program. Here: )";

/// The options as CLI11 knows them; what is not a plain number passes through these strings.
struct raw_options {
  std::vector<std::string> text;
  std::string backend;
  std::string mode;
  std::string wire;
  std::string solver;
  std::string predict;
  std::string routing;
  std::string offload;
  std::string outer;
  std::string offload_folder;
  std::string save;
  std::string resume;
  std::vector<std::string> lose;
  std::string json;
  std::string trace;
};

void declare(CLI::App& app, options& chosen, raw_options& raw) {
  auto const whole = program::number_like<int>("a whole number");
  auto const real = program::number_like<double>("a number");
  auto const count = [&](char const* name, int& value, char const* group, char const* what) {
    app.add_option(name, value, what)
        ->check(whole)
        ->type_name("N")
        ->group(group)
        ->capture_default_str();
  };
  app.add_option("--text", raw.text,
                 "Files to train on, read as bytes; by default the sources of fssdp")
      ->check(program::not_empty("a file"))
      ->type_name("FILE")
      ->group("Text");

  count("--experts", chosen.experts, "Model", "Experts per layer; each byte goes to two of them");
  count("--layers", chosen.layers, "Model", "Layers; each has attention and experts");
  count("--d-model", chosen.d_model, "Model",
        "Width of the model; the hidden layer of an expert is twice as wide");
  count("--heads", chosen.heads, "Model", "Attention heads; must divide --d-model");
  count("--seq", chosen.seq, "Model", "Bytes per sequence");

  count("--batch", chosen.batch, "Training", "Sequences per step, over all ranks together");
  count("--steps", chosen.steps, "Training",
        "Steps, counted from the start of training, also with --resume");
  app.add_option("--lr", chosen.lr, "Learning rate at its peak, after a short warm-up")
      ->check(real)
      ->type_name("X")
      ->group("Training")
      ->capture_default_str();
  app.add_option("--aux-loss", chosen.aux_loss,
                 "Coefficient of the auxiliary loss that balances the experts' load")
      ->check(real)
      ->type_name("X")
      ->group("Training")
      ->capture_default_str();
  app.add_option("--seed", chosen.seed, "Seed of the weights, of the batches and of the sample")
      ->check(program::number_like<std::uint64_t>("a whole number, 0 or more"))
      ->type_name("N")
      ->group("Training")
      ->capture_default_str();

  app.add_option("--backend", raw.backend,
                 "What a rank is: a thread (thread), or a process under mpirun (mpi).\nWith mpi, "
                 "--ranks and "
                 "--nodes need not be given; if given, they are checked")
      ->check(CLI::IsMember({"thread", "mpi"}))
      ->type_name("NAME")
      ->group("Parallelism")
      ->capture_default_str();
  count("--ranks", chosen.ranks, "Parallelism", "Number of ranks; each stands for a device");
  count("--nodes", chosen.nodes, "Parallelism",
        "Nodes that the ranks are on; plans send less between nodes\nthan inside them");
  app.add_option(
         "--mode", raw.mode,
         "Which experts get replicas: none (ep), the most loaded (fssdp),\nthe most loaded, with "
         "sliced experts (fsep), all (fsdp)")
      ->check(CLI::IsMember({"ep", "fssdp", "fsep", "fsdp"}))
      ->type_name("MODE")
      ->group("Parallelism")
      ->capture_default_str();
  count(
      "--overlap", chosen.overlap, "Parallelism",
      "How many experts of a layer may have replicas (t in the paper):\nas many as can be gathered "
      "during other work");
  count("--spare-slots", chosen.spare_slots, "Parallelism",
        "How many replicas per layer a rank has memory for (m in the paper)");
  app.add_option(
         "--solver", raw.solver,
         "How replicas are chosen: by the paper's Algorithm 1 (paper), or by\nthe lowest cost in "
         "the library's model (cheapest). Both stay within\n--overlap and --spare-slots")
      ->check(CLI::IsMember({"paper", "cheapest"}))
      ->type_name("NAME")
      ->group("Parallelism")
      ->capture_default_str();
  app.add_option(
         "--routing", raw.routing,
         "How tokens are divided among replicas: evenly, to the nearest ones\n(even), or so that "
         "the fullest rank has as few as possible (balanced)")
      ->check(CLI::IsMember({"even", "balanced"}))
      ->type_name("NAME")
      ->group("Parallelism")
      ->capture_default_str();
  app.add_option(
         "--predict", raw.predict,
         "How loads are predicted: the mean of the last 5 steps (mean), or an\naverage that "
         "weighs newer steps more (average)")
      ->check(CLI::IsMember({"mean", "average"}))
      ->type_name("NAME")
      ->group("Parallelism")
      ->capture_default_str();
  count("--reshard-every", chosen.reshard_every, "Parallelism",
        "Choose new owners by load, over all layers, every N steps, if\nthat pays; 0: never");
  app.add_option("--deadline", chosen.deadline,
                 "Seconds after which a rank that does not answer counts as lost")
      ->check(real)
      ->type_name("S")
      ->group("Parallelism")
      ->capture_default_str();
  app.add_option("--wire", raw.wire,
                 "Element type in which parameters and gradients are sent:\nfp32, bf16 or fp16")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->type_name("TYPE")
      ->group("Parallelism")
      ->capture_default_str();

  count("--micro-batches", chosen.micro_batches, "Training",
        "Parts into which a batch is divided; they are trained on one after\nthe other, and their "
        "gradients are added");
  app.add_flag(
         "--rematerialize", chosen.rematerialize,
         "Free replicas after the forward pass, and gather them again for the\nbackward pass: "
         "needs memory for some layers instead of all")
      ->group("Overlap and memory");
  count("--prefetch", chosen.prefetch, "Overlap and memory",
        "How many layers ahead replicas are gathered, during the computation");
  count("--replica-slots", chosen.replica_slots, "Overlap and memory",
        "Replicas that a rank has memory for, over all layers. If it is too\nlittle, fewer experts "
        "get replicas. -1: enough for all that are chosen");
  app.add_flag("--calibrate", chosen.calibrate,
               "Add replicas once the router has chosen, if that pays")
      ->group("Overlap and memory");
  app.add_option("--seconds-per-row", chosen.seconds_per_row,
                 "Seconds that an expert takes for one row, forward and backward:\n--calibrate and "
                 "--reshard-every use it to decide whether something pays")
      ->check(real)
      ->type_name("S")
      ->group("Overlap and memory")
      ->capture_default_str();
  app.add_flag("--no-overlap", chosen.no_overlap, "Computation waits for all transfers")
      ->group("Overlap and memory");
  app.add_flag("--plan-ahead", chosen.plan_ahead,
               "Make the placements and plans of a step during the step before, on\na separate "
               "thread; losses do not change")
      ->group("Overlap and memory");
  app.add_flag(
         "--share-plans", chosen.share_plans,
         "With --plan-ahead: ranks divide the planning among themselves; losses\ndo not change")
      ->group("Overlap and memory");
  app.add_option("--load-tolerance", chosen.load_tolerance,
                 "A layer keeps its placement while at most this share of its tokens\ngoes to "
                 "other experts than when the placement was chosen")
      ->check(real)
      ->type_name("SHARE")
      ->group("Overlap and memory")
      ->capture_default_str();
  app.add_option(
         "--offload", raw.offload,
         "What a rank keeps in memory-mapped files instead of memory:\nnothing (none), the moments "
         "of AdamW (moments), or all that it owns\n(all); losses do not change")
      ->check(CLI::IsMember({"none", "moments", "all"}))
      ->type_name("WHAT")
      ->group("Overlap and memory")
      ->capture_default_str();
  app.add_option(
         "--offload-folder", raw.offload_folder,
         "The folder for these files, best on a disk. They are removed when\nthe run ends. By "
         "default the system's folder for temporary files")
      ->check(program::not_empty("a folder"))
      ->type_name("FOLDER")
      ->group("Overlap and memory");
  app.add_option("--rate", chosen.rate,
                 "Emulate slower links: bytes per second of a network interface;\nlinks inside a "
                 "node are 8 "
                 "times as fast. 0: as fast as memory")
      ->check(real)
      ->type_name("X")
      ->group("Overlap and memory")
      ->capture_default_str();

  count("--groups", chosen.groups, "Groups",
        "Groups of ranks; each has the whole model, and shards it inside");
  app.add_option("--between", chosen.between,
                 "How gradients, or with --sync-every parameters, are compressed\nbetween groups: "
                 "full, bf16, int8, demo[:KEPT of 64], "
                 "demo-2d[:KEPT of 64 x 64], striding[:N],\nrandom[:N], terngrad, powersgd[:RANK], "
                 "qsdp[:BITS],\nqsdp-shift[:BITS], tagc[:N]; :N sends one of N elements")
      ->type_name("METHOD")
      ->group("Groups")
      ->capture_default_str();
  count("--between-start", chosen.between_start, "Groups",
        "First steps, in which gradients are sent in full: powersgd needs\nabout a tenth of all "
        "steps");
  count(
      "--sync-every", chosen.sync_every, "Groups",
      "Groups train independently and average parameters every N steps;\n0: they average gradients "
      "in every step");
  app.add_option(
         "--sync-alpha", chosen.sync_alpha,
         "QSR: average every (X / learning rate)^2 steps, if that is more\nthan --sync-every")
      ->check(real)
      ->type_name("X")
      ->group("Groups")
      ->capture_default_str();
  app.add_option("--outer-rate", chosen.outer_rate, "DiLoCo's outer learning rate")
      ->check(real)
      ->type_name("X")
      ->group("Groups")
      ->capture_default_str();
  app.add_option(
         "--outer-momentum", chosen.outer_momentum,
         "DiLoCo's outer momentum: 0.9 suits rounds of hundreds of steps;\nshort rounds overshoot "
         "with it, and need 0.5 or less")
      ->check(real)
      ->type_name("X")
      ->group("Groups")
      ->capture_default_str();
  count("--fragments", chosen.fragments, "Groups",
        "Divide the layers into N fragments, which are sent in turn, each\nonce in --sync-every "
        "steps");
  count("--sync-delay", chosen.sync_delay, "Groups",
        "Steps that groups train on while parameters are being sent");
  app.add_option("--sync-mix", chosen.sync_mix,
                 "The share of its own parameters that a group keeps when those arrive")
      ->check(real)
      ->type_name("X")
      ->group("Groups")
      ->capture_default_str();
  count("--adapt-every", chosen.adapt_every, "Groups",
        "L-GreCo: every N steps choose for each tensor how much is sent, of\npowersgd and demo; "
        "0: never");
  app.add_option("--outer", raw.outer,
                 "How the groups' changes of parameters are applied: average;\ndiloco; co2, one "
                 "round late, "
                 "so that no step waits")
      ->check(CLI::IsMember({"average", "diloco", "co2"}))
      ->type_name("NAME")
      ->group("Groups")
      ->capture_default_str();

  app.add_option(
         "--save", raw.save,
         "Write checkpoints into this folder, as safetensors files: all that\na run needs to "
         "continue")
      ->check(program::not_empty("a folder"))
      ->type_name("FOLDER")
      ->group("Checkpoints");
  count("--save-every", chosen.save_every, "Checkpoints",
        "Write one every N steps; 0: only after the last step");
  count("--keep", chosen.keep, "Checkpoints", "How many checkpoints to keep; 0: all");
  app.add_option(
         "--resume", raw.resume,
         "Continue from the last checkpoint in this folder, or from the folder\nof one step. "
         "--ranks, --nodes and --mode may differ")
      ->check(program::not_empty("a folder"))
      ->type_name("FOLDER")
      ->group("Checkpoints");
  count("--mirror-every", chosen.mirror_every, "Checkpoints",
        "Every N steps each rank copies what it owns to a partner on another\nnode. If ranks are "
        "lost, "
        "the others continue from that copy; 0: never.\nWith --backend mpi this needs an MPI with "
        "ULFM");
  app.add_option(
         "--lose", raw.lose,
         "To test that: this rank stops for good in this step. Phases of a\nstep: "
         "reshard, gather, forward, backward, reduce, optimizer,\nmirror; or recovery, once "
         "other ranks were lost from that step on")
      ->check(program::not_empty("a rank and a step"))
      ->type_name("RANK@STEP[:PHASE]")
      ->group("Checkpoints");
  count("--held-out", chosen.held_out, "Output",
        "Sequences of the held-out text on which the trained model's loss is measured.\nWith few, "
        "the loss depends on which they are");
  count("--sample", chosen.sample, "Output",
        "Bytes of text that the trained model writes at the end");
  app.add_option("--json", raw.json, "Write the figures of each step to this file")
      ->check(program::not_empty("a file"))
      ->type_name("FILE")
      ->group("Output");
  app.add_option(
         "--trace", raw.trace,
         "Write a timeline of all ranks to this file, for ui.perfetto.dev or\ndraw_trace. With mpi "
         "each rank writes a file: rank 3 trace.3.json")
      ->check(program::not_empty("a file"))
      ->type_name("FILE")
      ->group("Output");
  app.add_flag("--quiet", chosen.quiet, "Print no progress and no report")->group("Output");
}

/// @throws std::invalid_argument that says how it is written
[[nodiscard]] lost_at read_lost(std::string const& text) {
  auto const refuse = [&] {
    throw std::invalid_argument{"--lose " + text + ": expected RANK@STEP or RANK@STEP:PHASE"};
  };
  auto result = lost_at{};
  auto const at = text.find('@');
  auto const colon = text.find(':');
  auto const number = [&](std::string const& digits) {
    auto value = 0;
    auto const end = digits.data() + digits.size();
    auto const [stop, error] = std::from_chars(digits.data(), end, value);
    if (error != std::errc{} || stop != end) refuse();
    return value;
  };
  if (at == std::string::npos || colon < at) refuse();
  result.rank = number(text.substr(0, at));
  result.step = number(text.substr(at + 1, colon == std::string::npos ? colon : colon - at - 1));
  if (colon == std::string::npos) return result;
  for (auto const which : run_phases) {
    if (text.substr(colon + 1) != name_of(which)) continue;
    result.phase = which;
    return result;
  }
  refuse();
  return result;
}

void take_over(CLI::App const& app, raw_options const& raw, options& chosen) {
  chosen.text.assign(raw.text.begin(), raw.text.end());
  chosen.offload_folder = raw.offload_folder;
  chosen.save = raw.save;
  chosen.resume = raw.resume;
  for (auto const& text : raw.lose) chosen.lose.push_back(read_lost(text));
  chosen.json = raw.json;
  chosen.trace = raw.trace;
  for (auto const which : {backend::thread, backend::mpi})
    if (raw.backend == name_of(which)) chosen.backend = which;
  if (chosen.backend == backend::mpi && app.count("--ranks") == 0) chosen.ranks = any_number;
  if (chosen.backend == backend::mpi && app.count("--nodes") == 0) chosen.nodes = any_number;
  for (auto const which : {wire::fp32, wire::bf16, wire::fp16})
    if (raw.wire == name_of(which)) chosen.wire = which;
  for (auto const which : {solver::paper, solver::cheapest})
    if (raw.solver == name_of(which)) chosen.solver = which;
  for (auto const which : {prediction::mean, prediction::average})
    if (raw.predict == name_of(which)) chosen.predict = which;
  for (auto const which : {fssdp::routing_rule::even, fssdp::routing_rule::balanced})
    if (raw.routing == name_of(which)) chosen.routing = which;
  for (auto const which : {outer::average, outer::diloco, outer::co2})
    if (raw.outer == name_of(which)) chosen.outer = which;
  for (auto const which : {offload::none, offload::moments, offload::all})
    if (raw.offload == name_of(which)) chosen.offload = which;
  for (auto const which : {mode::ep, mode::fssdp, mode::fsep, mode::fsdp})
    if (raw.mode == name_of(which)) chosen.mode = which;
}

}  // namespace

program::command_line<options> read_command_line(int argc, char const* const* argv) {
  auto chosen = options{};
  auto raw = raw_options{.text = {},
                         .backend = std::string{name_of(chosen.backend)},
                         .mode = std::string{name_of(chosen.mode)},
                         .wire = std::string{name_of(chosen.wire)},
                         .solver = std::string{name_of(chosen.solver)},
                         .predict = std::string{name_of(chosen.predict)},
                         .routing = std::string{name_of(chosen.routing)},
                         .offload = std::string{name_of(chosen.offload)},
                         .outer = std::string{name_of(chosen.outer)},
                         .offload_folder = {},
                         .save = {},
                         .resume = {},
                         .lose = {},
                         .json = {},
                         .trace = {}};
  auto app = CLI::App{about, "moe_gpt"};
  app.get_formatter()->column_width(26);
  app.footer(footer + products_by());
  declare(app, chosen, raw);
  return program::parse_arguments(app, argc, argv, chosen, [&] {
    take_over(app, raw, chosen);
    validate(chosen);
  });
}

}  // namespace moe_gpt
