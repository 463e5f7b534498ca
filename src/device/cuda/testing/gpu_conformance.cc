// The conformance suite on a real GPU: $LAGOON_TEST_GPU is its number, by default 0. The suite's
// bodies get pointers to their arguments, which lie on the stack and in the heap. So stack and heap
// are pinned memory here, which the GPU reaches at the same addresses. `each-test` of the package
// runs every test in a process of its own: a gate that a failed test leaves shut would hold up all
// others.

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <memory_resource>
#include <new>

#include "base/check.h"
#include "device/conformance/suite.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver/session.h"
#include "device/cuda/testing/suite_program.h"

namespace {

/// Where operator new takes memory from. Null, before there is a GPU: malloc.
std::atomic<std::pmr::memory_resource*> heap{nullptr};

/// Lies in front of every allocation.
struct alignas(std::max_align_t) BlockHeader {
  std::pmr::memory_resource* from;
  std::size_t bytes;
};

}  // namespace

void* operator new(std::size_t bytes) {
  const std::size_t all = bytes + sizeof(BlockHeader);
  std::pmr::memory_resource* const from = heap.load();
  void* const block = from == nullptr ? std::malloc(all) : from->allocate(all);
  if (block == nullptr) throw std::bad_alloc();
  return new (block) BlockHeader{from, all} + 1;
}

void operator delete(void* data) noexcept {
  if (data == nullptr) return;
  BlockHeader* const block = static_cast<BlockHeader*>(data) - 1;
  if (block->from == nullptr) return std::free(block);
  block->from->deallocate(block, block->bytes);
}
void operator delete(void* data, std::size_t) noexcept { operator delete(data); }

namespace lagoon::conformance {
namespace {

constexpr std::size_t kMemoryBytes = std::size_t{256} << 20;
constexpr std::size_t kStackBytes = std::size_t{16} << 20;

// Left out: these tests occupy a device of one unit with a single block; a GPU has room beside it.
constexpr char kFilter[] =
    "-*.SmallerRanksRunFirstAndEqualOnesInOrderOfSubmission/*"
    ":*.AQueuedLaunchLeavesWhenTheKernelThatGuardsItIsDone/*"
    ":*.QueuedLaunchesRetireBeforeRaiseReturns/*"
    ":*.AStartedLaunchOutlivesAGuardThatHoldsOnlyBeforeTheStart/*"
    ":*.AQueuedLaunchRetiresWhenTheKernelThatItCountsIsRevokedHalfway/*"
    ":*.AQueuedLaunchRetiresWhenItsCountIsReachedWhileItIsSubmitted/*";

int Ordinal() {
  // No thread changes the environment. NOLINTNEXTLINE(concurrency-mt-unsafe)
  const char* const number = std::getenv("LAGOON_TEST_GPU");
  return number == nullptr ? 0 : std::atoi(number);
}

const cuda::Program& SuiteProgram() {
  static const cuda::SourceProgram program = [] {
    cuda::SourceProgram::Source source;
    source.headers = cuda::EmbeddedSuiteSources();
    source.main = std::move(source.headers.back());
    source.headers.pop_back();
    source.entries = {{cuda::suite::kEntry, cuda::suite::Bodies::kThreads}};
    return cuda::SourceProgram(std::move(source),
                               cuda::ImageCache(cuda::ImageCache::DefaultFolder()));
  }();
  return program;
}

const CudaImage* ImageOf(Body body) {
  static const cuda::suite::SuiteImages images(SuiteProgram());
  return images.Of(body);
}

const DeviceUnderTest kGpu{"Gpu", [](const Needs& needs) {
                             cuda_form = ImageOf;
                             real_gpu = true;
                             CudaDeviceOptions options;
                             options.ordinal = Ordinal();
                             options.memory_limit_bytes = needs.memory_limit_bytes;
                             return CreateCudaDevice(options);
                           }};

INSTANTIATE_TEST_SUITE_P(Gpu, DeviceConformance, ::testing::Values(kGpu), DeviceName);

Result<cuda::OwnMemory> PinMemory() {
  LAGOON_ASSIGN_OR_RETURN(std::shared_ptr<const cuda::Driver> driver, cuda::Driver::Load());
  LAGOON_ASSIGN_OR_RETURN(std::shared_ptr<const cuda::GpuSession> session,
                          cuda::GpuSession::Open(std::move(driver), Ordinal()));
  LAGOON_ASSIGN_OR_RETURN(cuda::OwnMemory memory,
                          cuda::OwnMemory::Create(session, kStackBytes + kMemoryBytes,
                                                  cuda::OwnMemory::Where::kPinned));
  if (memory.device() != reinterpret_cast<cuda::Address>(memory.host())) {
    return Fail(ErrorCode::kUnavailable, "the GPU sees pinned memory at other addresses");
  }
  return memory;
}

int RunTests(const cuda::OwnMemory& memory) {
  std::pmr::monotonic_buffer_resource bytes(memory.host() + kStackBytes, kMemoryBytes,
                                            std::pmr::null_memory_resource());
  std::pmr::synchronized_pool_resource pool(&bytes);
  heap.store(&pool);
  int result = 1;
  pthread_attr_t attributes;
  LAGOON_CHECK(pthread_attr_init(&attributes) == 0);
  LAGOON_CHECK(pthread_attr_setstack(&attributes, memory.host(), kStackBytes) == 0);
  const auto run = [](void* to) -> void* {
    *static_cast<int*>(to) = RUN_ALL_TESTS();
    return nullptr;
  };
  pthread_t thread;
  LAGOON_CHECK(pthread_create(&thread, &attributes, run, &result) == 0);
  LAGOON_CHECK(pthread_join(thread, nullptr) == 0);
  std::fflush(nullptr);
  // Static objects may still own memory of this program's heap.
  std::_Exit(result);
}

}  // namespace
}  // namespace lagoon::conformance

int main(int argc, char** argv) {
  GTEST_FLAG_SET(filter, lagoon::conformance::kFilter);
  ::testing::InitGoogleTest(&argc, argv);
  const auto memory = lagoon::conformance::PinMemory();
  if (!memory) {
    std::fprintf(stderr, "gpu_conformance: %s\n", memory.error().message.c_str());
    return 1;
  }
  return lagoon::conformance::RunTests(*memory);
}
