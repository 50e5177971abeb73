#pragma once
// What the processor can run: the only place that asks it. Kernels are compiled once for each level (cpu_variants() in
// CMakeLists.txt beside this file), and which copy runs is chosen here. Part of core_base, so that libckpt's loops ask
// here too. Thread safety: all functions. Use: if (core::cpu::isa() >= core::cpu::Isa::avx2) ...

#include <string_view>

namespace core::cpu {

/// Levels of instruction sets, each with everything of those before it.
enum class Isa {
  baseline,  ///< what every processor of the architecture has
  avx2,      ///< AVX2 and FMA
  avx512,    ///< AVX-512 F, VL, DQ and BW
};

/// The highest level whose every instruction the processor has and the operating system keeps the registers of, but
/// none above what the environment variable CORE_ISA names. Asked once. Error(usage): CORE_ISA names no level.
Isa isa();

/// Whether the processor multiplies bf16 and sums in f32 (AVX512_BF16), and isa() is the highest level.
bool multiplies_bf16();

/// Whether the processor spreads bytes by a mask (AVX512_VBMI2), and isa() is the highest level.
bool spreads_bytes();

/// Whether the one that multiplies bf16 also multiplies tiles of it (AMX-BF16), the operating system keeps them for
/// this process, and CORE_ISA names no level: AMX is above all of them.
bool multiplies_tiles();

/// The level of that name; Error(usage) for any other text.
Isa isa_named(std::string_view name);

/// Of one function compiled for each level, the one to run.
template <class Function>
Function by_isa(Function baseline, Function avx2, Function avx512) {
  const Isa level = isa();
  return level == Isa::avx512 ? avx512 : level == Isa::avx2 ? avx2 : baseline;
}

// CORE_EACH_ISA(declaration) declares what is compiled once for each level, in the namespaces baseline, avx2 and
// avx512; CORE_BY_ISA(f) is the copy to run, CORE_BY_ISA_TO_AVX2(f) that of a function without one for AVX-512. Other
// architectures than x86-64 have a baseline alone.
#if defined(__x86_64__)
#define CORE_EACH_ISA(...) \
  namespace baseline {     \
  __VA_ARGS__;             \
  }                        \
  namespace avx2 {         \
  __VA_ARGS__;             \
  }                        \
  namespace avx512 {       \
  __VA_ARGS__;             \
  }
#define CORE_BY_ISA(function) ::core::cpu::by_isa(baseline::function, avx2::function, avx512::function)
#define CORE_BY_ISA_TO_AVX2(function) ::core::cpu::by_isa(baseline::function, avx2::function, avx2::function)
#else
#define CORE_EACH_ISA(...) \
  namespace baseline {     \
  __VA_ARGS__;             \
  }
#define CORE_BY_ISA(function) (baseline::function)
#define CORE_BY_ISA_TO_AVX2(function) (baseline::function)
#endif

}  // namespace core::cpu
