#include "libckpt/analyze/digest.h"

#include <algorithm>
#include <numeric>

#include "libckpt/analyze/content_hash.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

constexpr std::string_view kTensor = "ckpt digest 1 tensor\n";
constexpr std::string_view kBranch = "ckpt digest 1 branch\n";

void append_digest(core::ByteVector& to, const Hash128& digest) {
  core::append_le(to, core::byte_swap(digest.high));
  core::append_le(to, core::byte_swap(digest.low));
}

Hash128 tensor_digest(const Entry& entry, const Hash128& content) {
  core::ByteVector text;
  core::append(text, core::as_bytes(kTensor));
  core::append(text, core::as_bytes(type_name(entry)));
  text.push_back(std::byte{0});
  core::append_le<std::uint64_t>(text, value_shape(entry).size());
  for (std::int64_t size : value_shape(entry)) core::append_le(text, static_cast<std::uint64_t>(size));
  text.push_back(entry.bytes == nullptr ? std::byte{0} : std::byte{1});
  append_digest(text, entry.bytes == nullptr ? Hash128() : content);
  return hash128(Bytes(text));
}

struct Child {
  std::string_view component;
  std::uint8_t kind;  ///< 0 a tensor, 1 a branch
  Hash128 digest;
};

Hash128 branch_digest(std::vector<Child>& children) {
  std::sort(children.begin(), children.end(), [](const Child& a, const Child& b) {
    return std::tuple(a.component, a.kind, a.digest.high, a.digest.low) <
           std::tuple(b.component, b.kind, b.digest.high, b.digest.low);
  });
  core::ByteVector text;
  core::append(text, core::as_bytes(kBranch));
  for (const Child& child : children) {
    core::append_le<std::uint64_t>(text, child.component.size());
    core::append(text, core::as_bytes(child.component));
    text.push_back(std::byte{child.kind});
    append_digest(text, child.digest);
  }
  return hash128(Bytes(text));
}

/// A tensor as the tree sees it.
struct Leaf {
  std::vector<std::string_view> components;
  const DigestResult::Tensor* tensor;
};

/// A branch that is being built: all leaves of a run that share their first components.
struct Open {
  std::string_view component;
  std::vector<Child> children;
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
};

/// Builds the tree over leaves in the order of their components with a stack of open branches, so that deep names need
/// no deep recursion.
class TreeBuilder {
 public:
  TreeBuilder(DigestResult& result, std::size_t depth) : result_(result), depth_(depth) { open_.push_back({}); }

  void add(const Leaf& leaf) {
    std::size_t inner = leaf.components.size() - 1;
    std::size_t same = 0;
    while (same < inner && same + 1 < open_.size() && open_[same + 1].component == leaf.components[same]) ++same;
    close_to(same);
    for (std::size_t i = same; i < inner; ++i) open_.push_back({leaf.components[i], {}});
    open_.back().children.push_back({leaf.components.back(), 0, leaf.tensor->digest});
    ++open_.back().tensors;
    open_.back().bytes += leaf.tensor->entry->byte_size();
  }

  Hash128 finish() {
    close_to(0);
    std::sort(result_.branches.begin(), result_.branches.end(),
              [](const auto& a, const auto& b) { return core::split(a.name, '.') < core::split(b.name, '.'); });
    return branch_digest(open_.front().children);
  }

 private:
  void close_to(std::size_t level) {
    while (open_.size() > level + 1) {
      Open done = std::move(open_.back());
      Hash128 hash = branch_digest(done.children);
      if (open_.size() - 1 <= depth_) note(done, hash);
      open_.pop_back();
      open_.back().children.push_back({done.component, 1, hash});
      open_.back().tensors += done.tensors;
      open_.back().bytes += done.bytes;
    }
  }

  void note(const Open& branch, const Hash128& hash) {
    std::vector<std::string> path;
    for (std::size_t i = 1; i < open_.size(); ++i) path.emplace_back(open_[i].component);
    path.back() = branch.component;
    result_.branches.push_back({core::join(path, "."), branch.tensors, branch.bytes, hash});
  }

  DigestResult& result_;
  std::size_t depth_;
  std::vector<Open> open_;
};

}  // namespace

DigestResult digest(const std::vector<NamedEntry>& entries, const DigestOptions& options) {
  std::vector<Hash128> contents = detail::content_hashes(entries, {options.threads, options.progress, options.known});
  DigestResult out;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = *entries[i].entry;
    out.tensors.push_back({entries[i].name, entries[i].entry, contents[i], tensor_digest(entry, contents[i])});
    out.bytes += entry.byte_size();
  }
  std::vector<Leaf> leaves;
  for (const DigestResult::Tensor& tensor : out.tensors) leaves.push_back({core::split(tensor.name, '.'), &tensor});
  std::sort(leaves.begin(), leaves.end(), [](const Leaf& a, const Leaf& b) { return a.components < b.components; });
  TreeBuilder builder(out, options.depth);
  for (const Leaf& leaf : leaves) builder.add(leaf);
  out.model = builder.finish();
  return out;
}

DigestResult digest(const Value& root, const DigestOptions& options) {
  return digest(list_entries(root), options);
}

}  // namespace ckpt
