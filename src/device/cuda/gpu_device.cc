#include "device/cuda/gpu_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/thread.h"

namespace lagoon::cuda {
namespace {

constexpr std::uint32_t kMaxWorks = 512;
constexpr std::uint32_t kMaxStreams = 1024;
constexpr std::uint32_t kMaxGuardWords = 8192;
constexpr std::size_t kEvents = 8192;

}  // namespace

GpuDevice::GpuDevice(std::shared_ptr<const GpuSession> session, const CudaDeviceOptions& options)
    : session_(std::move(session)),
      options_(options),
      guards_(kMaxGuardWords),
      memory_(std::make_shared<GpuMemory>(session_, options.memory_limit_bytes)),
      shares_(info_),
      works_(kMaxWorks, kMaxStreams),
      events_(kEvents),
      meter_(session_->gpu().multiprocessors, lagoon::Now()),
      watchdog_(options_.silence, lagoon::Now()) {
  const GpuInfo& gpu = session_->gpu();
  info_.name = fmt::format("cuda:{}", gpu.ordinal);
  info_.description = gpu.name;
  info_.units = gpu.multiprocessors;
  info_.memory_bytes = memory_->limit_bytes();
  info_.max_launches = kMaxWorks;
  info_.max_streams = kMaxStreams;
  info_.max_guards = kMaxGuardWords;
  info_.max_shares = Shares::kMost;
  info_.blocks_on_host = false;
  info_.memory_on_host = false;
  order_.reserve(kMaxWorks);
  fetches_.reserve(kMaxWorks);
  copy_queue_.reserve(kMaxWorks);
  // Reserves room for the last event of a device that fails.
  LAGOON_CHECK(events_.Reserve(1));
}

Result<std::unique_ptr<Device>> GpuDevice::Create(std::shared_ptr<const GpuSession> session,
                                                  const CudaDeviceOptions& options) {
  std::unique_ptr<GpuDevice> device(new GpuDevice(std::move(session), options));
  LAGOON_RETURN_IF_ERROR(device->Prepare());
  device->thread_ = std::jthread([raw = device.get()] {
    NameThisThread("lagoon-cuda");
    raw->RunThread();
  });
  return std::unique_ptr<Device>(std::move(device));
}

Status GpuDevice::Prepare() {
  MutexLock lock(mutex_);
  LAGOON_ASSIGN_OR_RETURN(device_guards_, OwnMemory::Create(session_, kMaxGuardWords * kGuardStride,
                                                            OwnMemory::Where::kDevice));
  LAGOON_ASSIGN_OR_RETURN(guard_sources_, OwnMemory::Create(session_, kMaxGuardWords * sizeof(u32),
                                                            OwnMemory::Where::kPinned));
  LAGOON_ASSIGN_OR_RETURN(records_, RecordPool::Create(session_, {}));
  PriorityRange range;
  LAGOON_RETURN_IF_ERROR(driver().Check(driver().priority_range(&range.least, &range.greatest),
                                        "cuCtxGetStreamPriorityRange"));
  LAGOON_ASSIGN_OR_RETURN(issuer_, GridIssuer::Create(session_, *records_, range,
                                                      {.depth = options_.depth,
                                                       .count_interval = options_.count_interval}));
  notes_ = &issuer_->notes();
  streams_ = &issuer_->streams();
  if (Result<std::unique_ptr<UnitGranules>> granules = UnitGranules::Split(session_)) {
    granules_ = *std::move(granules);
    info_.share_granule = granules_->granule();
  } else {
    no_shares_ = std::move(granules).error();
  }
  return CreateStreams(range.greatest);
}

// `priority`: the driver's number. These streams never hold a kernel.
Status GpuDevice::CreateStreams(int priority) {
  const std::array streams = {&control_, &fetch_, &to_device_, &to_host_};
  static_assert(std::tuple_size_v<decltype(streams)> == KernelStreams::kOtherStreams);
  LAGOON_ASSIGN_OR_RETURN(marks_,
                          OwnMemory::Create(session_, streams.size() * MarkedStream::kMarkBytes,
                                            OwnMemory::Where::kPinned));
  std::size_t index = 0;
  for (std::unique_ptr<MarkedStream>* const stream : streams) {
    LAGOON_ASSIGN_OR_RETURN(*stream, MarkedStream::Create(session_, priority, marks_, index++));
  }
  LAGOON_ASSIGN_OR_RETURN(copies_, CopyPipeline::Create(session_, *to_device_, *to_host_));
  WarnOfConnections();
  return {};
}

GpuDevice::~GpuDevice() {
  {
    // Under the lock: a notification between the thread's look at `stopping_` and its sleep would
    // be lost, and the thread would sleep until its next check of the context.
    const MutexLock lock(mutex_);
    stopping_.store(true);
    work_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
  if (!session_->Enter() || !AwaitKernels()) return;
  // Blocks and copies may still use what is destroyed now. A lost context returns an error; then
  // nothing runs.
  driver().synchronize();
  const MutexLock lock(load_mutex_);
  for (const auto& [program, loaded] : programs_) driver().unload_module(loaded.module);
}

Result<Buffer> GpuDevice::Allocate(std::size_t bytes, MemoryKind kind) {
  return memory_->Allocate(bytes, kind);
}

Status GpuDevice::Upload(void* to, std::span<const std::byte> from) {
  const auto check = [&](Code code, const char* call) {
    return driver().Check(code,
                          fmt::format("device '{}': {}, {} bytes", info_.name, call, from.size()));
  };
  LAGOON_RETURN_IF_ERROR(session_->Enter());
  // In pieces, as guard words and inputs of requests take the same copy engine: one piece takes it
  // for some 40 us, and a model's weights take it for milliseconds.
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  auto at = reinterpret_cast<Address>(to);
  do {
    const auto piece = from.first(std::min(kPiece, from.size()));
    LAGOON_RETURN_IF_ERROR(check(driver().write(at, piece.data(), piece.size()), "cuMemcpyHtoD"));
    // The call may return while the last bytes are on their way, and Lagoon's streams do not wait
    // for the null stream.
    LAGOON_RETURN_IF_ERROR(check(driver().synchronize_stream(nullptr), "cuStreamSynchronize"));
    from = from.subspan(piece.size());
    at += piece.size();
  } while (!from.empty());
  return {};
}

Result<std::vector<Function>> GpuDevice::LoadProgram(const Program& program) {
  const auto known = programs_.find(&program);
  if (known != programs_.end()) return known->second.functions;
  LAGOON_ASSIGN_OR_RETURN(LoadedProgram loaded, cuda::LoadProgram(*session_, program));
  return (programs_[&program] = std::move(loaded)).functions;
}

Result<KernelHandle> GpuDevice::Load(const CodeImage& image, const KernelSpec& spec) {
  const std::string where = fmt::format("device '{}': kernel '{}'", info_.name, image.name);
  if (image.cuda == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, where + " has no body for CUDA");
  }
  const CudaImage& cuda = *image.cuda;
  const std::size_t shared = kProtocolSharedBytes + spec.scratch_bytes;
  if (shared > session_->gpu().shared_bytes || cuda.args_bytes > kArgsBytes) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} takes {} bytes of shared memory and {} of arguments, the limits "
                    "are {} and {}",
                    where, shared, cuda.args_bytes, session_->gpu().shared_bytes, kArgsBytes));
  }
  if (Status entered = session_->Enter(); !entered) {
    return Annotate(where, std::move(entered).error());
  }
  const MutexLock load_lock(load_mutex_);
  Result<std::vector<Function>> functions = LoadProgram(*cuda.program);
  if (!functions) return Annotate(where, std::move(functions).error());
  const EntryName& entry = cuda.program->entries()[cuda.entry];
  const Function function = (*functions)[cuda.entry];
  int occupancy = 0;
  Status asked = driver().Check(
      driver().occupancy(&occupancy, function, static_cast<int>(entry.threads), shared),
      "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  if (!asked) return Annotate(where, std::move(asked).error());
  MutexLock lock(mutex_);
  GpuKernel kernel{function, cuda, static_cast<std::uint32_t>(shared),
                   static_cast<std::uint32_t>(std::max(occupancy, 1))};
  const GpuKernel::Key key = kernel.key();
  return kernels_.FindOrAdd(key, kernel, where);
}

