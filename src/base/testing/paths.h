#pragma once

#include <string>

namespace lagoon {

/// The checkout that this program was built from, without a slash at the end.
std::string SourceFolder();

/// The shared library that stands in for NVIDIA's driver (device/cuda/testing/fake_cuda.h).
std::string FakeCudaLibrary();

}  // namespace lagoon
