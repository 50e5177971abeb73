#include "libckpt/delta/delta.h"

#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "libckpt/analyze/digest.h"
#include "libckpt/delta/difference_source.h"
#include "libckpt/delta/foretold_source.h"
#include "libckpt/delta/passing_hash.h"
#include "libckpt/delta/target_check.h"
#include "libckpt/format/read_checkpoint.h"
#include "libckpt/io/hash_text.h"
#include "libckpt/io/word_planes.h"
#include "libckpt/late_texts.h"
#include "libckpt/transform/entry_map.h"
#include "libckpt/view_key.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kPrefix = "ckpt.delta.";
constexpr std::string_view kBase = "ckpt.delta.base";
constexpr std::string_view kTarget = "ckpt.delta.target";
constexpr std::string_view kMarks = "ckpt.delta.tensors";

/// kBits: of versions before 1.6 of the native format.
constexpr char kDifference = 's', kBits = 'd', kForetold = 'p', kTied = 't', kWhole = 'w';

std::string name_of(const Checkpoint& checkpoint, std::string_view role) {
  return checkpoint.path.empty() ? "the " + std::string(role) : core::quote(checkpoint.path.string());
}

const std::string* text_of(const Checkpoint& checkpoint, std::string_view key) {
  for (const auto& [name, text] : checkpoint.metadata) {
    if (name == key) return &text;
  }
  return nullptr;
}

/// Hashes of sources that a save reads.
class HashesOfSources {
 public:
  /// The hash of a source is null where it is computed already: one that two tensors have goes by twice.
  std::shared_ptr<detail::PassingHash> add(const SourcePtr& source) {
    const auto [at, is_new] = of_.try_emplace(source.get());
    if (is_new) at->second = std::make_shared<detail::PassingHash>(source->size());
    return is_new ? at->second : nullptr;
  }
  std::optional<Hash128> find(const Entry& entry) const {
    if (entry.conjugate || entry.negative) return std::nullopt;  // its values are not those of the source
    const auto at = of_.find(entry.bytes.get());
    return at == of_.end() ? std::nullopt : at->second->found();
  }

 private:
  std::unordered_map<const ByteSource*, std::shared_ptr<detail::PassingHash>> of_;
};

Hash128 digest_of(const Checkpoint& checkpoint, const DeltaOptions& options, const HashesOfSources* hashes = nullptr) {
  DigestOptions how{.threads = options.threads, .progress = options.progress};
  if (hashes != nullptr) how.known = [hashes](const Entry& entry) { return hashes->find(entry); };
  auto compute = [&] { return digest(checkpoint.root, how).model; };
  return checkpoint.path.empty() ? compute() : core::with_context(checkpoint.path.string(), compute);
}

bool is_row_major(const Entry& entry) {
  std::int64_t step = 1;
  for (std::size_t d = entry.shape.size(); d-- > 0;) {
    if (entry.shape[d] != 1 && entry.view->strides[d] != step) return false;
    step *= entry.shape[d];
  }
  return true;
}

/// The tensor is all there is of its storage, in order: the bytes of both are the same.
bool covers_storage(const Entry& entry) {
  if (!entry.view) return true;
  const SourcePtr& all = entry.view->storage->bytes;
  return all != nullptr && all->size() == entry.byte_size() && entry.view->offset == 0 && is_row_major(entry);
}

/// Both are values of one kind, so that their bits can be compared.
bool fits(const Entry& a, const Entry& b) {
  const bool flags = a.conjugate || a.negative || b.conjugate || b.negative;
  return a.bytes != nullptr && b.bytes != nullptr && !flags && a.byte_size() == b.byte_size() &&
         type_name(a) == type_name(b) && value_shape(a) == value_shape(b);
}

/// The numbers that are subtracted: elements, or the two parts of complex ones.
std::uint32_t word_width(const Entry& entry) {
  const int bits = core::bit_width(entry.dtype) / (core::is_complex(entry.dtype) ? 2 : 1);
  const auto width = static_cast<std::uint32_t>(bits / 8);
  return bits % 8 == 0 && is_word_width(width) && entry.byte_size() % width == 0 ? width : 1;
}

