# Makes asup::torch, the target through which code includes and links libtorch.
#
# ASUP_TORCH (a CMake or environment variable) says which torch: a virtual environment, a python
# executable that can import torch, an installed torch package, or an unpacked libtorch. Without it
# the includer's ASUP_TORCH_DEFAULTS are tried in turn.
#
# Torch's own TorchConfig.cmake is not used: on a CUDA build it insists on a CUDA compiler, which
# code that only calls libtorch does not need, and it writes to global variables.
#
# Installed beside asupConfig.cmake, which includes it. As a script it only looks and checks:
#   cmake -DASUP_TORCH=python3 -P cmake/AsupTorch.cmake

set(ASUP_TORCH_MINIMUM 2.11)

# The torch package (the folder with lib/ and include/) that `hint` stands for, or "".
function(_asup_torch_root hint result)
  set(${result} "" PARENT_SCOPE)
  get_filename_component(path "${hint}" ABSOLUTE BASE_DIR "${CMAKE_SOURCE_DIR}")
  if(EXISTS "${path}/bin/python")
    set(path "${path}/bin/python")
  endif()
  if(IS_DIRECTORY "${path}")
    set(root "${path}")
  else()
    find_program(python NAMES "${path}" "${hint}" NO_CACHE)
    execute_process(
      COMMAND "${python}" -c "import importlib.util as util
print(util.find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(EXISTS "${root}/include/torch/csrc/api/include/torch/torch.h")
    set(${result} "${root}" PARENT_SCOPE)
  endif()
endfunction()

function(_asup_torch_version root result)
  file(STRINGS "${root}/include/torch/csrc/api/include/torch/version.h" lines
       REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
  if(NOT lines)
    file(STRINGS "${root}/include/torch/headeronly/version.h" lines
         REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
  endif()
  string(REGEX REPLACE "[^0-9;]" "" version "${lines}")
  string(REPLACE ";" "." version "${version}")
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

# Sets ASUP_TORCH_ROOT and ASUP_TORCH_VERSION, or stops with what to do.
function(_asup_find_torch)
  set(hints ${ASUP_TORCH_DEFAULTS})
  if(ASUP_TORCH)
    set(hints "${ASUP_TORCH}")
  elseif(NOT "$ENV{ASUP_TORCH}" STREQUAL "")
    set(hints "$ENV{ASUP_TORCH}")
  endif()
  foreach(hint IN LISTS hints)
    _asup_torch_root("${hint}" root)
    if(root)
      break()
    endif()
  endforeach()
  if(NOT root)
    list(JOIN hints ", " hints)
    message(FATAL_ERROR
      "No libtorch found (looked at: ${hints}). Run `make setup`, or set ASUP_TORCH to a virtual "
      "environment, a python executable, a torch package or an unpacked libtorch, or build only "
      "the core with -DASUP_WITH_TORCH=OFF.")
  endif()
  _asup_torch_version("${root}" version)
  if(version VERSION_LESS ASUP_TORCH_MINIMUM)
    message(FATAL_ERROR "asup needs torch ${ASUP_TORCH_MINIMUM} or newer, and ${root} holds "
                        "${version}. Point ASUP_TORCH at a newer one.")
  endif()
  set(ASUP_TORCH_ROOT "${root}" PARENT_SCOPE)
  set(ASUP_TORCH_VERSION "${version}" PARENT_SCOPE)
endfunction()

function(_asup_import_torch root)
  # libtorch_cpu exports a copy of std::filesystem from the compiler it was built with. The loader
  # takes the first it finds, and ours must find our own, or it crashes: libstdc++ goes first.
  include("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/AsupLibstdcxx.cmake")
  asup_shared_libstdcxx(libstdcxx)
  set(libraries "${libstdcxx}" "${root}/lib/libtorch.so" "${root}/lib/libtorch_cpu.so"
                "${root}/lib/libc10.so")
  if(EXISTS "${root}/lib/libtorch_cuda.so")
    # Nothing refers to a symbol in libtorch_cuda, yet its kernels register when it is loaded. What
    # it needs in turn lies in other packages, where only the loader finds it.
    list(APPEND libraries "-Wl,--no-as-needed,${root}/lib/libtorch_cuda.so,--as-needed"
                          "${root}/lib/libc10_cuda.so" "-Wl,--allow-shlib-undefined")
  endif()
  add_library(asup::torch INTERFACE IMPORTED GLOBAL)
  # -idirafter, not -isystem: torch brings its own copy of {fmt}, which must not come before the
  # {fmt} that asup links.
  target_compile_options(asup::torch INTERFACE
    "SHELL:-idirafter \"${root}/include\""
    "SHELL:-idirafter \"${root}/include/torch/csrc/api/include\"")
  target_compile_features(asup::torch INTERFACE cxx_std_20)
  target_link_libraries(asup::torch INTERFACE ${libraries})
endfunction()

if(NOT TARGET asup::torch)
  _asup_find_torch()
  message(STATUS "torch ${ASUP_TORCH_VERSION} in ${ASUP_TORCH_ROOT}")
  if(NOT CMAKE_SCRIPT_MODE_FILE)
    _asup_import_torch("${ASUP_TORCH_ROOT}")
  endif()
endif()
