#pragma once
// Splits and fuses: tensors of one file that are several of the other behind each other, as q, k and v are in one.
// Only parts whose values tell them apart count; what lies beside them (their biases) may follow. Internal to align.
// Thread safety: one owner. Use: match_parts(pairing); follow_parts(pairing, trees, options);

#include "libckpt/analyze/align_modules.h"
#include "libckpt/analyze/align_pairing.h"

namespace ckpt::detail {

/// Takes every cut that the values of all parts prove.
void match_parts(Pairing& pairing);

struct ModuleTrees {
  ModuleTree a;
  ModuleTree b;
};

/// Takes cuts of tensors that prove nothing, in modules of which another tensor was cut by its values: the same parts
/// of the same relative sizes, by their names.
void follow_parts(Pairing& pairing, const ModuleTrees& trees, const AlignOptions& options);

}  // namespace ckpt::detail
