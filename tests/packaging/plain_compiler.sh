#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# plain_compiler.sh LIBRARY CONSUMER FOLDER COMPILER: the README's recipe without CMake. A part of the
# program is a shared library, as extensions of Python are, which has the compiled bodies in it.
set -eu
library=$1 consumer=$2 folder=$3 compiler=$4
mkdir -p "$folder"
set -- -std=c++20 -pthread -DFSSDP_COMPILED=1 -I "$library/include"

"$compiler" "$@" -shared -fPIC "$consumer/other.cpp" "$library/src/compiled.cpp" \
  -o "$folder/libextension.so"
"$compiler" "$@" "$consumer/main.cpp" -L "$folder" -lextension -Wl,-rpath,"$folder" \
  -o "$folder/program"
"$folder/program"
