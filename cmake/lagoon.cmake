# Warnings, sanitizers, and the one way to declare a layer.

find_package(Threads REQUIRED)
if(LAGOON_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
endif()
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

# lagoon_unity(TARGET): with LAGOON_UNITY the target's sources are compiled up to 8 at a time (docs/contributing.md).
# Sources that define the same name go to different units. A source that Highway compiles once per instruction set
# includes itself by its own name, and is compiled alone; so is a source with SKIP_UNITY_BUILD_INCLUSION.
# CMake's own unity builds include sources by absolute paths: a compiler cache would find none of them in another
# checkout.
function(lagoon_unity target)
  if(NOT LAGOON_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(compiled)  # the target's new sources
  set(units 0)
  foreach(source ${sources})
    get_filename_component(path ${source} ABSOLUTE)
    file(STRINGS ${path} alone REGEX "hwy/foreach_target\\.h" LIMIT_COUNT 1)
    get_source_file_property(skip ${path} SKIP_UNITY_BUILD_INCLUSION)
    if(alone OR skip)
      list(APPEND compiled ${path})
      continue()
    endif()
    lagoon_names_in(${path} names used)
    set(all ${names} ${used})
    list(LENGTH names count)
    list(LENGTH all all_count)
    set(unit 0)
    set(fits FALSE)
    while(NOT fits)
      math(EXPR unit "${unit} + 1")
      set(others ${names})
      list(REMOVE_ITEM others ${names_${unit}} ${used_${unit}} "")  # without the names that the unit has
      list(LENGTH others left)
      set(all_others ${all})
      list(REMOVE_ITEM all_others ${names_${unit}} "")
      list(LENGTH all_others all_left)
      if(left EQUAL count AND all_left EQUAL all_count AND NOT "${size_${unit}}" STREQUAL 8)
        set(fits TRUE)
      endif()
    endwhile()
    if(unit GREATER units)
      set(units ${unit})
    endif()
    list(APPEND names_${unit} ${names})
    list(APPEND used_${unit} ${used})
    math(EXPR size_${unit} "0${size_${unit}} + 1")
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${path})
    string(REGEX REPLACE "^src/" "" name ${name})
    string(APPEND text_${unit} "#include \"${name}\"\n")
  endforeach()
  foreach(unit RANGE 1 ${units})
    if(units GREATER 0)
      set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}_unit_${unit}.cc)
      file(CONFIGURE OUTPUT ${file} CONTENT "// Made by lagoon_unity().\n${text_${unit}}" @ONLY)
      list(APPEND compiled ${file})
    endif()
  endforeach()
  set_property(TARGET ${target} PROPERTY SOURCES ${compiled})
endfunction()

# Sets the variable `names` to the functions, constants and types that a source defines at the start of a line, and to
# the constants inside its functions, which would shadow constants of another source in the same unit; and the variable
# `used` to the names of other namespaces that it declares with `using`, which two sources may do.
function(lagoon_names_in source names used)
  file(STRINGS ${source} lines REGEX "^([A-Za-z].*[ *&][A-Za-z_0-9]+| .*const.* k[A-Z][A-Za-z0-9]*( =|\\[|{))")
  set(found)
  set(found_used)
  foreach(line IN LISTS lines)
    if(line MATCHES "^ .* (k[A-Z][A-Za-z0-9]*)( =|\\[|{)")
      list(APPEND found ${CMAKE_MATCH_1})
      continue()
    endif()
    if(line MATCHES "^(struct|class|enum class|enum) ([A-Za-z_0-9]+)")
      list(APPEND found ${CMAKE_MATCH_2})
    elseif(line MATCHES "^using ([A-Za-z_0-9]+) =")
      list(APPEND found ${CMAKE_MATCH_1})
    elseif(line MATCHES "^using ([A-Za-z_0-9]+::)+([A-Za-z_0-9]+);")
      list(APPEND found_used ${CMAKE_MATCH_2})
    elseif(NOT line MATCHES "^(return|using|namespace|template) " AND
           line MATCHES "^[^(={]*[ *&]([A-Za-z_0-9]+)(\\(|\\[|{| =)")
      list(APPEND found ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES found)
  list(REMOVE_DUPLICATES found_used)
  set(${names} ${found} PARENT_SCOPE)
  set(${used} ${found_used} PARENT_SCOPE)
