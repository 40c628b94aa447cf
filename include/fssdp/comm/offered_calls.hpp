// SPDX-License-Identifier: Apache-2.0
/// Tells whether a class has a function of some name, whatever its signature.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

namespace fssdp::detail {

/// Stand in for any argument, taken by value or by reference to const, or by reference.
struct any_value {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};
struct any_reference {
  template <class T>
  operator T&() const;  // NOLINT(google-explicit-constructor)
};

/// Whether T has a public function that `Call` calls, with four arguments at most. Functions whose
/// constraints are not met do not count, nor do private ones: an adaptor may have `lend` only where
/// its communicator has it.
template <class T, class Call>
concept offers = std::invocable<Call, T&> || std::invocable<Call, T&, any_value&> ||
    std::invocable<Call, T&, any_value&, any_value&> ||
    std::invocable<Call, T&, any_value&, any_value&, any_value&> ||
    std::invocable<Call, T&, any_value&, any_value&, any_value&, any_value&> ||
    std::invocable<Call, T&, any_reference&> ||
    std::invocable<Call, T&, any_reference&, any_reference&> ||
    std::invocable<Call, T&, any_reference&, any_reference&, any_reference&> ||
    std::invocable<Call, T&, any_reference&, any_reference&, any_reference&, any_reference&>;

// call_lend{}(comm, arguments...) is comm.lend(arguments...), and so on.
#define FSSDP_CALL(name)                                             \
  struct call_##name {                                               \
    template <class T, class... Arguments>                           \
    auto operator()(T& of, Arguments&&... arguments) const           \
        -> decltype(of.name(std::forward<Arguments>(arguments)...)); \
  }
FSSDP_CALL(label);
FSSDP_CALL(lend);
FSSDP_CALL(forward);
FSSDP_CALL(agree);
FSSDP_CALL(connect);
FSSDP_CALL(duplicate);
FSSDP_CALL(gather_values);
FSSDP_CALL(submit);
FSSDP_CALL(synchronize);
FSSDP_CALL(prepare);
FSSDP_CALL(sum);
FSSDP_CALL(convert);
FSSDP_CALL(copy);
FSSDP_CALL(allocate);
FSSDP_CALL(free);
#undef FSSDP_CALL

}  // namespace fssdp::detail
