#include "libcore/backend/cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "libcore/base/error.h"

namespace core::cpu {
namespace {

/// Asks for every flag that CMakeLists.txt compiles a level with: virtual machines hide them one by one (AVX2 without
/// FMA is real), and one instruction that is not there ends the program. GCC's answer includes whether the operating
/// system saves the registers.
Isa highest() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::baseline;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  return has_avx512 ? Isa::avx512 : Isa::avx2;
#else
  return Isa::baseline;
#endif
}

/// What CORE_ISA allows.
Isa cap() {
  const char* name = std::getenv("CORE_ISA");
  return name == nullptr || *name == '\0' ? Isa::avx512 : isa_named(name);
}

#if defined(__x86_64__)
/// Linux keeps tiles for a process once it has asked for them.
bool asks_for_tiles() {
  constexpr unsigned kLeaf = 7, kBf16 = 1U << 22, kTiles = 1U << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(kLeaf, 0, &a, &b, &c, &d) == 0 || (d & kBf16) == 0 || (d & kTiles) == 0) return false;
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

}  // namespace

Isa isa_named(std::string_view name) {
  if (name == "baseline") return Isa::baseline;
  if (name == "avx2") return Isa::avx2;
  if (name == "avx512") return Isa::avx512;
  throw Error(ErrorCode::usage, "CORE_ISA is '" + std::string(name) + "', but must be baseline, avx2 or avx512");
}

Isa isa() {
  static const Isa level = std::min(highest(), cap());
  return level;
}

bool multiplies_bf16() {
#if defined(__x86_64__)
  static const bool answer = isa() == Isa::avx512 && __builtin_cpu_supports("avx512bf16");
  return answer;
#else
  return false;
#endif
}

bool spreads_bytes() {
#if defined(__x86_64__)
  static const bool answer = isa() == Isa::avx512 && __builtin_cpu_supports("avx512vbmi2");
  return answer;
#else
  return false;
#endif
}

bool multiplies_tiles() {
#if defined(__x86_64__)
  static const bool answer = [] {
    const char* cap = std::getenv("CORE_ISA");
    return multiplies_bf16() && (cap == nullptr || *cap == '\0') && asks_for_tiles();
  }();
  return answer;
#else
  return false;
#endif
}

}  // namespace core::cpu
