# SPDX-License-Identifier: Apache-2.0
# Runs overlap and looks at its timeline: on every rank the gather of each layer but the first is under
# way at some time at which the product of the layer before is.
# usage: cmake -DPROGRAM=FILE -DCOPIES=WHAT -DFOLDER=DIR -P check_overlap.cmake
set(ranks 4)
set(layers 5)
set(trace ${FOLDER}/overlap_${COPIES}.json)
execute_process(
  COMMAND ${PROGRAM} --ranks ${ranks} --layers ${layers} --width 96 --rows 4 --repeats 3
          --copies ${COPIES} --trace ${trace}
  OUTPUT_VARIABLE said ERROR_VARIABLE errors RESULT_VARIABLE code)
if(NOT code EQUAL 0 OR NOT errors STREQUAL "")
  message(FATAL_ERROR "${PROGRAM} ends with ${code}: ${errors}\n${said}")
endif()
foreach(expected "copied by ${COPIES}" "is exposed" "\n0 elements of the products of that run are wrong")
  if(NOT said MATCHES "${expected}")
    message(FATAL_ERROR "expected '${expected}': ${said}")
  endif()
endforeach()

# Every range, in nanoseconds: <name>_<rank>_<layer>_begin and _end.
file(READ ${trace} json)
string(JSON count LENGTH "${json}" traceEvents)
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(JSON phase GET "${json}" traceEvents ${i} ph)
  if(phase STREQUAL "X")
    string(JSON rank GET "${json}" traceEvents ${i} pid)
    string(JSON name GET "${json}" traceEvents ${i} name)
    string(JSON layer GET "${json}" traceEvents ${i} args layer)
    string(REGEX MATCH
      "\"pid\":${rank},[^\n]*\"name\":\"${name}\"[^\n]*\"layer\":${layer}}" line "${json}")
    string(REGEX MATCH "\"ts\":([0-9]+)[.]([0-9]+),\"dur\":([0-9]+)[.]([0-9]+)" times "${line}")
    math(EXPR ${name}_${rank}_${layer}_begin "${CMAKE_MATCH_1}${CMAKE_MATCH_2}")
    math(EXPR ${name}_${rank}_${layer}_end
      "${CMAKE_MATCH_1}${CMAKE_MATCH_2} + ${CMAKE_MATCH_3}${CMAKE_MATCH_4}")
  endif()
endforeach()

math(EXPR last_rank "${ranks} - 1")
math(EXPR last_layer "${layers} - 1")
foreach(rank RANGE ${last_rank})
  foreach(next RANGE 1 ${last_layer})
    math(EXPR layer "${next} - 1")
    set(gather gather_${rank}_${next})
    set(product product_${rank}_${layer})
    if(NOT DEFINED ${gather}_begin OR NOT DEFINED ${product}_begin)
      message(FATAL_ERROR "rank ${rank}: no gather of layer ${next}, or no product of ${layer}")
    endif()
    if(${gather}_end LESS ${product}_begin OR ${product}_end LESS ${gather}_begin)
      message(FATAL_ERROR "rank ${rank}: the gather of layer ${next} is not beside the product of "
        "layer ${layer}: ${${gather}_begin} to ${${gather}_end} ns, "
        "${${product}_begin} to ${${product}_end} ns")
    endif()
  endforeach()
endforeach()
