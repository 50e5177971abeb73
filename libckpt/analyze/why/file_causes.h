#pragma once
// Causes that lie in the file whatever the model: pickled objects, nesting, device tags, dtypes, optimizers.
// Thread safety: pure. Use: add_before_names(diagnosis, context); ... add_behind_names(diagnosis, context);

#include "libckpt/analyze/why/trees.h"

namespace ckpt::detail {

/// What the causes of one file are found from.
struct FileContext {
  const WhyInput& input;
  const WhyOptions& options;
  const ErrorFacts& facts;
  const Candidate* chosen = nullptr;  ///< where the keys lie, null when nowhere
  Match at_top;                       ///< with what the file has at the top
  Match in_chosen;
  bool same_place = false;  ///< the wanted keys were taken from a dict at the same place
};

/// Foreign globals, pickled modules, nested dicts.
void add_before_names(Diagnosis& diagnosis, const FileContext& context);
/// Device tags, dtypes, shared tensors, optimizer groups.
void add_behind_names(Diagnosis& diagnosis, const FileContext& context);

/// "320 tensors under 'state_dict', saved on cuda:3, optimizer present (205 MiB of 307 MiB)".
std::string describe_file(const Value& root, const Candidate* chosen);

}  // namespace ckpt::detail
