#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# plain_compiler.sh LIBRARY CONSUMER FOLDER COMPILER BODIES...: the README's recipe without CMake. A part
# of the program is a shared library, as extensions of Python are, which has the compiled bodies in it.
# They are not compiled once more here: BODIES are the archives that the tests are linked to.
set -eu
library=$1 consumer=$2 folder=$3 compiler=$4
shift 4
mkdir -p "$folder"
options="-std=c++20 -pthread -DFSSDP_COMPILED=1"

# shellcheck disable=SC2086  # a list
"$compiler" $options -I "$library/include" -shared -fPIC "$consumer/other.cpp" \
  -Wl,--whole-archive "$@" -Wl,--no-whole-archive -o "$folder/libextension.so"
# shellcheck disable=SC2086
"$compiler" $options -I "$library/include" "$consumer/main.cpp" \
  -L "$folder" -lextension -Wl,-rpath,"$folder" -o "$folder/program"
"$folder/program"
