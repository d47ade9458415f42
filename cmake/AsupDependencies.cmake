# What asup needs besides torch. docs/dependencies.md says what each is for.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)

# ASUP_HAVE_MPI: whether ranks can be linked over MPI. Its C interface alone is used, which the C++
# component holds too; MPI's own C++ interface is long gone.
set(ASUP_HAVE_MPI OFF)
if(ASUP_WITH_MPI STREQUAL "AUTO" OR ASUP_WITH_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(ASUP_HAVE_MPI ON)
    message(STATUS "MPI in ${MPI_CXX_LIBRARIES}: ranks can be linked over it")
  elseif(ASUP_WITH_MPI STREQUAL "AUTO")
    message(STATUS "No MPI found, so no links over it: install libopenmpi-dev to have them")
  else()
    message(FATAL_ERROR "ASUP_WITH_MPI=${ASUP_WITH_MPI}, but no MPI was found: install "
                        "libopenmpi-dev and openmpi-bin, or set MPI_HOME to where it is.")
  endif()
endif()

# ASUP_HAVE_HTTPLIB: whether the program can serve a page to watch a run. Debian's package has a
# compiled library, with flags that must be the same for who includes it.
set(ASUP_HAVE_HTTPLIB OFF)
if(ASUP_WITH_TORCH)
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(ASUP_HTTPLIB QUIET IMPORTED_TARGET cpp-httplib)
  endif()
  if(ASUP_HTTPLIB_FOUND)
    set(ASUP_HAVE_HTTPLIB ON)
    message(STATUS "cpp-httplib ${ASUP_HTTPLIB_VERSION}: asup train --live serves a page")
  else()
    message(STATUS "No cpp-httplib found, so no asup train --live: install libcpp-httplib-dev to have it")
  endif()
endif()

# ASUP_HAVE_SENTENCEPIECE: whether texts can be taken apart by SentencePiece, else by bytes alone.
set(ASUP_HAVE_SENTENCEPIECE OFF)
set(ASUP_SENTENCEPIECE_LIBRARIES "")
if(ASUP_WITH_TORCH)
  find_path(ASUP_SENTENCEPIECE_INCLUDE sentencepiece_trainer.h)
  find_library(ASUP_SENTENCEPIECE sentencepiece)
  find_library(ASUP_SENTENCEPIECE_TRAIN sentencepiece_train)
  if(ASUP_SENTENCEPIECE_INCLUDE AND ASUP_SENTENCEPIECE AND ASUP_SENTENCEPIECE_TRAIN)
    set(ASUP_HAVE_SENTENCEPIECE ON)
    set(ASUP_SENTENCEPIECE_LIBRARIES "${ASUP_SENTENCEPIECE}" "${ASUP_SENTENCEPIECE_TRAIN}")
    message(STATUS "SentencePiece in ${ASUP_SENTENCEPIECE}: asup train --tokenizer can train and read its models")
  else()
    message(STATUS "No SentencePiece found, so texts are taken byte by byte: install libsentencepiece-dev to have it")
  endif()
endif()

# ASUP_HAVE_JPEG, ASUP_HAVE_PNG: whether image files of the kind can be read. Of libjpegs, it must
# be libjpeg-turbo, which can decode a part of an image.
set(ASUP_HAVE_JPEG OFF)
set(ASUP_HAVE_PNG OFF)
if(ASUP_WITH_TORCH)
  find_package(JPEG QUIET)
  if(JPEG_FOUND)
    file(STRINGS "${JPEG_INCLUDE_DIR}/jpeglib.h" turbo REGEX "jpeg_crop_scanline")
  endif()
  if(turbo)
    set(ASUP_HAVE_JPEG ON)
  else()
    message(STATUS "No libjpeg-turbo found, so no data sets of JPEG files: install libjpeg-dev to have them")
  endif()
  find_package(PNG QUIET)
  if(PNG_FOUND)
    set(ASUP_HAVE_PNG ON)
  else()
    message(STATUS "No libpng found, so no data sets of PNG files: install libpng-dev to have them")
  endif()
endif()

# Header-only, used inside .cc files alone, and found by their header: Debian's package of toml++
# would bring a library that every user of libasup.a then had to link.
# asup_header_only(<target> <header> <cache variable>)
function(asup_header_only target header variable)
  add_library(${target} INTERFACE)
  find_path(${variable} ${header} HINTS "${PROJECT_SOURCE_DIR}/third_party/include")
  if(NOT ${variable})
    message(FATAL_ERROR "asup needs ${header}: run `make setup`, or set ${variable} to the folder "
                        "that holds it, or put it under third_party/include.")
  endif()
  target_include_directories(${target} SYSTEM INTERFACE "${${variable}}")
endfunction()

asup_header_only(asup_toml toml++/toml.h ASUP_TOMLPP_INCLUDE)
if(ASUP_WITH_TORCH)
  asup_header_only(asup_cli11 CLI/CLI.hpp ASUP_CLI11_INCLUDE)
endif()
