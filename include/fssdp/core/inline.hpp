// SPDX-License-Identifier: Apache-2.0
/// Where the bodies of functions that are no templates are compiled: in every file that includes
/// them, or, with the target fssdp::compiled, once for a whole program.
///
/// Those bodies stand in files that end with _inl.hpp, which the headers include unless
/// FSSDP_COMPILED is defined. Nobody else includes them.
#pragma once

#ifdef FSSDP_COMPILED
#define FSSDP_INLINE
#else
#define FSSDP_INLINE inline
#endif