using Names = std::unordered_map<std::string, EntryPtr>;

Names names_of(const Value& root) {
  Names names;
  for (NamedEntry& named : list_entries(root)) names.emplace(std::move(named.name), std::move(named.entry));
  return names;
}

/// Replaces tensors of a tree by their difference to those of the same name elsewhere, and back. What looks into one
/// storage goes on doing so: the first tensor of a storage says what becomes of it.
class Differences {
 public:
  /// `hashes`: of what is read where the result is saved; null where nobody asks.
  Differences(const Value& root, const Checkpoint& base, HashesOfSources* hashes = nullptr)
      : root_(root), base_(names_of(base.root)), base_file_(base.path.string()), hashes_(hashes) {}

  /// With the letters that say what was done.
  Value make(std::string& marks) {
    for (const NamedEntry& named : list_entries(root_)) marks += mark(named);
    return replaced_.apply(root_);
  }
  /// As the letters say. `check` may be null.
  Value apply(const std::string& marks, std::shared_ptr<detail::TargetCheck> check) {
    check_ = std::move(check);
    std::vector<NamedEntry> entries = list_entries(root_);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (mark(entries[i], marks[i]) == marks[i]) continue;
      throw Error(ErrorCode::corrupt, core::quote(entries[i].name) + " does not fit the record of the delta");
    }
    return replaced_.apply(root_);
  }

 private:
  /// What became of memory that tensors share: its new bytes, none where it stays.
  struct Known {
    char mark = kWhole;
    SourcePtr bytes;
    std::shared_ptr<const Storage> storage;
    std::map<detail::ViewKey, SourcePtr> windows;
  };

  /// Does what `wanted` says, or what can be done, and says what it was.
  char mark(const NamedEntry& named, std::optional<char> wanted = std::nullopt) {
    const void* identity = storage_identity(*named.entry);
    if (identity == nullptr) return kWhole;
    auto [found, is_new] = known_.try_emplace(identity);
    Known& known = found->second;
    if (is_new) {
      auto other = base_.find(named.name);
      const bool can = other != base_.end() && covers_storage(*named.entry) && fits(*named.entry, *other->second);
      if (!can || (wanted && !compares(*named.entry, *wanted))) return kWhole;
      known.mark = wanted ? *wanted : best_mark(*named.entry, *other->second);
      start(named, *other->second, wanted.has_value(), known);
    }
    if (known.bytes == nullptr) return kWhole;
    replaced_.replace(named.entry, replacement(*named.entry, known));
    return is_new ? known.mark : kTied;
  }

  /// A tensor marked so is the difference to that of the base.
  static bool compares(const Entry& entry, char mark) {
    return mark == kDifference || mark == kBits || (mark == kForetold && parts_of(entry).bytes > 0);
  }

  static detail::ForetoldParts parts_of(const Entry& entry) {
    return entry.dtype == core::DType::bf16 ? detail::foretold_parts(entry.shape) : detail::ForetoldParts{};
  }

  char best_mark(const Entry& entry, const Entry& other) const {
    if (parts_of(entry).bytes == 0) return kDifference;
    return detail::foretelling_pays(*other.bytes, *entry.bytes) ? kForetold : kDifference;
  }

  void start(const NamedEntry& named, const Entry& other, bool apply, Known& known) const {
    const Entry& entry = *named.entry;
    const std::uint32_t width = word_width(entry);
    const detail::ForetoldParts parts = known.mark == kForetold ? parts_of(entry) : detail::ForetoldParts{};
    detail::PassingHashes passing;
    if (hashes_ != nullptr) passing = {hashes_->add(other.bytes), hashes_->add(entry.bytes)};
    if (apply) {
      const detail::Adding how{width, known.mark == kBits, parts.bytes, named.name};
      known.bytes = detail::sum_source(other.bytes, entry.bytes, how, base_file_, check_);
    } else if (parts.bytes > 0) {
      known.bytes = detail::foretold_source(other.bytes, entry.bytes, parts, base_file_, passing);
    } else {
      known.bytes = detail::difference_source(other.bytes, entry.bytes, width, base_file_, passing);
    }
    if (!entry.view) return;
    Storage storage = *entry.view->storage;
    storage.bytes = known.bytes;
    known.storage = std::make_shared<const Storage>(std::move(storage));
  }

  static EntryPtr replacement(const Entry& entry, Known& known) {
    auto out = std::make_shared<Entry>(entry);
    if (!entry.view) {
      out->bytes = known.bytes;
      return out;
    }
    out->view->storage = known.storage;
    SourcePtr& window = known.windows[detail::view_key(entry)];
    if (window == nullptr) window = covers_storage(entry) ? known.bytes : gather(*out->view, out->dtype, out->shape);
    out->bytes = window;
    return out;
  }

  const Value& root_;
  Names base_;
  std::string base_file_;
  HashesOfSources* hashes_;
  std::shared_ptr<detail::TargetCheck> check_;
  std::unordered_map<const void*, Known> known_;
  detail::EntryReplacements replaced_;
};

