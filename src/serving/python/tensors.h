#pragma once

// Tensors in messages between the server and a program: {"name", "type", "dims", "bytes"} in the
// object, and the bytes behind those of the tensors before.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "plan/tensor.h"
#include "serving/core/request.h"

namespace lagoon {

struct ProgramTensor {
  std::string name;
  DataType type = DataType::kFloat32;
  Dims dims;
  std::size_t offset = 0, bytes = 0;  // in the message
};

/// For an object of a message. `type`: kString has the protocol's form.
nlohmann::json TensorObject(std::string_view name, DataType type, const Dims& dims,
                            std::size_t bytes);

/// The tensors of `list`, whose bytes are the first ones of the message. kInternal names the tensor
/// and the values: a type that is none, a negative dim, more bytes than `bytes`, or another number
/// than the type and the dims have. Elements of kString are not looked at.
Result<std::vector<ProgramTensor>> ReadTensors(const nlohmann::json& list, std::size_t bytes);

/// An error as a message of a program has it: {"code", "message"}, and back. A code that is unknown
/// is kInternal; the message is cut after 4 KiB.
nlohmann::json ErrorObject(const Error& error);
Error ReadError(const nlohmann::json& object);

}  // namespace lagoon
