#include "server/remote/remote_queue.h"

#include "base/thread.h"

namespace lagoon {

RemoteQueue::RemoteQueue(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

RemoteQueue::~RemoteQueue() {
  queue_.Shutdown();
  threads_.clear();  // joins: Next() returns false when the queue is empty
}

void RemoteQueue::Run() {
  NameThisThread("lagoon-remote");
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
    (void)handed_.load(std::memory_order_acquire);
    static_cast<RemoteEvent*>(tag)->Done(ok);
  }
}

}  // namespace lagoon
