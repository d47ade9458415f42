# Sources are compiled in batches: a file that includes a few others of its target. The headers,
# above all torch's, take most of a compilation, and a batch pays for them once.
#
# Files may use the same name for different things of their own (in unnamed namespaces), so that such
# files go to different batches. Who meets "redefinition of" after writing a new name lets cmake look
# again: `cmake --preset release`.

option(ASUP_BATCHES "Compile several sources at once (OFF: each alone, as an editor wants it)" ON)
set(ASUP_BATCH_SIZE 12)       # more saves little, and a changed file recompiles its batch
set(ASUP_TORCH_BATCH_SIZE 12)
if(ASUP_BATCHES)
  # Said of classes in included files, which a batch takes our sources for.
  target_compile_options(asup_build INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()

# What a file defines in a namespace: lines that start at the margin, up to the name.
function(_asup_names file result)
  file(READ "${file}" text)
  string(REGEX REPLACE "\nnamespace[^\n]*" "\n" text "${text}")
  string(REGEX REPLACE "[][;\\]" " " text "${text}")  # these have a meaning in CMake's lists
  string(REGEX MATCHALL "\n[A-Za-z][^\n(={}]*[ *&][A-Za-z_0-9]+ *[(={]" definitions "${text}")
  string(REGEX REPLACE "[^;]*[ *&]([A-Za-z_0-9]+) *[(={]" "\\1" names "${definitions}")
  list(REMOVE_DUPLICATES names)
  set(${result} ${names} PARENT_SCOPE)
endfunction()

# Replaces `sources` (absolute paths) by batches of at most `size`, named after `stem`.
function(_asup_make_batches stem size sources result)
  set(last 0)
  foreach(source IN LISTS sources)
    _asup_names("${source}" names)
    set(batch 0)
    set(fits OFF)
    while(NOT fits)
      math(EXPR batch "${batch} + 1")
      if(batch GREATER last)
        set(last ${batch})
      endif()
      list(LENGTH files_${batch} count)
      set(new ${names})
      list(REMOVE_ITEM new "" ${names_${batch}})
      if(count LESS size AND "${new}" STREQUAL "${names}")
        set(fits ON)
      endif()
    endwhile()
    list(APPEND files_${batch} "${source}")
    list(APPEND names_${batch} ${names})
  endforeach()

  set(batches "")
  foreach(batch RANGE 1 ${last})
    list(LENGTH files_${batch} count)
    if(count GREATER 1)
      list(TRANSFORM files_${batch} REPLACE "(.+)" "#include \"\\1\"\n")
      list(JOIN files_${batch} "" text)
      set(files_${batch} "${stem}${batch}.cc")
      file(CONFIGURE OUTPUT "${stem}${batch}.cc" CONTENT "${text}" @ONLY)
    endif()
    list(APPEND batches ${files_${batch}})
  endforeach()
  set(${result} ${batches} PARENT_SCOPE)
endfunction()

# Done at the end of a folder's CMakeLists.txt, when its sources have all their properties. A source
# with flags of its own, with the property ASUP_ALONE, or that is made by the build, stays alone.
function(_asup_batch target)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(file "${source}" ABSOLUTE)
    get_source_file_property(options "${source}" COMPILE_OPTIONS)
    get_source_file_property(flags "${source}" COMPILE_FLAGS)
    get_source_file_property(asked "${source}" ASUP_ALONE)
    get_source_file_property(plain "${source}" SKIP_PRECOMPILE_HEADERS)
    if(options OR flags OR asked OR NOT EXISTS "${file}")
      list(APPEND alone "${source}")
    elseif(plain)
      list(APPEND without_header "${file}")
    else()
      list(APPEND with_header "${file}")
    endif()
  endforeach()

  set(size ${ASUP_BATCH_SIZE})
  get_target_property(reused ${target} PRECOMPILE_HEADERS_REUSE_FROM)
  if(reused)
    set(size ${ASUP_TORCH_BATCH_SIZE})
  endif()
  set(stem "${CMAKE_CURRENT_BINARY_DIR}/${target}_")
  if(with_header)
    _asup_make_batches("${stem}" ${size} "${with_header}" with_header)
  endif()
  if(without_header)
    _asup_make_batches("${stem}plain_" ${ASUP_BATCH_SIZE} "${without_header}" without_header)
    set_source_files_properties(${without_header} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  endif()
  set_property(TARGET ${target} PROPERTY SOURCES ${with_header} ${without_header} ${alone})
endfunction()

function(asup_batch target)
  if(ASUP_BATCHES)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL _asup_batch ${target})")
  endif()
endfunction()
