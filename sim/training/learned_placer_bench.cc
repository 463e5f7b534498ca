#include <benchmark/benchmark.h>

#include "cluster/learned/learned_placer.h"
#include "sim/training/training_views.h"

namespace lagoon {
namespace {

// A decision about 2.5 models for each GPU, by untrained networks of the sizes that ship.
void Decide(benchmark::State& state) {
  Random random(1);
  const auto gpus = static_cast<std::size_t>(state.range(0));
  const TrainingEpisode episode({.gpus = gpus,
                                 .fewest_models = gpus * 5 / 2,
                                 .most_models = gpus * 5 / 2,
                                 .scarce_memory = 0},
                                random);
  LearnedPlacer placer("bench",
                       {learn::Mlp({GlobalFeatures(), 256, 256, kGroups}, random),
                        learn::Mlp({LocalFeatures(), 256, 256, 2 * kSlots}, random)},
                       {});
  for (auto _ : state) benchmark::DoNotOptimize(placer.Place(episode.view()));
}
BENCHMARK(Decide)->Arg(4)->Arg(64)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lagoon
