# SPDX-License-Identifier: Apache-2.0
# The target docs: the API reference and the guides as pages, in html/ of the build folder. It needs
# Doxygen (tried: 1.9.4); a doc block that Doxygen warns of is an error.
find_program(DOXYGEN doxygen)
if(NOT DOXYGEN)
  message(FATAL_ERROR
    "FSSDP_BUILD_DOCS needs doxygen, which is not there (Debian: apt-get install doxygen)")
endif()
set(FSSDP_DOCS_FOLDER ${PROJECT_BINARY_DIR})
set(FSSDP_DOCS_SOURCE ${CMAKE_CURRENT_LIST_DIR}/docs)
configure_file(${FSSDP_DOCS_SOURCE}/Doxyfile.in ${FSSDP_DOCS_FOLDER}/Doxyfile @ONLY)
add_custom_target(docs ALL
  COMMAND sh ${FSSDP_DOCS_SOURCE}/build.sh ${DOXYGEN} ${PROJECT_SOURCE_DIR} ${FSSDP_DOCS_FOLDER}
  COMMAND ${CMAKE_COMMAND} -E echo "The reference: ${FSSDP_DOCS_FOLDER}/html/index.html"
  VERBATIM)
