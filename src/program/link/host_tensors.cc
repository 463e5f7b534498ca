#include "program/link/host_tensors.h"

#include <cstring>

#include "plan/element.h"

namespace lagoon {

HostTensors::HostTensors(const Plan& plan) {
  for (const PlanTensor& tensor : plan.inputs) inputs_.push_back(Add(tensor));
  for (const PlanTensor& tensor : plan.outputs) outputs_.push_back(Add(tensor));
}

void* HostTensors::Add(const PlanTensor& tensor) {
  std::vector<std::byte>& data = data_.emplace_back(tensor.spec.bytes());
  if (tensor.spec.type == DataType::kString) return data.data();
  WithElementType(tensor.spec.type, [&]<typename T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < data.size() / sizeof(T); ++i) {
      const double value = IsFloat(tensor.spec.type) ? static_cast<double>(i % 17) / 16
                                                     : static_cast<double>((i + 1) % 2);
      const T element = ConvertElement<T>(value);
      std::memcpy(data.data() + i * sizeof(T), &element, sizeof(T));
    }
  });
  return data.data();
}

}  // namespace lagoon
