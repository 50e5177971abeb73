#pragma once
// Foreign objects of a pickle turned into plain data: numpy scalars into numbers, arrays into tensors, objects with a
// dict of attributes into that dict, paths into text; what is none of these becomes its own text.
// Thread safety: pure. Use: Value plain = plain_objects(root, {"argparse.Namespace"});

#include <string>
#include <vector>

#include "libckpt/value.h"

namespace ckpt::detail {

/// Replaces every object, dict class and tensor class whose symbol is in `symbols`, at any depth. Tensors keep their
/// bytes; everything else keeps its order.
Value plain_objects(const Value& root, const std::vector<std::string>& symbols);

}  // namespace ckpt::detail
