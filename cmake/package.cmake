# The package of `./run package`: cmake --install --component package. It runs on any x86-64 Linux with the same or a
# newer glibc: all other libraries are in lib/, and the programs find them by a relative path.
# Component gpu_tests: the test programs that gpu-check runs.
foreach(program lagoon lagoon-bench lagoon_gpu_conformance lagoon_kernels_cuda_tests)
  set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  # The old kind of rpath, which also applies to the libraries' own dependencies.
  target_link_options(${program} PRIVATE -Wl,--disable-new-dtags)
endforeach()
set(glibc "^lib(c|m|mvec|dl|rt|pthread|resolv|util|anl)\\.so" "^ld-linux")
install(TARGETS lagoon lagoon-bench RUNTIME_DEPENDENCY_SET package DESTINATION bin COMPONENT package)
install(RUNTIME_DEPENDENCY_SET package DESTINATION lib COMPONENT package PRE_EXCLUDE_REGEXES ${glibc})
# Component wheel, of `./run wheel`: the programs and liblagoon.so, with their libraries. A wheel has no links.
install(TARGETS lagoon_shared RUNTIME_DEPENDENCY_SET wheel LIBRARY DESTINATION . NAMELINK_SKIP COMPONENT wheel)
install(TARGETS lagoon lagoon-bench RUNTIME_DEPENDENCY_SET wheel DESTINATION bin COMPONENT wheel)
install(RUNTIME_DEPENDENCY_SET wheel DESTINATION lib COMPONENT wheel PRE_EXCLUDE_REGEXES ${glibc})
install(TARGETS lagoon_gpu_conformance lagoon_kernels_cuda_tests RUNTIME_DEPENDENCY_SET gpu_tests DESTINATION bin
        COMPONENT gpu_tests)
install(RUNTIME_DEPENDENCY_SET gpu_tests DESTINATION lib COMPONENT gpu_tests PRE_EXCLUDE_REGEXES ${glibc})
install(PROGRAMS tools/package/gpu-check tools/package/gpu-bench tools/package/each-test DESTINATION . COMPONENT package)
install(FILES tools/package/README.md tools/package/common.sh DESTINATION . COMPONENT package)
install(FILES bench/comparators/torch_latency.py bench/comparators/torch_disb.py bench/comparators/torch_models.py
        DESTINATION . COMPONENT package)
install(DIRECTORY models/repository/digits DESTINATION models COMPONENT package)
