# SPDX-License-Identifier: Apache-2.0
# cmake -DPROGRAM=... -DTRACED=... -DXMLLINT=... -DFOLDER=... -P draw_trace.cmake: the picture of a
# trace shows what is in it, stays small, and is SVG whatever the names; no other file is drawn.
include(${CMAKE_CURRENT_LIST_DIR}/check_svg.cmake)
set(trace ${FOLDER}/draw_trace.json)
set(picture ${FOLDER}/draw_trace.svg)

# draw(<out> <argument>...): the picture of the trace, well-formed.
function(draw out)
  execute_process(COMMAND ${PROGRAM} ${trace} --svg ${picture} ${ARGN}
    RESULT_VARIABLE result ERROR_VARIABLE complaint)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "draw_trace ${ARGN} ends with ${result}:\n${complaint}")
  endif()
  check_svg(${picture})
  file(READ ${picture} svg)
  set(${out} "${svg}" PARENT_SCOPE)
endfunction()

# expect(<svg> <count> <regex>): it is there so many times, where every ; is a comma.
function(expect svg count regex)
  string(REPLACE ";" "," svg "${svg}")
  string(REGEX MATCHALL "${regex}" found "${svg}")
  list(LENGTH found found)
  if(NOT found EQUAL count)
    message(FATAL_ERROR "expected ${count} times, not ${found}, '${regex}' in ${picture}")
  endif()
endfunction()

# refuse(<status> <regex> <argument>...): it ends with this status and says so.
function(refuse status regex)
  execute_process(COMMAND ${PROGRAM} ${ARGN}
    RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE complaint)
  if(NOT result EQUAL status OR NOT complaint MATCHES "${regex}")
    message(FATAL_ERROR
      "expected exit status ${status} and '${regex}', got ${result}:\n${complaint}")
  endif()
endfunction()

# Two ranks; a range with two inside; three in a row that are too narrow to be seen one by one.
file(WRITE ${trace} [=[{"traceEvents": [
  {"ph": "M", "pid": 0, "tid": 0, "name": "process_name", "args": {"name": "rank 0"}},
  {"ph": "M", "pid": 0, "tid": 0, "name": "process_labels", "args": {"labels": "7 events dropped"}},
  {"ph": "M", "pid": 0, "tid": 1, "name": "thread_name", "args": {"name": "gather"}},
  {"ph": "X", "pid": 0, "tid": 0, "ts": 0, "dur": 100000, "name": "step", "cat": "compute"},
  {"ph": "X", "pid": 0, "tid": 0, "ts": 0, "dur": 50000.25, "name": "forward", "cat": "compute",
   "args": {"layer": 0}},
  {"ph": "X", "pid": 0, "tid": 0, "ts": 50000.25, "dur": 40000, "name": "backward",
   "cat": "compute", "args": {"layer": 1}},
  {"ph": "X", "pid": 0, "tid": 1, "ts": 20000, "dur": 3, "name": "narrow", "cat": "gather"},
  {"ph": "X", "pid": 0, "tid": 1, "ts": 20005, "dur": 3, "name": "narrow", "cat": "gather"},
  {"ph": "X", "pid": 0, "tid": 1, "ts": 20010, "dur": 3, "name": "narrow", "cat": "gather"},
  {"ph": "X", "pid": 0, "tid": 1, "ts": 60000, "dur": 20000, "name": "a <b> & \"c\" \u0001\uffff",
   "cat": "gather", "args": {"bytes_sent": 12345, "plan": "0xfe"}},
  {"ph": "B", "pid": 0, "tid": 1, "ts": 0, "name": "of another phase"},
  {"ph": "X", "pid": 1, "tid": 0, "ts": 0, "dur": 10000, "name": "forward", "cat": "compute"}]}]=])