void require_base(const Hash128& wanted, const Hash128& found, const std::string& delta, const std::string& base) {
  if (wanted == found) return;
  throw DigestError(delta + " was made for a checkpoint with the digest " + to_hex(wanted) + ", and " + base + " has " +
                    to_hex(found));
}

/// The digests of a difference, of what was read of both when it was saved.
class DigestsOfBoth final : public detail::LateTexts {
 public:
  DigestsOfBoth(Checkpoint base, Checkpoint target, DeltaOptions options)
      : base_(std::move(base)), target_(std::move(target)), options_(std::move(options)) {}

  HashesOfSources hashes;

  void put(Metadata& metadata) const override {
    const std::lock_guard lock(mutex_);
    if (!known_) known_ = {digest_of(base_, options_, &hashes), digest_of(target_, options_, &hashes)};
    for (auto& [key, text] : metadata) {
      if (key == kBase) text = to_hex(known_->first);
      if (key == kTarget) text = to_hex(known_->second);
    }
  }

 private:
  Checkpoint base_;
  Checkpoint target_;
  DeltaOptions options_;
  mutable std::mutex mutex_;
  mutable std::optional<std::pair<Hash128, Hash128>> known_;
};

/// The tree of the delta. A lone tensor, which has no name, may have got one where that was saved; as it is the
/// difference to a lone one, it had none.
Value tree_of(const Checkpoint& base, const Checkpoint& delta, const DeltaFacts& facts) {
  const bool is_named = base.root.is(Value::Kind::tensor) && delta.root.is(Value::Kind::dict);
  if (!is_named || facts.marks.size() != 1 || facts.compared != 1) return delta.root;
  const auto& items = delta.root.as_dict().items;
  return items.size() == 1 && items[0].second.is(Value::Kind::tensor) ? items[0].second : delta.root;
}

/// As if the base were the right one.
Checkpoint apply_known(const Checkpoint& base, const Checkpoint& delta, const DeltaFacts& facts,
                       const std::shared_ptr<detail::TargetCheck>& check) {
  Checkpoint out;
  out.path = delta.path;  // at fault where its bytes are damaged
  const Value tree = tree_of(base, delta, facts);
  out.root =
      core::with_context(name_of(delta, "delta"), [&] { return Differences(tree, base).apply(facts.marks, check); });
  for (const auto& item : delta.metadata) {
    if (!item.first.starts_with(kPrefix)) out.metadata.push_back(item);
  }
  return out;
}

/// `check`: of what comes out of the last; may be null.
Checkpoint apply_all(const Checkpoint& base, const std::vector<Checkpoint>& deltas,
                     const std::vector<DeltaFacts>& facts, const std::shared_ptr<detail::TargetCheck>& check) {
  Checkpoint out = base;
  for (std::size_t i = 0; i < deltas.size(); ++i) {
    out = apply_known(out, deltas[i], facts[i], i + 1 == deltas.size() ? check : nullptr);
  }
  return out;
}

}  // namespace

