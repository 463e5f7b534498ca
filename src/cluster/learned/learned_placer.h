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
  struct Options {
    bool interference = true;  // false: neighbours do not slow down, as far as the placer knows
    /// Besides what the networks decide, two simpler decisions are tried: replicas stay where they
    /// are and only new ones are placed by the network; each replica goes to the GPU with the least
    /// need. On each GPU, the local stage's first guess is tried too. Of all these the one counts
    /// whose forecast is best.
    bool guarded = true;
    /// false: the global stage's network is not asked; replicas go to the GPU with the least need.
    bool global = true;
    /// false: the local stage's network is not asked; the first guess of each GPU counts.
    bool local = true;
  };

  LearnedPlacer(std::string name, PlacementNetworks networks, Options options);

  std::string_view name() const override { return name_; }
  Assignment Place(const PlacementView& view) override;

 private:
  enum class Rule : std::uint8_t { kStay, kNetwork, kLeastNeed };
  struct Decision {
    Assignment assignment;
    double reward = 0;  // forecast, less the cost of moves and of refused replicas
  };
  Decision Decide(const PlacementView& view, const std::vector<Demand>& demands, Rule rule) const;
  std::size_t ChooseGpu(const Stages& stages, std::size_t demand, Rule rule) const;
  std::size_t AskNetwork(const Stages& stages, std::size_t demand) const;
  GpuShares Share(const Stages& stages, const GpuState& gpu) const;

  std::string name_;
  PlacementNetworks networks_;
  Options options_;
};

/// What a replica costs that leaves its GPU: as much as 1 % of violations.
inline constexpr double kMoveCost = 0.01;

/// With the weights that the program was built with, of "inss" or "inss-ni"; "inss-net" has those
/// of inss and no guard, "inss-guess" is inss without its networks.
Result<std::unique_ptr<Placer>> MakeLearnedPlacer(std::string_view name);

/// Makes the fractions of each model's replicas proportional to their throughput alone.
void SplitByCapacity(const PlacementView& view, Assignment* assignment);

}  // namespace lagoon
