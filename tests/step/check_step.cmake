# SPDX-License-Identifier: Apache-2.0
# Runs fssdp_step on devices of the double and looks at its JSON and at its timeline: all bytes were
# right, nothing was done that devices do not forgive, and every figure is a number.
# usage: cmake -DPROGRAM=FILE "-DOPTIONS=OPTION;..." -DPOLICIES=N -DTIMELINE=FILE -P check_step.cmake
execute_process(COMMAND ${PROGRAM} ${OPTIONS} --json --timeline ${TIMELINE}
  OUTPUT_VARIABLE json ERROR_VARIABLE errors RESULT_VARIABLE code)
if(NOT code EQUAL 0 OR errors MATCHES "violation")
  message(FATAL_ERROR "${PROGRAM} ends with ${code}: ${errors}")
endif()

string(JSON count LENGTH "${json}")
if(NOT count EQUAL POLICIES)
  message(FATAL_ERROR "${count} policies were measured; expected ${POLICIES}: ${json}")
endif()
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  foreach(figure IN ITEMS measured_us predicted_us over_ep load_max_over_mean exposed_us moving_us
          tokens_us solving_us bytes replica_bytes)
    string(JSON type TYPE "${json}" ${i} ${figure})  # what is not finite is null in JSON
    if(NOT type STREQUAL "NUMBER")
      message(FATAL_ERROR "${figure} is not a number: ${json}")
    endif()
  endforeach()
  foreach(figure IN ITEMS measured_us tokens_us)
    string(JSON value GET "${json}" ${i} ${figure})
    if(value LESS_EQUAL 0)
      message(FATAL_ERROR "${figure} is ${value}: ${json}")
    endif()
  endforeach()
endforeach()

file(READ ${TIMELINE} timeline)
foreach(range IN ITEMS attention dispatch experts combine gather reduce "weight gradients")
  if(NOT timeline MATCHES "\"name\": *\"${range}\"")
    message(FATAL_ERROR "no ${range} in ${TIMELINE}")
  endif()
endforeach()
