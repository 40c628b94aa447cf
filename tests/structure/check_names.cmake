# SPDX-License-Identifier: Apache-2.0
# register_tests.cmake makes the right entries of what a program lists, whatever is printed beside it,
# and fails where a test case is not listed.
# -DREGISTER=<script> -DPROGRAM=<test program> -DSOURCES=<its files>... -DLIST_AS=text|xml -DFOLDER=<scratch>
cmake_policy(VERSION 3.25)
set(noisy ${CMAKE_CURRENT_LIST_DIR}/noisy_list.sh)
file(REMOVE_RECURSE ${FOLDER})
set(entries ${FOLDER}/CTestTestfile.cmake)

# register(<list or error> <form> <source>... PROGRAM <command>...): the entries as ctest sees them
function(register result form)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "PROGRAM")
  execute_process(
    COMMAND ${CMAKE_COMMAND} "-DPROGRAM=${arg_PROGRAM}" -DPREFIX=name/ "-DSOURCES=${arg_UNPARSED_ARGUMENTS}"
            "-DPROPERTIES=LABELS;one" -DLIST_AS=${form} -DENTRIES=${entries} -P ${REGISTER}
    ERROR_VARIABLE error RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    if(EXISTS ${entries})
      message(FATAL_ERROR "entries are left though not all are listed")
    endif()
    string(REGEX REPLACE "[ \n]+" " " error "${error}")  # CMake breaks its lines somewhere
    set(${result} "${error}" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${CMAKE_CTEST_COMMAND} -N -L one WORKING_DIRECTORY ${FOLDER}
    OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
  set(${result} "${listed}" PARENT_SCOPE)
endfunction()

function(must_be text expected)
  if(NOT text STREQUAL expected)
    message(FATAL_ERROR "expected\n${expected}\nbut there is\n${text}")
  endif()
endfunction()

set(two ${FOLDER}/two.cpp)
file(WRITE ${two} "// two places\n\nTEST_CASE(\"plain\") {}\nTEMPLATE_TEST_CASE(\"two\", \"\", int, S) {}\n")
foreach(form text xml)
  register(found ${form} ${two} PROGRAM sh ${noisy} ${two})
  must_be("${found}" "Test project ${FOLDER}
  Test #1: name/plain [a], b; \\ & \"c\"
  Test #2: name/two of a kind - int
  Test #3: name/two of a kind - S<1, 2>

Total Tests: 3
")
  file(READ ${entries} written)
  if(NOT written MATCHES "plain \\\\\\[a\\\\\\]\\\\, b; \\\\\\\\ & \"c\"")
    message(FATAL_ERROR "Catch2 would not find what is written as\n${written}")
  endif()
endforeach()

register(quiet ${LIST_AS} ${SOURCES} PROGRAM ${PROGRAM})
register(loud ${LIST_AS} ${SOURCES} PROGRAM sh ${noisy} ${PROGRAM})
must_be("${loud}" "${quiet}")
if(NOT quiet MATCHES "Total Tests: [1-9]")
  message(FATAL_ERROR "${PROGRAM}: no test cases are listed:\n${quiet}")
endif()

# A source that the program does not have, and one that has a test case more.
register(error ${LIST_AS} ${SOURCES} ${two} PROGRAM ${PROGRAM})
if(NOT error MATCHES "/two.cpp: 0 of 2 test cases are listed")
  message(FATAL_ERROR "nothing is said of two.cpp, but\n${error}")
endif()
file(APPEND ${two} "  TEST_CASE(\n    \"a third\") {}\n")
register(error text ${two} PROGRAM sh ${noisy} ${two})
if(NOT error MATCHES "/two.cpp: 2 of 3 test cases are listed")
  message(FATAL_ERROR "nothing is said of the third, but\n${error}")
endif()
file(REMOVE_RECURSE ${FOLDER})
