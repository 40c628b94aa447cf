// SPDX-License-Identifier: Apache-2.0
/// The concept of a codec: floats in, fewer bytes out, and back.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

namespace fssdp {

namespace detail {

inline constexpr std::size_t most_block_elements = 4096;  // a block of floats stands on the stack

template <class Codec>
concept has_static_block = requires {
  { &Codec::block_elements } -> std::same_as<std::size_t const*>;
};
template <class Codec>
concept has_constant_block = has_static_block<Codec> && requires {
  typename std::integral_constant<std::size_t, Codec::block_elements>;
};
template <class Codec>
concept has_block = has_constant_block<Codec> && Codec::block_elements >= 1 &&
                    Codec::block_elements <= most_block_elements;

template <class Codec>
concept has_codec_functions = requires(Codec const& coder, std::span<float const> from,
                                       std::span<std::byte> payload,
                                       std::span<std::byte const> received, std::span<float> to,
                                       std::size_t elements, float magnitude) {
  { coder.encoded_bytes(elements) } -> std::same_as<std::size_t>;
  requires noexcept(coder.encode(from, payload));
  requires noexcept(coder.decode(received, to));
  { coder.error_bound(magnitude, magnitude) } -> std::same_as<double>;
};

}  // namespace detail

/// A value that turns floats into a payload of bytes and back. Options are members.
///
/// `block_elements`, a static constant from 1 to 4096: this many elements are encoded together. A
/// range that begins at a multiple of it and ends at one, or at the end, can be encoded on its own:
/// its payload is the part of the whole payload that begins at `encoded_bytes(first)`.
///
/// `encoded_bytes(elements)`: the size of a payload. It adds up over blocks.
/// @throws argument_error if the bytes are too many to be counted
///
/// `encode(from, payload)`, `decode(payload, to)`: pure; they write every byte and every element
/// and allocate nothing. A payload needs no alignment; its numbers have the byte order of the
/// topology.
/// @pre payload.size() == encoded_bytes(from.size()), or of to.size(); memory that does not overlap
/// @post what has been decoded survives encoding and decoding without a change; zero stays zero;
///       what is not finite does not become finite, and changes no other element
///
/// The library's codecs code memory of devices, too, by kernels that give the same bytes; others
/// are for memory of the host.
///
/// `error_bound(element, largest)`: no element x of a block differs by more from what is decoded,
/// where `element` is at least |x| and `largest` the greatest finite magnitude in its block.
/// It does not fall where one of them grows, so (largest, largest) holds for the block.
template <class Codec>
concept codec = std::copy_constructible<Codec> && detail::has_block<Codec> &&
    detail::has_codec_functions<Codec>;

}  // namespace fssdp
