# Compiler settings for everything in this tree. asup_build carries them to our own targets only;
# nothing here reaches a project that uses asup.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)  # an installed `asup` finds libtorch where it was built

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

add_library(asup_build INTERFACE)
target_compile_features(asup_build INTERFACE cxx_std_20)
target_include_directories(asup_build INTERFACE "${PROJECT_SOURCE_DIR}"
                                                "${PROJECT_BINARY_DIR}/include")
target_compile_options(asup_build INTERFACE
  -Wall -Wextra
  # -fPIC for programs too, where CMake would say -fPIE: one precompiled header serves all.
  -fPIC
  # GCC 12 and 13 see overlapping copies inside std::string where there are none
  # (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105651).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,14>>:-Wno-restrict>
  # Messages that print __FILE__ name asup/net/transport/link.cc, wherever the tree lies.
  "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")

if(ASUP_SANITIZE)
  # Left out of "undefined": what AddressSanitizer sees as well, and takes long to compile.
  target_compile_options(asup_build INTERFACE
    -fsanitize=${ASUP_SANITIZE} -fno-sanitize=null,object-size,pointer-overflow,return,vptr
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(asup_build INTERFACE -fsanitize=${ASUP_SANITIZE})
endif()

# mold links a program with torch in a fraction of the time, where it is there.
find_program(ASUP_MOLD mold)
if(ASUP_MOLD)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=mold ASUP_LINKS_WITH_MOLD)
  if(ASUP_LINKS_WITH_MOLD)
    target_link_options(asup_build INTERFACE -fuse-ld=mold)
  endif()
endif()

# ccache stores precompiled headers only if it may overlook how they were defined and dated
# (https://ccache.dev/manual/latest.html#_precompiled_headers).
find_program(ASUP_CCACHE ccache)
if(ASUP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1  # build folders share the cache
      "${ASUP_CCACHE}")
  target_compile_options(asup_build INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()

# asup/base/version.h: the one generated header.
if(EXISTS "${PROJECT_SOURCE_DIR}/asup/base/version.h.in")
  configure_file("${PROJECT_SOURCE_DIR}/asup/base/version.h.in"
                 "${PROJECT_BINARY_DIR}/include/asup/base/version.h" @ONLY)
endif()
