// SPDX-License-Identifier: Apache-2.0
/// What --help says besides the options.
#pragma once

namespace draw::detail {

inline constexpr auto about =
    "Draws a trace: what every rank did, and when. It reads what fssdp::write_chrome_trace writes\n"
    "(JSON, Trace Event Format) and writes SVG, which any browser shows.";

inline constexpr auto footer =
    "The picture has a row for each track of each rank (compute, gather, reduce, ...). Time runs\n"
    "from left to right. Each track has its colour; neighbouring layers differ in brightness. A\n"
    "range inside another one is drawn below it. Ranges of two tracks at the same time "
    "overlapped:\n"
    "a gather below a forward pass was hidden by it; a gather while compute is empty was waited\n"
    "for. Point at a range to see its name, its times and the bytes that it moved.\n"
    "\n"
    "Ranges narrower than half a pixel are drawn together with their neighbours, so that pictures\n"
    "of long traces stay small; --from and --to show them one by one. Only complete events (phase\n"
    "X) are drawn, up to 8 inside each other.\n"
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
