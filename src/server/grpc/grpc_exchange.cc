#include "server/grpc/grpc_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "base/log.h"
#include "server/error_map.h"
#include "server/grpc/grpc_connection.h"

namespace lagoon {
namespace {

// Messages that wait to be delivered, before bytes are held as they are.
constexpr std::size_t kMostWhole = 4;
// A message that is longer than this is believed as it comes.
constexpr std::size_t kFirstReserved = std::size_t{4} << 20;
constexpr std::size_t kGrowth = 4;
// Less is not worth a place of its own in a read.
constexpr std::size_t kLeastRoom = std::size_t{4} << 10;
// A copy of fewer bytes costs less than a reference.
constexpr std::size_t kReferred = std::size_t{16} << 10;
constexpr std::size_t kPrefixBytes = 5;

std::string PrefixOf(std::size_t bytes) {
  std::string prefix(1, '\0');  // not compressed
  for (const int shift : {24, 16, 8, 0}) prefix += static_cast<char>(bytes >> shift);
  return prefix;
}

}  // namespace

// ---- GrpcCall

void GrpcCall::OrFail(GrpcCall& call, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    call.Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "out of memory"});
  } catch (const std::exception& error) {
    spdlog::error("server: a call failed: {}", error.what());
    call.Finish({grpc::StatusCode::INTERNAL, "the server could not handle the call"});
  }
}

void GrpcCall::OrAbandon(GrpcCall& call, const std::function<void()>& work) {
  try {
    call.Do([&] { OrFail(call, work); });
  } catch (const std::exception& error) {  // there is no memory for the failure either
    spdlog::error("server: an answer was dropped: {}", error.what());
    call.Abandon();
  }
}

void GrpcExchange::Do(const std::function<void()>& work) { connection_->Do(work); }

// ---- What the client sends

GrpcExchange::GrpcExchange(std::shared_ptr<GrpcConnection> connection, StreamId stream,
                           TimePoint now)
    : connection_(std::move(connection)), stream_(stream), header_(now), moved_(now) {}

GrpcExchange::~GrpcExchange() = default;

const Strand& GrpcExchange::strand() const { return connection_->strand(); }

std::shared_ptr<MemoryCharge> GrpcExchange::NewCharge() {
  return std::make_shared<MemoryCharge>(connection_->context().memory.budget, weak_from_this(),
                                        Now());
}

void GrpcExchange::OnField(std::string_view name, std::string_view value) {
  const bool over = header_.bytes() > connection_->context().limits.max_header_bytes;
  over ? header_.Count(name, value) : header_.Add(name, value);
}

void GrpcExchange::OnHeader() {
  const GrpcLimits& limits = connection_->context().limits;
  grpc::Status status = header_.End();
  if (header_.bytes() > limits.max_header_bytes) {
    status = {grpc::StatusCode::RESOURCE_EXHAUSTED,
              fmt::format("the call's header has more than {} bytes", limits.max_header_bytes)};
  }
  if (!status.ok()) Refuse(status);
  if (head().deadline != kNoDeadline) connection_->NotLaterThan(head().deadline);
}

void GrpcExchange::OnData(std::span<const std::byte> data) {
  connection_->session().ConsumeOfConnection(data.size());
  moved_ = Now();
  if (refusal_ || finished_) return Consume(data.size());
  const std::size_t before = data.size();
  if (!Holds()) Take(data);
  Consume(before - data.size());
  if (!data.empty()) Hold(data);
}

bool GrpcExchange::Holds() const {
  return paused_ || wholes_.size() >= kMostWhole || !held_.empty();
}

void GrpcExchange::Hold(std::span<const std::byte> data) {
  const EdgeMemory& memory = connection_->context().memory;
  if (held_charge_ == nullptr) {
    held_charge_ = std::make_unique<MemoryCharge>(memory.budget, weak_from_this(), moved_);
  }
  const std::size_t bytes = held_.size() + data.size();
  if (!held_charge_->Grow(bytes + memory.budget->OwnBytes(), moved_)) return RefuseForRoom();
  held_.insert(held_.end(), data.begin(), data.end());
}

