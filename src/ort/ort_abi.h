#pragma once

// What a plug-in execution provider needs of ONNX Runtime's C ABI, declared anew from facts: places
// in tables of functions, and the order of members of four structures. Tables and structures only
// grow at their ends. Nothing here comes from a file of ONNX Runtime.
// An object of ONNX Runtime is an incomplete type, and lives as long as the call that hands it over
// unless its comment says more.

#include <cstddef>
#include <cstdint>

namespace lagoon::plugin {

/// The oldest version of the ABI that has all of it: ONNX Runtime 1.23's.
inline constexpr std::uint32_t kAbiVersion = 23;

struct Attribute;
struct ComputeContext;
struct Env;
struct EpDevice;
struct Graph;
struct HardwareDevice;
struct KernelContext;
struct KeyValues;
struct Logger;
struct MemoryInfo;
struct Node;
struct RunOptions;
struct Session;
struct SessionOptions;
struct AbiStatus;
struct SupportInfo;
struct TensorInfo;
struct TypeInfo;
struct Value;
struct ValueInfo;
struct ComputeInfo;
struct Ep;
struct Factory;

/// What ONNX Runtime hands to CreateEpFactories().
struct ApiBase {
  /// The table of functions of a version; null if this ONNX Runtime is older. Lives for ever.
  const void* const* (*get_api)(std::uint32_t version);
  const char* (*version)();  // "1.31.1"
};

/// A function at a place of a table.
template <std::size_t kPlace, typename T>
struct Function {
  static constexpr std::size_t place = kPlace;
  using Type = T;
};

/// A table of functions.
class Table {
 public:
  Table() = default;
  explicit Table(const void* const* table) : table_(table) {}

  bool Is(const void* const* table) const { return table_ == table; }

  template <typename F, typename... Args>
  auto Call(Args... args) const {
    return reinterpret_cast<typename F::Type>(const_cast<void*>(table_[F::place]))(args...);
  }

