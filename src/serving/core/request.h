#pragma once

// A client's request, and its answer.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "base/unfilled.h"
#include "plan/tensor.h"
#include "sched/job.h"

namespace lagoon {

struct InputTensor {
  std::string name;
  DataType type = DataType::kFloat32;
  Dims dims;
  std::span<const std::byte> data;  // dense row-major, little-endian; borrowed from `payload`
};

/// How the edge will write an output.
enum class OutputForm : std::uint8_t {
  kBytes,  // as it lies in memory
  kText,   // as JSON numbers; 16-bit floats, which have none, are refused before computing
};

/// Where the edge counts the memory of an answer. One request at a time.
class AnswerRoom {
 public:
  virtual ~AnswerRoom() = default;
  /// Called before the core allocates outputs, on any thread: they will take `bytes` in all, more
  /// than in the call before. kUnavailable: there is no room, and the request is refused.
  virtual Status Take(std::size_t bytes) = 0;
};

class AnswerStream;

/// Hears that a request will be answered soon: a client that sleeps can be woken before the answer
/// is there.
class NearEnd {
 public:
  virtual ~NearEnd() = default;
  /// At most once, and before the InferCallback: the last kernel of the request is all that is
  /// left. Cores that do not know leave it out. On any thread and under a lock of the dispatcher:
  /// takes microseconds, waits for nothing and calls nothing of the core.
  virtual void AlmostFinished() = 0;
};

/// A number, or a text where the number is 0.
using SequenceId = std::pair<std::uint64_t, std::string>;

/// The sequence that a request belongs to (Triton's parameters sequence_id, sequence_start and
/// sequence_end). Models without sequences ignore it.
struct SequencePart {
  std::uint64_t number = 0;  // the id, if it is a number
  std::string text;          // the id, if it is a text
  bool start = false, end = false;

  bool has_id() const { return number != 0 || !text.empty(); }
  SequenceId id() const { return {number, text}; }
};

/// A parameter with no meaning for the server. Of a request: programs in Python read it
/// (request.parameters()), and calls of other models and steps of ensembles pass it on. Of an
/// answer: a program has set it for the client.
struct RequestParameter {
  std::string name;
  std::variant<bool, std::int64_t, std::uint64_t, double, std::string> value;

  bool operator==(const RequestParameter&) const = default;
};

/// A request, or an answer of a program, with more of them is refused.
inline constexpr std::size_t kMostRequestParameters = 64;

/// Parameters of a request, an input or an output that the server itself reads.
inline constexpr std::array<std::string_view, 14> kServerParameters = {"priority",
                                                                       "lagoon_via",
                                                                       "timeout",
                                                                       "binary_data_output",
                                                                       "lagoon_stages",
                                                                       "binary_data_size",
                                                                       "binary_data",
                                                                       "classification",
                                                                       "sequence_id",
                                                                       "sequence_start",
                                                                       "sequence_end",
                                                                       "shared_memory_region",
                                                                       "shared_memory_byte_size",
                                                                       "shared_memory_offset"};

/// Names of parameters that are kept for Triton and Lagoon: triton_... and lagoon_...
bool HasServerPrefix(std::string_view name);
/// Whether a parameter of this name is the server's own, one of those above or a later one of
/// Triton's or Lagoon's: it is then no RequestParameter.
bool IsServerParameter(std::string_view name);

/// The names of an output's classes, in the order of its elements.
using Labels = std::vector<std::string>;

/// The client asks for the largest elements of an output with their numbers, in place of the output
/// (Triton's parameter `classification`).
struct ClassView {
  std::uint32_t count = 0;               // how many, of each row
  std::shared_ptr<const Labels> labels;  // null: none
  bool batched = false;  // a row is an element of the first dim; else all is one row
};

/// How long a request was in each place before its job.
struct RequestWaits {
  Nanoseconds sequence{0};  // for the request before it in its sequence
  Nanoseconds plan{0};      // for plans for its shapes
  Nanoseconds batch{0};     // for others to join it, and for a place of a batch
};

/// What the core knows of a request at its end, whatever the end was.
struct RequestEnd {
  JobClass job_class = JobClass::kBestEffort;  // of the request
  TimePoint received;                          // InferRequest::received
  TimePoint admitted;                          // the edge has handed the request over
  TimePoint deadline = kNoDeadline;
  bool late = false;  // it counts as one that missed its deadline
  /// Stamps of stages never reached equal `finished`. Without `made` and `error`.
  JobResult job;
  RequestWaits waits;
  Nanoseconds waits_between{0};  // the part of `waits` between job.inputs_copied and job.computed
};

/// W3C's traceparent, as far as the core passes it on.
struct TraceContext {
  std::array<std::uint8_t, 16> trace{};  // all 0: the client sent none
  std::array<std::uint8_t, 8> parent{};  // the client's span
  bool sampled = false;

