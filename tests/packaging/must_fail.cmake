# SPDX-License-Identifier: Apache-2.0
# cmake -DMESSAGE=text -P must_fail.cmake -- command...: the command fails, and says the text.
include(${CMAKE_CURRENT_LIST_DIR}/../run_behind_dashes.cmake)
string(FIND "${said}" "${MESSAGE}" position)
if(result EQUAL 0 OR position EQUAL -1)
  message(FATAL_ERROR "expected a failure that says '${MESSAGE}', got ${result}:\n${out}")
endif()
message("fails and says: ${MESSAGE}")
