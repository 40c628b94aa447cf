// SPDX-License-Identifier: Apache-2.0
/// The command line of moe_gpt.
#pragma once

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

namespace detail {

inline constexpr auto about =
    "Trains a small GPT with mixture-of-experts layers on bytes. The ranks are threads of this\n"
    "process, or processes under mpirun; parameters and optimizer state are sharded over them by\n"
    "fssdp.";

inline constexpr auto footer =
    "How FSSDP is set\n"
    "  Every expert has one owner, the rank that keeps its parameters and optimizer state. Before "
    "a\n"
    "  layer runs, copies of some experts (replicas) are gathered on other ranks, so that the "
    "tokens\n"
    "  of a popular expert spread; afterwards the gradients are summed at the owner.\n"
    "  --mode ep replicates nothing: the tokens go to the owners, and the rank with the popular\n"
    "  experts keeps the others waiting. --mode fsdp replicates everything: even load, most "
    "bytes.\n"
    "  --mode fssdp is between them: the --overlap most loaded experts share the --spare-slots of\n"
    "  every rank. More of either means evener load, more bytes and more memory. --mode fsep "
    "gives\n"
    "  every rank a slice of every expert instead of whole ones, and gathers whole ones as fssdp\n"
    "  does. --reshard-every moves experts to other owners as the loads change. All of them "
    "compute\n"
    "  the same model: with the same seed their losses agree.\n"
    "\n"
    "Examples\n"
    "  moe_gpt --text book.txt --mode ep --json ep.json\n"
    "  moe_gpt --steps 3 --rematerialize --rate 2e8 --trace trace.json\n"
    "  mpirun -np 4 moe_gpt --backend mpi --steps 50\n"
    "  moe_gpt --ranks 4 --nodes 2 --groups 2 --between demo:4 --rate 1e7\n"
    "  moe_gpt --mirror-every 1 --lose 2@20\n"
    "  moe_gpt --save run --save-every 50   and, was it interrupted, --resume run as well\n"
    "  moe_gpt --ranks 8 --nodes 2 --experts 32 --overlap 8 --spare-slots 4 --steps 500\n"
    "\n"
    "Matrix products\n"
    "  By OpenBLAS, BLIS or MKL, whichever was found when this was built\n"
    "  (cmake -DFSSDP_EXAMPLES_BLAS=...), or by a loop of its own. Here: ";

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

inline void declare(CLI::App& app, options& chosen, raw_options& raw) {
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
                 "Files to learn from, as bytes; without it the sources of\nfssdp")
      ->check(program::not_empty("a file"))
      ->type_name("FILE")
      ->group("Text");

  count("--experts", chosen.experts, "Model", "Experts per layer, two of which see each byte");
  count("--layers", chosen.layers, "Model", "Layers, each of attention and experts");
  count("--d-model", chosen.d_model, "Model", "Width; an expert is twice as wide inside");
  count("--heads", chosen.heads, "Model", "Attention heads; must divide --d-model");
  count("--seq", chosen.seq, "Model", "Bytes per sequence");

  count("--batch", chosen.batch, "Training", "Sequences per step, over all ranks together");
  count("--steps", chosen.steps, "Training", "Steps, counted from the start of training");
  app.add_option("--lr", chosen.lr, "Learning rate at its peak, after a short warm-up")
      ->check(real)
      ->type_name("X")
      ->group("Training")
      ->capture_default_str();
  app.add_option("--aux-loss", chosen.aux_loss,
                 "Coefficient of the loss that evens out the experts' load")
      ->check(real)
      ->type_name("X")
      ->group("Training")
      ->capture_default_str();
  app.add_option("--seed", chosen.seed, "Seed of the weights, of the batches and of the sample")
      ->check(program::number_like<std::uint64_t>("a whole number, 0 or more"))
      ->type_name("N")
      ->group("Training")
      ->capture_default_str();

