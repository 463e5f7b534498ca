#include "device/cuda/driver/session.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <utility>

#include "base/mutex.h"

namespace lagoon::cuda {
namespace {

/// The GPUs that this process has abandoned.
class Abandoned {
 public:
  void Add(int ordinal, const std::string& why) {
    const MutexLock lock(mutex_);
    why_.emplace(ordinal, why);
  }
  void Clear() {
    const MutexLock lock(mutex_);
    why_.clear();
  }
  /// The error of a GPU that was abandoned.
  Status Check(int ordinal) const {
    const MutexLock lock(mutex_);
    const auto found = why_.find(ordinal);
    if (found == why_.end()) return {};
    return Fail(ErrorCode::kUnavailable, found->second);
  }

 private:
  mutable Mutex mutex_;
  std::map<int, std::string> why_ GUARDED_BY(mutex_);  // by the GPU's number
};

Abandoned& AbandonedGpus() {
  static Abandoned gpus;
  return gpus;
}

}  // namespace

Result<std::shared_ptr<const GpuSession>> GpuSession::Open(std::shared_ptr<const Driver> driver,
                                                           int ordinal) {
  LAGOON_RETURN_IF_ERROR(AbandonedGpus().Check(ordinal));
  LAGOON_ASSIGN_OR_RETURN(GpuInfo gpu, DescribeGpu(*driver, ordinal));
  std::shared_ptr<GpuSession> session(new GpuSession(std::move(driver), std::move(gpu)));
  const Driver& calls = session->driver();
  LAGOON_RETURN_IF_ERROR(calls.Check(calls.device(&session->device_, ordinal), "cuDeviceGet"));
  LAGOON_RETURN_IF_ERROR(calls.Check(calls.retain_context(&session->context_, session->device_),
                                     fmt::format("cuDevicePrimaryCtxRetain({})", ordinal)));
  LAGOON_RETURN_IF_ERROR(session->Enter());
  return std::shared_ptr<const GpuSession>(std::move(session));
}

GpuSession::~GpuSession() {
  if (context_ != nullptr && !abandoned_.load()) driver_->release_context(device_);
}

void GpuSession::Abandon(const std::string& why) const {
  AbandonedGpus().Add(gpu_.ordinal, why);
  abandoned_.store(true);
}

void GpuSession::ForgetAbandoned() { AbandonedGpus().Clear(); }

Status GpuSession::Enter() const {
  if (abandoned_.load()) return AbandonedGpus().Check(gpu_.ordinal);
  return driver_->Check(driver_->set_context(context_), "cuCtxSetCurrent");
}

Result<OwnMemory> OwnMemory::Create(std::shared_ptr<const GpuSession> session, std::size_t bytes,
                                    Where where) {
  const Driver& driver = session->driver();
  OwnMemory memory;
  memory.bytes_ = bytes;
  if (where == Where::kPinned) {
    void* host = nullptr;
    LAGOON_RETURN_IF_ERROR(driver.Check(driver.allocate_host(&host, bytes, kHostPortable),
                                        fmt::format("cuMemHostAlloc({} bytes)", bytes)));
    memory.host_ = static_cast<std::byte*>(host);
    memory.session_ = std::move(session);
    std::memset(host, 0, bytes);
    LAGOON_RETURN_IF_ERROR(
        driver.Check(driver.host_address(&memory.device_, host, 0), "cuMemHostGetDevicePointer"));
    return memory;
  }
  LAGOON_RETURN_IF_ERROR(driver.Check(driver.allocate(&memory.device_, bytes),
                                      fmt::format("cuMemAlloc({} bytes)", bytes)));
  memory.session_ = std::move(session);
  LAGOON_RETURN_IF_ERROR(driver.Check(driver.fill(memory.device_, 0, bytes),
                                      fmt::format("cuMemsetD8({} bytes)", bytes)));
  // Streams that do not wait for the default stream must not overtake this call.
  LAGOON_RETURN_IF_ERROR(driver.Check(driver.synchronize(), "cuCtxSynchronize"));
  return memory;
}

OwnMemory::~OwnMemory() {
  if (session_ == nullptr || !session_->Enter()) return;
  // A lost context has already freed the memory. Then these calls fail, which does no harm.
  if (host_ != nullptr) {
    session_->driver().free_host(host_);
  } else {
    session_->driver().free(device_);
  }
}

OwnMemory& OwnMemory::operator=(OwnMemory&& other) noexcept {
  std::swap(session_, other.session_);
  std::swap(device_, other.device_);
  std::swap(host_, other.host_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Result<std::unique_ptr<MarkedStream>> MarkedStream::Create(
    std::shared_ptr<const GpuSession> session, int priority, const OwnMemory& marks,
    std::size_t index, GreenContext share) {
  const std::size_t offset = index * kMarkBytes;
  std::unique_ptr<MarkedStream> stream(
      new MarkedStream(std::move(session), reinterpret_cast<std::uint32_t*>(marks.host() + offset),
                       marks.device() + offset));
  const Driver& driver = stream->session_->driver();
  if (share == nullptr) {
    LAGOON_RETURN_IF_ERROR(
        driver.Check(driver.create_stream(&stream->stream_, kStreamNonBlocking, priority),
                     fmt::format("cuStreamCreateWithPriority({})", priority)));
  } else {
    LAGOON_RETURN_IF_ERROR(driver.Check(
        driver.create_green_stream(&stream->stream_, share, kStreamNonBlocking, priority),
        fmt::format("cuGreenCtxStreamCreate({})", priority)));
  }
  return stream;
}

MarkedStream::~MarkedStream() {
  if (stream_ != nullptr && session_->Enter()) session_->driver().destroy_stream(stream_);
}

std::uint32_t MarkedStream::Mark(Code& code) {
  const std::uint32_t mark = ++marks_;
  code = session_->driver().write_value32(stream_, device_word_, mark, 0);
  return mark;
}

}  // namespace lagoon::cuda