void GrpcExchange::Take(std::span<const std::byte>& data) {
  while (!data.empty() && !refusal_ && wholes_.size() < kMostWhole) {
    body_ == nullptr ? TakePrefix(data) : TakeBody(data);
  }
  if (refusal_) data = {};
}

void GrpcExchange::TakeHeld() {
  if (held_.empty() || paused_) return;
  std::span<const std::byte> rest = std::span(held_).subspan(held_used_);
  const std::size_t before = rest.size();
  Take(rest);
  const std::size_t taken = before - rest.size();
  held_used_ += taken;
  if (rest.empty()) {
    FreeHeld();
  } else if (held_used_ > held_.size() / 2) {
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(held_used_));
    held_used_ = 0;
  }
  Consume(taken);
}

void GrpcExchange::FreeHeld() {
  held_.clear();
  held_.shrink_to_fit();  // an assignment of {} would keep the memory
  held_used_ = 0;
  held_charge_.reset();
}

/// Lets the client send so much more.
void GrpcExchange::Consume(std::size_t bytes) {
  if (bytes > 0 && !closed_) connection_->session().ConsumeOfStream(stream_, bytes);
}

void GrpcExchange::TakePrefix(std::span<const std::byte>& data) {
  const std::size_t bytes = std::min(data.size(), kPrefixBytes - prefix_bytes_);
  std::memcpy(prefix_.data() + prefix_bytes_, data.data(), bytes);
  prefix_bytes_ += bytes;
  data = data.subspan(bytes);
  if (prefix_bytes_ == kPrefixBytes) BeginMessage();
}

void GrpcExchange::BeginMessage() {
  const GrpcConnection::Context& context = connection_->context();
  body_size_ = 0;
  for (std::size_t i = 1; i < kPrefixBytes; ++i) body_size_ = body_size_ << 8U | prefix_[i];
  body_bytes_ = 0;
  if (body_size_ > context.limits.max_message_bytes) {
    return Refuse({grpc::StatusCode::RESOURCE_EXHAUSTED,
                   fmt::format("the message has {} bytes, the limit is {}", body_size_,
                               context.limits.max_message_bytes)});
  }
  if (prefix_[0] > 1 ||
      (prefix_[0] == 1 && header_.coding() == GrpcHeadReader::Coding::kIdentity)) {
    return Refuse({grpc::StatusCode::INTERNAL,
                   "a message is marked as compressed, and the call has no grpc-encoding"});
  }
  body_ = std::make_shared<RequestBody>(context.memory, weak_from_this(), moved_);
  if (!body_->Reserve(std::min(body_size_, kFirstReserved), 0)) return RefuseForRoom();
  if (body_size_ == 0) EndMessage();
}

std::span<std::byte> GrpcExchange::Room(std::size_t most) {
  if (body_ == nullptr || refusal_ || Holds()) return {};
  const std::size_t room = std::min(body_->capacity(), body_size_) - body_bytes_;
  if (std::min(room, most) < kLeastRoom) return {};
  return {body_->data() + body_bytes_, std::min(room, most)};
}

void GrpcExchange::TakeBody(std::span<const std::byte>& data) {
  const std::size_t bytes = std::min(data.size(), body_size_ - body_bytes_);
  const std::size_t needed = body_bytes_ + bytes;
  if (needed > body_->capacity()) {
    const std::size_t more = std::max(needed, kGrowth * body_->capacity());
    if (!body_->Reserve(std::min(more, body_size_), body_bytes_)) return RefuseForRoom();
  }
  // The part that all share has all of it: a client may have any number of messages on their way.
  const std::size_t own = connection_->context().memory.budget->OwnBytes();
  if (!body_->charge().Grow(needed + own, moved_)) return RefuseForRoom();
  std::byte* const place = body_->data() + body_bytes_;
  if (data.data() != place) std::memcpy(place, data.data(), bytes);
  body_bytes_ = needed;
  data = data.subspan(bytes);
  if (body_bytes_ == body_size_) EndMessage();
}

