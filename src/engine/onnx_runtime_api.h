#pragma once

// The part of ONNX Runtime's C API that Lagoon uses.
//
// The API is a table of function pointers, OrtApi (onnxruntime_c_api.h). Functions are only ever
// added at its end, so that the place of a function never changes. Here are the places of those
// that Lagoon calls; all of them are in the table since version 15.

#include <cstddef>
#include <cstdint>

namespace lagoon::ort {

struct Env;
struct MemoryInfo;
struct RunOptions;
struct Session;
struct SessionOptions;
struct Status;  // null: no error
struct TensorInfo;
struct TypeInfo;
struct Value;

/// The oldest version that is accepted: releases since 1.17 have it and know opset 20.
inline constexpr std::uint32_t kApiVersion = 17;

/// What OrtGetApiBase() returns.
struct ApiBase {
  const void* const* (*get_api)(std::uint32_t version);  // null: the library is older
  const char* (*version)();
};

/// A function of the table: its place and its type.
template <std::size_t kPlace, typename T>
struct Function {
  static constexpr std::size_t place = kPlace;
  using Type = T;
};

// clang-format off
using GetErrorCode              = Function<1, int (*)(const Status*)>;
using GetErrorMessage           = Function<2, const char* (*)(const Status*)>;
using CreateEnv                 = Function<3, Status* (*)(int log_level, const char* log_id, Env**)>;
using CreateSession             = Function<7, Status* (*)(const Env*, const char* path, const SessionOptions*, Session**)>;
using CreateSessionFromArray    = Function<8, Status* (*)(const Env*, const void*, std::size_t, const SessionOptions*, Session**)>;
using Run                       = Function<9, Status* (*)(Session*, const RunOptions*, const char* const* input_names,
                                                         const Value* const* inputs, std::size_t input_count,
                                                         const char* const* output_names, std::size_t output_count,
                                                         Value** outputs)>;
using CreateSessionOptions      = Function<10, Status* (*)(SessionOptions**)>;
using SetSessionExecutionMode   = Function<13, Status* (*)(SessionOptions*, int mode)>;
using DisableCpuMemArena        = Function<19, Status* (*)(SessionOptions*)>;
using SetSessionLogSeverityLevel = Function<22, Status* (*)(SessionOptions*, int level)>;
using SetIntraOpNumThreads      = Function<24, Status* (*)(SessionOptions*, int threads)>;
using SetInterOpNumThreads      = Function<25, Status* (*)(SessionOptions*, int threads)>;
using SessionGetInputCount      = Function<30, Status* (*)(const Session*, std::size_t*)>;
using SessionGetOutputCount     = Function<31, Status* (*)(const Session*, std::size_t*)>;
using SessionGetInputTypeInfo   = Function<33, Status* (*)(const Session*, std::size_t, TypeInfo**)>;
using SessionGetOutputTypeInfo  = Function<34, Status* (*)(const Session*, std::size_t, TypeInfo**)>;
using SessionGetInputName       = Function<36, Status* (*)(const Session*, std::size_t, void* allocator, char**)>;
using SessionGetOutputName      = Function<37, Status* (*)(const Session*, std::size_t, void* allocator, char**)>;
using CreateRunOptions          = Function<39, Status* (*)(RunOptions**)>;
using RunOptionsSetTerminate    = Function<46, Status* (*)(RunOptions*)>;
using RunOptionsUnsetTerminate  = Function<47, Status* (*)(RunOptions*)>;
using CreateTensor              = Function<48, Status* (*)(void* allocator, const std::int64_t* dims, std::size_t rank,
                                                           int type, Value**)>;
using CreateTensorWithData      = Function<49, Status* (*)(const MemoryInfo*, void*, std::size_t bytes,
                                                           const std::int64_t* dims, std::size_t rank, int type, Value**)>;
using GetTensorMutableData      = Function<51, Status* (*)(Value*, void**)>;
using GetStringTensorDataLength = Function<53, Status* (*)(const Value*, std::size_t*)>;
using GetStringTensorContent    = Function<54, Status* (*)(const Value*, void* text, std::size_t bytes,
                                                           std::size_t* offsets, std::size_t elements)>;
using CastTypeInfoToTensorInfo  = Function<55, Status* (*)(const TypeInfo*, const TensorInfo**)>;
using GetTensorElementType      = Function<60, Status* (*)(const TensorInfo*, int*)>;
using GetDimensionsCount        = Function<61, Status* (*)(const TensorInfo*, std::size_t*)>;
using GetDimensions             = Function<62, Status* (*)(const TensorInfo*, std::int64_t*, std::size_t)>;
using GetTensorTypeAndShape     = Function<65, Status* (*)(const Value*, TensorInfo**)>;
using CreateCpuMemoryInfo       = Function<69, Status* (*)(int allocator, int memory, MemoryInfo**)>;
using AllocatorFree             = Function<76, Status* (*)(void* allocator, void*)>;
using GetDefaultAllocator       = Function<78, Status* (*)(void** allocator)>;
using ReleaseEnv                = Function<92, void (*)(Env*)>;
using ReleaseStatus             = Function<93, void (*)(Status*)>;
using ReleaseMemoryInfo         = Function<94, void (*)(MemoryInfo*)>;
using ReleaseSession            = Function<95, void (*)(Session*)>;
using ReleaseValue              = Function<96, void (*)(Value*)>;
using ReleaseRunOptions         = Function<97, void (*)(RunOptions*)>;
using ReleaseTypeInfo           = Function<98, void (*)(TypeInfo*)>;
using ReleaseTensorInfo         = Function<99, void (*)(TensorInfo*)>;
using ReleaseSessionOptions     = Function<100, void (*)(SessionOptions*)>;
using GetStringElementBuffer    = Function<252, Status* (*)(Value*, std::size_t element, std::size_t bytes, char**)>;
// clang-format on

// Values of the API's enums.
inline constexpr int kSequential = 0;        // ExecutionMode
inline constexpr int kLogErrors = 3;         // OrtLoggingLevel
inline constexpr int kDeviceAllocator = 0;   // OrtAllocatorType
inline constexpr int kMemoryDefault = 0;     // OrtMemType
inline constexpr int kNotImplemented = 9;    // OrtErrorCode
inline constexpr int kInvalidGraph = 10;     // OrtErrorCode
inline constexpr int kUndefinedElement = 0;  // ONNXTensorElementDataType

/// The table of a loaded library. Cheap to copy.
class Api {
 public:
  explicit Api(const void* const* table) : table_(table) {}

  template <typename F, typename... Args>
  auto Call(Args... args) const {
    return reinterpret_cast<typename F::Type>(const_cast<void*>(table_[F::place]))(args...);
  }

 private:
  const void* const* table_;
};

}  // namespace lagoon::ort
