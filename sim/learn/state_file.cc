#include "sim/learn/state_file.h"

#include <istream>
#include <ostream>

namespace lagoon::learn {

void StateWriter::Number(std::uint64_t number) {
  stream_.write(reinterpret_cast<const char*>(&number), sizeof number);
}

void StateWriter::Floats(std::span<const float> floats) {
  stream_.write(reinterpret_cast<const char*>(floats.data()),
                static_cast<std::streamsize>(floats.size_bytes()));
}

std::uint64_t StateReader::Number() {
  std::uint64_t number = 0;
  if (!ok_ || !Expect(!!stream_.read(reinterpret_cast<char*>(&number), sizeof number))) return 0;
  return number;
}

void StateReader::Floats(std::span<float> floats) {
  if (!ok_) return;
  stream_.read(reinterpret_cast<char*>(floats.data()),
               static_cast<std::streamsize>(floats.size_bytes()));
  Expect(!!stream_);
}

bool StateReader::Expect(bool good) {
  ok_ = ok_ && good;
  return ok_;
}

}  // namespace lagoon::learn
