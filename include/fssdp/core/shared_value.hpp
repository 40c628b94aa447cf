// SPDX-License-Identifier: Apache-2.0
/// An immutable value with shared ownership.
#pragma once

#include <memory>
#include <utility>

namespace fssdp::detail {

/// A handle on an immutable value, which exists as long as any handle on it. Never empty: it has no
/// move, as a moved-from handle would have no value.
/// @cost one allocation to make it; a copy increments an atomic counter; a read follows a pointer
template <class T>
class shared_value {
 public:
  explicit shared_value(T value) : value_{std::make_shared<T const>(std::move(value))} {}
  shared_value(shared_value const&) noexcept = default;
  shared_value& operator=(shared_value const&) noexcept = default;
  ~shared_value() = default;

  [[nodiscard]] T const& operator*() const noexcept { return *value_.get(); }
  [[nodiscard]] T const* operator->() const noexcept { return value_.get(); }
  /// A handle without ownership: it and its copies are valid while this one exists.
  /// @cost copies do not count: threads that share a value do not contend for the counter
  [[nodiscard]] shared_value borrowed() const noexcept {
    return shared_value{std::shared_ptr<T const>{std::shared_ptr<void>{}, value_.get()}};
  }
  /// Whether both refer to the same value.
  [[nodiscard]] bool shares_with(shared_value const& other) const noexcept {
    return value_ == other.value_;
  }

 private:
  explicit shared_value(std::shared_ptr<T const> value) : value_{std::move(value)} {}

  std::shared_ptr<T const> value_;
};

}  // namespace fssdp::detail