  app.add_option(
         "--backend", raw.backend,
         "What ranks are: threads (thread), or the processes that mpirun\nhas started (mpi; "
         "--ranks and --nodes are then as they are, or checked)")
      ->check(CLI::IsMember({"thread", "mpi"}))
      ->type_name("NAME")
      ->group("Parallelism")
      ->capture_default_str();
  count("--ranks", chosen.ranks, "Parallelism", "Ranks; each stands for a device");
  count("--nodes", chosen.nodes, "Parallelism",
        "Nodes that the ranks sit on; plans send less between\nnodes than within");
  app.add_option(
         "--mode", raw.mode,
         "Which experts are replicated: none (ep), the most loaded\n(fssdp; fsep: of sliced "
         "experts), all (fsdp)")
      ->check(CLI::IsMember({"ep", "fssdp", "fsep", "fsdp"}))
      ->type_name("MODE")
      ->group("Parallelism")
      ->capture_default_str();
  count("--overlap", chosen.overlap, "Parallelism",
        "t: how many experts of a layer may have replicas; as many\nas can be gathered while other "
        "work hides it");
  count("--spare-slots", chosen.spare_slots, "Parallelism",
        "m: how many replicas per layer a rank has memory for");
  app.add_option("--solver", raw.solver,
                 "What chooses replicas: the paper's Algorithm 1 (paper), or what\ncosts least in "
                 "the library's model (cheapest), within --overlap\nexperts into a node and "
                 "--spare-slots")
      ->check(CLI::IsMember({"paper", "cheapest"}))
      ->type_name("NAME")
      ->group("Parallelism")
      ->capture_default_str();
  app.add_option("--routing", raw.routing,
                 "Which replica gets which tokens: evenly to the nearest (even),\nor so that the "
                 "fullest rank has few (balanced)")
      ->check(CLI::IsMember({"even", "balanced"}))
      ->type_name("NAME")
      ->group("Parallelism")
      ->capture_default_str();
  app.add_option("--predict", raw.predict,
                 "Loads are expected to be the mean of the last 5 steps (mean),\nor one that newer "
                 "steps weigh more in (average)")
      ->check(CLI::IsMember({"mean", "average"}))
      ->type_name("NAME")
      ->group("Parallelism")
      ->capture_default_str();
  count("--reshard-every", chosen.reshard_every, "Parallelism",
        "Steps after which experts get other owners by their loads, over\nall layers, if that "
        "pays; 0: never");
  app.add_option("--deadline", chosen.deadline,
                 "Seconds after which a rank that is awaited counts as lost")
      ->check(real)
      ->type_name("S")
      ->group("Parallelism")
      ->capture_default_str();
  app.add_option("--wire", raw.wire,
                 "Element type in which parameters and gradients travel:\nfp32, bf16 or fp16")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->type_name("TYPE")
      ->group("Parallelism")
      ->capture_default_str();

  count("--micro-batches", chosen.micro_batches, "Training",
        "Parts of a batch that go through the model one after the\nother; gradients add up");
  app.add_flag("--rematerialize", chosen.rematerialize,
               "Drop replicas after the forward pass, gather them again for\nthe backward one: "
               "memory for some layers instead of all")
      ->group("Overlap and memory");
  count("--prefetch", chosen.prefetch, "Overlap and memory",
        "Layers whose replicas are gathered ahead, behind the\ncomputation");
  count("--replica-slots", chosen.replica_slots, "Overlap and memory",
        "Replicas of all layers that a rank has memory for; where it\nis short, placements shrink. "
        "-1: as many as they may need");
  app.add_flag("--calibrate", chosen.calibrate,
               "Add replicas when the gate has counted, if that pays")
      ->group("Overlap and memory");
  app.add_option("--seconds-per-row", chosen.seconds_per_row,
                 "What one row costs an expert, forward and backward: calibration\nand new owners "
                 "have to pay by that")
      ->check(real)
      ->type_name("S")
      ->group("Overlap and memory")
      ->capture_default_str();
  app.add_flag("--no-overlap", chosen.no_overlap, "Compute waits for all that moves")
      ->group("Overlap and memory");
  app.add_flag("--plan-ahead", chosen.plan_ahead,
               "Make the placements and plans of a step during the one before it,\non a thread of "
               "their own; no loss depends on it")
      ->group("Overlap and memory");
  app.add_flag(
         "--share-plans", chosen.share_plans,
         "Of what is planned ahead, each rank makes its share for all; no loss\ndepends on it")
      ->group("Overlap and memory");
  app.add_option("--load-tolerance", chosen.load_tolerance,
                 "A layer keeps its placement as long as at most this share of its\ntokens goes to "
                 "other experts than when it was chosen")
      ->check(real)
      ->type_name("SHARE")
      ->group("Overlap and memory")
      ->capture_default_str();
  app.add_option("--offload", raw.offload,
                 "What a rank keeps in files that are mapped into memory instead of\nin memory: "
                 "nothing (none), the moments of AdamW (moments), or all\nthat it owns (all); no "
                 "loss depends on it")
      ->check(CLI::IsMember({"none", "moments", "all"}))
      ->type_name("WHAT")
      ->group("Overlap and memory")
      ->capture_default_str();
  app.add_option("--offload-folder", raw.offload_folder,
                 "The folder for these files, better on a disk; they have no names\nthere and go "
                 "with the run. Without it the system's folder for\ntemporary files")
      ->check(program::not_empty("a folder"))
      ->type_name("FOLDER")
      ->group("Overlap and memory");
  app.add_option(
         "--rate", chosen.rate,
         "Throttle the links: bytes per second of a network interface,\n8 times that inside "
         "nodes; 0: as fast as memory")
      ->check(real)
      ->type_name("X")
      ->group("Overlap and memory")
      ->capture_default_str();

