#pragma once
// Verification of torch archives: every record against its CRC-32. Thread safety: pure.
// Use: check_records(archive, progress, result);

#include "libckpt/format/torch/torch_archive.h"

namespace ckpt {

/// Adds damage to `result` for each record whose CRC-32 is not the recorded one, and counts storages and bytes. Code of
/// a TorchScript archive that is compressed is not inflated and not compared.
void check_records(const TorchArchive& archive, const Progress& progress, VerifyResult& result);

}  // namespace ckpt
