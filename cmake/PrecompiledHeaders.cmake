# SPDX-License-Identifier: Apache-2.0
# gpuwatch_precompiled_headers(NAME LIBRARIES ... HEADERS ...): a target whose headers other targets reuse with
#   target_precompile_headers(<target> REUSE_FROM NAME)
# More than half of the time that the analyzer takes to compile goes into reading the standard library, fmt and
# FlatBuffers again in every file. With ccache the files are compiled without: GCC's precompiled headers differ from
# build to build, so that nothing would be found in the cache, and that way every file's own #includes are proved too.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

function(gpuwatch_precompiled_headers name)
  cmake_parse_arguments(ARG "" "" "LIBRARIES;HEADERS" ${ARGN})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Nothing: a target needs a source.\n")
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()
