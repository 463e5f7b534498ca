#include "server/remote/http_link.h"

#include <algorithm>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/net/host_port.h"
#include "server/remote/link_connection.h"

namespace lagoon {
namespace {

namespace net = boost::asio;

// The longest delay until a deadline or a silent connection is noticed.
constexpr std::chrono::milliseconds kTickPeriod{100};

}  // namespace

std::shared_ptr<HttpLink> HttpLink::Make(IoPool& pool, Options options) {
  std::shared_ptr<HttpLink> link(new HttpLink(pool, std::move(options)));
  net::post(link->strand_, [link] { link->Tick(); });
  return link;
}

HttpLink::HttpLink(IoPool& pool, Options options)
    : pool_(pool),
      options_(std::move(options)),
      strand_(net::make_strand(pool.context())),
      timer_(pool.context()) {}

HttpLink::~HttpLink() = default;

void HttpLink::SetTarget(Target target) {
  std::vector<Connection> gone;
  {
    const MutexLock lock(mutex_);
    if (target == target_) return;
    target_ = std::move(target);
    why_not_.clear();
    gone.swap(idle_);
  }
  for (const Connection& connection : gone) connection->Shut();
}

void HttpLink::Prepare() {
  Connection fresh;
  {
    const MutexLock lock(mutex_);
    if (closed_ || target_.port == 0 || !connections_.empty()) return;
    fresh = OpenOne();
  }
  fresh->Open();
}

bool HttpLink::Connected() const {
  const MutexLock lock(mutex_);
  return proven_ > 0;
}

std::string HttpLink::WhyNot() const {
  const MutexLock lock(mutex_);
  return why_not_;
}

std::string HttpLink::Text() const {
  const MutexLock lock(mutex_);
  return "HTTP of " + ToString(HostPort{options_.host, target_.port});
}

HttpLink::Connection HttpLink::OpenOne() {
  auto connection = std::make_shared<LinkConnection>(shared_from_this(), target_);
  connections_.insert(connection);
  return connection;
}

void HttpLink::Send(LinkRequest& request) {
  {
    const MutexLock lock(mutex_);
    request.number_ = ++last_number_;
  }
  Place(request);
}

void HttpLink::Place(LinkRequest& request) {
  Connection connection;
  bool fresh = false;
  std::optional<LinkEnd> end;
  std::uint64_t number = 0;
  {
    const MutexLock lock(mutex_);
    number = request.number_;
    if (request.cut_) {
      end = LinkEnd{.kind = LinkEnd::Kind::kCut};
    } else if (closed_ || target_.port == 0) {
      end = LinkEnd{.why = "the link is closed"};
    }
    while (!end && connection == nullptr && !idle_.empty()) {
      connection = std::move(idle_.back());
      idle_.pop_back();
      if (!connection->Take(request)) connection = nullptr;
    }
    if (!end && connection == nullptr) {
      if (connections_.size() >= options_.most_connections) {
        waiting_.push_back(&request);
        return;
      }
      connection = OpenOne();
      fresh = connection->Take(request);
    }
    request.connection_ = connection;
  }
  if (end) return EndSoon(request, *std::move(end));
  fresh ? connection->Open() : connection->Write(number);
}

void HttpLink::EndSoon(LinkRequest& request, LinkEnd end) {
  net::post(pool_.context(),
            [&request, end = std::move(end)]() mutable { request.OnEnd(std::move(end)); });
}

void HttpLink::Cut(LinkRequest& request) {
  bool waited = false;
  {
    const MutexLock lock(mutex_);
    request.cut_ = true;  // if it has not been placed yet
    if (request.connection_ != nullptr) return request.connection_->Cut(request.number_);
    waited = std::erase(waiting_, &request) > 0;
  }
  if (waited) EndSoon(request, {.kind = LinkEnd::Kind::kCut});
}

void HttpLink::Release(LinkRequest& request) {
  const MutexLock lock(mutex_);
  request.connection_ = nullptr;
}

void HttpLink::CameAbout(const Connection&) {
  const MutexLock lock(mutex_);
  ++proven_;
  why_not_.clear();
}

void HttpLink::Idle(const Connection& connection) {
  std::uint64_t number = 0;
  bool ends = false;
  {
    const MutexLock lock(mutex_);
    ends = closed_ || connection->target() != target_;
    if (!ends && waiting_.empty()) {
      idle_.push_back(connection);
      return;
    }
    if (!ends) {
      LinkRequest& next = *waiting_.front();
      if (!connection->Take(next)) return;
      waiting_.pop_front();
      next.connection_ = connection;
      number = next.number_;
    }
  }
  ends ? connection->Shut() : connection->Write(number);
}

void HttpLink::Closed(const Connection& connection, bool proven, const std::string& why) {
  std::vector<Connection> suspects;
  LinkRequest* next = nullptr;
  {
    const MutexLock lock(mutex_);
    connections_.erase(connection);
    std::erase(idle_, connection);
    if (proven) --proven_;
    if (!why.empty()) {
      why_not_ = why;
      suspects.swap(idle_);
    }
    if (!waiting_.empty()) {  // there is room for another connection
      next = waiting_.front();
      waiting_.pop_front();
    }
  }
  for (const Connection& suspect : suspects) suspect->Shut();
  if (next != nullptr) Place(*next);
}

void HttpLink::Close() {
  std::set<Connection> connections;
  std::deque<LinkRequest*> waiting;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    connections = connections_;
    waiting.swap(waiting_);
  }
  for (const Connection& connection : connections) connection->Shut();
  for (LinkRequest* const request : waiting) EndSoon(*request, {.why = "the link is closed"});
  net::post(strand_, [self = shared_from_this()] { self->timer_.cancel(); });
}

void HttpLink::Tick() {
  const TimePoint now = Now();
  std::set<Connection> connections;
  std::vector<LinkRequest*> late;
  {
    const MutexLock lock(mutex_);
    if (closed_) return;
    connections = connections_;
    for (LinkRequest* const request : waiting_) {
      if (now >= request->ends_at_) late.push_back(request);
    }
    std::erase_if(waiting_, [now](const LinkRequest* request) { return now >= request->ends_at_; });
  }
  for (LinkRequest* const request : late) EndSoon(*request, {.kind = LinkEnd::Kind::kDeadline});
  for (const Connection& connection : connections) connection->Check(now);
  timer_.expires_after(kTickPeriod);
  timer_.async_wait(
      net::bind_executor(strand_, [self = shared_from_this()](boost::system::error_code error) {
        if (!error) self->Tick();
      }));
}

}  // namespace lagoon
