#include "libckpt/transform/drop_objects.h"

#include <unordered_set>

#include "libckpt/transform/tree_map.h"

namespace ckpt {
namespace {

class ObjectDropper final : public detail::TreeMap {
 public:
  explicit ObjectDropper(std::unordered_set<const void*> dropped) : dropped_(std::move(dropped)) {}

 protected:
  Value map_object(const Value& object) override { return goes(object) ? Value() : object; }
  Value map_tensor(const Value& tensor) override { return goes(tensor) ? Value() : tensor; }

  bool edit_dict(const Value& node, Dict& dict) override {
    const auto& before = node.as_dict().items;
    std::vector<std::pair<Value, Value>> kept;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (!goes(before[i].second)) kept.push_back(std::move(dict.items[i]));
    }
    dict.items = std::move(kept);
    return dict.items.size() != before.size();
  }

 private:
  bool goes(const Value& value) const { return dropped_.contains(value.identity()); }

  std::unordered_set<const void*> dropped_;
};

}  // namespace

Value drop_objects(const Value& root, const std::vector<ForeignObject>& objects) {
  std::unordered_set<const void*> nodes;
  for (const ForeignObject& object : objects) nodes.insert(object.node);
  return ObjectDropper(std::move(nodes)).map(root);
}

}  // namespace ckpt
