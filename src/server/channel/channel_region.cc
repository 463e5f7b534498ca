#include "server/channel/channel_region.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace lagoon {
namespace {

using channel::kSlots;

constexpr std::uint64_t kPage = 4096;

// ---- Descriptors until the region owns them

tl::unexpected<Error> NoRoom(std::uint64_t bytes, int error) {
  return Fail(ErrorCode::kResourceExhausted, fmt::format("a channel of {} bytes: {}", bytes,
                                                         std::system_category().message(error)));
}

tl::unexpected<Error> Undo(int memory, int doorbell, std::uint64_t bytes) {
  const int error = errno;
  if (memory >= 0) ::close(memory);
  if (doorbell >= 0) ::close(doorbell);
  return NoRoom(bytes, error);
}

}  // namespace

Result<std::unique_ptr<ChannelRegion>> ChannelRegion::Make(std::uint64_t bytes) {
  if (bytes == 0 || bytes > kMostBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a channel has 1 to {} bytes for tensors, {} were asked for",
                            kMostBytes, bytes));
  }
  bytes = (bytes + kPage - 1) / kPage * kPage;
  const std::size_t size = channel::kDataAt + bytes;
  const int doorbell = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (doorbell < 0) return NoRoom(bytes, errno);
  const int memory = ::memfd_create("lagoon-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory < 0 || ::ftruncate(memory, static_cast<off_t>(size)) != 0 ||
      ::fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Undo(memory, doorbell, bytes);
  }
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (at == MAP_FAILED) return Undo(memory, doorbell, bytes);
  return std::unique_ptr<ChannelRegion>(
      new ChannelRegion(memory, doorbell, static_cast<std::byte*>(at), bytes));
}

ChannelRegion::ChannelRegion(int memory, int doorbell, std::byte* at, std::uint64_t bytes)
    : memory_(memory), doorbell_(doorbell), at_(at), data_(at + channel::kDataAt, bytes) {}

ChannelRegion::~ChannelRegion() {
  ::munmap(at_, channel::kDataAt + data_.size());
  ::close(memory_);
  ::close(doorbell_);
}

channel::Submission ChannelRegion::Next() const {
  auto* const words = reinterpret_cast<std::uint64_t*>(
      at_ + channel::kSubmissionsAt + (taken_ % kSlots) * sizeof(channel::Submission));
  std::array<std::uint64_t, sizeof(channel::Submission) / sizeof(std::uint64_t)> copy{};
  for (std::size_t i = 0; i < copy.size(); ++i) {  // atomic, so that each word is read once
    copy[i] = std::atomic_ref<std::uint64_t>(words[i]).load(std::memory_order_relaxed);
  }
  return std::bit_cast<channel::Submission>(copy);
}

std::optional<std::uint32_t> ChannelRegion::Busy() const {
  const std::uint32_t in_flight = this->in_flight();  // before completed_
  const std::uint32_t unread =
      completed_.load(std::memory_order_acquire) - head().read.load(std::memory_order_acquire);
  if (unread > kSlots) return std::nullopt;
  return in_flight + unread;
}

ChannelRegion::Taken ChannelRegion::Take(channel::Submission& entry) {
  const std::uint32_t waiting = head().submitted.load(std::memory_order_acquire) - taken_;
  if (waiting == 0) return Taken::kNone;
  const std::optional<std::uint32_t> busy = Busy();
  if (waiting > kSlots || !busy) return Taken::kLie;
  entry = Next();
  const bool full = *busy >= kSlots;
  if (full && entry.kind != channel::Kind::kCancel) return Taken::kNone;
  head().taken.store(++taken_, std::memory_order_release);
  return Taken::kOne;
}

bool ChannelRegion::Sleep() {
  head().server_sleeps.store(1, std::memory_order_relaxed);
  // With the fence of the client: it sees that the server sleeps, or the server its entry.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint32_t waiting = head().submitted.load(std::memory_order_acquire) - taken_;
  if (waiting == 0) return true;
  if (waiting > kSlots || Next().kind == channel::Kind::kCancel) return false;
  // A client that fills all slots and reads nothing rings when it submits again.
  const std::optional<std::uint32_t> busy = Busy();
  return busy && *busy >= kSlots;
}

void ChannelRegion::Awake() { head().server_sleeps.store(0, std::memory_order_relaxed); }

void ChannelRegion::Complete(const channel::Completion& entry, std::size_t used) {
  {
    const MutexLock lock(mutex_);
    const std::uint32_t number = completed_.load(std::memory_order_relaxed);
    std::memcpy(at_ + channel::kCompletionsAt + (number % kSlots) * sizeof(entry), &entry, used);
    completed_.store(number + 1, std::memory_order_release);
    // Before the client sees the answer: the request that it sends then finds its slot, as nothing
    // rings for one that waits.
    in_flight_.fetch_sub(1, std::memory_order_release);
    head().completed.store(number + 1, std::memory_order_release);
  }
  Ring();
}

void ChannelRegion::TellAlmostFinished() {
  head().almost.fetch_add(1, std::memory_order_release);
  Ring();
}

void ChannelRegion::Ring() {
  head().bell.fetch_add(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (head().client_sleeps.load(std::memory_order_relaxed) == 0) return;
  ::syscall(SYS_futex, &head().bell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace lagoon
