#include "kernels/cpu_level.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "hwy/highway.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#define LAGOON_HAS_BF16_LEVELS 1
#endif

namespace lagoon {
namespace {

constexpr char kVariable[] = "LAGOON_CPU";

constexpr std::array<const char*, 5> kNames = {"portable", "avx2", "avx512", "avx512bf16", "amx"};

/// Highway's targets that a level runs.
std::int64_t BodiesOf(CpuLevel level) {
  constexpr std::int64_t kAvx512Bodies = HWY_AVX3 | HWY_AVX3_DL;
  if (level == CpuLevel::kPortable) return HWY_TARGETS & ~(HWY_AVX2 | kAvx512Bodies);
  return HWY_TARGETS & (level == CpuLevel::kAvx2 ? HWY_AVX2 : kAvx512Bodies);
}

#ifdef LAGOON_HAS_BF16_LEVELS

struct CpuLeaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;

  CpuLeaf(unsigned leaf, unsigned index) {
    if (__get_cpuid_count(leaf, index, &eax, &ebx, &ecx, &edx) == 0) eax = ebx = ecx = edx = 0;
  }
};

constexpr bool HasBits(std::uint64_t word, std::uint64_t bits) { return (word & bits) == bits; }

#endif

#ifdef LAGOON_EMULATED_BF16

/// The instructions are emulated on top of AVX-512 (conv/bf16/emulated_bf16.h).
CpuLevel HighestBf16Level() { return CpuLevel::kAmx; }

#elif defined(LAGOON_HAS_BF16_LEVELS)

/// The register states that the operating system saves for processes (XCR0).
std::uint64_t KeptStates() {
  constexpr unsigned kReadable = 1u << 27;
  if (!HasBits(CpuLeaf(1, 0).ecx, kReadable)) return 0;
  std::uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

/// A process must ask for the use of tiles (Linux 5.16); threads inherit the permission.
bool AskForTiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

/// For a machine with AVX-512.
CpuLevel HighestBf16Level() {
  constexpr unsigned kAvx512Bf16 = 1u << 5;
  constexpr unsigned kAmx = 1u << 22 | 1u << 24;  // BF16, TILE
  constexpr std::uint64_t kTileStates = 0x60000;
  if (!HasBits(CpuLeaf(7, 1).eax, kAvx512Bf16)) return CpuLevel::kAvx512;
  const bool tiles = HasBits(CpuLeaf(7, 0).edx, kAmx) && HasBits(KeptStates(), kTileStates);
  return tiles && AskForTiles() ? CpuLevel::kAmx : CpuLevel::kAvx512Bf16;
}

#else

CpuLevel HighestBf16Level() { return CpuLevel::kAvx512; }

#endif

std::vector<CpuLevel> FindLevels() {
  const std::int64_t bodies = hwy::SupportedTargets() & HWY_TARGETS;
  std::vector<CpuLevel> levels;
  for (const CpuLevel level : {CpuLevel::kPortable, CpuLevel::kAvx2, CpuLevel::kAvx512}) {
    if ((bodies & BodiesOf(level)) != 0) levels.push_back(level);
  }
  if (levels.back() != CpuLevel::kAvx512) return levels;
  const CpuLevel highest = HighestBf16Level();
  for (const CpuLevel level : {CpuLevel::kAvx512Bf16, CpuLevel::kAmx}) {
    if (level <= highest) levels.push_back(level);
  }
  return levels;
}

/// The products of bytes that a machine of these levels has.
ByteProducts FindByteProducts(std::span<const CpuLevel> levels) {
  ByteProducts products;
#ifdef LAGOON_HAS_BF16_LEVELS
  constexpr unsigned kAvx512Vnni = 1u << 11, kAvxVnni = 1u << 4, kAmxInt8 = 1u << 25;
  const auto has = [&](CpuLevel level) {
    return std::find(levels.begin(), levels.end(), level) != levels.end();
  };
  products.avx512 = has(CpuLevel::kAvx512) && HasBits(CpuLeaf(7, 0).ecx, kAvx512Vnni);
#ifdef LAGOON_EMULATED_BF16
  constexpr bool kEmulated = true;
#else
  constexpr bool kEmulated = false;
#endif
  const bool tiles = kEmulated || HasBits(CpuLeaf(7, 0).edx, kAmxInt8);
  products.tiles = tiles && products.avx512 && has(CpuLevel::kAmx);
  products.avx = has(CpuLevel::kAvx2) && HasBits(CpuLeaf(7, 1).eax, kAvxVnni);
#else
  static_cast<void>(levels);
#endif
  return products;
}

/// The word of LAGOON_CPU; empty if there is none.
std::string_view LevelWord() {
  // Unsafe only beside a thread that changes the environment; Lagoon has no such thread.
  const char* word = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe)
  return word == nullptr ? "" : word;
}

/// Also removes bodies below the level, so that tests that run every body run only those of the
/// level.
void LimitBodies(CpuLevel level) {
  // DisableTargets() would be undone by the next SupportedTargets() (Highway 1.0.3).
  hwy::SetSupportedTargetsForTest(BodiesOf(level));
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

Result<CpuLevel> DecideLevel() {
  const std::span<const CpuLevel> levels = MachineCpuLevels();
  const std::string_view word = LevelWord();
  if (word.empty()) return levels.back();
  LAGOON_ASSIGN_OR_RETURN(const CpuLevel level, ParseCpuLevel(word, levels));
  LimitBodies(level);
  return level;
}

}  // namespace

const char* NameOf(CpuLevel level) { return kNames[static_cast<std::size_t>(level)]; }

std::string NamesOf(std::span<const CpuLevel> levels) {
  std::string names;
  for (const CpuLevel level : levels) {
    if (!names.empty()) names += ", ";
    names += NameOf(level);
  }
  return names;
}

std::span<const CpuLevel> MachineCpuLevels() {
  static const std::vector<CpuLevel> levels = FindLevels();
  return levels;
}

Result<CpuLevel> ParseCpuLevel(std::string_view word, std::span<const CpuLevel> levels) {
  if (word.empty()) return levels.back();
  for (const CpuLevel level : levels) {
    if (word == NameOf(level)) return level;
  }
  const bool known = std::find(kNames.begin(), kNames.end(), word) != kNames.end();
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("{} is '{}', which {}; this build's levels on this machine are {}", kVariable,
                  word, known ? "this machine or this build lacks" : "is no level",
                  NamesOf(levels)));
}

const Result<CpuLevel>& ProcessCpuLevel() {
  static const Result<CpuLevel> level = DecideLevel();
  return level;
}

ByteProducts ProcessByteProducts() {
  static const ByteProducts products = [] {
    const bool named = !LevelWord().empty();
    if (named && ActiveCpuLevel() < CpuLevel::kAvx512Bf16) return ByteProducts();
    ByteProducts all = FindByteProducts(MachineCpuLevels());
    all.tiles = all.tiles && ActiveCpuLevel() == CpuLevel::kAmx;
    return all;
  }();
  return products;
}

CpuLevel ActiveCpuLevel() {
  const Result<CpuLevel>& level = ProcessCpuLevel();
  if (level) return *level;
  std::fprintf(stderr, "lagoon: %s\n", level.error().message.c_str());
  std::_Exit(1);
}

}  // namespace lagoon
