#pragma once
// Objects that contain themselves. A tree cannot hold them, so the object is carried inside a label and every place
// inside that leads back to it holds a reference with the label's number. Settings of OmegaConf need it: each node
// knows its parent. Thread safety: pure. Use: value = make_label(0, object); if (auto n = reference_number(value)) ...

#include <optional>

#include "libckpt/value.h"

namespace ckpt {

/// The object `inner`, to which references with this number lead.
Value make_label(std::int64_t number, Value inner);
Value make_reference(std::int64_t number);

struct Label {
  std::int64_t number = 0;
  const Object* object = nullptr;
};
/// What make_label() made, else nullopt.
std::optional<Label> as_label(const Object& object);
/// The number in what make_reference() made, else nullopt.
std::optional<std::int64_t> reference_number(const Object& object);

}  // namespace ckpt
