#include "server/io_pool.h"

#include <exception>

#include "base/log.h"

namespace lagoon {
namespace {

void Run(boost::asio::io_context& context) {
  for (;;) {
    try {
      context.run();
      return;
    } catch (const std::exception& e) {
      // A library threw out of a handler (memory ran out): that connection is lost, the others go
      // on.
      spdlog::error("server: a connection was dropped: {}", e.what());
    }
  }
}

}  // namespace

IoPool::IoPool(int threads) : context_(threads), work_(context_.get_executor()) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(context_); });
}

void IoPool::Join() {
  context_.stop();
  threads_.clear();
}

}  // namespace lagoon
