#include "serving/fleet/routes/suspects.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace lagoon {
namespace {

class Digester {
 public:
  Digester() { XXH3_128bits_reset(state_.get()); }

  /// With its length, so that two parts differ from the same bytes cut elsewhere.
  void Add(const void* data, std::size_t bytes) {
    const std::uint64_t length = bytes;
    XXH3_128bits_update(state_.get(), &length, sizeof(length));
    if (bytes > 0) XXH3_128bits_update(state_.get(), data, bytes);
  }
  void Add(std::string_view text) { Add(text.data(), text.size()); }

  RequestDigest Digest() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return {hash.low64, hash.high64};
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  const std::unique_ptr<XXH3_state_t, Free> state_{XXH3_createState()};
};

}  // namespace

RequestDigest DigestOf(const InferRequest& request) {
  Digester digester;
  digester.Add(request.model);
  digester.Add(request.version);
  for (const InputTensor& input : request.inputs) {
    digester.Add(input.name);
    digester.Add(&input.type, sizeof(input.type));
    digester.Add(input.dims.data(), input.dims.size() * sizeof(input.dims[0]));
    digester.Add(input.data.data(), input.data.size());
  }
  return digester.Digest();
}

bool Suspects::Lost(const RequestDigest& request, const std::string& member, TimePoint now) {
  const MutexLock lock(mutex_);
  Forget(now);
  const auto known = suspects_.find(request);
  if (known == suspects_.end() && suspects_.size() >= kMost) return false;
  Suspect& suspect = suspects_[request];
  Resized();
  if (suspect.losses == 0 || suspect.member != member || now - suspect.lost >= kOneLoss) {
    ++suspect.losses;
    suspect.member = member;
    suspect.lost = now;
    suspect.next = now + kPause;
  }
  return std::ranges::none_of(suspects_, [](const auto& entry) { return entry.second.losses > 1; });
}

bool Suspects::MaySend(const RequestDigest& request, TimePoint now) {
  const MutexLock lock(mutex_);
  Forget(now);
  const auto known = suspects_.find(request);
  if (known == suspects_.end() || known->second.losses < 2) return true;
  if (now < known->second.next) return false;
  known->second.next = now + kPause;
  return true;
}

void Suspects::Answered(const RequestDigest& request) {
  const MutexLock lock(mutex_);
  suspects_.erase(request);
  Resized();
}

void Suspects::Forget(TimePoint now) {
  std::erase_if(suspects_,
                [now](const auto& entry) { return now - entry.second.lost >= kRemember; });
  Resized();
}

}  // namespace lagoon
