# SPDX-License-Identifier: Apache-2.0
# cmake -DCONCEPT=name -DLACKS=n -P near_miss.cmake -- command...: where n is 0 the command passes;
# else it fails, as something does not satisfy the concept, or, where the name is "deleted", as the
# function that would be called is.
set(ENV{LC_ALL} C)  # messages in English, quotes in ASCII
include(${CMAKE_CURRENT_LIST_DIR}/../run_behind_dashes.cmake)
if(LACKS EQUAL 0)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "the twin, which lacks nothing, does not compile:\n${out}")
  endif()
  message("compiles")
else()
  # g++: use of deleted function; clang++: call to deleted function. Else
  # g++: required for the satisfaction of 'name<T>'; clang++: 'type' does not satisfy 'name', or, of
  # a concept of several types, 'name<type, other>' evaluated to false
  set(name "'(fssdp::)?${CONCEPT}[<'][^\n]*")
  if(CONCEPT STREQUAL "deleted")
    string(REGEX MATCH "(use of|call to) deleted function[^\n]*" found "${out}")
  else()
    string(REGEX MATCH
      "(the satisfaction of|does not satisfy) ${name}|because ${name} evaluated to false"
      found "${out}")
  endif()
  if(result EQUAL 0)
    message(FATAL_ERROR "what lacks thing ${LACKS} of ${CONCEPT} compiles")
  elseif(NOT found)
    message(FATAL_ERROR "fails without naming the concept ${CONCEPT}:\n${out}")
  endif()
  message("fails: ${found}")
endif()
