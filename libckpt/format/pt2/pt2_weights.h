#pragma once
// The weights of an archive as PyTorch 2.8 and later write it: a list in JSON, and a record for every storage. Thread
// safety: pure. Use: Value weights = read_pt2_weights(zip, config, read_member);

#include <functional>
#include <string>
#include <unordered_set>

#include "libckpt/io/zip.h"
#include "libckpt/limits.h"
#include "libckpt/value.h"

namespace ckpt::detail {

inline constexpr std::string_view kPt2WeightsEnd = "_weights_config.json";

/// How a record's bytes are read, with its checksum compared, and how one that is a pickled tensor is.
struct Pt2Records {
  std::function<SourcePtr(const ZipMember& member)> bytes;
  std::function<Value(const ZipMember& member)> pickled;
};

/// A dict of tensors in the order of the list. Tensors of one record share its memory. Errors: Error(corrupt) naming
/// the tensor whose record is missing or too short, or whose description contradicts itself; Error(unsupported) for
/// layouts that are not strided and types that PyTorch did not have; Error(refused) for more than `limits` allow.
Value read_pt2_weights(const ZipArchive& zip, const ZipMember& config, const Pt2Records& records, const Limits& limits);

/// Names of the records that the archive's lists of weights and constants call raw values, and none a pickle. Lists
/// that cannot be read name none. Never throws for what the bytes say.
std::unordered_set<std::string> raw_pt2_records(const ZipArchive& zip, const Limits& limits);

}  // namespace ckpt::detail
