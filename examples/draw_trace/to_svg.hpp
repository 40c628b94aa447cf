// SPDX-License-Identifier: Apache-2.0
/// A trace as a picture: a row for every track of every rank, time from left to right.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "levels.hpp"
#include "picture/tick_step.hpp"
#include "sheet.hpp"
#include "svg_text.hpp"
#include "view.hpp"

namespace draw {

namespace detail {

class drawing {
 public:
  explicit drawing(view const& of)
      : of_{of}, seen_{of.from, of.to, (of.to - of.from) / sheet::width / 2} {
    for (auto const& [rank, process] : of.ranks)
      for (auto const& [thread, row] : process.rows)
        for (auto const& bar : row.bars) comms_.insert(bar.comm);
  }

  [[nodiscard]] std::string take() {
    for (auto const& [rank, process] : of_.ranks) draw_rank(process);
    auto const rows = std::exchange(body_, {});
    draw_time();
    body_ += rows;
    draw_legend();
    constexpr auto width = sheet::left + sheet::width + sheet::right;
    return fmt::format(
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
               "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\" "
               "fill=\"#808080\">\n",
               width, bottom_ + 14) +
           title() + body_ + "</svg>\n";
  }

 private:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> what, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(body_), what, std::forward<Arguments>(arguments)...);
  }
  [[nodiscard]] double x(double milliseconds) const {
    auto const share = (milliseconds - of_.from) / (of_.to - of_.from);
    return sheet::left + std::clamp(share, 0.0, 1.0) * sheet::width;
  }
  [[nodiscard]] char const* colour(std::string const& comm) const {
    auto const place = std::distance(comms_.begin(), comms_.find(comm));
    return colours[static_cast<std::size_t>(place) % colours.size()];
  }

  [[nodiscard]] std::string title() const {
    auto ranges = std::size_t{0};
    auto remarks = std::string{};
    for (auto const& [rank, process] : of_.ranks) {
      for (auto const& [thread, row] : process.rows) ranges += row.bars.size();
      if (!process.remark.empty()) remarks += fmt::format("; {}: {}", process.name, process.remark);
    }
    return fmt::format(
        "<text x=\"12\" y=\"24\" font-size=\"16\" font-weight=\"bold\">{}</text>\n"
        "<text x=\"12\" y=\"42\">{} ranks, {} ranges; from {:g} to {:g} ms{}</text>\n",
        svg_text(of_.title, 120), of_.ranks.size(), ranges, of_.from, of_.to,
        svg_text(remarks, 120));
  }

  void draw_rank(process const& of) {
    auto const above = bottom_;
    for (auto const& [thread, row] : of.rows) draw_row(row);
    add("<text x=\"12\" y=\"{:.1f}\" font-weight=\"bold\">{}</text>\n", above + 12,
        svg_text(of.name, 14));
    bottom_ += sheet::between_ranks;
  }

  void draw_row(row const& of) {
    auto const levels = levels_of(of, seen_);
    auto const height = sheet::level * static_cast<double>(std::max<std::size_t>(levels.size(), 1));
    add("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n"
        "<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"{:.1f}\" "
        "fill-opacity=\".12\"/>\n"
        "<g stroke=\"#000000\" stroke-opacity=\".4\" stroke-width=\".5\">\n",
        sheet::left - 6, bottom_ + 12, svg_text(of.name, 16), sheet::left, bottom_, sheet::width,
        height);
    auto y = bottom_;
    for (auto const& level : levels) {
      for (auto const& bar : level) draw_bar(bar, y);
      y += sheet::level;
    }
    body_ += "</g>\n";
    bottom_ += height + sheet::between_rows;
  }

  void draw_bar(bar const& of, double y) {
    auto const width = std::max(x(of.end) - x(of.begin), 0.5);
    add("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"{}>"
        "<title>{}</title></rect>\n",
        x(of.begin), y + 0.5, width, sheet::level - 1, colour(of.comm),
        of.layer.value_or(0) % 2 == 0 ? "" : " fill-opacity=\".7\"", tooltip(of));
    auto const layer = of.layer ? std::to_string(*of.layer) : std::string{};
    for (auto const& label : {of.name + (layer.empty() ? "" : " ") + layer, layer}) {
      if (label.empty() || width < 6.0 * static_cast<double>(label.size()) + 4) continue;
      add("<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"10\" "
          "fill=\"#000000\" "
          "stroke=\"none\" pointer-events=\"none\">{}</text>\n",
          x(of.begin) + width / 2, y + 11.5, svg_text(label));
      return;
    }
  }

  [[nodiscard]] static std::string tooltip(bar const& of) {
    return svg_text(fmt::format("{}: {:.6g} ms, from {:.6f} to {:.6f} ms{}", of.name,
                                of.end - of.begin, of.begin, of.end, of.details));
  }

  /// Ticks at round times, from the first that is in the picture.
  void draw_time() {
    auto const step = picture::tick_step(of_.to - of_.from);
    auto const first = std::ceil(of_.from / step);
    for (int i = 0; i <= 12 && (first + i) * step <= of_.to; ++i) {
      auto const time = (first + i) * step;
      add("<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1:.0f}\" y2=\"{2:.1f}\" stroke=\"#808080\" "
          "stroke-opacity=\".4\"/>\n"
          "<text x=\"{0:.2f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4:.9g}{5}</text>\n",
          x(time), sheet::top - 8, bottom_ - sheet::between_ranks, sheet::top - 13,
          std::abs(time) < step / 2 ? 0.0 : time, i == 0 ? " ms" : "");
    }
  }

  /// The tracks, as many to a row as fit, in six rows at most.
  void draw_legend() {
    constexpr auto in_row = static_cast<int>(sheet::width / sheet::legend_entry);
    bottom_ += 10;
    auto column = 0;
    auto left = 6 * in_row;
    for (auto const& comm : comms_) {
      if (left-- == 0) break;
      if (column == in_row) {
        column = 0;
        bottom_ += 16;
      }
      auto const at = sheet::left + sheet::legend_entry * column++;
      add("<rect x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"12\" height=\"12\" fill=\"{2}\"/>\n"
          "<text x=\"{3:.1f}\" y=\"{4:.1f}\">{5}</text>\n",
          at, bottom_ - 10, colour(comm), at + 17, bottom_, svg_text(comm, 16));
    }
    bottom_ += 18;
    add("<text x=\"{:.0f}\" y=\"{:.1f}\">Number in a bar: the layer. What is inside another range "
        "stands below it. Ranges narrower than half a pixel are drawn together.</text>\n",
        sheet::left, bottom_);
  }

  view const& of_;
  window seen_;
  std::set<std::string> comms_;
  double bottom_ = sheet::top;
  std::string body_;
};

}  // namespace detail

/// Well-formed SVG without a background, scripts or fonts of its own; pointing at a bar tells what
/// it is.
[[nodiscard]] inline std::string to_svg(view const& of) { return detail::drawing{of}.take(); }

}  // namespace draw
