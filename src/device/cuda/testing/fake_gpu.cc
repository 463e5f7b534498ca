#include "device/cuda/testing/fake_gpu.h"

#include <algorithm>
#include <utility>

namespace lagoon::cuda::fake {

Gpu::Gpu(std::function<std::unique_ptr<Runner>()> make_runner, DeviceMemory& memory,
         std::size_t connections)
    : make_runner_(std::move(make_runner)),
      memory_(memory),
      connections_(connections),
      thread_([this] { Run(); }) {}

Gpu::~Gpu() {
  {
    const std::lock_guard lock(mutex_);
    stopping_.store(true);
  }
  changed_.notify_all();
  thread_.join();
}

std::uint64_t Gpu::CreateStream(int priority) {
  const std::lock_guard lock(mutex_);
  const std::vector<std::size_t> streams = StreamsByConnection();
  const auto emptiest = std::min_element(streams.begin(), streams.end());
  streams_[next_stream_].priority = priority;
  streams_[next_stream_].connection = static_cast<std::size_t>(emptiest - streams.begin());
  return next_stream_++;
}

std::vector<std::size_t> Gpu::StreamsByConnection() const {
  std::vector<std::size_t> streams(connections_);
  for (const auto& [id, stream] : streams_) ++streams[stream.connection];
  return streams;
}

std::size_t Gpu::MostPerConnection() {
  const std::lock_guard lock(mutex_);
  const std::vector<std::size_t> streams = StreamsByConnection();
  return *std::max_element(streams.begin(), streams.end());
}

bool Gpu::DestroyStream(std::uint64_t stream) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end() || found->second.destroyed) return false;
  found->second.destroyed = true;
  if (found->second.operations.empty()) streams_.erase(found);
  return true;
}

bool Gpu::Push(std::uint64_t stream, Operation operation) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(stream);
    if (found == streams_.end() || found->second.destroyed) return false;
    if (found->second.captured) {
      found->second.captured->push_back(std::move(operation));
      return true;
    }
    operation.order = next_operation_++;
    found->second.operations.push_back(std::move(operation));
    news_.store(true);
  }
  changed_.notify_all();
  return true;
}

bool Gpu::BeginCapture(std::uint64_t stream) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end() || found->second.captured) return false;
  found->second.captured.emplace();
  return true;
}

std::optional<std::vector<Gpu::Operation>> Gpu::EndCapture(std::uint64_t stream) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return std::nullopt;
  return std::exchange(found->second.captured, std::nullopt);
}

bool Gpu::Idle(std::uint64_t stream) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  return found == streams_.end() || found->second.operations.empty();
}

void Gpu::Synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return lost_.load() != 0 ||
           std::all_of(streams_.begin(), streams_.end(),
                       [](const auto& entry) { return entry.second.operations.empty(); });
  });
}

void Gpu::AwaitWords() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return lost_.load() != 0 ||
           std::all_of(streams_.begin(), streams_.end(), [](const auto& entry) {
             return entry.second.busy || entry.second.blocked || entry.second.operations.empty();
           });
  });
}

void Gpu::Lose(int code, const std::string& fault) {
  {
    const std::lock_guard lock(mutex_);
    if (lost_.load() != 0) return;
    fault_ = fault;
    lost_.store(code);
  }
  changed_.notify_all();
  // When this returns, no block touches memory any more.
  while (std::this_thread::get_id() != thread_.get_id() && stepping_.load()) {
    std::this_thread::yield();
  }
}

std::string Gpu::fault() {
  const std::lock_guard lock(mutex_);
  return fault_;
}

std::size_t Gpu::streams() {
  const std::lock_guard lock(mutex_);
  return streams_.size();
}

// Between two steps of a kernel the streams move on: what the host queued before a step is done
// before the next step.
void Gpu::Run() {
  runner_ = make_runner_();
  while (!stopping_.load()) {
    if (news_.exchange(false) || delayed_) Advance();
    stepping_.store(true);
    const bool moved = Step();
    stepping_.store(false);
    if (moved || delayed_) continue;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_.load() || news_.load(); });
  }
  if (open_) memory_.Close();
  runner_.reset();
}

bool Gpu::Step() {
  if (running_ == 0 || lost_.load() != 0) {
    if (std::exchange(open_, false)) memory_.Close();
    return false;
  }
  if (hung_.load()) return false;
  if (!std::exchange(open_, true)) memory_.Open();
  return runner_->Step();
}

void Gpu::Advance() {
  delayed_ = false;
  {
    const std::lock_guard lock(mutex_);
    if (lost_.load() != 0) return;
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& [id, stream] : streams_) {
        stream.blocked = false;
        while (!stream.busy && !stream.operations.empty() && Begin(stream)) moved = true;
      }
    }
    std::erase_if(streams_, [](const auto& entry) {
      return entry.second.destroyed && entry.second.operations.empty();
    });
  }
  changed_.notify_all();
}

// True if another stream of the same connection has work that was submitted before.
bool Gpu::IsBlocked(const Stream& stream) const {
  if (streams_.size() <= connections_) return false;
  return std::any_of(streams_.begin(), streams_.end(), [&](const auto& entry) {
    const Stream& other = entry.second;
    return other.connection == stream.connection && !other.operations.empty() &&
           other.operations.front().order < stream.operations.front().order;
  });
}

// Returns false if it is not time yet.
bool Gpu::Begin(Stream& stream) {
  Operation& operation = stream.operations.front();
  stream.blocked = IsBlocked(stream);
  if (stream.blocked) return false;
  if (operation.delay > 0) {
    --operation.delay;
    delayed_ = true;
    return false;
  }
  if (!operation.kernel) {
    operation.run();
    stream.operations.pop_front();
    return true;
  }
  stream.busy = true;
  KernelLaunch launch = *operation.kernel;
  launch.parameter = operation.parameter.data();
  launch.priority = stream.priority;
  launch.done = [this, &stream](const std::string& fault) {
    constexpr int kLaunchFailed = 719;
    --running_;
    if (!fault.empty()) Lose(kLaunchFailed, fault);
    const std::lock_guard lock(mutex_);
    stream.busy = false;
    stream.operations.pop_front();
    news_.store(true);
  };
  ++running_;
  runner_->Submit(std::move(launch));
  return true;
}

}  // namespace lagoon::cuda::fake
