#pragma once
// Runs a loop compiled for the widest vectors of this processor. The body must be an always_inline call operator, so
// that it is compiled once for each instruction set; products and sums are fused only where it says std::fma.
// Thread safety: as the body. Use: run_wide([&]() CORE_INLINE_BODY { for (...) out[i] = in[i]; });

#define CORE_INLINE_BODY __attribute__((always_inline))

namespace core::cpu {

#if defined(__x86_64__)
template <class Body>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512"), gnu::noinline]] void run_avx512(
    const Body& body) {
  body();
}
template <class Body>
[[gnu::target("avx2,fma"), gnu::noinline]] void run_avx2(const Body& body) {
  body();
}
#endif

template <class Body>
void run_wide(const Body& body) {
#if defined(__x86_64__)
  static const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx512) return run_avx512(body);
  if (avx2) return run_avx2(body);
#endif
  body();
}

}  // namespace core::cpu
