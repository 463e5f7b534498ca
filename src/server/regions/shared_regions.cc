#include "server/regions/shared_regions.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "base/guard.h"
#include "base/text.h"
#include "base/unfilled.h"
#include "server/tensors/tensor_codec.h"

namespace lagoon {
namespace {

std::string Subject(const std::string& name) {
  return fmt::format("shared memory region {}", Quoted(name));
}

std::string Text(int error) { return std::system_category().message(error); }

/// The memory of inputs that were copied, in place of the request's own payload.
struct Copies {
  Copies(std::shared_ptr<std::atomic<std::size_t>> total, std::size_t bytes)
      : taken(std::move(total)), size(bytes) {
    full = taken->fetch_add(size, std::memory_order_relaxed) + size > SharedRegions::kMostCopied;
  }
  ~Copies() { taken->fetch_sub(size, std::memory_order_relaxed); }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  const std::shared_ptr<std::atomic<std::size_t>> taken;
  const std::size_t size;
  bool full = false;
  std::shared_ptr<const void> payload;
  std::vector<UnfilledBytes> tensors;
};

Status CheckWords(const RegionSpec& spec) {
  const auto refuse = [&](const std::string& why) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", Subject(spec.name), why));
  };
  if (spec.name.empty() || spec.name.size() > SharedRegions::kMostNameBytes) {
    return refuse(fmt::format("its name has {} bytes, it may have 1 to {}", spec.name.size(),
                              SharedRegions::kMostNameBytes));
  }
  // What shm_open() takes, but no more than it: a name in one folder.
  const std::string_view key =
      spec.key.starts_with('/') ? std::string_view(spec.key).substr(1) : std::string_view(spec.key);
  const bool plain = !key.empty() && key.size() < SharedRegions::kMostNameBytes && key != "." &&
                     key != ".." && key.find('/') == key.npos && key.find('\0') == key.npos;
  if (!plain) {
    return refuse(fmt::format("its key has {} bytes and is no name of a shared memory object",
                              spec.key.size()));
  }
  if (spec.bytes == 0) return refuse("its byte_size is 0");
  return {};
}

tl::unexpected<Error> SharedMemoryIsOff() {
  return Fail(ErrorCode::kUnimplemented,
              "shared memory of clients is off: `lagoon serve --shared-memory on` allows it; or "
              "send tensors with the request");
}

/// The size of an open shared memory object.
Result<std::uint64_t> SizeOf(int descriptor, const std::string& name) {
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("Unable to open shared memory region: {}: its key is of no shared "
                            "memory object",
                            Quoted(name)));
  }
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace

std::uint64_t SharedTensors::input_bytes() const {
  std::uint64_t sum = 0;
  for (const Input& input : inputs) {
    if (__builtin_add_overflow(sum, input.part.bytes, &sum)) {
      return std::numeric_limits<std::uint64_t>::max();
    }
  }
  return sum;
}

// ---- One region

SharedRegion::~SharedRegion() { ::close(descriptor_); }

Status SharedRegion::Check(const RegionPart& part) const {
  if (part.offset <= spec_.bytes && part.bytes <= spec_.bytes - part.offset) return {};
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("Invalid offset + byte size for shared memory region: {}: {} bytes at {}, "
                  "the region has {}",
                  Quoted(spec_.name), part.bytes, part.offset, spec_.bytes));
}

Status SharedRegion::Failed(const char* what, int error) const {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} cannot be {}: {}", Subject(spec_.name), what, Text(error)));
}

Status SharedRegion::Shrunk() const {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: its shared memory object is smaller than when it was registered",
                          Subject(spec_.name)));
}

