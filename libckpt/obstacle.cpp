#include "libckpt/obstacle.h"

#include <utility>

#include "libckpt/checkpoint.h"
#include "libckpt/entry.h"
#include "libcore/base/text.h"

namespace ckpt {

using Kind = Obstacle::Kind;

std::string describe(const Obstacle& obstacle) {
  return core::quote(obstacle.subject) + " (" + obstacle.reason + ")";
}

Obstacle top_obstacle(const Value& root, std::string_view wanted) {
  return {"", Kind::top, "the top is not " + std::string(wanted) + " but a value of type " + type_text(root)};
}

Obstacle key_obstacle(std::string subject, const Value& key) {
  return {std::move(subject), Kind::key, "a key of type " + type_text(key)};
}

Obstacle name_obstacle(std::string subject, std::string_view what) {
  return {std::move(subject), Kind::name, "a name " + std::string(what)};
}

Obstacle nested_dict_obstacle(std::string subject) {
  return {std::move(subject), Kind::nested_dict, "a nested dict; its tensors would get names with dots"};
}

Obstacle value_obstacle(std::string subject, const Value& value) {
  return {std::move(subject), Kind::value, "a value of type " + type_text(value)};
}

Obstacle python_class_obstacle(std::string subject, const Entry& entry) {
  return {std::move(subject), Kind::attribute, "the tensor subclass " + entry.python_class};
}

Obstacle dtype_obstacle(std::string subject, core::DType dtype) {
  return {std::move(subject), Kind::dtype, "dtype " + std::string(core::name(dtype)), dtype};
}

Obstacle no_data_obstacle(std::string subject) {
  return {std::move(subject), Kind::no_data, "a tensor without data (meta)"};
}

Obstacle pending_obstacle(std::string subject) {
  return {std::move(subject), Kind::pending, "a tensor whose conjugation or negation is pending"};
}

}  // namespace ckpt
