#pragma once
// EntryReplacements: new entries for old ones, put into a tree in one walk. Internal to transforms. Thread safety: one
// owner. Use: EntryReplacements replaced; replaced.replace(entry, fresh); root = replaced.apply(root);

#include <memory>
#include <unordered_map>

#include "libckpt/entry.h"
#include "libckpt/transform/tree_map.h"

namespace ckpt::detail {

class EntryReplacements {
 public:
  void replace(const EntryPtr& old, EntryPtr fresh) { fresh_[old.get()] = std::move(fresh); }
  bool empty() const { return fresh_.empty(); }
  Value apply(const Value& root) const {
    if (fresh_.empty()) return root;
    Map map(fresh_);
    return map.map(root);
  }

 private:
  using Table = std::unordered_map<const Entry*, EntryPtr>;

  class Map final : public TreeMap {
   public:
    explicit Map(const Table& fresh) : fresh_(fresh) {}

   protected:
    Value map_tensor(const Value& tensor) override {
      auto found = fresh_.find(&tensor.as_entry());
      return found == fresh_.end() ? tensor : Value::tensor(found->second);
    }

   private:
    const Table& fresh_;
  };

  Table fresh_;
};

}  // namespace ckpt::detail
