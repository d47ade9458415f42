# asup_plugin(<target> <source>...): a shared library lib<target>.so with a model or a data set of
# your own, for `asup train --model` and `--data` (docs/your_own_model.md). Installed beside
# asupConfig.cmake.
function(asup_plugin target)
  add_library(${target} MODULE ${ARGN})
  target_compile_features(${target} PRIVATE cxx_std_20)
  # Headers alone: what the library would bring of asup's code would be there twice.
  target_include_directories(${target} PRIVATE
    $<TARGET_PROPERTY:asup::core,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(${target} PRIVATE asup::torch fmt::fmt)
endfunction()
