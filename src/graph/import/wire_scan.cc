#include "graph/import/wire_scan.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/text.h"
#include "graph/graph.h"

namespace lagoon {
namespace {

// The contents of a length-delimited field. kBytes also stands for strings and fixed-size numbers.
enum class Kind : std::uint8_t {
  kBytes,
  kVarints,
  kLeaf,  // kLeaf: a message without messages inside
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kSparse,
  kValueInfo,
  kType,
  kTensorType,
  kWrapper,
  kShape,
  kAnnotation,
  kFunction,
  kTraining,
};

struct Field {
  Kind in;
  int number;
  Kind holds;
};

// The fields of onnx.proto that contain messages or packed varints; all other fields are kBytes.
constexpr Field kFields[] = {
    {Kind::kModel, 7, Kind::kGraph},         {Kind::kModel, 8, Kind::kLeaf},
    {Kind::kModel, 14, Kind::kLeaf},         {Kind::kModel, 20, Kind::kTraining},
    {Kind::kModel, 25, Kind::kFunction},     {Kind::kGraph, 1, Kind::kNode},
    {Kind::kGraph, 5, Kind::kTensor},        {Kind::kGraph, 11, Kind::kValueInfo},
    {Kind::kGraph, 12, Kind::kValueInfo},    {Kind::kGraph, 13, Kind::kValueInfo},
    {Kind::kGraph, 14, Kind::kAnnotation},   {Kind::kGraph, 15, Kind::kSparse},
    {Kind::kNode, 5, Kind::kAttribute},      {Kind::kAttribute, 5, Kind::kTensor},
    {Kind::kAttribute, 6, Kind::kGraph},     {Kind::kAttribute, 8, Kind::kVarints},
    {Kind::kAttribute, 10, Kind::kTensor},   {Kind::kAttribute, 11, Kind::kGraph},
    {Kind::kAttribute, 14, Kind::kType},     {Kind::kAttribute, 15, Kind::kType},
    {Kind::kAttribute, 22, Kind::kSparse},   {Kind::kAttribute, 23, Kind::kSparse},
    {Kind::kTensor, 1, Kind::kVarints},      {Kind::kTensor, 3, Kind::kLeaf},
    {Kind::kTensor, 5, Kind::kVarints},      {Kind::kTensor, 7, Kind::kVarints},
    {Kind::kTensor, 11, Kind::kVarints},     {Kind::kTensor, 13, Kind::kLeaf},
    {Kind::kSparse, 1, Kind::kTensor},       {Kind::kSparse, 2, Kind::kTensor},
    {Kind::kSparse, 3, Kind::kVarints},      {Kind::kValueInfo, 2, Kind::kType},
    {Kind::kType, 1, Kind::kTensorType},     {Kind::kType, 4, Kind::kWrapper},
    {Kind::kType, 5, Kind::kWrapper},        {Kind::kType, 8, Kind::kTensorType},
    {Kind::kType, 9, Kind::kWrapper},        {Kind::kWrapper, 1, Kind::kType},
    {Kind::kWrapper, 2, Kind::kType},        {Kind::kTensorType, 2, Kind::kShape},
    {Kind::kShape, 1, Kind::kLeaf},          {Kind::kAnnotation, 2, Kind::kLeaf},
    {Kind::kFunction, 7, Kind::kNode},       {Kind::kFunction, 9, Kind::kLeaf},
    {Kind::kFunction, 11, Kind::kAttribute}, {Kind::kTraining, 1, Kind::kGraph},
    {Kind::kTraining, 2, Kind::kGraph},      {Kind::kTraining, 3, Kind::kLeaf},
    {Kind::kTraining, 4, Kind::kLeaf},
};

Kind KindOf(Kind in, int number) {
  for (const Field& field : kFields) {
    if (field.in == in && field.number == number) return field.holds;
  }
  return Kind::kBytes;
}

// Node: input, output, name, op_type, domain. Tensor, ValueInfo, Attribute: name.
bool IsName(Kind in, int number) {
  return (in == Kind::kNode && (number <= 4 || number == 7)) ||
         (in == Kind::kTensor && number == 8) || (in == Kind::kValueInfo && number == 1) ||
         (in == Kind::kAttribute && number == 1);
}

// Memory that the generated classes take, rounded up: for an object with its slot in a repeated
// field, a string, one number. Packed varints decode to 8 bytes each, from one byte on the wire.
constexpr std::uint64_t kMessageBytes = 256;
constexpr std::uint64_t kStringBytes = 64;
constexpr std::uint64_t kNumberBytes = 8;

constexpr int kNodeName = 3;

class Scanner {
 public:
  Scanner(const File& file, std::size_t max_bytes, std::vector<RawRange>* raw_data)
      : stream_(file.fd(), 1 << 16),
        input_(&stream_),
        size_(file.size()),
        max_bytes_(max_bytes),
        raw_data_(raw_data) {}

  Status Run() {
    input_.PushLimit(static_cast<int>(size_));
    return Message(Kind::kModel, 0);
  }

 private:
  // Bodies of kMaxBodyDepth, of three messages each, fit. Protobuf's own limit is 100.
  static constexpr int kMaxDepth = 64;
  static_assert(3 * kMaxBodyDepth + 8 <= kMaxDepth);

  Status Damaged() {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("not an ONNX file, or damaged or cut short: byte {} of {} does not parse",
                    input_.CurrentPosition(), size_));
  }

  Status TooLarge(const char* what, std::uint64_t limit) {
    return Fail(ErrorCode::kResourceExhausted, fmt::format("more than {} {}", limit, what));
  }

