#include "server/grpc/http2_session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <exception>
#include <new>

#include "server/grpc/grpc_conduct.h"

namespace lagoon {
namespace {

// Answers to pings and settings that a client lets wait.
constexpr std::size_t kMostAcks = 1000;
// Frames of one header.
constexpr std::size_t kMostContinuations = 8;
// As the last stream: no stream is forbidden yet.
constexpr std::int32_t kAnyStream = 0x7fffffff;
// Most bytes of one frame of data that is sent, so that answers of one connection take turns.
constexpr std::size_t kMostInFrame = std::size_t{256} << 10;

/// Throws where memory has run out. Other errors: the stream is closed, or the connection ends.
void Check(int result) {
  if (result == NGHTTP2_ERR_NOMEM) throw std::bad_alloc();
}

std::vector<nghttp2_nv> Pairs(const Http2Session::Fields& fields) {
  std::vector<nghttp2_nv> pairs;
  pairs.reserve(fields.size());
  // The library reads and copies them.
  const auto bytes = [](std::string_view text) {
    return const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(text.data()));
  };
  for (const auto& [name, value] : fields) {
    pairs.push_back({bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
  }
  return pairs;
}

template <typename Work>
int Guarded(Work work) {
  try {
    work();
    return 0;
  } catch (const std::exception&) {
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
}

std::string_view Text(const std::uint8_t* data, std::size_t bytes) {
  return {reinterpret_cast<const char*>(data), bytes};
}

bool BeginsStream(const nghttp2_frame& frame) {
  return frame.hd.type == NGHTTP2_HEADERS && frame.headers.cat == NGHTTP2_HCAT_REQUEST;
}

}  // namespace

struct Http2Session::Callbacks {
  static Http2Session& Of(void* user) { return *static_cast<Http2Session*>(user); }

  static int BeginHeaders(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* user) {
    if (!BeginsStream(*frame)) return 0;
    return Guarded([&] { Of(user).events_.OnBegin(frame->hd.stream_id); });
  }
  static int Header(nghttp2_session* /*session*/, const nghttp2_frame* frame,
                    const std::uint8_t* name, std::size_t name_bytes, const std::uint8_t* value,
                    std::size_t value_bytes, std::uint8_t /*flags*/, void* user) {
    return Guarded([&] {
      Of(user).events_.OnField(frame->hd.stream_id, Text(name, name_bytes),
                               Text(value, value_bytes), BeginsStream(*frame));
    });
  }
  // Here, because the library passes over frames that mean nothing to it.
  static int BeginFrame(nghttp2_session* /*session*/, const nghttp2_frame_hd* head, void* user) {
    Events& events = Of(user).events_;
    const bool ends = (head->flags & NGHTTP2_FLAG_END_STREAM) != 0;
    return Guarded([&] {
      switch (head->type) {
        case NGHTTP2_DATA:
          if (head->length == 0 && !ends) events.OnControl();
          if ((head->flags & NGHTTP2_FLAG_PADDED) == 0) {
            events.OnDataBegin(head->stream_id, head->length);
          }
          break;
        case NGHTTP2_HEADERS:
        case NGHTTP2_CONTINUATION:
        case NGHTTP2_RST_STREAM:
          break;
        default:
          events.OnControl();
      }
    });
  }
  static int Data(nghttp2_session* /*session*/, std::uint8_t /*flags*/, StreamId stream,
                  const std::uint8_t* data, std::size_t bytes, void* user) {
    return Guarded([&] {
      Of(user).events_.OnData(stream, {reinterpret_cast<const std::byte*>(data), bytes});
    });
  }
  static int Frame(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* user) {
    Events& events = Of(user).events_;
    const nghttp2_frame_hd& head = frame->hd;
    return Guarded([&] {
      if (BeginsStream(*frame)) events.OnHeader(head.stream_id);
      if (head.type == NGHTTP2_DATA || head.type == NGHTTP2_HEADERS) {
        if ((head.flags & NGHTTP2_FLAG_END_STREAM) != 0) events.OnEnd(head.stream_id);
      } else if (head.type == NGHTTP2_SETTINGS || head.type == NGHTTP2_PING) {
        const bool ack = (head.flags & NGHTTP2_FLAG_ACK) != 0;
        if (head.type == NGHTTP2_SETTINGS && !ack) events.OnSettings();
        if (head.type == NGHTTP2_PING && ack) events.OnPong();
      }
    });
  }
  static int Invalid(nghttp2_session* /*session*/, const nghttp2_frame* /*frame*/, int /*error*/,
                     void* user) {
    return Guarded([&] { Of(user).events_.OnRefused(); });
  }
  static int Closed(nghttp2_session* /*session*/, StreamId stream, std::uint32_t /*code*/,
                    void* user) {
    return Guarded([&] { Of(user).events_.OnClosed(stream); });
  }
  // A call is answered although its client still sends: the client must be told to stop.
  static int Sent(nghttp2_session* session, const nghttp2_frame* frame, void* /*user*/) {
    const nghttp2_frame_hd& head = frame->hd;
    if (head.type == NGHTTP2_GOAWAY && frame->goaway.last_stream_id == kAnyStream) {
      // Not before, as the library sends pings first.
      return Guarded([&] { Check(nghttp2_submit_ping(session, NGHTTP2_FLAG_NONE, nullptr)); });
    }
    const bool ends = (head.type == NGHTTP2_HEADERS || head.type == NGHTTP2_DATA) &&
                      (head.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (!ends || nghttp2_session_get_stream_remote_close(session, head.stream_id) != 0) return 0;
    return Guarded([&] {
      Check(
          nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, head.stream_id, NGHTTP2_NO_ERROR));
    });
  }
  static ssize_t Most(nghttp2_session* /*session*/, std::uint8_t /*type*/, StreamId /*stream*/,
                      std::int32_t connection_window, std::int32_t stream_window,
                      std::uint32_t max_frame, void* /*user*/) {
    const auto window = static_cast<std::size_t>(std::min(connection_window, stream_window));
    return static_cast<ssize_t>(std::min({window, std::size_t{max_frame}, kMostInFrame}));
  }
  static ssize_t Read(nghttp2_session* /*session*/, StreamId stream, std::uint8_t* /*buffer*/,
                      std::size_t most, std::uint32_t* flags, nghttp2_data_source* /*source*/,
                      void* user) {
    Offer offer;
    const int failed = Guarded([&] { offer = Of(user).events_.OnOffer(stream, most); });
    if (failed != 0) return failed;
    if (offer.bytes == 0 && !offer.last) return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (offer.last) *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    return static_cast<ssize_t>(offer.bytes);
  }
  static int SendData(nghttp2_session* /*session*/, nghttp2_frame* frame, const std::uint8_t* head,
                      std::size_t bytes, nghttp2_data_source* /*source*/, void* user) {
    constexpr std::size_t kFrameHead = 9;
    Http2Session& self = Of(user);
    const int failed = Guarded([&] {
      self.output_->Copy(head, kFrameHead);
      self.events_.OnTake(frame->hd.stream_id, bytes, *self.output_);
    });
    if (failed != 0) return failed;
    return self.output_->bytes() >= self.most_ ? NGHTTP2_ERR_PAUSE : 0;
  }

  static const nghttp2_session_callbacks* All() {
    static nghttp2_session_callbacks* const all = Make();
    return all;
  }
  static nghttp2_session_callbacks* Make() {
    nghttp2_session_callbacks* all = nullptr;
    Check(nghttp2_session_callbacks_new(&all));
    nghttp2_session_callbacks_set_on_begin_headers_callback(all, BeginHeaders);
    nghttp2_session_callbacks_set_on_header_callback(all, Header);
    nghttp2_session_callbacks_set_on_begin_frame_callback(all, BeginFrame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(all, Data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(all, Frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(all, Invalid);
    nghttp2_session_callbacks_set_on_stream_close_callback(all, Closed);
    nghttp2_session_callbacks_set_on_frame_send_callback(all, Sent);
    nghttp2_session_callbacks_set_data_source_read_length_callback(all, Most);
    nghttp2_session_callbacks_set_send_data_callback(all, SendData);
    return all;
  }
  static const nghttp2_option* Options() {
    static const nghttp2_option* const options = [] {
      nghttp2_option* made = nullptr;
      Check(nghttp2_option_new(&made));
      nghttp2_option_set_no_auto_window_update(made, 1);
      nghttp2_option_set_no_closed_streams(made, 1);
      nghttp2_option_set_max_outbound_ack(made, kMostAcks);
      nghttp2_option_set_max_continuations(made, kMostContinuations);
      // As GrpcConduct, which counts the streams that the server resets too.
      nghttp2_option_set_stream_reset_rate_limit(
          made, static_cast<std::uint64_t>(GrpcConduct::kFailures),
          static_cast<std::uint64_t>(GrpcConduct::kFailuresPerSecond));
      return made;
    }();
    return options;
  }
};

Http2Session::Http2Session(Events& events, const Limits& limits) : events_(events) {
  if (nghttp2_session_server_new2(&session_, Callbacks::All(), this, Callbacks::Options()) != 0) {
    throw std::bad_alloc();
  }
  const std::array<nghttp2_settings_entry, 5> settings = {{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.max_streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, static_cast<std::uint32_t>(limits.stream_window)},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, limits.max_frame_bytes},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.max_header_bytes},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  }};
  const bool failed =
      nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size()) != 0 ||
      nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                            limits.connection_window) != 0;
  if (!failed) return;
  nghttp2_session_del(session_);
  throw std::bad_alloc();
}

Http2Session::~Http2Session() { nghttp2_session_del(session_); }

Http2Session::Verdict Http2Session::Receive(std::span<const std::byte> data) {
  const ssize_t read = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const std::uint8_t*>(data.data()), data.size());
  if (read >= 0) return Verdict::kGood;
  const bool broken = read == NGHTTP2_ERR_BAD_CLIENT_MAGIC || read == NGHTTP2_ERR_NOMEM ||
                      read == NGHTTP2_ERR_CALLBACK_FAILURE;
  return broken ? Verdict::kBroken : Verdict::kFlood;
}

