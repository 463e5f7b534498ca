#include "server/http/low_lane.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/strand.hpp>
#include <cerrno>
#include <system_error>

#include "base/thread.h"

namespace lagoon {
namespace {

// Most bytes of one call of the system, so that a piece that is wanted back comes soon.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 20;
constexpr std::size_t kMostParts = 16;

/// A list that others have filled, the first first.
template <typename Piece>
Piece* TakeAll(std::atomic<Piece*>& list, Piece* Piece::*next) {
  // acquire: what was written into the pieces before they were added.
  Piece* last = list.exchange(nullptr, std::memory_order_acquire);
  Piece* first = nullptr;
  while (last != nullptr) {
    Piece* const before = last->*next;
    last->*next = first;
    first = last;
    last = before;
  }
  return first;
}

template <typename Piece>
void Add(std::atomic<Piece*>& list, Piece& piece, Piece* Piece::*next) {
  Piece* before = list.load(std::memory_order_relaxed);
  do {
    piece.*next = before;
    // release: whoever takes the list sees the piece.
  } while (!list.compare_exchange_weak(before, &piece, std::memory_order_release,
                                       std::memory_order_relaxed));
}

int NewEvent() {
  const int event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (event < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  return event;
}

}  // namespace

// ---- Pieces

bool LowLane::Piece::TakeBack() {
  State state = State::kWaits;
  // acq_rel: the lane does not touch the parts any more, or this thread does not yet.
  if (state_.compare_exchange_strong(state, State::kTakenBack, std::memory_order_acq_rel)) {
    return true;
  }
  wanted_back_.store(true, std::memory_order_relaxed);
  return false;
}

bool LowLane::Piece::Begin() {
  State state = State::kWaits;
  return state_.compare_exchange_strong(state, State::kSending, std::memory_order_acq_rel);
}

void LowLane::Piece::SendAll() {
  while (!rest_.empty() && !wanted_back_.load(std::memory_order_relaxed)) {
    if (!SendSome()) return;
  }
}

/// Writes to the socket. Returns false if the socket takes no more now, or has failed.
bool LowLane::Piece::SendSome() {
  std::array<iovec, kMostParts> some;
  std::size_t count = 0;
  std::size_t bytes = 0;
  for (const iovec& part : rest_) {
    if (count == kMostParts || bytes == kMostAtOnce) break;
    const std::size_t size = std::min(part.iov_len, kMostAtOnce - bytes);
    some[count++] = {part.iov_base, size};
    bytes += size;
  }
  msghdr message{};
  message.msg_iov = some.data();
  message.msg_iovlen = count;
  const ssize_t sent = ::sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    if (errno == EINTR) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) error_ = errno;
    return false;
  }
  Advance(static_cast<std::size_t>(sent));
  return static_cast<std::size_t>(sent) == bytes;
}

void LowLane::Piece::Advance(std::size_t bytes) {
  sent_ += bytes;
  while (!rest_.empty() && bytes >= rest_.front().iov_len) {
    bytes -= rest_.front().iov_len;
    rest_ = rest_.subspan(1);
  }
  if (rest_.empty()) return;
  iovec& first = rest_.front();
  first.iov_base = static_cast<std::byte*>(first.iov_base) + bytes;
  first.iov_len -= bytes;
}

// ---- The lane

LowLane::LowLane(IoPool& pool) : event_(boost::asio::make_strand(pool.context()), NewEvent()) {
  PostSurely(event_.get_executor(), [this] { AwaitReturned(); });
  thread_ = std::jthread([this] { Run(); });
}

LowLane::~LowLane() { Stop(); }

void LowLane::Stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_relaxed);
  news_.fetch_add(1, std::memory_order_release);
  news_.notify_one();
  Hurry();
  thread_.join();
  PostSurely(event_.get_executor(), [this] {
    boost::system::error_code ignored;
    event_.close(ignored);
  });
}

void LowLane::Post(std::shared_ptr<Piece> piece) {
  Piece& posted = *piece;
  posted.self_ = std::move(piece);
  Add(posted_, posted, &Piece::next_);
  news_.fetch_add(1, std::memory_order_release);
  news_.notify_one();
}

void LowLane::Hurry() {
  const pid_t thread = thread_id_.load(std::memory_order_acquire);
  if (thread == 0) return;  // it begins at normal priority
  hurries_.store(true, std::memory_order_relaxed);
  TakeBack(thread);
}

void LowLane::Run() {
  NameThisThread("lagoon-answers");
  GiveWay(::gettid());
  thread_id_.store(::gettid(), std::memory_order_release);
  while (true) {
    // acquire: the pieces that were posted, or the end.
    const std::uint32_t news = news_.load(std::memory_order_acquire);
    Piece* piece = TakeAll(posted_, &Piece::next_);
    if (piece == nullptr) {
      if (stopping_.load(std::memory_order_relaxed)) return;
      news_.wait(news, std::memory_order_acquire);
    }
    while (piece != nullptr) {
      Piece& now = *std::exchange(piece, piece->next_);
      if (now.Begin()) now.SendAll();
      Return(now);  // the piece may be gone
    }
  }
}

void LowLane::Return(Piece& piece) {
  Add(returned_, piece, &Piece::next_);
  const std::uint64_t one = 1;
  // Cannot fail: the count is far from its limit.
  static_cast<void>(::write(event_.native_handle(), &one, sizeof(one)));
}

void LowLane::AwaitReturned() {
  event_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                    Patient([this](boost::system::error_code error) {
                      if (error) return;
                      std::uint64_t count = 0;
                      static_cast<void>(::read(event_.native_handle(), &count, sizeof(count)));
                      TakeReturned();
                      AwaitReturned();
                    }));
}

void LowLane::TakeReturned() {
  const bool hurried = hurries_.exchange(false, std::memory_order_relaxed);
  if (hurried && !stopping_.load(std::memory_order_relaxed)) {
    GiveWay(thread_id_.load(std::memory_order_acquire));
  }
  for (Piece* piece = TakeAll(returned_, &Piece::next_); piece != nullptr;) {
    const std::shared_ptr<Piece> now = std::move(std::exchange(piece, piece->next_)->self_);
    const auto done = std::move(now->done_);
    if (now->state_.load(std::memory_order_relaxed) == Piece::State::kSending) done();
  }
}

}  // namespace lagoon
