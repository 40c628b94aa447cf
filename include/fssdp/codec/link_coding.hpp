// SPDX-License-Identifier: Apache-2.0
/// A type-erased codec and the links that it is for, as a value.
#pragma once

#include <memory>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/codec/payload_codec.hpp"
#include "fssdp/codec/runtime_payload.hpp"

namespace fssdp {

/// Any coded_links, or uncoded, as one type, to be kept in options.
///
///     link_coding const on_slow_links = coded_links{int8_codec{}};
///
/// @cost with a codec, one allocation when it is made; copies share it
class link_coding {
 public:
  /// Nothing is coded.
  link_coding() = default;
  link_coding(uncoded) {}
  template <codec Codec>
  link_coding(coded_links<Codec> const& links)
      : codec_{std::make_shared<Codec const>(links.codec)}, make_{&make<Codec>}, on_{links.on} {}

  /// Whether there is a codec.
  [[nodiscard]] bool codes() const { return codec_ != nullptr; }
  [[nodiscard]] link_class on() const { return on_; }
  /// The codec, for elements of any dtype. Valid while this or a copy of it exists.
  /// @pre codes()
  [[nodiscard]] detail::payload_codec coder() const { return make_(codec_.get()); }

 private:
  template <codec Codec>
  [[nodiscard]] static detail::payload_codec make(void const* coder) {
    return detail::make_runtime_payload(*static_cast<Codec const*>(coder));
  }

  std::shared_ptr<void const> codec_;
  detail::payload_codec (*make_)(void const*) = nullptr;
  link_class on_ = link_class::between_nodes;
};

}  // namespace fssdp