Checkpoint make_delta(const Checkpoint& base, const Checkpoint& target, const DeltaOptions& options) {
  detail::refuse_delta(base);
  detail::refuse_delta(target);
  std::string marks;
  Checkpoint out;
  const auto digests = std::make_shared<DigestsOfBoth>(base, target, options);
  out.root = Differences(target.root, base, options.digests_when_saved ? &digests->hashes : nullptr).make(marks);
  out.path = target.path;  // at fault where its bytes are damaged
  out.metadata = {
      {std::string(kBase), to_hex(Hash128())}, {std::string(kTarget), to_hex(Hash128())}, {std::string(kMarks), marks}};
  out.metadata.insert(out.metadata.end(), target.metadata.begin(), target.metadata.end());
  if (options.digests_when_saved) {
    out.detail = digests;
  } else {
    digests->put(out.metadata);
  }
  return out;
}

bool is_delta(const Checkpoint& checkpoint) {
  return text_of(checkpoint, kBase) != nullptr;
}

DeltaFacts delta_facts(const Checkpoint& delta) {
  return delta_counts(detail::with_late_texts(delta));
}

DeltaFacts delta_counts(const Checkpoint& delta) {
  if (!is_delta(delta)) throw Error(ErrorCode::usage, name_of(delta, "checkpoint") + " is no delta");
  const std::string *base = text_of(delta, kBase), *target = text_of(delta, kTarget), *marks = text_of(delta, kMarks);
  std::optional<Hash128> from = hash_from_hex(*base);
  std::optional<Hash128> to = target == nullptr ? std::nullopt : hash_from_hex(*target);
  const std::size_t tensors = list_entries(delta.root).size();
  if (!from || !to || marks == nullptr || marks->size() != tensors) {
    throw Error(ErrorCode::corrupt, "the record of what this is the difference to is damaged");
  }
  DeltaFacts facts{*from, *to, tensors, 0, *marks};
  for (char mark : facts.marks) facts.compared += mark == kWhole ? 0 : 1;
  return facts;
}

Checkpoint open_delta(const std::filesystem::path& path, const OpenOptions& options) {
  Checkpoint delta = detail::read_checkpoint(path, options);
  core::with_context(path.string(), [&] { return delta_facts(delta); });
  return delta;
}

Checkpoint apply_delta(const Checkpoint& base, const Checkpoint& delta, const DeltaOptions& options) {
  return apply_deltas(base, {delta}, options);
}

Checkpoint apply_deltas(const Checkpoint& base, const std::vector<Checkpoint>& deltas, const DeltaOptions& options) {
  detail::refuse_delta(base);
  std::vector<DeltaFacts> facts;
  for (const Checkpoint& delta : deltas) facts.push_back(delta_facts(delta));
  for (std::size_t i = 1; i < deltas.size(); ++i) {
    require_base(facts[i].base, facts[i - 1].target, name_of(deltas[i], "delta"),
                 "what comes out of " + name_of(deltas[i - 1], "delta before"));
  }
  if (deltas.empty()) return base;
  DeltaOptions how = options;
  if (options.check_target) how.progress = {};  // who asked may be gone when the result is saved
  const auto look_at_base = [base, how, wanted = facts[0].base, first = name_of(deltas[0], "delta")] {
    require_base(wanted, digest_of(base, how), first, name_of(base, "base"));
  };
  if (!options.check_target) {
    look_at_base();
    return apply_all(base, deltas, facts, nullptr);
  }
  const std::string made_of = name_of(base, "base") + " by " + name_of(deltas.back(), "delta");
  const auto check = std::make_shared<detail::TargetCheck>(facts.back().target, made_of, look_at_base);
  try {
    Checkpoint out = apply_all(base, deltas, facts, check);
    check->expect(list_entries(out.root), options.threads);
    if (!check->has_sources()) check->require_base();
    return out;
  } catch (const Error&) {
    check->require_base();
    throw;
  }
}

namespace detail {

void refuse_delta(const Checkpoint& checkpoint) {
  if (!is_delta(checkpoint)) return;
  throw Error(ErrorCode::refused, "this is the difference to a checkpoint with the digest " +
                                      *text_of(detail::with_late_texts(checkpoint), kBase) +
                                      ", and no checkpoint; 'ckpt delta apply BASE FILE -o OUT' makes one of both");
}

}  // namespace detail
}  // namespace ckpt
