#pragma once
// The plain values of a checkpoint (epochs, learning rates, names) with their dotted names, and a short text for each.
// Thread safety: pure. Use: for (auto& v : ckpt::list_plain_values(root)) std::cout << ckpt::value_text(v.value);

#include <string>
#include <vector>

#include "libckpt/value.h"

namespace ckpt {

struct NamedValue {
  std::string name;  ///< dotted, as in list_entries()
  Value value;
};

class JsonWriter;

/// All leaves that are no tensors, in file order; containers only when they are empty, objects that hold a tensor as
/// the text of their symbol, with what they hold behind.
std::vector<NamedValue> list_plain_values(const Value& root);

/// Never throws for what a file holds, and neither do the others here. As Python prints it, on one line and cut to
/// `max` bytes: 3, 0.001, 'text', [1, 2], torch.Size([2, 3]).
std::string value_text(const Value& value, std::size_t max = 80);

/// 3, 0.001, "text", null; what JSON cannot say (nan, a list) is text as value_text() has it.
void write_value(JsonWriter& json, const Value& value);
/// {"name": "epoch", "type": "int", "value": 3}.
void write_json(JsonWriter& json, const NamedValue& value);

}  // namespace ckpt
