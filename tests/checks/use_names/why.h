#pragma once
// What the `Use:` lines inside libckpt/analyze/why take as given: a file, what it is wanted for, and the diagnosis so
// far.

#include <iostream>
#include <string>
#include <vector>

#include "libckpt/analyze/why/attempt.h"
#include "libckpt/analyze/why/file_causes.h"
#include "libckpt/analyze/why/leftover_causes.h"
#include "libckpt/analyze/why/name_causes.h"
#include "libckpt/analyze/why/shape_causes.h"
#include "libckpt/analyze/why/trees.h"

namespace ckpt::detail::user {

extern const Checkpoint checkpoint;
extern const Value root;
extern const Dict dict;
extern const Candidate candidate;
extern const std::filesystem::path path;
extern const SourcePtr file;
extern const std::string head;  // of the file
extern const core::Error error;

extern const KeyList wanted;
extern const KeyTable table;  // of what is wanted
extern const std::vector<FileKey> file_keys;
extern const std::vector<RulePack> packs;
extern const KnownPacks known_packs;
extern const Nearest nearest;
extern const Kinship kinship;
extern const KeyRule rule;

extern Diagnosis diagnosis;
extern Attempt attempt;
extern const WhyOptions options;
extern const FileContext context;
extern const ErrorFacts facts;

}  // namespace ckpt::detail::user