Status SharedRegion::Read(std::uint64_t offset, std::span<std::byte> to) const {
  auto at = static_cast<off_t>(spec_.offset + offset);
  while (!to.empty()) {
    const ssize_t got = ::pread(descriptor_, to.data(), to.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("read", errno);
    if (got == 0) return Shrunk();
    to = to.subspan(static_cast<std::size_t>(got));
    at += got;
  }
  return {};
}

Status SharedRegion::Write(std::uint64_t offset, std::span<const std::byte> from) const {
  auto at = static_cast<off_t>(spec_.offset + offset);
  // An object that shrinks behind this line grows again by what is written: its client's loss.
  LAGOON_ASSIGN_OR_RETURN(const std::uint64_t size, SizeOf(descriptor_, spec_.name));
  if (size < static_cast<std::uint64_t>(at) + from.size()) return Shrunk();
  while (!from.empty()) {
    const ssize_t put = ::pwrite(descriptor_, from.data(), from.size(), at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return Failed("written", put < 0 ? errno : ENOSPC);
    from = from.subspan(static_cast<std::size_t>(put));
    at += put;
  }
  return {};
}

// ---- The outputs of a request

const RegionPart* OutputRegions::Find(const std::string& output) const {
  const auto found = std::ranges::find(targets_, output, &Target::output);
  return found == targets_.end() ? nullptr : &found->part;
}

std::size_t OutputRegions::BytesOf(std::span<const OutputTensor> outputs) const {
  std::size_t bytes = 0;
  for (const OutputTensor& output : outputs) {
    if (Find(output.name) != nullptr) bytes += output.data.size();
  }
  return bytes;
}

Status OutputRegions::Write(std::span<OutputTensor> outputs) {
  for (OutputTensor& output : outputs) {
    const auto target = std::ranges::find(targets_, output.name, &Target::output);
    if (target == targets_.end()) continue;
    RegionPart& part = target->part;
    if (output.data.size() > part.bytes) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("shared memory size specified with the request for output {} ({} "
                              "bytes) should be at least {} bytes",
                              Quoted(output.name), part.bytes, output.data.size()));
    }
    part.bytes = output.data.size();
    auto written = target->region->Write(part.offset, {output.data.data(), output.data.size()});
    if (!written) return Annotate(fmt::format("output {}", Quoted(output.name)), written.error());
    output.data = {};
  }
  return {};
}

// ---- All regions

Status SharedRegions::CheckRoom(const RegionSpec& spec) const {
  if (regions_.contains(spec.name)) {
    return Fail(ErrorCode::kAlreadyExists, Subject(spec.name) + " already in manager");
  }
  std::uint64_t bytes = spec.bytes;
  for (const auto& [name, region] : regions_) bytes += region->spec().bytes;
  if (regions_.size() < kMostRegions && bytes <= kMostBytes) return {};
  return Fail(
      ErrorCode::kResourceExhausted,
      fmt::format("{} of {} bytes: there are {} regions, of {} bytes; the limits are {} and "
                  "{}; unregister some",
                  Subject(spec.name), spec.bytes, regions_.size(), bytes - spec.bytes, kMostRegions,
                  kMostBytes));
}

Status SharedRegions::Register(RegionSpec spec) {
  if (!on_) return SharedMemoryIsOff();
  LAGOON_RETURN_IF_ERROR(CheckWords(spec));
  const MutexLock lock(mutex_);
  const int descriptor = ::shm_open(spec.key.c_str(), O_RDWR | O_NONBLOCK, 0);
  if (descriptor < 0) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("Unable to open shared memory region: {}: {}", Quoted(spec.name), Text(errno)));
  }
  auto region = std::make_shared<const SharedRegion>(spec, descriptor);
  LAGOON_ASSIGN_OR_RETURN(const std::uint64_t size, SizeOf(descriptor, spec.name));
  if (spec.offset > size || spec.bytes > size - spec.offset) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("Invalid offset + byte size for shared memory region: {}: {} bytes at "
                            "{}, its shared memory object has {}",
                            Quoted(spec.name), spec.bytes, spec.offset, size));
  }
  LAGOON_RETURN_IF_ERROR(CheckRoom(spec));
  regions_.emplace(std::move(spec.name), std::move(region));
  return {};
}

void SharedRegions::Unregister(const std::string& name) {
  const MutexLock lock(mutex_);
  regions_.erase(name);
}

