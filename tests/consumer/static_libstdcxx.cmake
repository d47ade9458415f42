# A compiler that has libstdc++ as an archive alone still makes programs that share torch's.
#   cmake -DCMAKE=<folder of asup's modules> -DTORCH=... -DWORK=... -DCOMPILER=... -DREADELF=...
#         -P static_libstdcxx.cmake

include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

file(REMOVE_RECURSE "${WORK}")
execute_process(COMMAND "${COMPILER}" -print-file-name=libstdc++.a
                OUTPUT_VARIABLE archive OUTPUT_STRIP_TRAILING_WHITESPACE)
file(MAKE_DIRECTORY "${WORK}/archives")
file(CREATE_LINK "${archive}" "${WORK}/archives/libstdc++.a" SYMBOLIC)
file(WRITE "${WORK}/compiler"
     "#!/bin/sh\nexec '${COMPILER}' -L'${WORK}/archives' \"$@\" -static-libstdc++\n")
file(CHMOD "${WORK}/compiler" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)

file(WRITE "${WORK}/program.cc" "#include <sstream>
int main(int count, char**) {
  std::ostringstream text;
  text << count;
  return text.str().size() == 1 ? 0 : 1;
}
")
file(WRITE "${WORK}/CMakeLists.txt" "cmake_minimum_required(VERSION 3.22)
project(static_libstdcxx LANGUAGES CXX)
include(\"${CMAKE}/AsupTorch.cmake\")
add_executable(program program.cc)
target_link_libraries(program PRIVATE asup::torch)
target_link_options(program PRIVATE -Wl,--no-as-needed)  # torch too, which this program does not call
")
run("${CMAKE_COMMAND}" -S "${WORK}" -B "${WORK}/build" -G Ninja "-DASUP_TORCH=${TORCH}"
    "-DCMAKE_CXX_COMPILER=${WORK}/compiler")
run("${CMAKE_COMMAND}" --build "${WORK}/build")
execute_process(COMMAND "${READELF}" --dynamic "${WORK}/build/program"
                OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
if(NOT dynamic MATCHES "[(]NEEDED[)][^\n]*[[]libstdc[+][+][.]so[.]6[]]")
  message(FATAL_ERROR "the program has a libstdc++ of its own, beside torch's")
endif()
run("${WORK}/build/program")
