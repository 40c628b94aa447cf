// SPDX-License-Identifier: Apache-2.0
/// A plan as a picture: a row for every port, time from left to right.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "picture/tick_step.hpp"
#include "port_use.hpp"
#include "readable.hpp"
#include "sheet.hpp"

namespace inspect {

namespace detail {

class drawing {
 public:
  explicit drawing(inspection const& of)
      : of_{of}, end_{std::max(of.played.seconds, 1e-9)}, comms_{of.plan.topology()} {
    for (auto const& t : of.plan.transfers()) moved_.push_back(t.chunk);
    std::ranges::sort(moved_);
    moved_.erase(std::unique(moved_.begin(), moved_.end()), moved_.end());
  }

  [[nodiscard]] std::string take() {
    draw_tracks();
    draw_time();
    for (std::size_t i = 0; i < of_.plan.transfers().size(); ++i) draw_transfer(i);
    draw_bounds();
    draw_legend();
    constexpr auto width = sheet::left + sheet::width + sheet::right;
    return fmt::format(
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
               "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
               width, bottom_ + 20) +
           title() + body_ + "</svg>\n";
  }

 private:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> what, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(body_), what, std::forward<Arguments>(arguments)...);
  }
  [[nodiscard]] double x(double seconds) const {
    return sheet::left + seconds / end_ * sheet::width;
  }
  /// Hues a golden angle apart, for those that move.
  [[nodiscard]] std::string colour(fssdp::chunk_id chunk) const {
    auto const which = std::ranges::lower_bound(moved_, chunk) - moved_.begin();
    return fmt::format("hsl({},65%,{}%)",
                       static_cast<int>(static_cast<double>(which) * 137.508) % 360,
                       60 + 8 * (which % 3));
  }

  [[nodiscard]] std::string title() const {
    return fmt::format(
        "<text x=\"12\" y=\"24\" font-size=\"16\" font-weight=\"bold\">{}</text>\n"
        "<text x=\"12\" y=\"42\">{}</text>\n<text x=\"12\" y=\"57\">{}</text>\n"
        "<text x=\"12\" y=\"72\">time: {}; bound: {}</text>\n",
        case_line(of_), machine_line(of_), plan_line(of_), time_line(of_), bound_line(of_));
  }

  void draw_tracks() {
    constexpr auto names = std::array{"link out", "link in", "nic out", "nic in"};
    auto const& topo = of_.plan.topology();
    auto y = sheet::top;
    for (auto const node : fssdp::first_n<fssdp::node_id>(topo.nodes())) {
      add("<text x=\"12\" y=\"{:.1f}\" font-weight=\"bold\">node {}</text>\n", y + 12,
          node.value());
      auto const shared = of_.asked.nic_per == fssdp::network_interface::per_node;
      for (auto const rank : topo.ranks_on(node))
        for (auto const kind : port_kinds) {
          if (!exists(topo, {rank, kind})) continue;
          auto const nic = kind == port_kind::nic_out || kind == port_kind::nic_in;
          auto const owner = nic && shared ? std::string{} : fmt::format("{} ", rank.value());
          comms_.at({rank, kind}) = y;
          add("<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"{:.1f}\" fill=\"{}\"/>\n"
              "<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}{}</text>\n",
              sheet::left, y, sheet::width, sheet::comm - 1,
              rank.value() % 2 == 0 ? "#eeeeee" : "#f6f6f6", sheet::left - 6, y + 12, owner,
              names[static_cast<std::size_t>(kind)]);
          y += sheet::comm;
        }
      y += sheet::between_nodes;
    }
    bottom_ = y;
  }

  void draw_time() {
    auto const whole = end_ * 1e6;
    auto const step = picture::tick_step(whole);
    for (int tick = 0; tick * step <= whole; ++tick) {
      auto const at = x(tick * step / 1e6);
      add("<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1:.0f}\" y2=\"{2:.1f}\" stroke=\"#cccccc\"/>\n"
          "<text x=\"{0:.2f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4:g}{5}</text>\n",
          at, sheet::top - 4, bottom_, sheet::top - 8, tick * step, tick == 0 ? " us" : "");
    }
  }

