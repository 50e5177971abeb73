#include "libckpt/format/pickle_arrays/paddle_slices.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/entry.h"
#include "libckpt/format/corrupt.h"
#include "libckpt/format/pickle_arrays/array_tensors.h"
#include "libckpt/io/joined_source.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using ValueKind = Value::Kind;

constexpr std::string_view kTable = "UnpackBigParamInfor@@";

class SliceJoiner {
 public:
  SliceJoiner(const Dict& whole, const Value& table) : whole_(whole), table_(table) {
    for (const auto& [key, item] : whole.items) {
      if (key.is(ValueKind::text)) places_.emplace(key.as_text(), &item);
    }
  }

  Value join() {
    Dict out = whole_;
    std::vector<std::pair<Value, Value>> made;
    for (const auto& [key, item] : table_.as_dict().items) {
      if (!key.is(ValueKind::text)) corrupt("Paddle's table of slices has a name that is no text");
      made.emplace_back(key, core::with_context(core::quote(key.as_text(), 80), [&] { return whole_of(item); }));
    }
    for (const auto& [key, item] : made) {
      const std::string& name = key.as_text();
      if (places_.contains(name) && !taken_.contains(name)) {
        corrupt("the file has both " + core::quote(name, 80) + " and slices that make it");
      }
    }
    std::erase_if(out.items, [&](const auto& item) {
      return item.first.is(ValueKind::text) &&
             (item.first.as_text() == kTable || taken_.contains(item.first.as_text()));
    });
    for (auto& item : made) out.items.push_back(std::move(item));
    return Value::dict(std::move(out));
  }

 private:
  Value whole_of(const Value& item) {
    const Value* names = item.is(ValueKind::dict) ? item.find("slices") : nullptr;
    const Value* shape = item.is(ValueKind::dict) ? item.find("OriginShape") : nullptr;
    const bool said = names != nullptr && shape != nullptr && names->is(ValueKind::list) && !names->as_list().empty();
    if (!said) corrupt("Paddle's table of slices does not say which, and of what shape the whole is");
    auto entry = std::make_shared<Entry>();
    entry->shape = array_shape(*shape);
    std::vector<SourcePtr> parts;
    for (const Value& name : names->as_list()) parts.push_back(slice_of(name, *entry, parts.empty()));
    entry->bytes = joined(std::move(parts));
    require_size(*entry);
    return Value::tensor(std::move(entry));
  }

  SourcePtr slice_of(const Value& name, Entry& entry, bool first) {
    if (!name.is(ValueKind::text)) corrupt("Paddle's table of slices has a slice that is no name");
    const std::string quoted = core::quote(name.as_text(), 80);
    const auto found = places_.find(name.as_text());
    const Value* slice = found == places_.end() ? nullptr : found->second;
    if (slice == nullptr || !slice->is(ValueKind::tensor)) corrupt("its slice " + quoted + " is not in the file");
    if (!taken_.insert(name.as_text()).second) corrupt("its slice " + quoted + " is listed twice");
    if (first) entry.dtype = slice->as_entry().dtype;
    if (slice->as_entry().dtype != entry.dtype) corrupt("its slice " + quoted + " has another type than those before");
    return slice->as_entry().bytes;
  }

  static void require_size(const Entry& entry) {
    const std::optional<std::uint64_t> count = core::try_numel(entry.shape.span());
    if (count && core::byte_size(entry.dtype, *count) == entry.bytes->size()) return;
    corrupt("its slices have " + core::format_count(entry.bytes->size()) + " bytes, which do not make the shape " +
            core::to_list(entry.shape));
  }

  const Dict& whole_;
  const Value& table_;
  std::unordered_map<std::string_view, const Value*> places_;  ///< by their names
  std::unordered_set<std::string> taken_;                      ///< slices
};

}  // namespace

Value with_slices_joined(const Value& root) {
  const Value* table = root.is(ValueKind::dict) ? root.find(kTable) : nullptr;
  if (table == nullptr) return root;
  if (!table->is(ValueKind::dict)) corrupt("Paddle's table of slices is no dict");
  return SliceJoiner(root.as_dict(), *table).join();
}

}  // namespace ckpt::detail
