// SPDX-License-Identifier: Apache-2.0
/// A plan as text.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

#include "port_use.hpp"
#include "readable.hpp"

namespace inspect {

namespace detail {

[[nodiscard]] inline std::string table_of_transfers(inspection const& of) {
  auto const& topo = of.plan.topology();
  auto const total = of.plan.transfers().size();
  auto const shown =
      of.asked.all ? total : std::min(total, static_cast<std::size_t>(of.asked.lines));
  if (shown == 0) return {};
  auto text = std::string{};
  auto const line = [&](auto const&... cells) {
    fmt::format_to(std::back_inserter(text),
                   "{:>6} {:>6} {:>7} {:>6} {:>6} {:>6}  {:<5} {:>11} {:>10} {:>10} {:>7}\n",
                   cells...);
  };
  line("#", "round", "expert", "piece", "src", "dst", "over", "bytes", "start us", "arrival",
       "after");
  auto const us = [](double seconds) { return fmt::format("{:.2f}", seconds * 1e6); };
  for (std::size_t i = 0; i < shown; ++i) {
    auto const& t = of.plan.transfers()[i];
    auto const when = of.played.transfers[i];
    auto const feeder = of.feeder(i);
    line(i, t.round, t.chunk.expert.value(), t.piece, t.source.value(), t.destination.value(),
         topo.same_node(t.source, t.destination) ? "link" : "nic", of.bytes(t.piece),
         us(when.start), us(when.arrival), feeder ? std::to_string(*feeder) : "-");
  }
  if (shown < total)
    text += fmt::format("   ... {} of {} transfers; --all lists them all\n", shown, total);
  return text;
}

[[nodiscard]] inline std::string table_of_ranks(inspection const& of) {
  auto const& topo = of.plan.topology();
  auto busy = busy_seconds(of);
  auto text = fmt::format("{:>6} {:>6} {:>13} {:>13} {:>13}   busy %: {:>8} {:>8} {:>8} {:>8}\n",
                          "rank", "node", "bytes in", "bytes out", "relayed", "link in", "link out",
                          "nic in", "nic out");
  auto const sum = [&](auto const& list, auto piece_of) {
    auto bytes = std::size_t{0};
    for (auto const& one : list) bytes += of.bytes(piece_of(one));
    return bytes;
  };
  auto const share = [&](port const& which) {
    if (!exists(topo, which)) return std::string{"-"};
    return fmt::format("{:.1f}",
                       of.played.seconds > 0 ? busy.at(which) / of.played.seconds * 100 : 0.0);
  };
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.plan.ranks()))
    text +=
        fmt::format("{:>6} {:>6} {:>13} {:>13} {:>13}           {:>8} {:>8} {:>8} {:>8}\n",
                    rank.value(), topo.node(rank).value(),
                    sum(of.plan.receives(rank), [](fssdp::transfer const& t) { return t.piece; }),
                    sum(of.plan.sends(rank), [](fssdp::transfer const& t) { return t.piece; }),
                    sum(of.plan.relayed(rank), [](fssdp::piece_id const& p) { return p.index; }),
                    share({rank, port_kind::link_in}), share({rank, port_kind::link_out}),
                    share({rank, port_kind::nic_in}), share({rank, port_kind::nic_out}));
  return text;
}

}  // namespace detail

/// What it is, its transfers, and what each rank does.
[[nodiscard]] inline std::string to_text(inspection const& of) {
  auto text =
      fmt::format("# {}\n# topology  {}\n# plan     {}\n# time     {}\n# bound    {}\n\n",
                  case_line(of), machine_line(of), plan_line(of), time_line(of), bound_line(of));
  auto const transfers = detail::table_of_transfers(of);
  if (!transfers.empty()) text += transfers + "\n";
  return text + detail::table_of_ranks(of);
}

}  // namespace inspect