void GrpcExchange::EndMessage() {
  if (!body_->charge().Pin()) return RefuseForRoom();
  wholes_.push_back({std::move(body_), body_size_, prefix_[0] == 1, moved_});
  body_ = nullptr;
  prefix_bytes_ = 0;
}

void GrpcExchange::Refuse(const grpc::Status& status) {
  refusal_ = status;
  body_.reset();
  wholes_.clear();
  FreeHeld();
}

void GrpcExchange::RefuseForRoom() {
  const MemoryBudget& budget = *connection_->context().memory.budget;
  Refuse({grpc::StatusCode::UNAVAILABLE,
          fmt::format("no room for the message: requests and answers in progress hold {} of {} "
                      "bytes that they share; try again later",
                      budget.SharedBytesUsed(), budget.SharedBytes())});
}

/// Ends the call for a reason that its method does not know.
void GrpcExchange::FailWith(const grpc::Status& status) {
  const std::shared_ptr<GrpcMethod> method = method_;
  Finish(status, {});
  if (method != nullptr) method->OnGone();
}

// ---- The method

void GrpcExchange::Go() {
  paused_ = false;
  connection_->Ready(shared_from_this());
  connection_->Flush();
}

void GrpcExchange::Deliver() {
  if (closed_ || finished_) return;
  const auto self = shared_from_this();
  OrFail(*this, [this] {
    if (refusal_) return FailWith(*refusal_);
    if (!std::exchange(begun_, true)) {
      if (header_.http_status() != 200) return Finish({}, {});
      method_ = connection_->context().handler.Begin(shared_from_this());
    }
    DeliverNext();
  });
}

void GrpcExchange::DeliverNext() {
  while (method_ != nullptr && !paused_ && !reading_) {
    if (wholes_.empty()) TakeHeld();
    if (refusal_) return FailWith(*refusal_);
    if (wholes_.empty()) break;
    Whole whole = std::move(wholes_.front());
    wholes_.pop_front();
    Read(std::move(whole));
  }
  if (method_ == nullptr || reading_ || told_end_ || !ended_) return;
  if (!wholes_.empty() || !held_.empty()) return;
  told_end_ = true;
  if (prefix_bytes_ > 0) {
    return FailWith({grpc::StatusCode::INTERNAL, "the call ends within a message"});
  }
  method_->OnEnd();
}

/// Has the method read a message, and waits for that where it takes long.
void GrpcExchange::Read(Whole whole) {
  if (whole.compressed) return Inflate(std::move(whole));
  GrpcArrived message{{whole.body->data(), whole.bytes}, whole.body, whole.received};
  if (method_->IsLong(message.bytes)) {
    return ReadBeside(
        [method = method_, message = std::move(message)] { return method->Read(message); });
  }
  GrpcReading reading = method_->Read(std::move(message));
  if (!reading.slow) return reading.then();
  ReadBeside([reading = std::move(reading)] { return reading; });
}

void GrpcExchange::Inflate(Whole whole) {
  const GrpcConnection::Context& context = connection_->context();
  reading_ = true;
  InflateQueue::Work work;
  work.input = {std::move(whole.body), whole.bytes};
  work.output = std::make_shared<RequestBody>(context.memory, std::weak_ptr<MemoryHolder>(), Now());
  work.most = context.limits.max_message_bytes;
  work.beside = context.memory.budget->OwnBytes();
  work.name = "the message";
  work.wanted = method_;
  work.done = [self = shared_from_this(), wanted = std::weak_ptr<GrpcMethod>(method_),
               received = whole.received](Result<InflateQueue::Message> inflated) {
    ReadHere(self, [&]() -> GrpcReading {
      if (!inflated) {
        return {[self, error = inflated.error()] {
          self->FailWith({GrpcCode(error.code), error.message});
        }};
      }
      const auto method = wanted.lock();
      if (method == nullptr) return {[] {}};  // the call has ended
      const InflateQueue::Message& message = *inflated;
      return method->Read({{message.body->data(), message.bytes}, message.body, received});
    });
  };
  context.inflates.Post(std::move(work));
}

