// SPDX-License-Identifier: Apache-2.0
/// Processes of one host tell each other something through files: what a test compares between
/// them does not go the way that it tests.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/temporary_folder.hpp"

namespace gpu_tests {

/// How a value goes to another process: as bytes. For other types than these, specialize it.
template <class Value>
struct message_form {
  static_assert(std::is_trivially_copyable_v<Value>);

  static std::string bytes(Value const& value) {
    return {reinterpret_cast<char const*>(&value), sizeof(value)};
  }
  static Value value(std::string const& bytes) {
    auto result = Value{};
    if (bytes.size() != sizeof(result))
      throw std::runtime_error{"a process comes with " + std::to_string(bytes.size()) +
                               " bytes; expected " + std::to_string(sizeof(result))};
    std::memcpy(&result, bytes.data(), bytes.size());
    return result;
  }
};
template <>
struct message_form<std::string> {
  static std::string bytes(std::string const& value) { return value; }
  static std::string value(std::string const& bytes) { return bytes; }
};
template <class Element>
struct message_form<std::vector<Element>> {
  static_assert(std::is_trivially_copyable_v<Element>);

  static std::string bytes(std::vector<Element> const& value) {
    return {reinterpret_cast<char const*>(value.data()), value.size() * sizeof(Element)};
  }
  static std::vector<Element> value(std::string const& bytes) {
    auto result = std::vector<Element>(bytes.size() / sizeof(Element));
    if (!result.empty()) std::memcpy(result.data(), bytes.data(), result.size() * sizeof(Element));
    return result;
  }
};

/// One of several processes that make the same calls in the same order. The program that started
/// them makes FILE.end.N when process N has ended in any way: then no process waits for it any more.
class process_meeting {
 public:
  /// @param file  where they meet: no file has a name yet that begins so
  /// @param patience  with a process that does not come; longer than whatever it may wait for
  process_meeting(int me, int processes, std::filesystem::path file, std::chrono::seconds patience)
      : me_{me}, processes_{processes}, file_{std::move(file)}, patience_{patience} {}
  process_meeting(process_meeting const&) = delete;
  process_meeting& operator=(process_meeting const&) = delete;

  [[nodiscard]] int rank() const { return me_; }
  [[nodiscard]] int size() const { return processes_; }

  /// What each process comes with: [process].
  /// @throws std::runtime_error if one does not come, and from then on at once
  template <class Value>
  [[nodiscard]] std::vector<Value> all(Value const& here) {
    auto values = std::vector<Value>{};
    for (auto const& bytes : all_bytes(message_form<Value>::bytes(here)))
      values.push_back(message_form<Value>::value(bytes));
    return values;
  }
  /// The sum over all processes.
  /// @throws as all
  [[nodiscard]] long total(long here) {
    auto sum = 0L;
    for (auto const of_process : all(here)) sum += of_process;
    return sum;
  }

 private:
  [[nodiscard]] std::filesystem::path file_of(int process, long meeting) const {
    return file_.string() + "." + std::to_string(meeting) + "." + std::to_string(process);
  }
  [[nodiscard]] std::filesystem::path end_of(int process) const {
    return file_.string() + ".end." + std::to_string(process);
  }

  [[nodiscard]] std::vector<std::string> all_bytes(std::string const& here) {
    if (is_over_) throw std::runtime_error{"the processes do not meet any more"};
    is_over_ = true;  // unless all come
    auto const mine = file_of(me_, ++meetings_);
    auto const unfinished = mine.string() + ".part";
    support::write_bytes(unfinished, here);
    std::filesystem::rename(unfinished, mine);
    auto result = std::vector<std::string>{};
    for (auto process = 0; process < processes_; ++process) {
      await(process);
      result.push_back(support::bytes_of_file(file_of(process, meetings_)));
    }
    is_over_ = false;
    auto ignored = std::error_code{};  // who has come here has read what was there before
    std::filesystem::remove(file_of(me_, meetings_ - 1), ignored);
    return result;
  }
  void await(int process) const {
    auto const awaited = file_of(process, meetings_);
    auto const until = std::chrono::steady_clock::now() + patience_;
    while (!std::filesystem::exists(awaited)) {
      auto const has_ended = std::filesystem::exists(end_of(process));
      if (has_ended && !std::filesystem::exists(awaited)) lacks(process, " has ended");
      if (std::chrono::steady_clock::now() > until) lacks(process, " has not come");
      std::this_thread::sleep_for(std::chrono::microseconds{500});
    }
  }
  [[noreturn]] void lacks(int process, char const* why) const {
    throw std::runtime_error{"process " + std::to_string(process) + why + ", at meeting " +
                             std::to_string(meetings_) + " of process " + std::to_string(me_)};
  }

  int me_;
  int processes_;
  std::filesystem::path file_;
  std::chrono::seconds patience_;
  long meetings_ = 0;
  bool is_over_ = false;
};

}  // namespace gpu_tests
