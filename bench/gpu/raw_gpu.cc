#include "bench/gpu/raw_gpu.h"

#include <fmt/format.h>

#include <optional>
#include <thread>

namespace lagoon::bench {

Result<std::unique_ptr<RawGpu>> RawGpu::Open(const DeviceChoice& choice) {
  const std::optional<int> ordinal = CudaOrdinal(choice.name);
  if (!ordinal) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("device '{}': this measures a GPU, 'cuda:N'; `lagoon devices` lists "
                            "what there is",
                            choice.name));
  }
  LAGOON_ASSIGN_OR_RETURN(auto driver, cuda::Driver::Load(choice.cuda_driver));
  LAGOON_ASSIGN_OR_RETURN(auto session, cuda::GpuSession::Open(std::move(driver), *ordinal));
  return std::unique_ptr<RawGpu>(new RawGpu(std::move(session)));
}

RawGpu::~RawGpu() {
  if (!session_->Enter()) return;
  driver().synchronize();
  for (const cuda::Stream stream : streams_) driver().destroy_stream(stream);
  for (const cuda::Module module : modules_) driver().unload_module(module);
}

Status RawGpu::Check(cuda::Code code, const char* call) const {
  return driver().Check(code, fmt::format("device 'cuda:{}': {}", info().ordinal, call));
}

Result<std::vector<cuda::Function>> RawGpu::Load(const cuda::Program& program) {
  LAGOON_ASSIGN_OR_RETURN(cuda::LoadedProgram loaded, cuda::LoadProgram(*session_, program));
  modules_.push_back(loaded.module);
  return std::move(loaded.functions);
}

Result<cuda::Stream> RawGpu::NewStream(bool urgent) {
  LAGOON_RETURN_IF_ERROR(session_->Enter());
  int least = 0;
  int greatest = 0;
  LAGOON_RETURN_IF_ERROR(
      Check(driver().priority_range(&least, &greatest), "cuCtxGetStreamPriorityRange"));
  cuda::Stream stream = nullptr;
  LAGOON_RETURN_IF_ERROR(
      Check(driver().create_stream(&stream, cuda::kStreamNonBlocking, urgent ? greatest : least),
            "cuStreamCreateWithPriority"));
  streams_.push_back(stream);
  return stream;
}

Status RawGpu::Launch(cuda::Function function, unsigned grid, unsigned threads,
                      std::size_t shared_bytes, cuda::Stream stream,
                      cuda::GridParams& params) const {
  void* parameter = &params;
  return Check(driver().launch(function, grid, 1, 1, threads, 1, 1,
                               static_cast<unsigned>(shared_bytes), stream, &parameter, nullptr),
               "cuLaunchKernel");
}

Status RawGpu::Drain(cuda::Stream stream, Nanoseconds limit) const {
  const TimePoint end = Now() + limit;
  for (;;) {
    const cuda::Code code = driver().query_stream(stream);
    if (code != cuda::kNotReady) return Check(code, "cuStreamQuery");
    if (Now() > end) {
      return Fail(ErrorCode::kDeadlineExceeded,
                  fmt::format("device 'cuda:{}': a stream is not empty after {} ms", info().ordinal,
                              ToMilliseconds(limit)));
    }
    std::this_thread::yield();
  }
}

}  // namespace lagoon::bench