std::uint32_t GpuDevice::LoadedKernels() const {
  MutexLock lock(mutex_);
  return kernels_.size();
}

std::uint32_t GpuDevice::Occupancy(KernelHandle kernel) const {
  MutexLock lock(mutex_);
  return kernels_[kernel].occupancy;
}

Result<StreamId> GpuDevice::CreateStream(const StreamOptions& options) {
  MutexLock lock(mutex_);
  if (streams_used_ == kMaxStreams) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("device '{}': cannot create stream '{}': all {} are in use", info_.name,
                            options.name, kMaxStreams));
  }
  return StreamId(++streams_used_);
}

Result<GuardId> GpuDevice::CreateGuard() {
  MutexLock lock(mutex_);
  return guards_.Create(info_.name);
}

UnitTimes GpuDevice::Times() const {
  MutexLock lock(mutex_);
  UnitMeter now = meter_;
  now.Advance(lagoon::Now());
  return now.times();
}

void GpuDevice::SetWorkHeld(bool held) {
  MutexLock lock(mutex_);
  meter_.SetHeld(held, lagoon::Now());
}

}  // namespace lagoon::cuda

namespace lagoon {

Result<std::unique_ptr<Device>> CreateCudaDevice(const CudaDeviceOptions& options) {
  const std::string name = fmt::format("device 'cuda:{}'", options.ordinal);
  Result<std::shared_ptr<const cuda::Driver>> driver = cuda::Driver::Load(options.driver_library);
  if (!driver) return Annotate(name, std::move(driver).error());
  Result<std::shared_ptr<const cuda::GpuSession>> session =
      cuda::GpuSession::Open(*std::move(driver), options.ordinal);
  if (!session) return Annotate(name, std::move(session).error());
  Result<std::unique_ptr<Device>> device = cuda::GpuDevice::Create(*std::move(session), options);
  if (!device) return Annotate(name, std::move(device).error());
  return device;
}

}  // namespace lagoon
