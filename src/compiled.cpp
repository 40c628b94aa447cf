// SPDX-License-Identifier: Apache-2.0
// All bodies that are no templates, once for a whole program. It is compiled with FSSDP_COMPILED, as
// are the files that are linked to it. The target fssdp::compiled compiles its two parts, which take
// about as long, side by side.
#include "compiled_collectives.cpp"
#include "compiled_planning.cpp"
