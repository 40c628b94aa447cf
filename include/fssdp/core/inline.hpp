// SPDX-License-Identifier: Apache-2.0
/// Where function bodies that are not templates are compiled: in every file that includes them, or,
/// with the target fssdp::compiled, once for the whole program.
///
/// These bodies are in files that end with _inl.hpp. Headers include them unless FSSDP_COMPILED is
/// defined; no other file should.
#pragma once

#ifdef FSSDP_COMPILED
#define FSSDP_INLINE
#else
#define FSSDP_INLINE inline
#endif
