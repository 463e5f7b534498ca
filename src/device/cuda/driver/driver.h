#pragma once

// The CUDA driver's API, found at run time: one binary serves machines with and without a GPU, and
// builds without NVIDIA's toolkit. Declared here are the few calls that Lagoon makes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>

#include "base/status.h"

namespace lagoon::cuda {

// The API's types and values (cuda.h), under Lagoon's names.
using Code = int;  // CUresult
inline constexpr Code kSuccess = 0;
inline constexpr Code kOutOfMemory = 2;
inline constexpr Code kNoDevice = 100;
inline constexpr Code kNotReady = 600;
inline constexpr Code kLaunchOutOfResources = 701;
/// True if, by NVIDIA's documentation, every later call of this process returns the same error:
/// faults of kernels and of the GPU's memory.
inline constexpr bool NeedsNewProcess(Code code) {
  constexpr Code kFaults[] = {220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 911};
  return std::find(std::begin(kFaults), std::end(kFaults), code) != std::end(kFaults);
}
// A GPU cannot be split into such shares.
inline constexpr Code kInvalidResourceType = 914;
inline constexpr Code kInvalidResourceConfiguration = 915;

/// A result of the driver, and the call that returned it.
struct CallResult {
  Code code = kSuccess;
  const char* call = "";
};

using Ordinal = int;            // CUdevice
using Address = std::uint64_t;  // CUdeviceptr
struct ContextTag;
struct StreamTag;
struct ModuleTag;
struct FunctionTag;
using Context = ContextTag*;
using Stream = StreamTag*;
using Module = ModuleTag*;
using Function = FunctionTag*;
struct GreenContextTag;
struct ResourceDescTag;
struct EventTag;
struct GraphTag;
struct GraphExecTag;
using GreenContext = GreenContextTag*;
using ResourceDesc = ResourceDescTag*;
using Event = EventTag*;
using Graph = GraphTag*;
using GraphExec = GraphExecTag*;

enum class DeviceAttribute : int {
  kMultiprocessors = 16,
  kMajor = 75,
  kMinor = 76,
  kUnifiedAddressing = 41,
  kSharedBytesOptin = 97,
};
enum class FunctionAttribute : int { kMaxDynamicShared = 8 };
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kHostPortable = 1;
inline constexpr unsigned kGreenDefaultStream = 1;
/// A flag of cuDevSmResourceSplitByCount: groups need not be able to launch clusters of blocks.
inline constexpr unsigned kSplitIgnoresClusters = 1;
inline constexpr int kMultiprocessorResource = 1;

/// CUdevResource. Lagoon reads only the number of multiprocessors.
struct DeviceResource {
  int type = 0;
  unsigned char own[92] = {};
  unsigned multiprocessors = 0;
  unsigned char more[44] = {};
};
static_assert(sizeof(DeviceResource) == 144);

/// CUstreamBatchMemOpParams, in the form that writes a word.
struct BatchWrite {
  int operation = 2;  // CU_STREAM_MEM_OP_WRITE_VALUE_32
  Address to = 0;
  std::uint64_t value = 0;
  std::uint64_t own[3] = {};
};
static_assert(sizeof(BatchWrite) == 48);
inline constexpr int kCaptureThreadLocal = 1;

// Per call: the member, the driver's name of the call, its parameters.
#define LAGOON_CUDA_DRIVER_CALLS(X)                                                                \
  X(init, "cuInit", (unsigned flags))                                                              \
  X(driver_version, "cuDriverGetVersion", (int* version))                                          \
  X(device_count, "cuDeviceGetCount", (int* count))                                                \
  X(device, "cuDeviceGet", (Ordinal * device, int ordinal))                                        \
  X(device_name, "cuDeviceGetName", (char* name, int length, Ordinal device))                      \
  X(device_memory, "cuDeviceTotalMem", (std::size_t * bytes, Ordinal device))                      \
  X(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, Ordinal device))         \
  X(retain_context, "cuDevicePrimaryCtxRetain", (Context * context, Ordinal device))               \
  X(release_context, "cuDevicePrimaryCtxRelease", (Ordinal device))                                \
  X(set_context, "cuCtxSetCurrent", (Context context))                                             \
  X(priority_range, "cuCtxGetStreamPriorityRange", (int* least, int* greatest))                    \
  X(create_stream, "cuStreamCreateWithPriority", (Stream * stream, unsigned flags, int priority))  \
  X(destroy_stream, "cuStreamDestroy", (Stream stream))                                            \
  X(query_stream, "cuStreamQuery", (Stream stream))                                                \
  X(synchronize, "cuCtxSynchronize", ())                                                           \
  X(synchronize_stream, "cuStreamSynchronize", (Stream stream))                                    \
  X(write_value32, "cuStreamWriteValue32",                                                         \
    (Stream stream, Address to, std::uint32_t value, unsigned flags))                              \
  X(allocate, "cuMemAlloc", (Address * memory, std::size_t bytes))                                 \
  X(free, "cuMemFree", (Address memory))                                                           \
  X(memory_info, "cuMemGetInfo", (std::size_t * free, std::size_t * total))                        \
  X(allocate_host, "cuMemHostAlloc", (void** memory, std::size_t bytes, unsigned flags))           \
  X(free_host, "cuMemFreeHost", (void* memory))                                                    \
  X(host_address, "cuMemHostGetDevicePointer", (Address * address, void* memory, unsigned flags))  \
  X(write, "cuMemcpyHtoD", (Address to, const void* from, std::size_t bytes))                      \
  X(copy_to_device, "cuMemcpyHtoDAsync",                                                           \
    (Address to, const void* from, std::size_t bytes, Stream stream))                              \
  X(copy_to_host, "cuMemcpyDtoHAsync", (void* to, Address from, std::size_t bytes, Stream stream)) \
  X(fill, "cuMemsetD8", (Address to, unsigned char value, std::size_t bytes))                      \
  X(load_module, "cuModuleLoadData", (Module * module, const void* image))                         \
  X(unload_module, "cuModuleUnload", (Module module))                                              \
  X(find_function, "cuModuleGetFunction", (Function * function, Module module, const char* name))  \
  X(set_function_attribute, "cuFuncSetAttribute", (Function function, int attribute, int value))   \
  X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                                      \
    (int* blocks, Function function, int threads, std::size_t shared_bytes))                       \
  X(launch, "cuLaunchKernel",                                                                      \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,       \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters,  \
     void** extra))                                                                                \
  X(batch_write, "cuStreamBatchMemOp",                                                             \
    (Stream stream, unsigned count, BatchWrite* writes, unsigned flags))                           \
  X(create_event, "cuEventCreate", (Event * event, unsigned flags))                                \
  X(destroy_event, "cuEventDestroy", (Event event))                                                \
  X(record_event, "cuEventRecord", (Event event, Stream stream))                                   \
  X(synchronize_event, "cuEventSynchronize", (Event event))                                        \
  X(elapsed, "cuEventElapsedTime", (float* milliseconds, Event begin, Event end))                  \
  X(begin_capture, "cuStreamBeginCapture", (Stream stream, int mode))                              \
  X(end_capture, "cuStreamEndCapture", (Stream stream, Graph * graph))                             \
  X(instantiate_graph, "cuGraphInstantiateWithFlags",                                              \
    (GraphExec * instance, Graph graph, std::uint64_t flags))                                      \
  X(launch_graph, "cuGraphLaunch", (GraphExec graph, Stream stream))                               \
  X(destroy_graph_instance, "cuGraphExecDestroy", (GraphExec graph))                               \
  X(destroy_graph, "cuGraphDestroy", (Graph graph))                                                \
  X(error_name, "cuGetErrorName", (Code code, const char** text))                                  \
  X(error_text, "cuGetErrorString", (Code code, const char** text))

