// SPDX-License-Identifier: Apache-2.0
/// What is coded on the wire, as a value.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/codec/payload_codec.hpp"
#include "fssdp/element/element_kind.hpp"

namespace fssdp {

/// Any coded_links, or uncoded, as one type: for those who keep them among their options.
///
///     link_coding const on_slow_links = coded_links{int8_codec{}};
///
/// @cost of one with a codec: an allocation, when it is made; copies share it
class link_coding {
 public:
  /// Nothing is coded.
  link_coding() = default;
  link_coding(uncoded) {}  // NOLINT: that is what it means
  template <codec Codec>
  link_coding(coded_links<Codec> const& links)
      : codec_{std::make_shared<Codec const>(links.codec)}, make_{&make<Codec>}, on_{links.on} {}

  /// Whether anything is.
  [[nodiscard]] bool codes() const { return codec_ != nullptr; }
  [[nodiscard]] link_class on() const { return on_; }

  /// The codec, for elements of these types.
  /// @pre codes()
  [[nodiscard]] detail::payload_codec coder(element_kind source, element_kind target) const {
    return make_(codec_.get(), source, target);
  }

 private:
  template <codec Codec>
  [[nodiscard]] static detail::payload_codec make(void const* coder, element_kind source,
                                                  element_kind target) {
    return detail::payload_codec::make(*static_cast<Codec const*>(coder), source, target);
  }

  std::shared_ptr<void const> codec_;
  detail::payload_codec (*make_)(void const*, element_kind, element_kind) = nullptr;
  link_class on_ = link_class::between_nodes;
};

}  // namespace fssdp
