// The calls of benchmarks (events, graphs, batches of writes), and of devices with shares (green
// contexts).

#include <algorithm>
#include <thread>

#include "device/cuda/testing/fake_driver.h"

namespace lagoon::cuda::fake {
namespace {

constexpr unsigned kGranule = 8;  // multiprocessors

}  // namespace

Code call_batch_write(Stream stream, unsigned count, BatchWrite* writes, unsigned) {
  LAGOON_FAKE_ENTER("cuStreamBatchMemOp", true);
  for (unsigned i = 0; i < count; ++i) {
    if (writes[i].operation != BatchWrite{}.operation) return kInvalidValue;
    const auto value = static_cast<std::uint32_t>(writes[i].value);
    const Code code = Fake().PushWrite(stream, writes[i].to, value, "cuStreamBatchMemOp");
    if (code != kSuccess) return code;
  }
  return kSuccess;
}
Code call_create_event(Event* event, unsigned) {
  LAGOON_FAKE_ENTER("cuEventCreate", true);
  *event = reinterpret_cast<Event>(new FakeEvent);
  ++Fake().handles;
  return kSuccess;
}
Code call_destroy_event(Event event) {
  LAGOON_FAKE_ENTER("cuEventDestroy", false);
  delete reinterpret_cast<FakeEvent*>(event);
  --Fake().handles;
  return kSuccess;
}
Code call_record_event(Event event, Stream stream) {
  LAGOON_FAKE_ENTER("cuEventRecord", true);
  auto* const fake = reinterpret_cast<FakeEvent*>(event);
  fake->pending = true;
  return Fake().Push(stream,
                     {.run =
                          [=] {
                            fake->at = std::chrono::steady_clock::now();
                            fake->pending = false;
                          }},
                     {.name = "cuEventRecord"});
}
Code call_synchronize_event(Event event) {
  LAGOON_FAKE_ENTER("cuEventSynchronize", true);
  while (reinterpret_cast<FakeEvent*>(event)->pending && Fake().gpu->lost() == 0) {
    std::this_thread::yield();
  }
  return Fake().gpu->lost();
}
Code call_elapsed(float* milliseconds, Event begin, Event end) {
  LAGOON_FAKE_ENTER("cuEventElapsedTime", true);
  const std::chrono::duration<float, std::milli> passed =
      reinterpret_cast<FakeEvent*>(end)->at - reinterpret_cast<FakeEvent*>(begin)->at;
  *milliseconds = passed.count();
  return kSuccess;
}
Code call_begin_capture(Stream stream, int) {
  LAGOON_FAKE_ENTER("cuStreamBeginCapture", true);
  return Fake().gpu->BeginCapture(reinterpret_cast<std::uint64_t>(stream)) ? kSuccess
                                                                           : kInvalidValue;
}
Code call_end_capture(Stream stream, Graph* graph) {
  LAGOON_FAKE_ENTER("cuStreamEndCapture", true);
  auto captured = Fake().gpu->EndCapture(reinterpret_cast<std::uint64_t>(stream));
  if (!captured) return kInvalidValue;
  *graph = reinterpret_cast<Graph>(new FakeGraph(*std::move(captured)));
  ++Fake().handles;
  return kSuccess;
}
Code call_instantiate_graph(GraphExec* instance, Graph graph, std::uint64_t) {
  LAGOON_FAKE_ENTER("cuGraphInstantiateWithFlags", true);
  *instance =
      reinterpret_cast<GraphExec>(new FakeGraph(*reinterpret_cast<const FakeGraph*>(graph)));
  ++Fake().handles;
  return kSuccess;
}
Code call_launch_graph(GraphExec graph, Stream stream) {
  LAGOON_FAKE_ENTER("cuGraphLaunch", true);
  for (const Gpu::Operation& operation : *reinterpret_cast<const FakeGraph*>(graph)) {
    const Code code = Fake().Push(stream, operation, {.name = "cuGraphLaunch"});
    if (code != kSuccess) return code;
  }
  return kSuccess;
}
Code call_destroy_graph_instance(GraphExec graph) {
  LAGOON_FAKE_ENTER("cuGraphExecDestroy", false);
  delete reinterpret_cast<FakeGraph*>(graph);
  --Fake().handles;
  return kSuccess;
}
Code call_destroy_graph(Graph graph) {
  LAGOON_FAKE_ENTER("cuGraphDestroy", false);
  delete reinterpret_cast<FakeGraph*>(graph);
  --Fake().handles;
  return kSuccess;
}

Code call_device_resource(Ordinal device, DeviceResource* resource, int type) {
  LAGOON_FAKE_ENTER("cuDeviceGetDevResource", true);
  if (type != kMultiprocessorResource) return kInvalidValue;
  resource->type = type;
  resource->multiprocessors =
      static_cast<unsigned>(Fake().settings.multiprocessors.at(static_cast<std::size_t>(device)));
  return kSuccess;
}
Code call_split_resource(DeviceResource* groups, unsigned* count, const DeviceResource* from,
                         DeviceResource* rest, unsigned, unsigned least) {
  LAGOON_FAKE_ENTER("cuDevSmResourceSplitByCount", true);
  const unsigned size = std::max(kGranule, (least + kGranule - 1) / kGranule * kGranule);
  if (from->type != kMultiprocessorResource || *count == 0) return kInvalidValue;
  // "Output results cannot be split again without first creating a descriptor and a green context."
  if (from->own[1] != 0) return kInvalidResourceType;
  *count = std::min(*count, (from->multiprocessors - Fake().settings.unsplit) / size);
  *rest = *from;
  rest->multiprocessors -= *count * size;
  rest->own[0] = static_cast<unsigned char>(*count * size);
  rest->own[1] = 1;  // not to be split again
  for (unsigned i = 0; i < *count; ++i) {
    groups[i] = *from;
    groups[i].multiprocessors = size;
    groups[i].own[0] = static_cast<unsigned char>(i * size);
    groups[i].own[1] = 1;
  }
  return kSuccess;
}
// In this fake, a description or context is its first multiprocessor, times 256, and their number.
Code call_describe_resource(ResourceDesc* description, DeviceResource* resources, unsigned count) {
  LAGOON_FAKE_ENTER("cuDevResourceGenerateDesc", true);
  std::uintptr_t units = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (resources[i].own[0] != resources[0].own[0] + units) return kInvalidValue;
    units += resources[i].multiprocessors;
  }
  *description = reinterpret_cast<ResourceDesc>(std::uintptr_t{resources[0].own[0]} * 256 + units);
  return kSuccess;
}
Code call_create_green_context(GreenContext* context, ResourceDesc description, Ordinal,
                               unsigned flags) {
  LAGOON_FAKE_ENTER("cuGreenCtxCreate", true);
  if (flags != kGreenDefaultStream || description == nullptr) return kInvalidValue;
  *context = reinterpret_cast<GreenContext>(description);
  ++Fake().green_contexts;
  return kSuccess;
}
Code call_destroy_green_context(GreenContext) {
  LAGOON_FAKE_ENTER("cuGreenCtxDestroy", false);
  return Fake().green_contexts-- > 0 ? kSuccess : kInvalidValue;
}
Code call_create_green_stream(Stream* stream, GreenContext context, unsigned flags, int priority) {
  LAGOON_FAKE_ENTER("cuGreenCtxStreamCreate", true);
  if (flags != kStreamNonBlocking) return kInvalidValue;
  const std::uint64_t id = Fake().gpu->CreateStream(-priority);
  *stream = reinterpret_cast<Stream>(id);
  Fake().Log({.name = "cuGreenCtxStreamCreate",
              .stream = id,
              .value = reinterpret_cast<std::uint64_t>(context)});
  return kSuccess;
}

}  // namespace lagoon::cuda::fake
