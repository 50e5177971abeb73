#pragma once
// ckpt stat --spectral: the singular values of matrices.
// Thread safety: one thread. Use: add_spectral_options(command, options->spectral); print_spectral(out, report);

#include <cstdint>
#include <string>

#include "libckpt/analyze/matrix_stats.h"
#include "tools/ckpt/line/input.h"

namespace cli {

struct SpectralFlags {
  bool wanted = false;
  double time_limit = 60;
  std::uint64_t seed = 0;
  std::uint64_t exact = 512;
  double tolerance = -1;
  ckpt::SpectralOptions options() const;
};

/// --spectral, --time-limit, --seed, --exact, --rank-tolerance.
void add_spectral_options(CommandSpec command, SpectralFlags& flags);

/// A table, and what was left out.
void print_spectral(Output& out, const ckpt::SpectralReport& report, const SpectralFlags& flags);
std::string spectral_json(const Input& input, const ckpt::SpectralReport& report, const SpectralFlags& flags);

}  // namespace cli
