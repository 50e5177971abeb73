#include "libcore/backend/cpu/isa.h"

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

}  // namespace core::cpu
