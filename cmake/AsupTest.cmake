# Tests and benchmarks.
#
#   asup_test(<name> MODULES <module>... SOURCES <file>...
#             [LABEL fast|full]      default fast; fast ones are run under sanitizers too
#             [TIMEOUT <seconds>]    default 300 for fast, 600 for full; five times that under a
#                                    sanitizer
#             [PROCESSES <n>]        ranks it runs at once: ctest then starts less beside it
#             [MPI]                  its PROCESSES ranks are started by mpirun; left out where asup is
#                                    built without MPI
#             [PROGRAM]              it runs the `asup` program, whose path is in $ASUP_PROGRAM
#             [SANITIZED <filter>]   the cases that run under a sanitizer, where not all
#             [ONE_THREAD]           so that ThreadSanitizer would find nothing in it
#             [UNSANITIZED]          not worth the time that its modules take to build under a sanitizer
#             [SOAK]                 its cases that are called Soak… take minutes: `make soak` runs them
#             [LIBRARIES <target>...])
#   asup_bench(bench_<name> MODULES <module>... SOURCES <file>... [LIBRARIES <target>...])
#
# ctest has one entry per executable, not per case: starting a process that loads libtorch takes
# some 0.3 s, which over hundreds of cases is minutes. To run one case:
#   build/dev/tests/collective/collective_plan_test --gtest_filter='Ring.*'

find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)

# How sanitizers behave in tests, and how much longer these may then take.
set(ASUP_TEST_ENVIRONMENT "")
set(ASUP_TEST_PATIENCE 1)
if(ASUP_SANITIZE)
  set(ASUP_TEST_PATIENCE 5)
  set(leaks 1)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    set(leaks 0)  # looking for them takes each process four seconds there, however small it is
  endif()
  set(ASUP_TEST_ENVIRONMENT
    # libtorch is not instrumented, so that a vector it grew looks overrun to us.
    "ASAN_OPTIONS=detect_container_overflow=0:detect_leaks=${leaks}"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tools/lsan.supp:print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tools/tsan.supp:halt_on_error=1")
endif()

# Open MPI starts more ranks than there are cores, and starts them for root, only if it is told to;
# and it need not look for networks.
set(ASUP_MPI_ENVIRONMENT
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl=vader,self)
if(ASUP_SANITIZE)
  # Open MPI unloads its plugins and leaves their memory behind, so that no suppression could name it.
  list(APPEND ASUP_MPI_ENVIRONMENT LSAN_OPTIONS=detect_leaks=0)
endif()

# Links modules, and shares the precompiled header where any of them uses torch.
function(_asup_link target)
  get_property(torch_modules GLOBAL PROPERTY ASUP_TORCH_MODULES)
  target_link_libraries(${target} PRIVATE asup_build)
  foreach(module IN LISTS ARGN)
    target_link_libraries(${target} PRIVATE asup_${module})
    if(module IN_LIST torch_modules)
      set(torch ON)
    endif()
  endforeach()
  if(torch)
    asup_use_torch(${target})
  endif()
endfunction()

# True where every module is part of this build: without torch, tests of torch modules drop out.
function(_asup_have_modules result)
  set(${result} ON PARENT_SCOPE)
  foreach(module IN LISTS ARGN)
    if(NOT TARGET asup_${module})
      if(ASUP_WITH_TORCH)
        message(FATAL_ERROR "There is no module ${module}.")
      endif()
      set(${result} OFF PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# All that the fast tests run.
add_custom_target(asup_fast_tests)
# All that is run under a sanitizer: the fast tests of the core, of the ways to stay in step and of
# distribute(), where memory is shared and threads are many. The rest would take twice as long to
# build.
add_custom_target(asup_sanitized_tests)

function(asup_test name)
  cmake_parse_arguments(arg "PROGRAM;MPI;SOAK;ONE_THREAD;UNSANITIZED" "LABEL;TIMEOUT;PROCESSES;SANITIZED" "MODULES;SOURCES;LIBRARIES" ${ARGN})
  _asup_have_modules(have ${arg_MODULES})
  if(NOT have OR (arg_PROGRAM AND NOT TARGET asup_cli))
    return()
  endif()
  # tests/collective/proven_test is called collective/proven_test.
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}/tests" "${CMAKE_CURRENT_SOURCE_DIR}")
  if(arg_MPI AND NOT ASUP_HAVE_MPI)
    message(STATUS "${folder}/${name} is left out: it needs MPI")
    return()
  endif()
  if(NOT arg_LABEL)
    set(arg_LABEL fast)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
    if(arg_LABEL STREQUAL full)
      set(arg_TIMEOUT 600)
    endif()
  endif()
  math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * ${ASUP_TEST_PATIENCE}")
  if(NOT arg_PROCESSES)
    set(arg_PROCESSES 1)
  endif()

  add_executable(${name} ${arg_SOURCES})
  _asup_link(${name} ${arg_MODULES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)  # what it tests has its own
  asup_batch(${name})

  set(labels ${arg_LABEL})
  if(arg_LABEL STREQUAL fast)
    add_dependencies(asup_fast_tests ${name})
    if(ASUP_SANITIZE STREQUAL "thread" AND arg_ONE_THREAD)
      set(arg_UNSANITIZED ON)
    endif()
    if(NOT arg_PROGRAM AND NOT arg_UNSANITIZED)
      add_dependencies(asup_sanitized_tests ${name})
      list(APPEND labels sanitized)
    endif()
  endif()

  set(environment ${ASUP_TEST_ENVIRONMENT})
  if(arg_MPI)
    set(start "${MPIEXEC_EXECUTABLE}" ${MPIEXEC_NUMPROC_FLAG} ${arg_PROCESSES})
    list(APPEND environment ${ASUP_MPI_ENVIRONMENT})
  endif()
  if(arg_PROGRAM)
    add_dependencies(${name} asup_cli)
    list(APPEND environment "ASUP_PROGRAM=$<TARGET_FILE:asup_cli>")
  endif()
  set(filter "")
  if(ASUP_SANITIZE)
    set(filter "${arg_SANITIZED}")
  endif()
  add_test(NAME ${folder}/${name}
           COMMAND ${start} $<TARGET_FILE:${name}> --gtest_brief=1 --gtest_filter=${filter}-*.Soak*)
  set_tests_properties(${folder}/${name} PROPERTIES
    LABELS "${labels}" TIMEOUT ${arg_TIMEOUT} PROCESSORS ${arg_PROCESSES}
    ENVIRONMENT "${environment}")
  if(arg_SOAK)
    add_test(NAME soak/${folder}/${name} CONFIGURATIONS Soak
             COMMAND $<TARGET_FILE:${name}> --gtest_filter=*.Soak*)
    set_tests_properties(soak/${folder}/${name} PROPERTIES
      LABELS soak TIMEOUT 3600 PROCESSORS 2 ENVIRONMENT "${environment}")
  endif()
endfunction()

function(asup_bench name)
  cmake_parse_arguments(arg "" "" "MODULES;SOURCES;LIBRARIES" ${ARGN})
  _asup_have_modules(have ${arg_MODULES})
  if(NOT have)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  _asup_link(${name} ${arg_MODULES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} benchmark::benchmark)
endfunction()