/// Delivers no other message before `read` has run on the slow strand, and what follows from it.
void GrpcExchange::ReadBeside(std::function<GrpcReading()> read) {
  reading_ = true;
  PostTo(connection_->context().slow, shared_from_this(),
         [self = shared_from_this(), read = std::move(read)]() mutable {
           ReadHere(self, std::move(read));
         });
}

/// On the slow strand.
void GrpcExchange::ReadHere(const std::shared_ptr<GrpcExchange>& self,
                            std::function<GrpcReading()> read) {
  std::function<void()> then;  // empty: memory ran out
  try {
    GrpcReading reading = read();
    if (reading.slow) reading.slow();
    then = std::move(reading.then);
  } catch (const std::exception& error) {
    spdlog::debug("server: a message was not read: {}", error.what());
  }
  read = nullptr;  // releases the method before the call can end
  Post(self, [call = self.get(), then = std::move(then)] {
    call->reading_ = false;
    if (call->closed_ || call->finished_) return;
    if (!then) return call->FailWith({grpc::StatusCode::RESOURCE_EXHAUSTED, "out of memory"});
    then();
    call->DeliverNext();
  });
}

// ---- The answer

void GrpcExchange::Write(GrpcBytes message, std::function<void()> taken) {
  if (closed_ || finished_) {
    if (taken) connection_->After(std::move(taken));
    return connection_->Flush();
  }
  const std::string prefix = PrefixOf(message.size());
  if (message.parts.empty()) message.parts.emplace_back();
  message.parts.front().text.insert(0, prefix);
  if (outgoing_.empty()) moved_ = Now();
  outgoing_.push_back(
      {std::make_shared<const GrpcBytes>(std::move(message)), 0, 0, std::move(taken)});
  if (header_sent_) {
    connection_->session().Resume(stream_);
  } else {
    SendHeader(/*last=*/false);
  }
  connection_->Flush();
}

void GrpcExchange::Finish(const grpc::Status& status, const GrpcTrailers& trailers) {
  if (closed_ || finished_) return;
  trailers_ = {{"grpc-status", std::to_string(status.error_code())}};
  if (!status.error_message().empty()) {
    trailers_.emplace_back("grpc-message", PercentEncoded(CutMessage(status.error_message())));
  }
  trailers_.insert(trailers_.end(), trailers.begin(), trailers.end());
  if (header_sent_) {
    connection_->session().Resume(stream_);
  } else {
    SendHeader(/*last=*/true);
    trailed_ = true;
  }
  finished_ = true;
  body_.reset();
  wholes_.clear();
  FreeHeld();
  // The method may be at work: it is released when that has ended.
  connection_->After([method = std::exchange(method_, nullptr)] {});
  connection_->Flush();
}

void GrpcExchange::SendHeader(bool last) {
  const std::string http_status = std::to_string(header_.http_status());
  Http2Session::Fields fields = {{":status", http_status}};
  if (header_.http_status() == 200) {
    fields.emplace_back("content-type", "application/grpc");
    fields.emplace_back("grpc-accept-encoding", "identity,deflate,gzip");
    if (last) {
      for (const auto& [name, value] : trailers_) fields.emplace_back(name, value);
    }
  }
  connection_->session().SendHeader(stream_, fields, last);
  header_sent_ = true;
}

