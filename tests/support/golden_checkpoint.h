#pragma once
// Compares a checkpoint that was read with the manifest of its golden file.
// Use: run.check(m.id, test::compare_tensors(m, ckpt::open(m.file)).empty(), ...).

#include <string>

#include "libckpt/checkpoint.h"
#include "tests/support/manifest.h"

namespace test {

/// "" when names (in order), dtypes, shapes and the SHA-256 of the logical bytes are those of the manifest, else the
/// first difference. Tensors of special kinds (sparse, quantized, ...) are left out on both sides.
std::string compare_tensors(const Manifest& manifest, const ckpt::Checkpoint& checkpoint);

}  // namespace test
