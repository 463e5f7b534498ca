#pragma once

// Everything that a training needs to go on where it stopped, as bytes of this machine: the program
// that wrote a checkpoint reads it.

#include <cstdint>
#include <iosfwd>
#include <span>

namespace lagoon::learn {

class StateWriter {
 public:
  /// `stream`: borrowed. The caller checks its state at the end.
  explicit StateWriter(std::ostream& stream) : stream_(stream) {}
  void Number(std::uint64_t number);
  void Floats(std::span<const float> floats);

 private:
  std::ostream& stream_;
};

/// After a failure every Number() is 0 and Floats() changes nothing.
class StateReader {
 public:
  explicit StateReader(std::istream& stream) : stream_(stream) {}
  std::uint64_t Number();
  void Floats(std::span<float> floats);
  /// Fails unless `good`. Returns ok().
  bool Expect(bool good);
  bool ok() const { return ok_; }

 private:
  std::istream& stream_;
  bool ok_ = true;
};

}  // namespace lagoon::learn