  void draw_transfer(std::size_t index) {
    auto const& t = of_.plan.transfers()[index];
    auto const& topo = of_.plan.topology();
    draw_bar(index, comms_.at(sending_port(topo, t)), t.destination);
    draw_bar(index, comms_.at(receiving_port(topo, t)), t.source);
  }

  void draw_bar(std::size_t index, double y, fssdp::rank_id other) {
    auto const& t = of_.plan.transfers()[index];
    auto const& when = of_.played.transfers[index];
    auto const width = x(when.released) - x(when.start);
    auto const edge = of_.relays(t) ? "#222222" : "white";
    add("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\" "
        "stroke=\"{}\" stroke-width=\"0.6\"><title>{}</title></rect>\n",
        x(when.start), y + 1, width, sheet::comm - 3, colour(t.chunk), edge, tooltip(index));
    if (width >= 7.0 * static_cast<double>(std::to_string(other.value()).size()) + 3)
      add("<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"10\" "
          "pointer-events=\"none\">{}</text>\n",
          x(when.start) + width / 2, y + 11.5, other.value());
  }

  [[nodiscard]] std::string tooltip(std::size_t index) const {
    auto const& t = of_.plan.transfers()[index];
    auto const& when = of_.played.transfers[index];
    return fmt::format(
        "#{}: expert {}, piece {}, {}, rank {} to {}, {:.2f} to {:.2f} us, there at "
        "{:.2f} us",
        index, t.chunk.expert.value(), t.piece, readable_bytes(of_.bytes(t.piece)),
        t.source.value(), t.destination.value(), when.start * 1e6, when.released * 1e6,
        when.arrival * 1e6);
  }

  /// The tight bound is the later one, so that their names stand apart.
  void draw_bounds() {
    if (of_.plan.transfers().empty()) return;
    auto const draw = [&](double seconds, char const* name, char const* anchor) {
      add("<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1:.0f}\" y2=\"{2:.1f}\" stroke=\"#c00000\" "
          "stroke-width=\"1.5\" stroke-dasharray=\"4 3\"/>\n"
          "<text x=\"{0:.2f}\" y=\"{3:.1f}\" text-anchor=\"{4}\" fill=\"#c00000\">{5}</text>\n",
          x(seconds), sheet::top - 4, bottom_, bottom_ + 10, anchor, name);
    };
    draw(of_.bound.seconds, "bandwidth bound", "end");
    draw(of_.bound.tight_seconds, "tight bound", "start");
    bottom_ += 14;
  }

  /// The experts that move, as many to a row as fit.
  void draw_legend() {
    constexpr auto in_row = static_cast<int>(sheet::width / sheet::legend_entry);
    bottom_ += 16;
    auto column = 0;
    for (auto const chunk : moved_) {
      if (column == in_row) {
        column = 0;
        bottom_ += 16;
      }
      auto const at = sheet::left + sheet::legend_entry * column++;
      add("<rect x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"12\" height=\"12\" fill=\"{2}\"/>\n"
          "<text x=\"{3:.1f}\" y=\"{4:.1f}\">expert {5}</text>\n",
          at, bottom_ - 10, colour(chunk), at + 17, bottom_, chunk.expert.value());
    }
    bottom_ += 18;
    add("<text x=\"{:.0f}\" y=\"{:.1f}\" fill=\"#555555\">Number in a bar: the rank at the other "
        "end. Dark edge: sent by a rank that relays.</text>\n",
        sheet::left, bottom_);
  }

  inspection const& of_;
  double end_;              // seconds
  per_port<double> comms_;  // y of their upper edges
  double bottom_ = 0;
  std::vector<fssdp::chunk_id> moved_;  // ascending
  std::string body_;
};

}  // namespace detail

/// Well-formed SVG without scripts or fonts of its own; pointing at a bar tells its transfer.
[[nodiscard]] inline std::string to_svg(inspection const& of) { return detail::drawing{of}.take(); }

}  // namespace inspect