endfunction()

# All unit tests, without commands and benchmarks: the target that trees with sanitizers build.
add_custom_target(lagoon_unit_tests)

# lagoon_layer(NAME [TIMELESS] [COMPUTES] [MEASURES] [DEPS targets...]) defines, from this folder and its sub-folders:
# - the program lagoon_NAME_tests from every *_test.cc, and from the helpers in TESTING
# - the program lagoon_NAME_bench from every *_bench.cc
# - the library lagoon_NAME from all other .cc files, but those in folders `testing` and in TESTING
# Sub-folders in SUBLAYERS are left out: they have a CMakeLists.txt of their own.
# TIMELESS: the layer's tests do not depend on how busy the machine is, so that they may run beside others.
# COMPUTES: the layer's tests would take minutes without optimisation. The tests of other layers are compiled without
# optimisation, which takes half as long; with the sanitizers address and undefined so are the layers themselves.
# MEASURES: the server does not link the layer, and the layer's tests run only without sanitizers.
function(lagoon_layer name)
  cmake_parse_arguments(ARG "TIMELESS;COMPUTES;MEASURES" "" "DEPS;TEST_DEPS;SUBLAYERS;TESTING" ${ARGN})
  if(ARG_COMPUTES AND LAGOON_SANITIZE)
    add_compile_options(-O1)  # for this folder and its sub-folders
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  foreach(sublayer ${ARG_SUBLAYERS})
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${sublayer}/")
  endforeach()
  set(tests ${sources})
  set(benches ${sources})
  list(TRANSFORM ARG_TESTING PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE helpers)
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$|/testing/")
  list(REMOVE_ITEM sources ${helpers} "")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(APPEND tests ${helpers})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  set(scope PUBLIC)
  if(sources)
    add_library(lagoon_${name} STATIC ${sources})
    lagoon_unity(lagoon_${name})
  else()
    add_library(lagoon_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(lagoon_${name} ${scope} lagoon_options ${ARG_DEPS})
  if(NOT LAGOON_TESTS)
    return()
  endif()
  if(tests)
    add_executable(lagoon_${name}_tests ${tests})
    lagoon_unity(lagoon_${name}_tests)
    if(NOT ARG_COMPUTES)
      target_compile_options(lagoon_${name}_tests PRIVATE -O0)
    endif()
    target_link_libraries(lagoon_${name}_tests PRIVATE lagoon_${name} ${ARG_TEST_DEPS} lagoon_test_paths
                          GTest::gmock GTest::gtest_main)
    if(NOT (ARG_MEASURES AND LAGOON_SANITIZE))
      add_test(NAME ${name} COMMAND lagoon_${name}_tests)
      set_tests_properties(${name} PROPERTIES TIMEOUT 1200
                           ENVIRONMENT "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp;LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0")
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

# lagoon_links_no_simulator(TARGET): an error if TARGET links a library of sim/, directly or through others.
function(lagoon_links_no_simulator target)
  set(seen)
  set(waiting ${target})
  while(waiting)
    list(POP_FRONT waiting next)
    if(next MATCHES "^lagoon_sim(_|$)")
      message(FATAL_ERROR "${target} links ${next}, but what serves has no simulator in it: link ${next} only in tests and "
                          "in lagoon-bench, or move what both need into src")
    endif()
    if(NOT TARGET ${next} OR next IN_LIST seen)
      continue()
    endif()
    list(APPEND seen ${next})
    foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
      get_target_property(libraries ${next} ${property})
      if(libraries)
        list(APPEND waiting ${libraries})
      endif()
    endforeach()
  endwhile()
endfunction()

# The instruction-set levels (src/kernels/cpu_level.h).
set(LAGOON_LEVELS portable avx2 avx512 avx512bf16 amx)

# lagoon_level_tests(NAME COMMAND...): a test NAME.LEVEL for every level, which runs only the bodies of that level. A
# level that the machine or the build lacks is reported as skipped. There are none with sanitizers, as such a build has
# few bodies.
function(lagoon_level_tests name)
  if(LAGOON_SANITIZE OR NOT LAGOON_TESTS)
    return()
  endif()
  foreach(level ${LAGOON_LEVELS})
    add_test(NAME ${name}.${level} COMMAND ${ARGN})
    set_tests_properties(${name}.${level} PROPERTIES TIMEOUT 1200 LABELS level ENVIRONMENT LAGOON_CPU=${level}
                         SKIP_REGULAR_EXPRESSION "LAGOON_CPU is '${level}', which this machine or this build lacks")
  endforeach()
endfunction()

# lagoon_emulated_tests(NAME LIBRARY SOURCE...): the tests SOURCE... of a layer, on AVX-512 with bf16 and AMX emulated
# (src/kernels/conv/bf16/emulated_bf16.h). The files that use these instructions are compiled again and replace those in
# lagoon_kernels. Skipped on a machine without AVX-512.
function(lagoon_emulated_tests name library)
  if(NOT LAGOON_TESTS)
    return()
  endif()
  set(target lagoon_${name}_emulated_tests)
  set(kernels ${PROJECT_SOURCE_DIR}/src/kernels)
  set(replaced ${kernels}/conv/bf16/bf16_unit.cc ${kernels}/conv/int8/byte_unit_amx.cc ${kernels}/cpu_level.cc)
  add_executable(${target} ${ARGN} ${replaced})
  target_compile_definitions(${target} PRIVATE LAGOON_EMULATED_BF16)
  target_link_libraries(${target} PRIVATE ${library} GTest::gmock GTest::gtest_main)
  add_dependencies(lagoon_unit_tests ${target})
  set(left_out *ChecksOftenEnough*)  # measures times, which mean nothing under emulation
  if(LAGOON_SANITIZE)
    string(APPEND left_out :*AllVersions*)  # one version runs the same code
  endif()
  add_test(NAME ${name}.emulated COMMAND ${target} --gtest_filter=-${left_out})
  set_tests_properties(${name}.emulated PROPERTIES TIMEOUT 1200 LABELS level ENVIRONMENT LAGOON_CPU=amx
                       SKIP_REGULAR_EXPRESSION "LAGOON_CPU is 'amx', which this machine or this build lacks")
endfunction()

# lagoon_embed(TARGET HEADER FUNCTION [NAMESPACE NAME TYPE NAME] FILE...): makes FUNCTION, which HEADER declares and which returns the texts of the
# files in this order (cmake/embed.cmake). FILE is a path as in #include: relative to src, or to the project.
function(lagoon_embed target header function)
  cmake_parse_arguments(ARG "" "NAMESPACE;TYPE" "" ${ARGN})
  set(files)
  foreach(name ${ARG_UNPARSED_ARGUMENTS})
    if(EXISTS ${PROJECT_SOURCE_DIR}/src/${name})
      list(APPEND files ${PROJECT_SOURCE_DIR}/src/${name})
    else()
      list(APPEND files ${PROJECT_SOURCE_DIR}/${name})
    endif()
  endforeach()
  string(REPLACE ";" "|" names "${ARG_UNPARSED_ARGUMENTS}")
  set(embedded ${CMAKE_CURRENT_BINARY_DIR}/${function}.cc)
  add_custom_command(
    OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded} -DROOT=${PROJECT_SOURCE_DIR} -DHEADER=${header}
            -DFUNCTION=${function} "-DFILES=${names}" -DNAMESPACE=${ARG_NAMESPACE} -DTYPE=${ARG_TYPE} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${embedded})
endfunction()
