// SPDX-License-Identifier: Apache-2.0
/// The types that an instance of a test case is about.
#pragma once

namespace support {

/// The element types of what is given and of what comes out, and the codec between them, if any.
template <class From, class To, class Codec = void>
struct types {
  using from = From;
  using to = To;
  using codec = Codec;
};

}  // namespace support
