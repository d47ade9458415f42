# cmake --install: libasup_core, libasup, the program, the headers, and find_package(asup).

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/asup")

# One export a component, so that who uses the core alone needs no torch.
set_target_properties(asup_core PROPERTIES EXPORT_NAME core)
install(TARGETS asup_core EXPORT asup-core)
install(EXPORT asup-core NAMESPACE asup:: DESTINATION "${package}")
if(ASUP_WITH_TORCH)
  install(TARGETS asup EXPORT asup-asup)
  install(EXPORT asup-asup NAMESPACE asup:: DESTINATION "${package}")
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/AsupTorch.cmake"
                "${PROJECT_SOURCE_DIR}/cmake/AsupLibstdcxx.cmake"
                "${PROJECT_SOURCE_DIR}/cmake/AsupPlugin.cmake" DESTINATION "${package}")
  if(TARGET asup_cli)
    # CMake keeps no link path into the source tree, where .venv is.
    set_target_properties(asup_cli PROPERTIES INSTALL_RPATH "${ASUP_TORCH_ROOT}/lib")
    install(TARGETS asup_cli)
  endif()
endif()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/asup" "${PROJECT_BINARY_DIR}/include/asup"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h" PATTERN cli EXCLUDE)

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/asupConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/asupConfig.cmake" INSTALL_DESTINATION "${package}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/asupConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/asupConfig.cmake"
              "${PROJECT_BINARY_DIR}/asupConfigVersion.cmake" DESTINATION "${package}")
