# liblagoon, for programs of users: include/lagoon/lagoon.h. Included by src/capi/CMakeLists.txt.
# - lagoon_shared: liblagoon.so, which exports the functions of lagoon.h and nothing else
# - lagoon_static: liblagoon.a, all layers in one archive
# Component library, of `./run wheel` and of packages: both, the header, CMake's package config and pkg-config's file.

# All of the code lies in static libraries: the linker takes what the exported functions need.
set(lagoon_exports ${CMAKE_CURRENT_SOURCE_DIR}/exports.map)
set(lagoon_empty ${CMAKE_CURRENT_BINARY_DIR}/shared.cc)
file(CONFIGURE OUTPUT ${lagoon_empty} CONTENT "// Made by CMake: a library needs a source.\n" @ONLY)
add_library(lagoon_shared SHARED ${lagoon_empty})
target_link_libraries(lagoon_shared PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,lagoon_capi>")
target_include_directories(lagoon_shared INTERFACE ${PROJECT_SOURCE_DIR}/include)
# nodelete: threads of the library must not lose their code where a program closes it.
target_link_options(lagoon_shared PRIVATE -Wl,--version-script=${lagoon_exports} -Wl,-z,nodelete -Wl,-Bsymbolic
                    -Wl,--as-needed -Wl,--gc-sections -Wl,--disable-new-dtags)
set_target_properties(lagoon_shared PROPERTIES OUTPUT_NAME lagoon VERSION ${PROJECT_VERSION} SOVERSION 1
                      LINK_DEPENDS ${lagoon_exports} INSTALL_RPATH "$ORIGIN:$ORIGIN/lagoon")

# The archive: what `ar` joins.
set(lagoon_archives capi local trace policies sched program graph engine kernels_cuda kernels plan device base)
set(lagoon_script "create ${CMAKE_CURRENT_BINARY_DIR}/liblagoon.a\n")
set(lagoon_targets)
foreach(layer ${lagoon_archives})
  string(APPEND lagoon_script "addlib $<TARGET_FILE:lagoon_${layer}>\n")
  list(APPEND lagoon_targets lagoon_${layer})
endforeach()
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/join.mri CONTENT "${lagoon_script}save\nend\n")
add_custom_command(
  OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/liblagoon.a
  COMMAND ${CMAKE_COMMAND} -E rm -f ${CMAKE_CURRENT_BINARY_DIR}/liblagoon.a
  COMMAND ${CMAKE_AR} -M < ${CMAKE_CURRENT_BINARY_DIR}/join.mri
  DEPENDS ${lagoon_targets} ${CMAKE_CURRENT_BINARY_DIR}/join.mri
  VERBATIM)
add_custom_target(lagoon_static DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/liblagoon.a)

include(GNUInstallDirs)
configure_file(${PROJECT_SOURCE_DIR}/cmake/lagoon.pc.in ${CMAKE_CURRENT_BINARY_DIR}/lagoon.pc @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/cmake/lagoon-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/lagoon-config.cmake @ONLY)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/lagoon-config-version.cmake VERSION ${PROJECT_VERSION}
                                 COMPATIBILITY SameMajorVersion)
set(lagoon_glibc "^lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|stdc\\+\\+|gcc_s)\\.so" "^ld-linux")
install(TARGETS lagoon_shared RUNTIME_DEPENDENCY_SET library LIBRARY DESTINATION lib COMPONENT library)
install(RUNTIME_DEPENDENCY_SET library DESTINATION lib/lagoon COMPONENT library PRE_EXCLUDE_REGEXES ${lagoon_glibc})
install(FILES ${PROJECT_SOURCE_DIR}/include/lagoon/lagoon.h DESTINATION include/lagoon COMPONENT library)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/liblagoon.a DESTINATION lib COMPONENT library OPTIONAL)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lagoon.pc DESTINATION lib/pkgconfig COMPONENT library)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lagoon-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/lagoon-config-version.cmake
        DESTINATION lib/cmake/lagoon COMPONENT library)
