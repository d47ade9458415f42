# Fails where an object of asup/kernels/isa/ defines a weak function, such as an inline one that the
# compiler did not inline.
#   cmake -DNM=<nm> "-DOBJECTS=<object>|<object>..." -P isa_symbols.cmake

string(REPLACE "|" ";" objects "${OBJECTS}")
list(FILTER objects INCLUDE REGEX "/isa/(baseline|avx)")
if(NOT objects)
  message(FATAL_ERROR "There are no objects of asup/kernels/isa/ among: ${OBJECTS}")
endif()
foreach(object IN LISTS objects)
  execute_process(COMMAND "${NM}" -C --defined-only "${object}"
                  OUTPUT_VARIABLE symbols RESULT_VARIABLE failed)
  if(failed OR NOT symbols MATCHES "Table")
    message(FATAL_ERROR "${NM} does not read ${object}")
  endif()
  string(REGEX MATCHALL "[^\n]* W [^\n]*" weak "${symbols}")
  if(weak)
    list(JOIN weak "\n" weak)
    message(FATAL_ERROR "${object} defines functions that others may be linked to:\n${weak}")
  endif()
endforeach()
