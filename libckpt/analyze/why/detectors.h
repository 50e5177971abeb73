#pragma once
// All detectors over the keys of one dict, in the order in which their causes are told and cured.
// Thread safety: pure. Use: Attempt attempt = attempt_all(candidate, table, known_packs, nearest);

#include <string>

#include "libckpt/analyze/why/shape_causes.h"
#include "libckpt/analyze/why/trees.h"

namespace ckpt::detail {

inline constexpr double kSameModel = 0.9;  ///< share of shapes from which on a file is said to be a known model

/// `nearest` is asked only where the file may be of another model; what it names comes first then, without a fix.
Attempt attempt_all(const Candidate& candidate, const KeyTable& wanted, const KnownPacks& packs,
                    const Nearest& nearest);

/// The known model that the shapes are of, "" where they are as much those of the target. Of models with the same
/// shapes the one with the file's names.
std::string other_known_model(const WhyOptions& options, const Dict& dict, const KeyList& target);

}  // namespace ckpt::detail