  bool any() const { return trace != std::array<std::uint8_t, 16>{}; }
};

/// The class of a request: the greatest priority number that leaves it the class of its model is 1.
inline JobClass ClassOf(JobClass of_model, std::uint64_t priority) {
  return priority <= 1 ? of_model : JobClass::kBestEffort;
}

struct InferRequest {
  std::string model;
  std::string version;  // empty: the latest
  std::string id;       // echoed
  /// 0: the model's class. 1: real-time if the model is. 2 or more: best-effort.
  std::uint64_t priority = 0;
  Nanoseconds timeout{0};  // counted from `arrival`; 0: none
  TimePoint arrival;       // when the edge had the first byte
  TimePoint received;      // when the edge had the last byte; before `arrival`: not known
  std::vector<InputTensor> inputs;
  std::vector<std::string> outputs;  // empty: all
  std::vector<OutputForm> forms;     // one per entry of `outputs`; `form` for those beyond its end
  OutputForm form = OutputForm::kBytes;
  /// ClassView::count, one per entry of `outputs`. 0, or beyond its end: the output itself.
  std::vector<std::uint32_t> classes;
  SequencePart sequence;
  std::vector<RequestParameter> parameters = {};  // at most kMostRequestParameters
  // Owns the bytes behind every `data`. Released before the callback runs, so that the client's
  // next request finds the buffer free.
  std::shared_ptr<const void> payload;
  /// Null: the memory of the answer is not counted.
  std::shared_ptr<AnswerRoom> room = {};
  /// Ids (server_id.h) of the fronts that the request has come through, with commas, the first one
  /// first.
  std::string via = {};
  /// Takes the answers before the last one. Null: models that have such are refused.
  std::shared_ptr<AnswerStream> stream = {};
  TraceContext trace = {};
  /// Whose the request is, as the client said; empty: it did not. TenantSource says which counts.
  std::string tenant_of_parameter = {}, tenant_of_header = {};
  /// Filled before the callback runs, unless another server answers the request. Null: not wanted.
  std::shared_ptr<RequestEnd> end = {};
  /// Memory for outputs, one per entry of `outputs`; empty, or beyond its end: none. A core may
  /// write an output there (OutputTensor::in_place) if the output fits. Owned by `payload`, and
  /// until the callback has returned by the caller.
  std::vector<std::span<std::byte>> places = {};
  std::shared_ptr<NearEnd> near_end = {};  // null: not wanted
};

struct OutputTensor {
  std::string name;
  DataType type = DataType::kFloat32;
  Dims dims;
  UnfilledBytes data;  // kString: as the protocol sends it, each element behind its length
  /// The edge gives these classes in place of the elements.
  std::optional<ClassView> classes = std::nullopt;
  bool in_place = false;  // the bytes lie in InferRequest::places, and `data` is empty
};

/// Which of the answers to a request it is.
enum class AnswerPart : std::uint8_t {
  kOnly,  // the model has one answer for each request
  kMore,  // others follow (AnswerStream)
  kEnd,   // of a model with any number of answers: the last, or the end without outputs behind it
};

struct InferResponse {
  std::string model;
  std::string version;
  std::string id;
  /// Those that were asked for, in that order. A program may leave some out.
  std::vector<OutputTensor> outputs;
  JobResult job;  // stamps of every stage
  /// Until the plans for the request's shapes were ready. 0: they were.
  Nanoseconds plan_wait{0};
  /// The part of plan_wait behind job.posted: between the parts of a model.
  Nanoseconds plan_wait_between{0};
  AnswerPart part = AnswerPart::kOnly;
  std::vector<RequestParameter> parameters = {};  // set by a program
};

/// Takes the answers of one request of a decoupled model (model_transaction_policy), which has any
/// number of answers.
class AnswerStream {
 public:
  /// The most answers that are given and not taken. With so many the model pauses, so that a client
  /// that does not read stops its own request only.
  static constexpr std::uint32_t kMostUntaken = 8;

  virtual ~AnswerStream() = default;
  /// The model is decoupled: Give() may come from now on. Called within Infer() by a core that has
  /// the model on this machine, and again where another replica takes the request over. Any thread.
  virtual void MayGive() {}
  /// The next answer, of AnswerPart::kMore, in order; or an error in its place, after which others
  /// may come. The InferCallback ends the request and comes after all of them. On any thread, which
  /// must not wait; must not throw. `taken` is called once and after Give() has returned: when the
  /// answer is on its way to the client, or never will be.
  virtual void Give(Result<InferResponse> answer, std::function<void()> taken) = 0;
};

/// Called exactly once, on any thread; hand over to a thread of your own. Must not throw. Where
/// memory runs out for a request, the error is kResourceExhausted.
using InferCallback = std::function<void(Result<InferResponse>)>;

/// Names a request in flight, for Cancel.
enum class RequestHandle : std::uint64_t {};

/// A client's shape for a message. A shape of more than 16 dims is shown as their number only.
std::string ShownShape(const Dims& dims);

}  // namespace lagoon
