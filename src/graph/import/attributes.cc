#include "graph/import/attributes.h"

#include <fmt/format.h>

namespace lagoon {

Result<Attribute> ImportAttribute(onnx::AttributeProto& proto, const TensorSource& source) {
  switch (proto.type()) {
    case onnx::AttributeProto::INT:
      return Attribute(std::int64_t{proto.i()});
    case onnx::AttributeProto::FLOAT:
      return Attribute(proto.f());
    case onnx::AttributeProto::STRING:
      return Attribute(proto.s());
    case onnx::AttributeProto::INTS:
      return Attribute(std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end()));
    case onnx::AttributeProto::FLOATS:
      return Attribute(std::vector<float>(proto.floats().begin(), proto.floats().end()));
    case onnx::AttributeProto::STRINGS:
      return Attribute(std::vector<std::string>(proto.strings().begin(), proto.strings().end()));
    case onnx::AttributeProto::TENSOR: {
      LAGOON_ASSIGN_OR_RETURN(Constant constant, ImportTensor(*proto.mutable_t(), source));
      return Attribute(std::move(constant));
    }
    case onnx::AttributeProto::TYPE_PROTO:  // of an Optional: only the element type
      return Attribute(std::int64_t{proto.tp().tensor_type().elem_type()});
    default:
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("has ONNX attribute type {}, which is not supported",
                              static_cast<int>(proto.type())));
  }
}

char KindLetter(const Attribute& attribute) {
  constexpr char kLetters[] = {'i', 'f', 's', 'I', 'F', 'S', 't'};  // in the variant's order
  static_assert(std::variant_size_v<Attribute> == sizeof(kLetters));
  return kLetters[attribute.index()];
}

}  // namespace lagoon
