// SPDX-License-Identifier: Apache-2.0
/// The concept of a codec: encodes floats in fewer bytes, and decodes them.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

namespace fssdp {

namespace detail {

inline constexpr std::size_t most_block_elements = 4096;  // a block of floats is on the stack

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

/// A value that encodes floats as a payload of bytes, and decodes it. Its options are members.
///
/// `block_elements`, a static constant from 1 to 4096: how many elements are encoded together. A
/// range that begins at a multiple of it, and ends at one or at the end, can be encoded by itself:
/// its payload is the part of the whole payload that begins at `encoded_bytes(first)`.
///
/// `encoded_bytes(elements)`: the size of a payload; the sum over its blocks.
/// @throws argument_error if the size is too large for std::size_t
///
/// `encode(from, payload)`, `decode(payload, to)`: pure; they write every byte or element, and do
/// not allocate. A payload needs no alignment; its numbers have the byte order of the host.
/// @pre payload.size() == encoded_bytes(from.size()), or of to.size(); memory does not overlap
/// @post decoded values are unchanged by encoding and decoding them again; zero stays zero;
///       elements that are not finite do not become finite, and do not change any other element
///
/// The library's codecs have kernels for device memory, with the same bytes; other codecs work in
/// host memory only.
///
/// `error_bound(element, largest)`: an upper bound of the error of each element x of a block, where
/// `element` is at least |x| and `largest` the largest finite magnitude in its block. It does not
/// decrease in either argument, so (largest, largest) holds for the whole block.
template <class Codec>
concept codec = std::copy_constructible<Codec> && detail::has_block<Codec> &&
    detail::has_codec_functions<Codec>;

}  // namespace fssdp
