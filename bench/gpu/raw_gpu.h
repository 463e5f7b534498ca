#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "device/cuda/driver/program.h"
#include "device/cuda/driver/session.h"
#include "device/cuda/gpu/grid_params.cuh"
#include "program/open_device.h"

namespace lagoon::bench {

/// A GPU without our Device, for benchmarks of what lies beneath a Device. One thread.
class RawGpu {
 public:
  /// `choice` must name a GPU: "cuda:N".
  static Result<std::unique_ptr<RawGpu>> Open(const DeviceChoice& choice);
  ~RawGpu();
  RawGpu(const RawGpu&) = delete;
  RawGpu& operator=(const RawGpu&) = delete;

  const cuda::GpuInfo& info() const { return session_->gpu(); }
  const cuda::Driver& driver() const { return session_->driver(); }

  /// The functions of the program's entries, in their order. Each may use as much shared memory as
  /// a block can have. They live as long as this object.
  Result<std::vector<cuda::Function>> Load(const cuda::Program& program);
  Result<cuda::OwnMemory> Allocate(std::size_t bytes, cuda::OwnMemory::Where where) const {
    return cuda::OwnMemory::Create(session_, bytes, where);
  }
  /// A stream of the highest priority (`urgent`) or the lowest. It lives as long as this object.
  Result<cuda::Stream> NewStream(bool urgent);
  Status Launch(cuda::Function function, unsigned grid, unsigned threads, std::size_t shared_bytes,
                cuda::Stream stream, cuda::GridParams& params) const;
  /// Waits until the stream is empty. Fails with kDeadlineExceeded after `limit`.
  Status Drain(cuda::Stream stream, Nanoseconds limit) const;

  /// The result of the driver's function `call` as a Status that names the GPU.
  Status Check(cuda::Code code, const char* call) const;

 private:
  explicit RawGpu(std::shared_ptr<const cuda::GpuSession> session) : session_(std::move(session)) {}

  const std::shared_ptr<const cuda::GpuSession> session_;
  std::vector<cuda::Module> modules_;
  std::vector<cuda::Stream> streams_;
};

}  // namespace lagoon::bench
