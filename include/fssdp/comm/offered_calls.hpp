// SPDX-License-Identifier: Apache-2.0
/// Detects whether a class has a function of some name, whatever its signature.
#pragma once

namespace fssdp::detail {

/// Archetypes of any argument: by value or reference to const; by reference.
struct any_value {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};
struct any_reference {
  template <class T>
  operator T&() const;  // NOLINT(google-explicit-constructor)
};

// offers_lend<T> and the others: whether T has a public function of that name, with at most four
// arguments. Functions whose constraints are not satisfied, and private ones, do not count: an
// adaptor may have `lend` only if its communicator has it.
#define FSSDP_OFFERS(name)                                     \
  template <class T>                                           \
  concept offers_##name = requires(T & of) {                   \
    of.name();                                                 \
  }                                                            \
  || requires(T & of, any_value & a) { of.name(a); }           \
  || requires(T & of, any_value & a) { of.name(a, a); }        \
  || requires(T & of, any_value & a) { of.name(a, a, a); }     \
  || requires(T & of, any_value & a) { of.name(a, a, a, a); }  \
  || requires(T & of, any_reference & a) { of.name(a); }       \
  || requires(T & of, any_reference & a) { of.name(a, a); }    \
  || requires(T & of, any_reference & a) { of.name(a, a, a); } \
  || requires(T & of, any_reference & a) { of.name(a, a, a, a); }
FSSDP_OFFERS(label);
FSSDP_OFFERS(lend);
FSSDP_OFFERS(forward);
FSSDP_OFFERS(agree);
FSSDP_OFFERS(announce);
FSSDP_OFFERS(has_agreed);
FSSDP_OFFERS(connect);
FSSDP_OFFERS(duplicate);
FSSDP_OFFERS(split);
FSSDP_OFFERS(without);
FSSDP_OFFERS(find_lost);
FSSDP_OFFERS(gather_values);
FSSDP_OFFERS(submit);
FSSDP_OFFERS(synchronize);
FSSDP_OFFERS(prepare);
FSSDP_OFFERS(sum);
FSSDP_OFFERS(convert);
FSSDP_OFFERS(encode);
FSSDP_OFFERS(copy);
FSSDP_OFFERS(allocate);
FSSDP_OFFERS(free);
#undef FSSDP_OFFERS

}  // namespace fssdp::detail