  count("--groups", chosen.groups, "Groups",
        "Groups of ranks, each of which has the whole model, sharded inside");
  app.add_option("--between", chosen.between,
                 "What crosses between them: full, bf16, int8, demo[:KEPT of 64],\n"
                 "demo-2d[:KEPT of 64 x 64], striding[:N], random[:N],\nterngrad, powersgd[:RANK], "
                 "qsdp[:BITS], qsdp-shift[:BITS], tagc[:N];\nof N elements one")
      ->type_name("METHOD")
      ->group("Groups")
      ->capture_default_str();
  count("--between-start", chosen.between_start, "Groups",
        "Steps in which gradients cross in full before that: powersgd wants a\ntenth of them");
  count("--sync-every", chosen.sync_every, "Groups",
        "Steps that groups train by themselves before parameters cross; 0:\ngradients do, in every "
        "step");
  app.add_option("--sync-alpha", chosen.sync_alpha,
                 "QSR: (this / learning rate)^2 steps, if that is more")
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
         "DiLoCo's outer momentum: 0.9 is for rounds of hundreds of steps;\nshort ones go the "
         "same way, and overshoot: 0.5 or less")
      ->check(real)
      ->type_name("X")
      ->group("Groups")
      ->capture_default_str();
  count("--fragments", chosen.fragments, "Groups",
        "Fragments of the layers, which cross in turn, each once in\n--sync-every steps");
  count("--sync-delay", chosen.sync_delay, "Groups",
        "Steps that groups train on while parameters cross");
  app.add_option("--sync-mix", chosen.sync_mix,
                 "The share of its own parameters that a group keeps then")
      ->check(real)
      ->type_name("X")
      ->group("Groups")
      ->capture_default_str();
  count("--adapt-every", chosen.adapt_every, "Groups",
        "L-GreCo: steps between two choices of ranks (powersgd) or of what\nis kept (demo), tensor "
        "by tensor; 0: never");
  app.add_option(
         "--outer", raw.outer,
         "What becomes of what groups have learned: average; diloco;\nco2, where it is applied "
         "a round late, and no step waits")
      ->check(CLI::IsMember({"average", "diloco", "co2"}))
      ->type_name("NAME")
      ->group("Groups")
      ->capture_default_str();

  app.add_option(
         "--save", raw.save,
         "Write checkpoints into this folder: experts, moments, all that\na run needs to go "
         "on, in safetensors files")
      ->check(program::not_empty("a folder"))
      ->type_name("FOLDER")
      ->group("Checkpoints");
  count("--save-every", chosen.save_every, "Checkpoints",
        "Steps after which one is written; 0: only after the last");
  count("--keep", chosen.keep, "Checkpoints", "How many stay, the last ones; 0: all");
  app.add_option("--resume", raw.resume,
                 "Go on from a checkpoint: the last one in this folder, or that of\na step; any "
                 "ranks, nodes and mode")
      ->check(program::not_empty("a folder"))
      ->type_name("FOLDER")
      ->group("Checkpoints");
  count("--mirror-every", chosen.mirror_every, "Checkpoints",
        "Steps after which what each rank owns is copied to a partner on another\nnode: when ranks "
        "are lost, the others go on from there; 0: never.\nOver MPI that takes one with ULFM");
  app.add_option("--lose", raw.lose,
                 "For tests of that: a rank stops for ever in a step, RANK@STEP[:PHASE].\nPhases: "
                 "reshard, gather, forward, backward, reduce, optimizer,\nmirror; recovery, from "
                 "that step on")
      ->check(program::not_empty("a rank and a step"))
      ->type_name("RANK@STEP[:PHASE]")
      ->group("Checkpoints");
  count("--sample", chosen.sample, "Output", "Bytes that the model writes when it is trained");
  app.add_option("--json", raw.json, "Write the figures of every step to this file")
      ->check(program::not_empty("a file"))
      ->type_name("FILE")
      ->group("Output");
  app.add_option("--trace", raw.trace,
                 "Write what every rank did, and when, to this file: for\nui.perfetto.dev, or "
                 "draw_trace. With mpi a file for each rank:\nof rank 3 trace.3.json")
      ->check(program::not_empty("a file"))
      ->type_name("FILE")
      ->group("Output");
  app.add_flag("--quiet", chosen.quiet, "No progress and no report")->group("Output");
}

/// @throws std::invalid_argument that says how it is written
[[nodiscard]] inline lost_at read_lost(std::string const& text) {
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

inline void take_over(CLI::App const& app, raw_options const& raw, options& chosen) {
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

}  // namespace detail

/// Reads and validates the arguments; prints nothing.
[[nodiscard]] inline program::command_line<options> read_command_line(int argc,
                                                                      char const* const* argv) {
  auto chosen = options{};
  auto raw = detail::raw_options{.text = {},
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
  auto app = CLI::App{detail::about, "moe_gpt"};
  app.get_formatter()->column_width(26);
  app.footer(detail::footer + products_by());
  detail::declare(app, chosen, raw);
  return program::parse_arguments(app, argc, argv, chosen, [&] {
    detail::take_over(app, raw, chosen);
    validate(chosen);
  });
}

}  // namespace moe_gpt