 private:
  const void* const* table_ = nullptr;
};

// Names are those of ONNX Runtime, without "Get" and the name of the object where they are long.
// clang-format off

// The main table. The caller releases a AbiStatus (one that is not null is an error), and what
// GetTypeAndShape, GraphView, AttrTensor and SessionEntries return.
using CreateStatus      = Function<0, AbiStatus* (*)(int code, const char* message)>;
using CreateEnv         = Function<3, AbiStatus* (*)(int level, const char* id, Env**)>;
using CreateSession     = Function<8, AbiStatus* (*)(const Env*, const void* model, std::size_t, const SessionOptions*, Session**)>;
using RunSession        = Function<9, AbiStatus* (*)(Session*, const RunOptions*, const char* const* names, const Value* const* inputs, std::size_t, const char* const* outputs, std::size_t, Value**)>;
using CreateOptions     = Function<10, AbiStatus* (*)(SessionOptions**)>;
using SetIntraThreads   = Function<24, AbiStatus* (*)(SessionOptions*, int)>;
using CreateTensor      = Function<49, AbiStatus* (*)(const MemoryInfo*, void*, std::size_t bytes, const std::int64_t* dims, std::size_t rank, int type, Value**)>;
using CpuMemory         = Function<69, AbiStatus* (*)(int allocator, int memory, MemoryInfo**)>;
using ReleaseEnv        = Function<92, void (*)(Env*)>;
using ReleaseMemory     = Function<94, void (*)(MemoryInfo*)>;
using ReleaseSession    = Function<95, void (*)(Session*)>;
using ReleaseOptions    = Function<100, void (*)(SessionOptions*)>;
using GetErrorMessage   = Function<2, const char* (*)(const AbiStatus*)>;
using GetTensorMutable  = Function<51, AbiStatus* (*)(Value*, void**)>;
using CastToTensorInfo  = Function<55, AbiStatus* (*)(const TypeInfo*, const TensorInfo**)>;
using GetElementType    = Function<60, AbiStatus* (*)(const TensorInfo*, int*)>;
using GetDimCount       = Function<61, AbiStatus* (*)(const TensorInfo*, std::size_t*)>;
using GetDims           = Function<62, AbiStatus* (*)(const TensorInfo*, std::int64_t*, std::size_t)>;
using GetSymbols        = Function<63, AbiStatus* (*)(const TensorInfo*, const char**, std::size_t)>;
using GetTypeAndShape   = Function<65, AbiStatus* (*)(const Value*, TensorInfo**)>;
using KernelInput       = Function<90, AbiStatus* (*)(const KernelContext*, std::size_t, const Value**)>;
using KernelOutput      = Function<91, AbiStatus* (*)(KernelContext*, std::size_t, const std::int64_t* dims, std::size_t rank, Value**)>;
using ReleaseStatus     = Function<93, void (*)(AbiStatus*)>;
using ReleaseValue      = Function<96, void (*)(Value*)>;
using ReleaseTensorInfo = Function<99, void (*)(TensorInfo*)>;
using LogMessage        = Function<247, AbiStatus* (*)(const Logger*, int level, const char* message, const char* file, int line, const char* function)>;
using ReadAttribute     = Function<272, AbiStatus* (*)(const Attribute*, int type, void*, std::size_t bytes, std::size_t* needed)>;
using ReleaseGraph      = Function<287, void (*)(Graph*)>;
using ValueInfoName     = Function<289, AbiStatus* (*)(const ValueInfo*, const char**)>;
using ValueInfoType     = Function<290, AbiStatus* (*)(const ValueInfo*, const TypeInfo**)>;
using GetKeyValues      = Function<298, void (*)(const KeyValues*, const char* const** keys, const char* const** values, std::size_t*)>;
using ReleaseKeyValues  = Function<300, void (*)(KeyValues*)>;
using DeviceType        = Function<307, int (*)(const HardwareDevice*)>;  // 0: a CPU
using GetEpApi          = Function<317, const void* const* (*)()>;
using TensorBytes       = Function<318, AbiStatus* (*)(const Value*, std::size_t*)>;
using InitialiserValue  = Function<326, AbiStatus* (*)(const ValueInfo*, const Value**)>;
using IsConstant        = Function<331, AbiStatus* (*)(const ValueInfo*, bool*)>;
using IsOuter           = Function<332, AbiStatus* (*)(const ValueInfo*, bool*)>;
using GraphName         = Function<333, AbiStatus* (*)(const Graph*, const char**)>;
using GraphModelPath    = Function<334, AbiStatus* (*)(const Graph*, const char**)>;
using GraphIrVersion    = Function<335, AbiStatus* (*)(const Graph*, std::int64_t*)>;
using GraphOpsetCount   = Function<336, AbiStatus* (*)(const Graph*, std::size_t*)>;
using GraphOpsets       = Function<337, AbiStatus* (*)(const Graph*, const char** domains, std::int64_t* versions, std::size_t)>;
using GraphInputCount   = Function<338, AbiStatus* (*)(const Graph*, std::size_t*)>;
using GraphInputs       = Function<339, AbiStatus* (*)(const Graph*, const ValueInfo**, std::size_t)>;
using GraphOutputCount  = Function<340, AbiStatus* (*)(const Graph*, std::size_t*)>;
using GraphOutputs      = Function<341, AbiStatus* (*)(const Graph*, const ValueInfo**, std::size_t)>;
using GraphInitCount    = Function<342, AbiStatus* (*)(const Graph*, std::size_t*)>;
using GraphInits        = Function<343, AbiStatus* (*)(const Graph*, const ValueInfo**, std::size_t)>;
using GraphNodeCount    = Function<344, AbiStatus* (*)(const Graph*, std::size_t*)>;
using GraphNodes        = Function<345, AbiStatus* (*)(const Graph*, const Node**, std::size_t)>;
using GraphParent       = Function<346, AbiStatus* (*)(const Graph*, const Node**)>;
using GraphView         = Function<347, AbiStatus* (*)(const Graph*, const Node**, std::size_t, Graph**)>;
using NodeName          = Function<349, AbiStatus* (*)(const Node*, const char**)>;
using NodeOp            = Function<350, AbiStatus* (*)(const Node*, const char**)>;
using NodeDomain        = Function<351, AbiStatus* (*)(const Node*, const char**)>;
using NodeSince         = Function<352, AbiStatus* (*)(const Node*, int*)>;
using NodeInputCount    = Function<353, AbiStatus* (*)(const Node*, std::size_t*)>;
using NodeInputs        = Function<354, AbiStatus* (*)(const Node*, const ValueInfo**, std::size_t)>;
using NodeOutputCount   = Function<355, AbiStatus* (*)(const Node*, std::size_t*)>;
using NodeOutputs       = Function<356, AbiStatus* (*)(const Node*, const ValueInfo**, std::size_t)>;
using NodeOuterCount    = Function<357, AbiStatus* (*)(const Node*, std::size_t*)>;
using NodeOuters        = Function<358, AbiStatus* (*)(const Node*, const ValueInfo**, std::size_t)>;
using NodeAttrCount     = Function<359, AbiStatus* (*)(const Node*, std::size_t*)>;
using NodeAttrs         = Function<360, AbiStatus* (*)(const Node*, const Attribute**, std::size_t)>;
using AttrTensor        = Function<362, AbiStatus* (*)(const Attribute*, Value**)>;
using AttrType          = Function<363, AbiStatus* (*)(const Attribute*, int*)>;
using AttrName          = Function<364, AbiStatus* (*)(const Attribute*, const char**)>;
using NodeGraphCount    = Function<365, AbiStatus* (*)(const Node*, std::size_t*)>;
using NodeGraphs        = Function<366, AbiStatus* (*)(const Node*, const Graph**, std::size_t, const char** names)>;
using RunConfigEntry    = Function<373, const char* (*)(const RunOptions*, const char* key)>;
using TensorData        = Function<378, AbiStatus* (*)(const Value*, const void**)>;
using SessionEntries    = Function<379, AbiStatus* (*)(const SessionOptions*, KeyValues**)>;

// The table of execution providers.
using CreateEpDevice    = Function<0, AbiStatus* (*)(Factory*, const HardwareDevice*, const KeyValues* metadata, const KeyValues* options, EpDevice**)>;
using AddNodesToFuse    = Function<2, AbiStatus* (*)(SupportInfo*, const Node* const*, std::size_t, const void* fusion_options)>;
// clang-format on

enum AttributeType { kInt = 1, kInts, kFloat, kFloats, kString, kStrings, kGraph, kTensor };

/// Codes of an AbiStatus. Never ORT_EP_FAIL (11): Python answers that code by making the session
/// anew with the CPU provider only, without a word and for good.
enum StatusCode { kFail = 1, kInvalidArgument = 2, kNotImplemented = 9 };

enum LogLevel { kVerbose = 0, kInfo, kWarning, kError };

/// Options of AddNodesToFuse. As all structures below, longer than version 23's and zeroed, because
/// a newer ONNX Runtime might read further.
struct FusionOptions {
  std::uint32_t version = kAbiVersion;
  bool drop_constant_initialisers = true;
  void* later[8] = {};
};

/// A compiled subgraph. Compute: any thread, several at once.
struct ComputeInfo {
  std::uint32_t version = kAbiVersion;
  AbiStatus* (*create_state)(ComputeInfo*, ComputeContext*, void** state) = nullptr;
  AbiStatus* (*compute)(ComputeInfo*, void* state, KernelContext*) = nullptr;
  void (*release_state)(ComputeInfo*, void* state) = nullptr;
  void* later[8] = {};
};

/// The provider of one session.
struct Ep {
  std::uint32_t version = kAbiVersion;
  const char* (*get_name)(const Ep*) = nullptr;
  AbiStatus* (*get_capability)(Ep*, const Graph*, SupportInfo*) = nullptr;
  AbiStatus* (*compile)(Ep*, const Graph**, const Node** fused, std::size_t, ComputeInfo**,
                        Node** contexts) = nullptr;
  void (*release_compute_infos)(Ep*, ComputeInfo**, std::size_t) = nullptr;
  void* preferred_layout = nullptr;
  void* should_convert_layout = nullptr;
  AbiStatus* (*set_dynamic_options)(Ep*, const char* const* keys, const char* const* values,
                                    std::size_t) = nullptr;
  AbiStatus* (*on_run_start)(Ep*, const RunOptions*) = nullptr;
  AbiStatus* (*on_run_end)(Ep*, const RunOptions*, bool sync) = nullptr;
  void* create_allocator = nullptr;
  void* create_stream = nullptr;
  void* compatibility_info = nullptr;
  void* later[24] = {};
};

/// Makes providers. All members but the last four are called.
struct Factory {
  std::uint32_t version = kAbiVersion;
  const char* (*get_name)(const Factory*) = nullptr;
  const char* (*get_vendor)(const Factory*) = nullptr;
  AbiStatus* (*get_devices)(Factory*, const HardwareDevice* const*, std::size_t, EpDevice**,
                            std::size_t most, std::size_t* made) = nullptr;
  AbiStatus* (*create_ep)(Factory*, const HardwareDevice* const*, const KeyValues* const*,
                          std::size_t, const SessionOptions*, const Logger*, Ep**) = nullptr;
  void (*release_ep)(Factory*, Ep*) = nullptr;
  std::uint32_t (*get_vendor_id)(const Factory*) = nullptr;
  const char* (*get_version)(const Factory*) = nullptr;
  void* validate_compatibility = nullptr;
  AbiStatus* (*create_allocator)(Factory*, const MemoryInfo*, const KeyValues*, void**) = nullptr;
  void (*release_allocator)(Factory*, void*) = nullptr;
  AbiStatus* (*create_data_transfer)(Factory*, void**) = nullptr;
  bool (*is_stream_aware)(const Factory*) = nullptr;
  void* create_stream = nullptr;
  void* later[24] = {};
};

}  // namespace lagoon::plugin
