#include "bench/shares/switches.h"

#include <algorithm>
#include <map>

#include "bench/measure/statistics.h"

namespace lagoon::bench {
namespace {

struct Gap {
  TimePoint begin, end;
};

// The stretches between two blocks in which no block runs. `blocks`: ascending by begin.
std::vector<Gap> GapsOf(const std::vector<ShareBlock>& blocks) {
  std::vector<Gap> gaps;
  TimePoint until = blocks.front().end;
  for (const ShareBlock& block : blocks) {
    if (block.begin > until) gaps.push_back({until, block.begin});
    until = std::max(until, block.end);
  }
  return gaps;
}

// Median length of the gaps during which no move of the share was made, in us; 0: there is none.
double UsualGapUs(const std::vector<Gap>& gaps, const std::vector<TimePoint>& moves) {
  std::vector<double> us;
  for (std::size_t i = 1; i < gaps.size(); ++i) {
    // The gap that ends first after a move is of the move.
    const auto move = std::upper_bound(moves.begin(), moves.end(), gaps[i - 1].end);
    if (move == moves.end() || *move > gaps[i].end) {
      us.push_back(ToMicroseconds(gaps[i].end - gaps[i].begin));
    }
  }
  return us.empty() ? 0 : Median(us);
}

void AddShare(std::vector<ShareBlock> blocks, const std::vector<ShareMove>& moves,
              SwitchTimes& times) {
  std::sort(blocks.begin(), blocks.end(),
            [](const ShareBlock& a, const ShareBlock& b) { return a.begin < b.begin; });
  Nanoseconds longest{0};
  for (const ShareBlock& block : blocks) longest = std::max(longest, block.end - block.begin);
  const std::vector<Gap> gaps = GapsOf(blocks);
  std::vector<TimePoint> at;
  for (const ShareMove& move : moves) at.push_back(move.at);
  const double usual_us = UsualGapUs(gaps, at);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const ShareMove& move = moves[i];
    const TimePoint until = i + 1 < moves.size() ? moves[i + 1].at : blocks.back().end;
    // Blocks that began earlier than the longest block before the move have ended.
    auto block =
        std::lower_bound(blocks.begin(), blocks.end(), move.at - longest,
                         [](const ShareBlock& one, TimePoint time) { return one.begin < time; });
    while (block != blocks.end() && (block->end <= move.at || !move.units.Has(block->unit))) {
      ++block;
    }
    if (block == blocks.end() || block->begin > until) {
      ++times.without_block;
      continue;
    }
    times.idle_us.push_back(ToMicroseconds(std::max(block->begin - move.at, Nanoseconds(0))));
    const auto gap =
        std::upper_bound(gaps.begin(), gaps.end(), move.at,
                         [](TimePoint time, const Gap& one) { return time < one.end; });
    const double us = gap == gaps.end() || gap->end > until
                          ? 0
                          : ToMicroseconds(gap->end - gap->begin) - usual_us;
    times.gap_us.push_back(std::max(us, 0.0));
  }
}

}  // namespace

SwitchTimes TimesOfSwitches(const std::vector<ShareBlock>& blocks,
                            const std::vector<ShareMove>& moves) {
  std::map<std::uint32_t, std::pair<std::vector<ShareBlock>, std::vector<ShareMove>>> by_share;
  for (const ShareBlock& block : blocks) by_share[block.share].first.push_back(block);
  for (const ShareMove& move : moves) by_share[move.share].second.push_back(move);
  SwitchTimes times;
  for (auto& [share, of] : by_share) {
    if (of.first.empty()) {
      times.without_block += of.second.size();
    } else {
      AddShare(std::move(of.first), of.second, times);
    }
  }
  return times;
}

}  // namespace lagoon::bench
