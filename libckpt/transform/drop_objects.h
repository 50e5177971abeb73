#pragma once
// drop_objects: a tree without some of its objects. Thread safety: pure.
// Use: Value plain = drop_objects(root, list_foreign_objects(root));

#include <vector>

#include "libckpt/objects.h"
#include "libckpt/value.h"

namespace ckpt {

/// An object leaves a dict with its key; in a list or tuple None stands in its place.
Value drop_objects(const Value& root, const std::vector<ForeignObject>& objects);

}  // namespace ckpt
