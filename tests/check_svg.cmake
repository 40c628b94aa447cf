# SPDX-License-Identifier: Apache-2.0
# check_svg(<file>): it is well-formed, as far as ${XMLLINT} can be asked.
function(check_svg file)
  if(NOT XMLLINT)
    return()
  endif()
  execute_process(COMMAND ${XMLLINT} --nonet --noout ${file}
    RESULT_VARIABLE result ERROR_VARIABLE complaint)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${file} is not well-formed:\n${complaint}")
  endif()
endfunction()
