# asup_shared_libstdcxx(<result>): what to link first so that a program's C++ library is the shared
# libstdc++.so.6 that torch's libraries load as well.
#
# Some compilers link libstdc++ statically, or have it as an archive alone. With torch, a program would
# then hold two of it, whose locales and allocations meet: it aborts when it exits. So a program is
# linked here, and looked at. Installed beside asupConfig.cmake.

# Whether a program that is linked with `library` needs libstdc++.so.6.
function(_asup_needs_libstdcxx library result)
  set(folder "${CMAKE_BINARY_DIR}/CMakeFiles/AsupLibstdcxx")
  file(WRITE "${folder}/program.cc" "#include <iostream>
#include <locale>
int main() { std::cout << std::locale().name() << std::endl; }
")
  try_compile(links "${folder}" SOURCES "${folder}/program.cc" LINK_LIBRARIES "${library}"
              COPY_FILE "${folder}/program")
  set(names "")
  if(links)
    file(STRINGS "${folder}/program" names REGEX "^libstdc[+][+][.]so[.]6$")
  endif()
  if(names)
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
  unset(links CACHE)
endfunction()

function(asup_shared_libstdcxx result)
  if(NOT DEFINED ASUP_LIBSTDCXX)
    execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libstdc++.so.6
                    OUTPUT_VARIABLE compilers OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_library(found NAMES libstdc++.so.6 NO_CACHE)
    foreach(library stdc++ "${compilers}" "${found}")
      if(library STREQUAL stdc++ OR EXISTS "${library}")
        _asup_needs_libstdcxx("${library}" shared)
        if(shared)
          set(ASUP_LIBSTDCXX "${library}" CACHE INTERNAL "The shared libstdc++, for programs with torch")
          break()
        endif()
      endif()
    endforeach()
    if(NOT DEFINED ASUP_LIBSTDCXX)
      message(FATAL_ERROR
        "${CMAKE_CXX_COMPILER} links libstdc++ statically, and torch's libraries load the shared one: "
        "a program with both aborts when it exits. Use another compiler, such as "
        "-DCMAKE_CXX_COMPILER=/usr/bin/g++.")
    endif()
    if(NOT ASUP_LIBSTDCXX STREQUAL stdc++)
      message(STATUS "${CMAKE_CXX_COMPILER} links libstdc++ statically: ${ASUP_LIBSTDCXX} is linked "
                     "in its place, as torch needs it")
    endif()
  endif()
  set(${result} "${ASUP_LIBSTDCXX}" PARENT_SCOPE)
endfunction()
