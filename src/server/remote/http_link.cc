#include "server/remote/http_link.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/net/host_port.h"
#include "server/remote/link_connection.h"

namespace lagoon {
namespace {

namespace net = boost::asio;

// The longest delay until a deadline or a silent connection is noticed.
constexpr std::chrono::milliseconds kTickPeriod{100};

}  // namespace

std::shared_ptr<HttpLink> HttpLink::Make(IoPool& pool, Options options) {
  options.for_urgent = std::min(options.for_urgent, options.most_connections / 4);
  std::shared_ptr<HttpLink> link(new HttpLink(pool, std::move(options)));
  PostSurely(link->strand_, [link] { link->Tick(); });
  return link;
}

HttpLink::HttpLink(IoPool& pool, Options options)
    : pool_(pool),
      options_(std::move(options)),
      strand_(net::make_strand(pool.context())),
      timer_(pool.context()),
      most_(options_.most_connections) {}

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

bool HttpLink::MayGo(bool urgent) const {
  if (urgent) return true;
  const std::size_t all = options_.most_connections;
  return not_urgent_ < std::max<std::size_t>(1, most_ - most_ * options_.for_urgent / all);
}

void HttpLink::Assign(LinkRequest& request, const Connection& connection) {
  request.connection_ = connection;
  if (!request.urgent_) ++not_urgent_;
}

void HttpLink::Unassign(LinkRequest& request) {
  if (std::exchange(request.connection_, nullptr) != nullptr && !request.urgent_) --not_urgent_;
}

LinkRequest* HttpLink::TakeWaiting() {
  for (const bool urgent : {true, false}) {
    if (waiting_[urgent].empty() || !MayGo(urgent)) continue;
    LinkRequest* const next = waiting_[urgent].front();
    waiting_[urgent].pop_front();
    return next;
  }
  return nullptr;
}

std::vector<LinkRequest*> HttpLink::TakeAllWaiting() {
  std::vector<LinkRequest*> all;
  for (std::deque<LinkRequest*>& waiting : waiting_) {
    all.insert(all.end(), waiting.begin(), waiting.end());
    waiting.clear();
  }
  return all;
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
    const bool may = MayGo(request.urgent_);
    while (!end && may && connection == nullptr && !idle_.empty()) {
      connection = std::move(idle_.back());
      idle_.pop_back();
      if (!connection->Take(request)) connection = nullptr;
    }
    if (!end && connection == nullptr) {
      if (!may || connections_.size() >= most_) {
        waiting_[request.urgent_].push_back(&request);
        return;
      }
      connection = OpenOne();
      fresh = connection->Take(request);
    }
    if (!end) Assign(request, connection);
  }
  if (end) return EndSoon(request, *std::move(end));
  fresh ? connection->Open() : connection->Write(number);
}

void HttpLink::PlaceWaiting() {
  for (;;) {
    LinkRequest* next = nullptr;
    {
      const MutexLock lock(mutex_);
      if (idle_.empty() && connections_.size() >= most_) return;
      next = TakeWaiting();
    }
    if (next == nullptr) return;
    Place(*next);
  }
}

void HttpLink::EndSoon(LinkRequest& request, LinkEnd end) {
  PostSurely(pool_.context().get_executor(),
             [&request, end = std::move(end)]() mutable { request.OnEnd(std::move(end)); });
}

void HttpLink::Cut(LinkRequest& request) {
  bool waited = false;
  {
    const MutexLock lock(mutex_);
    request.cut_ = true;  // if it has not been placed yet
    if (request.connection_ != nullptr) return request.connection_->Cut(request.number_);
    waited = std::erase(waiting_[request.urgent_], &request) > 0;
  }
  if (waited) EndSoon(request, {.kind = LinkEnd::Kind::kCut});
}

void HttpLink::Release(LinkRequest& request) {
  {
    const MutexLock lock(mutex_);
    Unassign(request);
    if (waiting_[0].empty() && waiting_[1].empty()) return;
  }
  PlaceWaiting();
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
    if (!ends) {
      LinkRequest* const next = TakeWaiting();
      if (next == nullptr) {
        idle_.push_back(connection);
        return;
      }
      if (!connection->Take(*next)) {  // it is closed, which gives the request its place
        waiting_[next->urgent_].push_front(next);
        return;
      }
      Assign(*next, connection);
      number = next->number_;
    }
  }
  ends ? connection->Shut() : connection->Write(number);
}

void HttpLink::Closed(const Connection& connection, bool proven, const std::string& why) {
  std::vector<Connection> suspects;
  {
    const MutexLock lock(mutex_);
    connections_.erase(connection);
    std::erase(idle_, connection);
    if (proven) --proven_;
    if (!why.empty()) {
      why_not_ = why;
      suspects.swap(idle_);
    }
  }
  for (const Connection& suspect : suspects) suspect->Shut();
  PlaceWaiting();
}

void HttpLink::Refused(const Connection& connection, LinkRequest* request, const std::string& why) {
  std::vector<LinkRequest*> ended;
  bool cut = false;
  {
    const MutexLock lock(mutex_);
    connections_.erase(connection);
    why_not_ = why;
    if (request != nullptr) {
      Unassign(*request);
      cut = request->cut_;
      if (!cut) waiting_[request->urgent_].push_front(request);
    }
    if (connections_.empty() || closed_) {
      ended = TakeAllWaiting();
      most_ = options_.most_connections;
      full_since_.reset();
    } else {
      most_ = connections_.size();
      full_since_ = Now();
    }
  }
  if (cut) EndSoon(*request, {.kind = LinkEnd::Kind::kCut});
  for (LinkRequest* const one : ended) EndSoon(*one, {.why = why});
  PlaceWaiting();
}

void HttpLink::Close() {
  std::set<Connection> connections;
  std::vector<LinkRequest*> ended;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    connections = connections_;
    ended = TakeAllWaiting();
  }
  for (const Connection& connection : connections) connection->Shut();
  for (LinkRequest* const request : ended) EndSoon(*request, {.why = "the link is closed"});
  PostSurely(strand_, [self = shared_from_this()] { self->timer_.cancel(); });
}

void HttpLink::Tick() {
  try {
    if (!CheckAll()) return;
  } catch (const std::bad_alloc&) {
    spdlog::debug("link: no memory to look at the requests");  // at the next tick
  }
  WaitOn(timer_, kTickPeriod, strand_, [self = shared_from_this()] { self->Tick(); });
}

/// False: the link is closed. May be called again where memory ran out.
bool HttpLink::CheckAll() {
  const TimePoint now = Now();
  std::set<Connection> connections;
  std::vector<LinkRequest*> late;
  {
    const MutexLock lock(mutex_);
    if (closed_) return false;
    connections = connections_;
    for (std::deque<LinkRequest*>& waiting : waiting_) {
      for (LinkRequest* const request : waiting) {
        if (now >= request->ends_at_) late.push_back(request);
      }
      std::erase_if(waiting,
                    [now](const LinkRequest* request) { return now >= request->ends_at_; });
    }
    if (full_since_ && now - *full_since_ >= options_.full_for) {
      most_ = options_.most_connections;
      full_since_.reset();
    }
  }
  for (LinkRequest* const request : late) EndSoon(*request, {.kind = LinkEnd::Kind::kDeadline});
  for (const Connection& connection : connections) connection->Check(now);
  PlaceWaiting();
  return true;
}

}  // namespace lagoon
