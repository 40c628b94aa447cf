# SPDX-License-Identifier: Apache-2.0
# Runs fssdp_perf and looks at its JSON and at its table: nothing is wrong, in bounds and baseline
# neither, and every figure is a number.
# usage: cmake -DPROGRAM=FILE "-DOPTIONS=OPTION;..." -P check_perf.cmake
function(run output)
  execute_process(COMMAND ${PROGRAM} ${OPTIONS} --iters 3 --warmup 1 --check ${ARGN}
    OUTPUT_VARIABLE text ERROR_VARIABLE errors RESULT_VARIABLE code)
  if(NOT errors STREQUAL "" OR NOT code MATCHES "^[01]$")  # 1: on a busy host a bound may be late
    message(FATAL_ERROR "${PROGRAM} ends with ${code}: ${errors}")
  endif()
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

run(table)
if(NOT table MATCHES "check: 0 wrong, 0 wrong in bounds and baseline")
  message(FATAL_ERROR "elements are wrong: ${table}")
endif()

run(json --json)
string(JSON count LENGTH "${json}")
if(count EQUAL 0)
  message(FATAL_ERROR "nothing was measured")
endif()
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  set(figures time_us bound_us tight_bound_us algbw busbw efficiency plan_us wrong)
  string(JSON baseline GET "${json}" ${i} baseline)
  if(NOT baseline STREQUAL "none")
    list(APPEND figures baseline_time_us)
  endif()
  foreach(figure IN LISTS figures)  # what is not finite is null in JSON
    string(JSON type TYPE "${json}" ${i} ${figure})
    if(NOT type STREQUAL "NUMBER")
      message(FATAL_ERROR "${figure} is not a number: ${json}")
    endif()
  endforeach()
endforeach()
