# SPDX-License-Identifier: Apache-2.0
# The test cases of a program of Catch2's, version 2 or 3, as entries of ctest. The program is asked
# for them once, after its link, in a form in which nothing else that it or one of its libraries
# prints is taken for a name; and each test case in its sources must be among them.
#
# As a script: -DPROGRAM=<command> -DPREFIX=<text> -DSOURCES=<file>... -DARGUMENTS=<argument>...
# -DPROPERTIES=<property and value>... -DLIST_AS=text|xml -DENTRIES=<file to write>
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(FSSDP_REGISTER_TESTS ${CMAKE_CURRENT_LIST_FILE})
  set(FSSDP_LIST_TESTS_AS xml)
  if(Catch2_VERSION VERSION_LESS 3)
    set(FSSDP_LIST_TESTS_AS text)
  endif()
  # A test that asserts nothing must not pass, nor one that is not found by its name, of which version
  # 2 says no more than this.
  set(FSSDP_TEST_ARGUMENTS --warn NoAssertions)
  set(FSSDP_TEST_IS_NOT_THERE "No tests ran")
  # What a test that skip_test ends has printed, if nothing has failed in it before.
  set(FSSDP_TEST_IS_SKIPPED "this test is skipped: .*All tests passed")

  # fssdp_register_tests(<target> PREFIX <text> SOURCES <file>... [PROPERTIES <property> <value>...])
  function(fssdp_register_tests target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "PREFIX" "SOURCES;PROPERTIES")
    set(sources "")
    foreach(source IN LISTS arg_SOURCES)
      cmake_path(ABSOLUTE_PATH source)
      list(APPEND sources ${source})
    endforeach()
    set(entries ${CMAKE_CURRENT_BINARY_DIR}/${target}_entries.cmake)
    add_custom_command(TARGET ${target} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${target}> -DPREFIX=${arg_PREFIX}
              "-DSOURCES=${sources}" "-DARGUMENTS=${FSSDP_TEST_ARGUMENTS}"
              "-DPROPERTIES=${arg_PROPERTIES}" -DLIST_AS=${FSSDP_LIST_TESTS_AS}
              -DENTRIES=${entries} -P ${FSSDP_REGISTER_TESTS}
      BYPRODUCTS ${entries}
      VERBATIM)
    file(CONFIGURE OUTPUT ${target}_include.cmake @ONLY CONTENT [[
if(EXISTS "@entries@")
  include("@entries@")
else()
  add_test("@target@_NOT_BUILT" "@target@_NOT_BUILT")
endif()
]])
    set_property(DIRECTORY APPEND PROPERTY
      TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake)
  endfunction()
  return()
endif()

cmake_policy(VERSION 3.25)

# Version 2 prints "<name><tab>@<file>:<line>", version 3 an element for each test case.
if(LIST_AS STREQUAL "xml")
  set(listing --list-tests --reporter xml)
  string(CONCAT form "<Name>([^<]*)</Name>[ \n]*<ClassName(/|[^/]*</ClassName)>[ \n]*"
    "<Tags(/|[^/]*</Tags)>[ \n]*<SourceInfo>[ \n]*<File>([^<]*)</File>[ \n]*<Line>([0-9]+)</Line>")
else()
  set(listing --list-test-names-only --verbosity high)
  set(form "([^\n]+)(\t)(@)([^\n]+):([0-9]+)\n")
endif()
execute_process(COMMAND ${PROGRAM} ${listing}
  OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE result)

# The entries, and at how many places of each source test cases are: those of a template are at one.
set(entries "")
set(rest "${output}")
while(rest MATCHES "${form}")
  set(found "${CMAKE_MATCH_0}")
  set(name "${CMAKE_MATCH_1}")
  set(source "${CMAKE_MATCH_4}")
  set(place "${source}:${CMAKE_MATCH_5}")
  string(FIND "${rest}" "${found}" begin)
  string(LENGTH "${found}" length)
  math(EXPR end "${begin} + ${length}")
  string(SUBSTRING "${rest}" ${end} -1 rest)

  if(LIST_AS STREQUAL "xml")
    string(REPLACE "&lt;" "<" name "${name}")
    string(REPLACE "&gt;" ">" name "${name}")
    string(REPLACE "&amp;" "&" name "${name}")
  endif()
  string(MD5 place_key "${place}")
  if(NOT DEFINED at_${place_key})
    set(at_${place_key} seen)
    string(REGEX MATCH "^/?(\\.\\.?/)*(.*)$" tail "${source}")
    set(tail "/${CMAKE_MATCH_2}")  # a compiler cache may make it a relative one
    foreach(written IN LISTS SOURCES)
      string(FIND "/${written}" "${tail}" begin REVERSE)
      string(LENGTH "/${written}" end)
      string(LENGTH "${tail}" length)
      math(EXPR end "${end} - ${length}")
      if(begin GREATER_EQUAL 0 AND begin EQUAL end)
        string(MD5 source_key "${written}")
        math(EXPR in_${source_key} "0${in_${source_key}} + 1")
        break()
      endif()
    endforeach()
  endif()

  set(pattern "${name}")  # as Catch2 reads it
  foreach(special IN ITEMS "\\" "," "[" "]")
    string(REPLACE "${special}" "\\${special}" pattern "${pattern}")
  endforeach()
  string(APPEND entries "add_test([==[${PREFIX}${name}]==]")
  foreach(word IN LISTS PROGRAM)
    string(APPEND entries " [==[${word}]==]")
  endforeach()
  string(APPEND entries " [==[${pattern}]==]")
  foreach(word IN LISTS ARGUMENTS)
    string(APPEND entries " [==[${word}]==]")
  endforeach()
  string(APPEND entries ")\nset_tests_properties([==[${PREFIX}${name}]==] PROPERTIES")
  foreach(word IN LISTS PROPERTIES)
    string(APPEND entries " [==[${word}]==]")
  endforeach()
  string(APPEND entries ")\n")
endwhile()

set(missing "")
foreach(source IN LISTS SOURCES)
  file(STRINGS "${source}" written
    REGEX "^[ \t]*(TEMPLATE_(LIST_|PRODUCT_)?)?TEST_CASE(_SIG|_METHOD)?\\(")
  list(LENGTH written wanted)
  string(MD5 source_key "${source}")
  math(EXPR listed "0${in_${source_key}}")
  if(NOT listed EQUAL wanted)
    string(APPEND missing "${source}: ${listed} of ${wanted} test cases are listed\n")
  endif()
endforeach()
if(missing OR entries STREQUAL "")
  file(REMOVE "${ENTRIES}")
  string(SUBSTRING "${output}" 0 2000 output)
  message(FATAL_ERROR "${PROGRAM} does not list every test case of its sources:\n${missing}"
    "It has ended with ${result} and printed:\n${output}${errors}")
endif()
file(WRITE "${ENTRIES}" "${entries}")
