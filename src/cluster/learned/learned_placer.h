#pragma once

// InSS: two networks decide (InSS 5). The global stage puts the replicas on GPUs one after another,
// the one with the largest need first. The local stage then gives each replica of a GPU its share
// and batch limit.

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "cluster/learned/stages.h"
#include "cluster/placement/placer.h"
#include "learn/mlp.h"

namespace lagoon {

struct PlacementNetworks {
  learn::Mlp global;  // GlobalFeatures() inputs, kGroups outputs
  learn::Mlp local;   // LocalFeatures() inputs, 2 kSlots outputs
};

/// The bytes of a weights file, and back. kInvalidArgument names `name` and what is wrong.
std::string EncodeNetworks(const PlacementNetworks& networks);
Result<PlacementNetworks> DecodeNetworks(const std::string& name, std::string_view bytes);

/// More than kGroups GPUs are cut into kGroups groups of nearly equal size, these again, and so on:
/// the global stage first chooses a group and at last a GPU. A GPU with more than kSlots replicas
/// is shared in proportion to their needs, without the local stage's network.
class LearnedPlacer final : public Placer {
 public:
  /// `interference`: false: neighbours do not slow down, as far as the placer knows (InSS-ni).
  LearnedPlacer(std::string name, PlacementNetworks networks, bool interference);

  std::string_view name() const override { return name_; }
  Assignment Place(const PlacementView& view) override;

 private:
  std::size_t ChooseGpu(const Stages& stages, std::size_t demand,
                        std::vector<std::size_t> among) const;
  void Share(const Stages& stages, const std::vector<Demand>& demands, Assignment* to) const;

  std::string name_;
  PlacementNetworks networks_;
  bool interference_;
};

/// The weights that the program was built with: of "inss" or "inss-ni".
Result<std::unique_ptr<Placer>> MakeLearnedPlacer(std::string_view name);

/// Makes the fractions of each model's replicas proportional to their throughput alone.
void SplitByCapacity(const PlacementView& view, Assignment* assignment);

}  // namespace lagoon