// Calls that an older driver may lack, in the form of CUDA 12.5.
#define LAGOON_CUDA_GREEN_CALLS(X)                                                               \
  X(device_resource, "cuDeviceGetDevResource",                                                   \
    (Ordinal device, DeviceResource * resource, int type))                                       \
  X(split_resource, "cuDevSmResourceSplitByCount",                                               \
    (DeviceResource * groups, unsigned* count, const DeviceResource* from, DeviceResource* rest, \
     unsigned flags, unsigned least))                                                            \
  X(describe_resource, "cuDevResourceGenerateDesc",                                              \
    (ResourceDesc * description, DeviceResource * resources, unsigned count))                    \
  X(create_green_context, "cuGreenCtxCreate",                                                    \
    (GreenContext * context, ResourceDesc description, Ordinal device, unsigned flags))          \
  X(destroy_green_context, "cuGreenCtxDestroy", (GreenContext context))                          \
  X(create_green_stream, "cuGreenCtxStreamCreate",                                               \
    (Stream * stream, GreenContext context, unsigned flags, int priority))

/// The driver of this machine. Any thread. Before a call that needs a current context, the caller
/// sets it.
class Driver {
 public:
  /// The oldest version that works, as cuDriverGetVersion counts: 12.0, the first with all that
  /// Lagoon uses.
  static constexpr int kOldestVersion = 12000;

