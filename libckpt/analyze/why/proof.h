#pragma once
// The test that a diagnosis goes through before it promises anything: its plan is applied to the names, shapes and
// versions of the file, and what comes out is put to the rules of load_state_dict.
// Thread safety: pure. Use: prove(diagnosis, checkpoint, wanted); if (diagnosis.proven) ...

#include "libckpt/analyze/why.h"

namespace ckpt::detail {

/// Where nothing that is missing does harm: what is there is all that counts.
Match all_of(const Match& match);

/// Sets proven, missing, unexpected and mismatched. Steps that turn out to be needless go.
void prove(Diagnosis& diagnosis, const Checkpoint& file, const KeyList& wanted);

/// Where nobody says what the file is for: what the plan leaves has to be a dict of tensors.
void prove_alone(Diagnosis& diagnosis, const Checkpoint& file);

/// A cause for a file in which no dict holds tensors.
void add_no_state_dict(Diagnosis& diagnosis, const Value& root);

}  // namespace ckpt::detail