void SharedRegions::UnregisterAll() {
  const MutexLock lock(mutex_);
  regions_.clear();
}

Result<std::vector<RegionSpec>> SharedRegions::List(const std::string& name) const {
  const MutexLock lock(mutex_);
  std::vector<RegionSpec> specs;
  for (const auto& [key, region] : regions_) {
    if (name.empty() || key == name) specs.push_back(region->spec());
  }
  if (specs.empty() && !name.empty()) {
    return Fail(ErrorCode::kNotFound,
                "Unable to find system shared memory region: " + Quoted(name));
  }
  return specs;
}

Result<std::shared_ptr<const SharedRegion>> SharedRegions::Find(const RegionPart& part) const {
  if (!on_) return SharedMemoryIsOff();
  const MutexLock lock(mutex_);
  const auto found = regions_.find(part.region);
  if (found == regions_.end()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("Unable to find shared memory region: {}", Quoted(part.region)));
  }
  LAGOON_RETURN_IF_ERROR(found->second->Check(part));
  return found->second;
}

Status SharedRegions::CopyInputs(const SharedTensors& tensors, InferRequest& request) const {
  // Before anything is allocated: a request of a few bytes may name any number of bytes.
  std::vector<std::shared_ptr<const SharedRegion>> regions;
  for (const SharedTensors::Input& input : tensors.inputs) {
    auto region = Find(input.part);
    if (!region) {
      return Annotate(fmt::format("input {}", Quoted(request.inputs[input.index].name)),
                      std::move(region).error());
    }
    regions.push_back(*std::move(region));
  }
  const std::uint64_t bytes = tensors.input_bytes();
  if (bytes > kMostCopied) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("its inputs in shared memory have {} bytes, the limit is {}", bytes,
                            kMostCopied));
  }
  const auto copies = std::make_shared<Copies>(copied_, static_cast<std::size_t>(bytes));
  if (copies->full) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("no room for {} bytes of inputs in shared memory: those of requests in "
                            "progress take nearly {} bytes; try again later",
                            bytes, kMostCopied));
  }
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const SharedTensors::Input& input = tensors.inputs[i];
    InputTensor& tensor = request.inputs[input.index];
    UnfilledBytes& to = copies->tensors.emplace_back(static_cast<std::size_t>(input.part.bytes));
    auto read = regions[i]->Read(input.part.offset, {to.data(), to.size()});
    if (!read) return Annotate(fmt::format("input {}", Quoted(tensor.name)), read.error());
    tensor.data = {to.data(), to.size()};
    if (tensor.type != DataType::kString) continue;
    const Status elements = CheckTensorBytes(tensor.type, tensor.dims, tensor.data);
    if (!elements) return Annotate(fmt::format("input {}", Quoted(tensor.name)), elements.error());
  }
  copies->payload = std::move(request.payload);
  request.payload = copies;
  return {};
}

Result<OutputRegions> SharedRegions::Bind(const SharedTensors& tensors,
                                          InferRequest& request) const {
  OutputRegions outputs;
  for (const SharedTensors::Output& output : tensors.outputs) {
    auto region = Find(output.part);
    if (!region) {
      return Annotate(fmt::format("output {}", Quoted(output.name)), std::move(region).error());
    }
    outputs.Add({output.name, *std::move(region), output.part});
  }
  if (tensors.inputs.empty()) return outputs;
  LAGOON_RETURN_IF_ERROR(WithoutExceptions([&] { return CopyInputs(tensors, request); }));
  return outputs;
}

// ---- Memory of GPUs

Error NoCudaRegion(const std::string& name) {
  return {ErrorCode::kNotFound, "Unable to find cuda shared memory region: " + Quoted(name)};
}

Error NoCudaRegister(const std::string& name) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("failed to register CUDA shared memory region {}: memory of a GPU cannot be "
                      "registered; use system shared memory, or send tensors with the request",
                      Quoted(name))};
}

}  // namespace lagoon
