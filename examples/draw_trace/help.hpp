// SPDX-License-Identifier: Apache-2.0
/// What --help says besides the options.
#pragma once

namespace draw::detail {

inline constexpr auto about =
    "Draws a trace: what every rank did, and from when to when. It reads what\n"
    "fssdp::write_chrome_trace writes, the JSON of the Trace Event Format, and writes SVG, which "
    "any\n"
    "browser shows and any page can include.";

inline constexpr auto footer =
    "The picture has a row for every track of every rank (compute, gather, reduce, ...), "
    "and time\n"
    "from left to right. Tracks have their colours; neighbouring layers differ in "
    "brightness. "
    "Ranges\n"
    "inside others stand below them. What stands in two tracks of a rank at one time "
    "overlapped: a\n"
    "gather during a forward pass was hidden by it; one while compute was empty was waited for.\n"
    "Pointing at a range tells its name, its times and what it moved.\n"
    "\n"
    "Ranges narrower than half a pixel are drawn together with their neighbours, so that pictures\n"
    "of long traces stay small; --from and --to show them one by one. Of the format, complete\n"
    "events (phase X) are drawn, up to 8 inside each other; others are passed over.\n"
    "\n"
    "To get a trace, give each rank a recorder, and write them all at the end\n"
    "  auto trace = fssdp::trace_recorder{{.rank = comm.rank()}};\n"
    "  auto const range = trace.range(fssdp::compute_track, \"forward\", {.layer = 3});\n"
    "  auto traced = fssdp::tracing{comm, &trace, fssdp::gather_track};\n"
    "  fssdp::write_chrome_trace(file, traces);\n"
    "\n"
    "Examples\n"
    "  draw_trace trace.json --svg trace.svg\n"
    "  draw_trace trace.json --from 12.5 --to 14 --ranks 0,1 --svg start.svg\n"
    "  draw_trace trace.json --title \"8 ranks, FSSDP\" > trace.svg";

}  // namespace draw::detail