bool Http2Session::Produce(Http2Output& output, std::size_t most) {
  output_ = &output;
  most_ = most;
  while (output.bytes() < most) {
    const std::uint8_t* data = nullptr;
    const ssize_t bytes = nghttp2_session_mem_send(session_, &data);
    if (bytes < 0) return false;
    if (bytes == 0) break;
    output.Copy(data, static_cast<std::size_t>(bytes));
  }
  return true;
}

bool Http2Session::Done() const {
  return nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
}

std::size_t Http2Session::Waiting() const {
  return nghttp2_session_get_outbound_queue_size(session_);
}

void Http2Session::SendHeader(StreamId stream, const Fields& fields, bool last) {
  const std::vector<nghttp2_nv> pairs = Pairs(fields);
  nghttp2_data_provider provider{};
  provider.read_callback = Callbacks::Read;
  Check(nghttp2_submit_response(session_, stream, pairs.data(), pairs.size(),
                                last ? nullptr : &provider));
}

void Http2Session::SendTrailer(StreamId stream, const Fields& fields) {
  const std::vector<nghttp2_nv> pairs = Pairs(fields);
  Check(nghttp2_submit_trailer(session_, stream, pairs.data(), pairs.size()));
}

void Http2Session::Resume(StreamId stream) { Check(nghttp2_session_resume_data(session_, stream)); }

void Http2Session::Reset(StreamId stream) {
  Check(nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL));
}

void Http2Session::ConsumeOfConnection(std::size_t bytes) {
  Check(nghttp2_session_consume_connection(session_, bytes));
}

void Http2Session::ConsumeOfStream(StreamId stream, std::size_t bytes) {
  Check(nghttp2_session_consume_stream(session_, stream, bytes));
}

void Http2Session::Ping() { Check(nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr)); }

void Http2Session::GoAwaySoon() { Check(nghttp2_submit_shutdown_notice(session_)); }

void Http2Session::GoAway() {
  Check(nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                              nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                              nullptr, 0));
}

}  // namespace lagoon
