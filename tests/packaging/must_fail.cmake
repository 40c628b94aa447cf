# SPDX-License-Identifier: Apache-2.0
# cmake -DMESSAGE=text -P must_fail.cmake -- command...: the command fails, and says the text.
set(command "")
set(after_dashes FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(after_dashes)
    list(APPEND command "${CMAKE_ARGV${i}}")
  elseif("${CMAKE_ARGV${i}}" STREQUAL "--")
    set(after_dashes TRUE)
  endif()
endforeach()

execute_process(COMMAND ${command} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
string(REGEX REPLACE "[ \n]+" " " said "${out}")  # messages are wrapped
string(FIND "${said}" "${MESSAGE}" position)
if(result EQUAL 0 OR position EQUAL -1)
  message(FATAL_ERROR "expected a failure that says '${MESSAGE}', got ${result}:\n${out}")
endif()
message("fails and says: ${MESSAGE}")
