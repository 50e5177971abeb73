#pragma once
// What the `Use:` lines inside libckpt/analyze take as given: two checkpoints and what was found between them.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "libckpt/analyze/align_parts.h"
#include "libckpt/analyze/align_places.h"
#include "libckpt/analyze/align_rules.h"
#include "libckpt/analyze/diff_verdict.h"
#include "libckpt/analyze/key_list.h"
#include "libckpt/analyze/name_patterns.h"
#include "libckpt/analyze/plan.h"
#include "libckpt/analyze/stats_loops.h"

namespace ckpt::detail::user {

extern const Checkpoint a, b;
extern const std::vector<NamedEntry> in_a, in_b, entries;
extern const Entry entry, other;
extern const Dict dict;
extern const KeyList model;
extern const std::vector<ValuePair> tensors;  // of both
extern const Seen seen;
extern const DiffResult result;
extern const unsigned threads;

extern const AlignOptions options;
extern Pairing pairing;
extern const ModuleTree tree;
extern const ModuleTrees trees;
extern const Layouts layouts;
extern const Side side;
extern const std::vector<NameEdit> edits;
extern const Matching matching;
extern const std::size_t i, k, n;  // indexes of tensors

extern const std::vector<NamePair> pairs;
extern const std::vector<ManyNames> group;
extern const std::vector<std::string> all, some;  // names
extern const std::vector<PlanTensor> parameters;
extern const std::uint64_t rows, columns;  // of a matrix
extern const std::function<void(std::uint64_t first, std::uint64_t count, double* out)> read;
extern const std::string path;

extern const core::DType dtype;
extern const Bytes bytes;
extern const std::span<double> numbers, x, y;
extern Moments moments;
extern const unsigned parts;
extern const Tolerance tolerance;
extern ValueDifference out;
extern const std::function<void(std::uint64_t)> tick;

}  // namespace ckpt::detail::user