  /// kUnavailable, saying what to do, in these cases: there is no such library, or it is no driver;
  /// the driver is too old; it does not start (no GPU, no permission). `library`: a file name or
  /// path.
  static Result<std::shared_ptr<const Driver>> Load(const std::string& library = "libcuda.so.1");
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

#define LAGOON_CUDA_DECLARE(member, name, parameters) Code(*member) parameters = nullptr;
  LAGOON_CUDA_DRIVER_CALLS(LAGOON_CUDA_DECLARE)
  LAGOON_CUDA_GREEN_CALLS(LAGOON_CUDA_DECLARE)
#undef LAGOON_CUDA_DECLARE
  /// True if the driver has all of LAGOON_CUDA_GREEN_CALLS. Otherwise none of them may be called.
  bool HasGreenContexts() const { return has_green_contexts_; }

  /// "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"; says so if only a new
  /// process helps.
  std::string Describe(Code code) const;
  /// Success, or kInternal (kResourceExhausted if memory ran out, or the GPU cannot be split into
  /// such shares) with "`call`: " in front. `call`: the driver's name of the call, with the values
  /// that matter.
  Status Check(Code code, const std::string& call) const;

  /// cuDriverGetVersion: 12040 is 12.4.
  int version() const { return version_; }

  /// Connections of this process to each GPU: $CUDA_DEVICE_MAX_CONNECTIONS. Load() sets it to the
  /// largest number unless it is set. Streams beyond them share one, and wait there for what was
  /// submitted before in other streams.
  static constexpr std::uint32_t kMostConnections = 32;
  std::uint32_t connections() const { return connections_; }

 private:
  Driver() = default;
  Status Resolve(const std::string& library);
  Status Start();

  void* handle_ = nullptr;  // from dlopen; never closed: such libraries do not unload cleanly
  int version_ = 0;
  std::uint32_t connections_ = 8;  // the driver's own default
  bool has_green_contexts_ = true;
};

/// What `lagoon devices` prints about a GPU.
struct GpuInfo {
  std::string name;
  int ordinal = 0;
  int major = 0, minor = 0;  // compute capability
  std::uint32_t multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t shared_bytes = 0;  // the most that one block can have
  int driver_version = 0;        // Driver::version(); 0: not known
};

Result<int> CountGpus(const Driver& driver);
/// kNotFound names the ordinal and how many GPUs there are.
Result<GpuInfo> DescribeGpu(const Driver& driver, int ordinal);

}  // namespace lagoon::cuda
