// Shared libraries that are no ONNX Runtime of use, for tests. Which one: by the macro.

#include <cstdint>
#include <cstdlib>

#if defined(LAGOON_FAKE_CRASH)

namespace {
struct AtLoad {
  AtLoad() { std::abort(); }
} at_load;
}  // namespace

#elif defined(LAGOON_FAKE_OLD)

namespace {
struct Base {
  const void* (*get_api)(std::uint32_t);
  const char* (*version)();
};
const Base base = {[](std::uint32_t) -> const void* { return nullptr; },
                   []() -> const char* { return "1.2.0"; }};
}  // namespace

extern "C" __attribute__((visibility("default"))) const Base* OrtGetApiBase() { return &base; }

#elif defined(LAGOON_FAKE_LEAK)

#include <array>

#include "engine/onnx_runtime_api.h"

/// Counts the values that are not released. A run makes all outputs; then every question for a
/// shape fails.
extern "C" __attribute__((visibility("default"))) int lagoon_fake_values = 0;

namespace {

namespace ort = lagoon::ort;

template <typename T>
T* Something() {
  static char something[64];
  return reinterpret_cast<T*>(something);
}

ort::Status* Nothing() { return nullptr; }

template <typename F>
void Set(std::array<const void*, 128>& table, typename F::Type function) {
  table[F::place] = reinterpret_cast<const void*>(function);
}

std::array<const void*, 128> MakeTable() {
  std::array<const void*, 128> table;
  table.fill(reinterpret_cast<const void*>(&Nothing));
  Set<ort::GetErrorCode>(table, [](const ort::Status*) { return 1; });
  Set<ort::GetErrorMessage>(table, [](const ort::Status*) { return "no shape"; });
  Set<ort::SessionGetOutputCount>(table, [](const ort::Session*, std::size_t* count) {
    *count = 3;
    return Nothing();
  });
  Set<ort::SessionGetOutputName>(table, [](const ort::Session*, std::size_t, void*, char** name) {
    *name = Something<char>();
    return Nothing();
  });
  Set<ort::CastTypeInfoToTensorInfo>(table, [](const ort::TypeInfo*, const ort::TensorInfo** info) {
    *info = Something<ort::TensorInfo>();
    return Nothing();
  });
  Set<ort::GetTensorElementType>(table, [](const ort::TensorInfo*, int* type) {
    *type = 1;
    return Nothing();
  });
  Set<ort::Run>(
      table, [](ort::Session*, const ort::RunOptions*, const char* const*, const ort::Value* const*,
                std::size_t, const char* const*, std::size_t outputs, ort::Value** values) {
        for (std::size_t i = 0; i < outputs; ++i) values[i] = Something<ort::Value>();
        lagoon_fake_values += static_cast<int>(outputs);
        return Nothing();
      });
  Set<ort::ReleaseValue>(table, [](ort::Value*) { --lagoon_fake_values; });
  Set<ort::GetTensorTypeAndShape>(
      table, [](const ort::Value*, ort::TensorInfo**) { return Something<ort::Status>(); });
  return table;
}

const std::array<const void*, 128> table = MakeTable();
const ort::ApiBase base = {[](std::uint32_t) -> const void* const* { return table.data(); },
                           []() -> const char* { return "1.99.0"; }};

}  // namespace

extern "C" __attribute__((visibility("default"))) const ort::ApiBase* OrtGetApiBase() {
  return &base;
}

#else

extern "C" __attribute__((visibility("default"))) int NothingOfUse() { return 0; }

#endif
