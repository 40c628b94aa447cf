# SPDX-License-Identifier: Apache-2.0
# cmake -DPROGRAM=... [-DARGUMENTS=...] -P full_disk.cmake: a program whose results a full disk does
# not take ends with 1 and says so; where there is room, with 0.
if(NOT EXISTS /dev/full)
  message("no /dev/full here: nothing is tried")
  return()
endif()
execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} OUTPUT_FILE /dev/full
  RESULT_VARIABLE result ERROR_VARIABLE complaint)
if(NOT result EQUAL 1 OR NOT complaint MATCHES "cannot write to standard output")
  message(FATAL_ERROR "expected exit status 1 and the cause, got ${result}:\n${complaint}")
endif()
execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} OUTPUT_QUIET
  RESULT_VARIABLE result ERROR_VARIABLE complaint)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "expected exit status 0 where there is room, got ${result}:\n${complaint}")
endif()