Http2Session::Offer GrpcExchange::OnOffer(std::size_t most) {
  std::size_t bytes = 0;
  bool all = true;
  for (const Outgoing& outgoing : outgoing_) {
    std::size_t skip = outgoing.offset;
    for (std::size_t i = outgoing.part; i < outgoing.message->parts.size(); ++i) {
      const GrpcBytes::Part& part = outgoing.message->parts[i];
      bytes += part.text.size() + part.data.size() - std::exchange(skip, 0);
    }
    if (bytes > most) {
      bytes = most;
      all = false;
      break;
    }
  }
  const bool last = all && finished_;
  if (last) {
    Http2Session::Fields fields;
    for (const auto& [name, value] : trailers_) fields.emplace_back(name, value);
    connection_->session().SendTrailer(stream_, fields);
    trailed_ = true;
  }
  return {bytes, last};
}

void GrpcExchange::OnTake(std::size_t bytes, Http2Output& output) {
  moved_ = Now();
  connection_->OnUse();
  while (bytes > 0) {
    Outgoing& first = outgoing_.front();
    const GrpcBytes::Part& part = first.message->parts[first.part];
    const bool in_text = first.offset < part.text.size();
    const std::size_t offset = in_text ? first.offset : first.offset - part.text.size();
    const std::size_t size = in_text ? part.text.size() : part.data.size();
    const void* const from =
        in_text ? static_cast<const void*>(part.text.data() + offset) : part.data.data() + offset;
    const std::size_t some = std::min(bytes, size - offset);
    some < kReferred ? output.Copy(from, some) : output.Refer(from, some, first.message);
    bytes -= some;
    first.offset += some;
    if (first.offset < part.text.size() + part.data.size()) continue;
    first.offset = 0;
    if (++first.part < first.message->parts.size()) continue;
    if (first.taken) connection_->After(std::move(first.taken));
    outgoing_.pop_front();
  }
}

void GrpcExchange::Abandon() {
  if (closed_) return;
  connection_->session().Reset(stream_);
  connection_->Flush();
}

// ---- The end

/// Frees everything also where memory runs out: the method holds the call, so that nothing else
/// would ever free the two.
void GrpcExchange::End() {
  const std::shared_ptr<GrpcMethod> method = std::exchange(method_, nullptr);
  body_.reset();
  wholes_.clear();
  FreeHeld();
  try {
    while (!outgoing_.empty()) {
      const std::function<void()> taken = std::move(outgoing_.front().taken);
      outgoing_.pop_front();
      if (taken) taken();
    }
  } catch (const std::exception&) {
    outgoing_.clear();
    if (method) method->OnGone();
    throw;
  }
  if (method) method->OnGone();
}

void GrpcExchange::CheckDeadline(TimePoint now) {
  if (closed_) return;
  if (!finished_ && now >= head().deadline) {
    FailWith({grpc::StatusCode::DEADLINE_EXCEEDED, "the call's grpc-timeout has passed"});
  }
  if (now - moved_ < connection_->context().limits.stall_timeout) return;
  if (!outgoing_.empty() || (finished_ && !trailed_)) return Abandon();
  if (prefix_bytes_ > 0 && !Holds()) {
    FailWith({grpc::StatusCode::DEADLINE_EXCEEDED, "the message took too long"});
  }
}

void GrpcExchange::OnRevoked() {
  Post(shared_from_this(), [this] { GiveUpMemory(); });
}

void GrpcExchange::GiveUpMemory() {
  if (closed_) return;
  const bool of_message = body_ != nullptr && body_->charge().revoked();
  const bool of_held = held_charge_ != nullptr && held_charge_->revoked();
  if (of_message || of_held) {
    return FailWith({grpc::StatusCode::UNAVAILABLE,
                     "the message came slowly, and its memory was needed for other requests: try "
                     "again later"});
  }
  const auto revoked = [](const Outgoing& outgoing) {
    return outgoing.message->charge != nullptr && outgoing.message->charge->revoked();
  };
  if (std::ranges::any_of(outgoing_, revoked)) {
    spdlog::debug("server: a client that took its answer too slowly was cut off: memory ran short");
    Abandon();
  }
}

}  // namespace lagoon
