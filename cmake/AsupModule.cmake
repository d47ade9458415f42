# A module is a folder of asup/: one static library asup_<name>, or a header-only target while the
# folder has no sources.
#
#   asup_module(<name> [TORCH]
#               [SOURCES <file>...]                all .cc files of the folder where none is named
#               [DEPENDS <module>...]              modules above it in the house
#               [LIBRARIES <target>...]            libraries its headers include
#               [PRIVATE_LIBRARIES <target>...])   header-only libraries its .cc files alone include
#
# Modules without TORCH end up together in libasup_core, those with TORCH in libasup.

if(ASUP_WITH_TORCH)
  # Compiling <torch/torch.h> takes 25 s, from this target's precompiled copy 11 s, and half of that
  # where GCC does not follow every virtual call of the header for possible targets.
  add_library(asup_torch_build INTERFACE)
  target_link_libraries(asup_torch_build INTERFACE asup_build asup::torch)
  target_compile_options(asup_torch_build INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-fno-devirtualize>
    $<$<CONFIG:Release>:-O1>)  # the time goes by in libtorch and in the core, not in these folders
  # As libtorch itself is compiled: some classes in its headers have more members without.
  target_compile_definitions(asup_torch_build INTERFACE NDEBUG)
  if(ASUP_SANITIZE)
    # It would check torch's headers more than ours, and compiling would take half as long again.
    target_compile_options(asup_torch_build INTERFACE -fno-sanitize=undefined)
  endif()

  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/torch_pch.cc"
       CONTENT "// Holds the precompiled <torch/torch.h>.\n")
  add_library(asup_torch_pch OBJECT "${PROJECT_BINARY_DIR}/torch_pch.cc")
  target_link_libraries(asup_torch_pch PRIVATE asup_torch_build)
  target_precompile_headers(asup_torch_pch PRIVATE <torch/torch.h>)

  # Each such file also takes about 2 GB to compile: as many at a time as memory holds.
  cmake_host_system_information(RESULT memory_mb QUERY TOTAL_PHYSICAL_MEMORY)
  math(EXPR jobs "${memory_mb} / 2500 + 1")
  set_property(GLOBAL APPEND PROPERTY JOB_POOLS torch=${jobs})
endif()

# Whether a source includes torch, itself or through headers of this tree.
function(_asup_includes_torch file result)
  get_property(known GLOBAL PROPERTY "ASUP_INCLUDES_TORCH_${file}")
  if("${known}" STREQUAL "")
    set_property(GLOBAL PROPERTY "ASUP_INCLUDES_TORCH_${file}" OFF)  # ends circles
    set(known OFF)
    get_filename_component(folder "${file}" DIRECTORY)
    file(STRINGS "${file}" lines REGEX "^#include [<\"]")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include [<\"]([^>\"]*)[>\"].*" "\\1" header "${line}")
      if(header MATCHES "^(torch|ATen|c10)/")
        set(known ON)
      endif()
      foreach(path "${PROJECT_SOURCE_DIR}/${header}" "${folder}/${header}")
        if(NOT known AND EXISTS "${path}")
          _asup_includes_torch("${path}" known)
        endif()
      endforeach()
    endforeach()
    set_property(GLOBAL PROPERTY "ASUP_INCLUDES_TORCH_${file}" ${known})
  endif()
  set(${result} ${known} PARENT_SCOPE)
endfunction()

# What is common to a module, a test and a program that include torch. Those of its sources that do
# not are spared the precompiled header, which CMake would include in all.
function(asup_use_torch target)
  target_link_libraries(${target} PUBLIC asup::torch PRIVATE asup_torch_build)
  target_precompile_headers(${target} REUSE_FROM asup_torch_pch)
  set_target_properties(${target} PROPERTIES JOB_POOL_COMPILE torch)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(file "${source}" ABSOLUTE)
    set(torch OFF)
    if(EXISTS "${file}")
      _asup_includes_torch("${file}" torch)
    endif()
    if(NOT torch)
      set_source_files_properties("${source}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

function(asup_module name)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;DEPENDS;LIBRARIES;PRIVATE_LIBRARIES" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "asup_module(${name}): what is ${arg_UNPARSED_ARGUMENTS}?")
  endif()
  if(NOT arg_SOURCES)
    file(GLOB_RECURSE arg_SOURCES CONFIGURE_DEPENDS "*.cc")
  endif()
  list(TRANSFORM arg_DEPENDS PREPEND asup_)
  set(target asup_${name})
  if(arg_TORCH)
    set(family TORCH)
  else()
    set(family CORE)
  endif()

  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    target_link_libraries(${target} PUBLIC asup_build ${arg_DEPENDS} ${arg_LIBRARIES}
                                    PRIVATE ${arg_PRIVATE_LIBRARIES})
    if(arg_TORCH)
      asup_use_torch(${target})
    endif()
    asup_batch(${target})
    set_property(GLOBAL APPEND PROPERTY ASUP_${family}_OBJECTS $<TARGET_OBJECTS:${target}>)
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE asup_build ${arg_DEPENDS} ${arg_LIBRARIES}
                                              $<$<BOOL:${arg_TORCH}>:asup::torch>)
  endif()
  set_property(GLOBAL APPEND PROPERTY ASUP_${family}_LIBRARIES ${arg_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY ASUP_${family}_MODULES ${name})
endfunction()

# The installable library `target`, made of every module of a family.
function(_asup_library target family)
  get_property(objects GLOBAL PROPERTY ASUP_${family}_OBJECTS)
  get_property(libraries GLOBAL PROPERTY ASUP_${family}_LIBRARIES)
  list(REMOVE_DUPLICATES libraries)
  if(objects)
    add_library(${target} STATIC ${objects})
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope}
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
    $<INSTALL_INTERFACE:include>)
  target_link_libraries(${target} ${scope} ${libraries} ${ARGN})
endfunction()

# Call after the last asup_module().
function(asup_aggregate)
  _asup_library(asup_core CORE Threads::Threads)
  add_library(asup::core ALIAS asup_core)
  if(ASUP_WITH_TORCH)
    _asup_library(asup TORCH asup_core asup::torch)
    add_library(asup::asup ALIAS asup)
  endif()
endfunction()

# asup_program(<target> SOURCES <file>... [DEPENDS <module>...] [LIBRARIES <target>...]): a program
# named asup, placed at the root of the build folder.
function(asup_program target)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  if(NOT arg_SOURCES)
    return()
  endif()
  list(TRANSFORM arg_DEPENDS PREPEND asup_)
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE asup_build ${arg_DEPENDS} ${arg_LIBRARIES})
  asup_use_torch(${target})
  asup_batch(${target})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME asup RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
endfunction()

# add_subdirectory() for each of <parent>/<folder> that exists. Modules build under modules/, since
# build/<preset>/asup is the program.
function(asup_add_folders parent)
  foreach(folder IN LISTS ARGN)
    if(parent STREQUAL asup)
      set(binary "${PROJECT_BINARY_DIR}/modules/${folder}")
    else()
      set(binary "${PROJECT_BINARY_DIR}/${folder}")
    endif()
    if(EXISTS "${PROJECT_SOURCE_DIR}/${parent}/${folder}/CMakeLists.txt")
      add_subdirectory("${PROJECT_SOURCE_DIR}/${parent}/${folder}" "${binary}")
    endif()
  endforeach()
endfunction()
