// SPDX-License-Identifier: Apache-2.0
/// An immutable value that all copies of its handle share.
#pragma once

#include <memory>
#include <utility>

namespace fssdp::detail {

/// A handle on a value that nobody changes. Whoever keeps a copy of the handle keeps the value.
/// Never empty: there is no move, so that the source of one would still have its value.
/// @cost one allocation to make; a copy counts a reference, atomically; a read follows a pointer
template <class T>
class shared_value {
 public:
  explicit shared_value(T value) : value_{std::make_shared<T const>(std::move(value))} {}
  shared_value(shared_value const&) noexcept = default;
  shared_value& operator=(shared_value const&) noexcept = default;
  ~shared_value() = default;

  [[nodiscard]] T const& operator*() const noexcept { return *value_.get(); }
  [[nodiscard]] T const* operator->() const noexcept { return value_.get(); }
  /// A handle that does not keep the value: it, and all copies of it, are good for as long as this
  /// one is there.
  /// @cost copies count nothing: where threads share a value, none waits for another's count
  [[nodiscard]] shared_value borrowed() const noexcept {
    return shared_value{std::shared_ptr<T const>{std::shared_ptr<void>{}, value_.get()}};
  }
  /// Whether both are handles on the same value.
  [[nodiscard]] bool shares_with(shared_value const& other) const noexcept {
    return value_ == other.value_;
  }

 private:
  explicit shared_value(std::shared_ptr<T const> value) : value_{std::move(value)} {}

  std::shared_ptr<T const> value_;
};

}  // namespace fssdp::detail