  // Reads fields until the innermost limit.
  Status Message(Kind kind, int depth) {
    if (depth > kMaxDepth) return TooLarge("levels of nested messages", kMaxDepth);
    LAGOON_RETURN_IF_ERROR(Charge(kMessageBytes));
    while (input_.BytesUntilLimit() > 0) {
      const std::uint32_t tag = input_.ReadTag();
      const auto number = static_cast<int>(tag >> 3);
      if (number == 0) return Damaged();
      LAGOON_RETURN_IF_ERROR(FieldValue(kind, number, tag & 7, depth));
    }
    return {};
  }

  Status FieldValue(Kind kind, int number, std::uint32_t wire_type, int depth) {
    std::uint64_t ignored = 0;
    switch (wire_type) {
      case 0:
        if (!input_.ReadVarint64(&ignored)) return Damaged();
        return Charge(kNumberBytes);
      case 1:
        if (!input_.Skip(8)) return Damaged();
        return Charge(kNumberBytes);
      case 2:
        return Delimited(kind, number, depth);
      case 5:
        if (!input_.Skip(4)) return Damaged();
        return Charge(kNumberBytes);
      default:
        return Damaged();  // a group, which ONNX does not use
    }
  }

  Status Delimited(Kind kind, int number, int depth) {
    std::uint32_t length = 0;
    if (!input_.ReadVarint32(&length)) return Damaged();
    if (length > static_cast<std::uint32_t>(std::max(input_.BytesUntilLimit(), 0))) {
      return Damaged();
    }
    if (IsName(kind, number) && length > kMaxNameBytes) {
      return TooLarge("bytes in a name", kMaxNameBytes);
    }
    LAGOON_RETURN_IF_ERROR(Count(kind, number));
    NoteRawData(kind, number, depth, length);
    if (kind == Kind::kNode && number == kNodeName) return NodeName(length);
    const Kind holds = KindOf(kind, number);
    if (kind == Kind::kAttribute && holds == Kind::kGraph) return Body(length, depth);
    if (holds == Kind::kBytes || holds == Kind::kVarints) {
      if (!input_.Skip(static_cast<int>(length))) return Damaged();
      const std::uint64_t scale = holds == Kind::kVarints ? kNumberBytes : 1;
      return Charge(kStringBytes + scale * length);
    }
    return Inner(holds, length, depth);
  }

  Status Inner(Kind holds, std::uint32_t length, int depth) {
    if (holds == Kind::kNode) node_.clear();
    const auto limit = input_.PushLimit(static_cast<int>(length));
    LAGOON_RETURN_IF_ERROR(Message(holds, depth + 1));
    input_.PopLimit(limit);
    return {};
  }

  // The name comes before the attributes, as protobuf writes a node.
  Status NodeName(std::uint32_t length) {
    if (!input_.ReadString(&node_, static_cast<int>(length))) return Damaged();
    return Charge(kStringBytes + length);
  }

  Status Body(std::uint32_t length, int depth) {
    if (bodies_ == kMaxBodyDepth) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("node {}: its sub-graph is nested too deep, the limit is {} graphs "
                              "inside one another",
                              Quoted(node_), kMaxBodyDepth));
    }
    ++bodies_;
    LAGOON_RETURN_IF_ERROR(Inner(Kind::kGraph, length, depth));
    --bodies_;
    return {};
  }

  Status Count(Kind kind, int number) {
    if (kind == Kind::kGraph && number == 1 && ++nodes_ > kMaxGraphNodes) {
      return TooLarge("nodes", kMaxGraphNodes);
    }
    const bool edge = (kind == Kind::kNode && (number == 1 || number == 2)) ||
                      (kind == Kind::kGraph && (number == 5 || number == 11 || number == 12));
    if (edge && ++edges_ > kMaxGraphEdges) {
      return TooLarge("inputs, outputs and initialisers", kMaxGraphEdges);
    }
    return {};
  }

  // At depth 1 of the file only the graph has tensors: its initialisers.
  void NoteRawData(Kind kind, int number, int depth, std::uint32_t length) {
    if (raw_data_ == nullptr) return;
    if (kind == Kind::kGraph && depth == 1 && number == 5) raw_data_->emplace_back();
    if (kind != Kind::kTensor || depth != 2 || number != 9 || raw_data_->empty()) return;
    raw_data_->back() = {static_cast<std::size_t>(input_.CurrentPosition()), length};
  }

  Status Charge(std::uint64_t bytes) {
    bytes_ += bytes;
    return bytes_ > max_bytes_ ? TooLarge("bytes when decoded", max_bytes_) : Status{};
  }

  google::protobuf::io::FileInputStream stream_;
  google::protobuf::io::CodedInputStream input_;
  std::size_t size_;
  std::size_t max_bytes_;
  std::vector<RawRange>* raw_data_;  // may be null
  std::uint64_t bytes_ = 0;
  std::uint64_t nodes_ = 0;
  std::uint64_t edges_ = 0;
  int bodies_ = 0;    // the graphs around the current byte, without the model's own
  std::string node_;  // the last name of a node
};

}  // namespace

Status ScanWireFormat(const File& file, std::size_t max_bytes, std::vector<RawRange>* raw_data) {
  if (::lseek(file.fd(), 0, SEEK_SET) != 0) {
    return Fail(ErrorCode::kInvalidArgument, "the file cannot be read from its start");
  }
  return Scanner(file, max_bytes, raw_data).Run();
}

}  // namespace lagoon
