#include "bench/client/core_requests.h"

#include <cstring>
#include <future>
#include <random>
#include <vector>

#include "plan/bytes_tensor.h"
#include "serving/open_core.h"

namespace lagoon::bench {

InferRequest RequestOf(const OnnxModel& model, const std::string& name, const GraphInputs& shapes) {
  auto payload = std::make_shared<std::vector<std::vector<std::byte>>>();
  InferRequest request;
  request.model = name;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (std::size_t i = 0; i < model.inputs().size(); ++i) {
    const DeclaredTensor& input = model.inputs()[i];
    const auto count = static_cast<std::size_t>(ElementCount(shapes.dims[i]));
    const bool text = input.type == DataType::kString;
    std::vector<std::byte>& bytes = payload->emplace_back(text ? 0 : count * SizeOf(input.type));
    for (std::size_t element = 0; text && element < count; ++element) {
      AppendBytesElement("1", bytes);
    }
    for (std::size_t element = 0; !text && element < count; ++element) {
      std::byte* const at = bytes.data() + element * SizeOf(input.type);
      const float value = uniform(random);
      if (input.type == DataType::kFloat32) {
        std::memcpy(at, &value, sizeof(value));
      } else {
        *at = std::byte{1};  // little-endian
      }
    }
    request.inputs.push_back({input.name, input.type, shapes.dims[i], bytes});
  }
  request.payload = payload;
  return request;
}

Answer Ask(Inference& core, InferRequest request) {
  auto promise = std::make_shared<std::promise<Answer>>();
  std::future<Answer> answer = promise->get_future();
  request.arrival = Now();
  core.Infer(std::move(request),
             [promise](Answer result) { promise->set_value(std::move(result)); });
  return answer.get();
}

Result<std::unique_ptr<Inference>> Serve(const std::string& repository,
                                         const std::string& scheduler, std::uint32_t workers) {
  CoreOptions options;
  options.repository = repository;
  options.scheduler = scheduler;
  options.device.workers = workers;
  return OpenCore(options);
}

}  // namespace lagoon::bench