draw(svg --title "A <title>")
expect("${svg}" 1 "A &lt,title&gt,")
expect("${svg}" 1 "rank 0: 7 events dropped")
expect("${svg}" 6 "<title>")
expect("${svg}" 1 "<title>step: 100 ms, from 0\\.0* to 100\\.0* ms")
expect("${svg}" 1 "<title>backward: 40 ms, from 50\\.000250 to 90\\.000250 ms\nlayer 1</title>")
expect("${svg}" 1 "<title>3 ranges: ")
expect("${svg}" 1 "bytes_sent 12345\nplan 0xfe")
expect("${svg}" 0 "of another phase")
draw(svg --from 19.99 --to 20.1)
expect("${svg}" 3 "<title>narrow: ")
expect("${svg}" 0 "<title>backward")
draw(svg --ranks 1)
expect("${svg}" 1 "<title>")
expect("${svg}" 0 "rank 0")
execute_process(COMMAND ${PROGRAM} ${trace} --ranks 1 OUTPUT_VARIABLE said)
if(NOT said STREQUAL svg)
  message(FATAL_ERROR "the standard output gets another picture than the file")
endif()
set(ARGUMENTS ${trace})
include(${CMAKE_CURRENT_LIST_DIR}/full_disk.cmake)

refuse(1 "--ranks 2: the trace has 0, 1" ${trace} --ranks 0,2)
refuse(1 "no range from 200 to 300 ms; the trace has some from 0 to 100 ms"
  ${trace} --from 200 --to 300)
refuse(2 "--from 5\\.0* --to 4\\.0*: expected an end behind the begin" ${trace} --from 5 --to 4)
refuse(2 "there is no directory" ${trace} --svg ${FOLDER}/no/such/picture.svg)
refuse(2 "TRACE is required" --from 5)

# What a trainer has recorded.
execute_process(COMMAND ${TRACED} OUTPUT_FILE ${trace} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${TRACED} ends with ${result}")
endif()
draw(svg)
expect("${svg}" 4 ">rank [0-3]<")
expect("${svg}" 4 "<title>step")
expect("${svg}" 24 "<title>forward")
expect("${svg}" 48 "\nplan 0x")  # 6 gathers and 6 reductions of each rank

# Many ranges: the picture stays small.
set(range "\"ph\": \"X\", \"tid\": 0")
set(events "")
foreach(i RANGE 1 20000)
  string(APPEND events ",{${range}, \"pid\": 0, \"ts\": ${i}00, \"dur\": 50, \"name\": \"x\"}\n")
endforeach()
string(SUBSTRING "${events}" 1 -1 events)
file(WRITE ${trace} "[${events}]")
draw(svg)
expect("${svg}" 1 "<title>20000 ranges")
expect("${svg}" 1 "<title>")
draw(svg --from 1000 --to 1001.12)
expect("${svg}" 12 "<title>x: ")

# What is not a trace.
file(REMOVE ${trace})
refuse(1 "draw_trace.json: cannot be read" ${trace})
refuse(1 "cannot be read" ${FOLDER})
foreach(wrong
    "{\"traceEvents\": [|no valid JSON.*line 1"
    "{\"traceEvents\": 5}|no trace: expected an array of events"
    "[]|no range"
    "[5]|event 0 is not an object"
    "[{${range}, \"pid\": 0, \"dur\": 1}]|event 0 has no number \"ts\""
    "[{${range}, \"pid\": 0, \"ts\": \"1\", \"dur\": 1}]|event 0 has no number \"ts\""
    "[{${range}, \"pid\": 0.5, \"ts\": 1, \"dur\": 1}]|event 0 has no integer \"pid\""
    "[{${range}, \"pid\": 0, \"ts\": 1, \"dur\": -1}]|event 0 has an impossible \"dur\"")
  string(REGEX REPLACE "^(.*)[|].*$" "\\1" content "${wrong}")
  string(REGEX REPLACE "^.*[|]" "" said "${wrong}")
  file(WRITE ${trace} "${content}")
  refuse(1 "draw_trace.json: ${said}" ${trace})
endforeach()
