#include "libckpt/format/sieve.h"

#include <optional>
#include <unordered_map>

#include "libckpt/hint.h"
#include "libckpt/io/parallel_io.h"
#include "libckpt/io/read_fault.h"
#include "libckpt/sequence_of.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

struct Judgement {
  std::string fault;           ///< of the tensor's own bytes
  std::optional<Hint> hint;    ///< what would help against it
  bool storage_fault = false;  ///< of the storage it looks into
};

/// What the limits refuse to read cannot be kept either.
std::string keeping_fault(const ByteSource& source, std::optional<Hint>* hint = nullptr) {
  try {
    return read_fault(source);
  } catch (const core::Error& error) {
    if (error.code() != core::ErrorCode::refused) throw;
    if (hint != nullptr) *hint = hint_of(error);
    return error.message();
  }
}

Judgement judge(const Entry& entry) {
  Judgement made;
  if (entry.bytes != nullptr) made.fault = keeping_fault(*entry.bytes, &made.hint);
  if (made.fault.empty() && entry.view && entry.view->storage->bytes != nullptr) {
    made.storage_fault = !keeping_fault(*entry.view->storage->bytes).empty();
  }
  return made;
}

/// The tree without lost tensors. What was one node stays one node.
class Sieve {
 public:
  explicit Sieve(const std::unordered_map<const Entry*, Judgement>& judgements) : judgements_(judgements) {}

  /// nullopt for a tensor that is lost.
  std::optional<Value> keep(const Value& value) {
    if (value.identity() == nullptr) return value;
    if (auto known = done_.find(value.identity()); known != done_.end()) return known->second;
    std::optional<Value> made = make(value);
    done_.emplace(value.identity(), made);
    return made;
  }

 private:
  std::optional<Value> make(const Value& value) {
    if (value.is(Value::Kind::tensor)) return tensor(value);
    if (value.is_sequence()) return sequence(value);
    if (value.is(Value::Kind::dict)) return dict(value);
    if (value.is(Value::Kind::object)) return object(value);
    return value;
  }

  Value keep_or_null(const Value& value) { return keep(value).value_or(Value()); }

  std::optional<Value> tensor(const Value& value) {
    auto at = judgements_.find(&value.as_entry());
    if (at == judgements_.end()) return value;
    if (!at->second.fault.empty()) return std::nullopt;
    if (!at->second.storage_fault) return value;
    auto alone = std::make_shared<Entry>(value.as_entry());
    alone->view.reset();
    return Value::tensor(std::move(alone));
  }

  Value sequence(const Value& value) {
    Value::List items;
    for (const Value& item : value.as_list()) items.push_back(keep_or_null(item));
    return sequence_of(value.kind(), std::move(items));
  }

  Value dict(const Value& value) {
    Dict made = value.as_dict();
    std::vector<std::pair<Value, Value>> items;
    for (auto& [key, child] : made.items) {
      if (std::optional<Value> kept = keep(child)) items.emplace_back(key, std::move(*kept));
    }
    made.items = std::move(items);
    made.attributes = keep_or_null(made.attributes);
    made.constructor_args = keep_or_null(made.constructor_args);
    return Value::dict(std::move(made));
  }

  Value object(const Value& value) {
    Object made = value.as_object();
    for (Value* part : {&made.args, &made.kwargs, &made.state}) *part = keep_or_null(*part);
    for (Value& item : made.appended) item = keep_or_null(item);
    for (auto& [key, child] : made.items) child = keep_or_null(child);
    return Value::object(std::move(made));
  }

  const std::unordered_map<const Entry*, Judgement>& judgements_;
  std::unordered_map<const void*, std::optional<Value>> done_;
};

}  // namespace

Sieved sieve(const Checkpoint& checkpoint, unsigned threads, const Progress& progress) {
  std::vector<NamedEntry> entries = list_entries(checkpoint.root);
  std::unordered_map<const Entry*, Judgement> judgements;
  Sieved out;
  std::uint64_t total = 0;
  for (const NamedEntry& named : entries) total += named.entry->bytes == nullptr ? 0 : named.entry->byte_size();
  std::uint64_t done = 0;
  ckpt::run_in_order<Judgement>(
      entries.size(), {thread_count(threads), UINT64_MAX}, [](std::size_t) { return std::uint64_t{1}; },
      [&](std::size_t i) { return judge(*entries[i].entry); },
      [&](std::size_t i, Judgement judgement) {
        if (judgement.fault.empty()) {
          ++out.tensors;
        } else {
          out.lost.push_back({entries[i].name, judgement.fault, judgement.hint});
        }
        judgements.insert_or_assign(entries[i].entry.get(), std::move(judgement));
        done += entries[i].entry->bytes == nullptr ? 0 : entries[i].entry->byte_size();
        if (progress) progress(done, total);
      });
  bool changed = !out.lost.empty();
  for (const auto& [entry, judgement] : judgements) changed = changed || judgement.storage_fault;
  out.root = changed ? Sieve(judgements).keep(checkpoint.root).value_or(Value()) : checkpoint.root;
  return out;
}

}  // namespace ckpt::detail
