// SPDX-License-Identifier: Apache-2.0
/// A reference to a function.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace fssdp::detail {

/// A parameter type for functions that are not templates, in place of `auto function`: a pointer to
/// the function object and to code that calls it. Valid while the function exists; as a parameter
/// it may refer to a temporary.
template <class Signature>
class function_ref;

template <class Result, class... Arguments>
class function_ref<Result(Arguments...)> {
 public:
  template <class Function>
  requires(!std::same_as<std::remove_cvref_t<Function>, function_ref> &&
           std::is_invocable_r_v<Result, Function&, Arguments...>) function_ref(Function&& function)
  noexcept
      : function_{address(function)}, call_{[](void* of, Arguments... arguments) -> Result {
          return (*reinterpret_cast<std::remove_reference_t<Function>*>(of))(
              std::forward<Arguments>(arguments)...);
        }} {}

  Result operator()(Arguments... arguments) const {
    return call_(function_, std::forward<Arguments>(arguments)...);
  }

 private:
  template <class Function>
  [[nodiscard]] static void* address(Function& function) {
    if constexpr (std::is_function_v<Function>)
      return reinterpret_cast<void*>(&function);
    else
      return const_cast<void*>(static_cast<void const*>(std::addressof(function)));
  }

  void* function_;
  Result (*call_)(void*, Arguments...);
};

}  // namespace fssdp::detail
