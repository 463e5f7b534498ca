# Warnings, sanitizers, and the one way to declare a layer.

find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Protobuf REQUIRED)
find_package(PkgConfig REQUIRED)

add_library(lagoon_options INTERFACE)
target_include_directories(lagoon_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(lagoon_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                       $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
if(LAGOON_WERROR)
  target_compile_options(lagoon_options INTERFACE -Werror)
endif()
if(LAGOON_SANITIZE)
  target_compile_options(lagoon_options INTERFACE -fsanitize=${LAGOON_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(lagoon_options INTERFACE -fsanitize=${LAGOON_SANITIZE})
endif()
target_link_libraries(lagoon_options INTERFACE Threads::Threads)

# All unit tests, without commands and benchmarks: what a sanitizer's tree builds.
add_custom_target(lagoon_unit_tests)

# lagoon_layer(NAME [TIMELESS] [COMPUTES] [MEASURES] [DEPS targets...]): the library lagoon_NAME from every .cc of this
# folder (and its sub-folders, but for those under SUBLAYERS, which have a CMakeLists.txt of their own), lagoon_NAME_tests
# from the *_test.cc and *_testing.cc beside them, lagoon_NAME_bench from the *_bench.cc. Else nothing of a folder
# `testing` is taken.
# TIMELESS: no test of it depends on how busy the machine is, so that they may run beside others.
# COMPUTES: its tests would take minutes without optimisation. The tests of other layers are compiled without, which
# takes half as long; under address and undefined the layers themselves are, too.
# MEASURES: nothing that serves links it, and its tests run without sanitizers only.
function(lagoon_layer name)
  cmake_parse_arguments(ARG "TIMELESS;COMPUTES;MEASURES" "" "DEPS;TEST_DEPS;SUBLAYERS" ${ARGN})
  if(ARG_COMPUTES AND LAGOON_SANITIZE)
    add_compile_options(-O1)  # of this folder and those below
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  foreach(sublayer ${ARG_SUBLAYERS})
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${sublayer}/")
  endforeach()
  set(tests ${sources})
  set(benches ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|testing|bench)\\.cc$|/testing/")
  list(FILTER tests INCLUDE REGEX "_(test|testing)\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  set(scope PUBLIC)
  if(sources)
    add_library(lagoon_${name} STATIC ${sources})
  else()
    add_library(lagoon_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(lagoon_${name} ${scope} lagoon_options ${ARG_DEPS})
  if(tests)
    add_executable(lagoon_${name}_tests ${tests})
    if(NOT ARG_COMPUTES)
      target_compile_options(lagoon_${name}_tests PRIVATE -O0)
    endif()
    target_link_libraries(lagoon_${name}_tests PRIVATE lagoon_${name} ${ARG_TEST_DEPS} GTest::gmock GTest::gtest_main)
    target_compile_definitions(lagoon_${name}_tests PRIVATE LAGOON_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    if(NOT (ARG_MEASURES AND LAGOON_SANITIZE))
      add_test(NAME ${name} COMMAND lagoon_${name}_tests)
      set_tests_properties(${name} PROPERTIES TIMEOUT 1200)
      if(NOT ARG_TIMELESS)
        set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
      endif()
      add_dependencies(lagoon_unit_tests lagoon_${name}_tests)
    endif()
  endif()
  if(benches)
    add_executable(lagoon_${name}_bench ${benches})
    target_link_libraries(lagoon_${name}_bench PRIVATE lagoon_${name} benchmark::benchmark_main)
  endif()
endfunction()

# lagoon_embed(TARGET HEADER FUNCTION FILE...): FUNCTION, which HEADER declares, returns the texts of the files, named as
# they are included: as they lie under src, or in the project (cmake/embed.cmake). In this order.
function(lagoon_embed target header function)
  set(files)
  foreach(name ${ARGN})
    if(EXISTS ${PROJECT_SOURCE_DIR}/src/${name})
      list(APPEND files ${PROJECT_SOURCE_DIR}/src/${name})
    else()
      list(APPEND files ${PROJECT_SOURCE_DIR}/${name})
    endif()
  endforeach()
  string(REPLACE ";" "|" names "${ARGN}")
  set(embedded ${CMAKE_CURRENT_BINARY_DIR}/${function}.cc)
  add_custom_command(
    OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded} -DROOT=${PROJECT_SOURCE_DIR} -DHEADER=${header}
            -DFUNCTION=${function} "-DFILES=${names}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${embedded})
endfunction()
