// SPDX-License-Identifier: Apache-2.0
/// Single events of the Trace Event Format, which chrome://tracing and ui.perfetto.dev read.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "fssdp/core/index.hpp"
#include "fssdp/trace/json_text.hpp"
#include "fssdp/trace/trace.hpp"

namespace fssdp::detail {

/// Writes events, one per line. Processes are ranks, threads are rows.
class chrome_writer {
 public:
  chrome_writer(std::ostream& out, trace_clock::time_point zero) : out_{&out}, zero_{zero} {
    line_ = R"({"displayTimeUnit":"ms","traceEvents":[)";
  }
  /// Metadata of a process or a thread, such as its name: `"key":value`.
  void metadata(std::string_view what, rank_id rank, std::size_t row, std::string_view key,
                auto const& value) {
    begin_event("M", what, rank, row);
    line_ += R"(,"args":{)";
    append_member(key, value);
    line_ += "}}";
  }
  void range(rank_id rank, std::size_t row, trace_event const& event) {
    begin_event("X", event.work.name.view(), rank, row);
    line_ += R"(,"cat":)";
    append_json_text(line_, event.work.track.name.view());
    line_ += R"(,"ts":)";
    append_microseconds(event.begin - zero_);
    line_ += R"(,"dur":)";
    append_microseconds(std::max(event.end, event.begin) - event.begin);
    line_ += R"(,"args":{)";
    append_numbers(event.work.numbers);
    line_ += "}}";
  }
  void finish() {
    line_ += "\n]}\n";
    flush();
  }

 private:
  void begin_event(std::string_view phase, std::string_view name, rank_id rank, std::size_t row) {
    flush();
    line_ += is_first_ ? "\n{" : ",\n{";
    is_first_ = false;
    append_member("ph", phase);
    line_ += ',';
    append_member("pid", rank.value());
    line_ += ',';
    append_member("tid", row);
    line_ += ',';
    append_member("name", name);
  }
  void flush() {
    out_->write(line_.data(), static_cast<std::streamsize>(line_.size()));
    line_.clear();
  }

  void append_member(std::string_view key, auto const& value) {
    append_json_text(line_, key);
    line_ += ':';
    if constexpr (std::convertible_to<decltype(value), std::string_view>)
      append_json_text(line_, value);
    else
      append_integer(value);
  }
  void append_numbers(trace_numbers const& numbers) {
    auto separator = std::string_view{};
    auto const append = [&](std::string_view key, trace_number const& number, auto as) {
      if (!number.is_known()) return;
      line_ += std::exchange(separator, ",");
      append_member(key, as(number.value()));
    };
    auto const add = [&](std::string_view key, trace_number const& number) {
      append(key, number, std::identity{});
    };
    add("layer", numbers.layer);
    append("plan", numbers.plan, hexadecimal);  // 64 bits: JavaScript's numbers have 53
    add("round", numbers.round);
    add("messages_sent", numbers.messages_sent);
    add("bytes_sent", numbers.bytes_sent);
    add("messages_received", numbers.messages_received);
    add("bytes_received", numbers.bytes_received);
  }
  void append_microseconds(trace_clock::duration time) {
    auto const nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    append_integer(nanoseconds / 1000);
    auto const rest = std::to_string(1000 + nanoseconds % 1000);
    line_ += '.';
    line_ += rest.substr(1);
  }
  /// Integers without the digit grouping of a stream's locale.
  void append_integer(std::integral auto value) { line_ += std::to_string(value); }
  [[nodiscard]] static std::string hexadecimal(std::int64_t bits) {
    auto digits = std::array<char, 16>{};
    auto const end = std::to_chars(digits.data(), digits.data() + digits.size(),
                                   static_cast<std::uint64_t>(bits), 16)
                         .ptr;
    return "0x" + std::string(digits.data(), end);
  }

  std::ostream* out_;
  trace_clock::time_point zero_;
  std::string line_;
  bool is_first_ = true;
};

}  // namespace fssdp::detail
