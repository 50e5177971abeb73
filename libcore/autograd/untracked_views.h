#pragma once
// Views whose base autograd need not know, because nobody keeps them: the samples that a DataLoader copies into a batch
// as soon as the dataset has given them. Such a view counts as one made without history: changing it in place in a way
// that would have to be recorded is PyTorch's error for these.
// Thread safety: each thread has its own scope. Use: const core::detail::UntrackedViews scope;

namespace core::detail {

extern thread_local constinit bool views_are_untracked;

/// Views of tensors without history, for the rest of the scope.
class UntrackedViews {
 public:
  UntrackedViews() : before_(views_are_untracked) { views_are_untracked = true; }
  ~UntrackedViews() { views_are_untracked = before_; }
  UntrackedViews(const UntrackedViews&) = delete;
  UntrackedViews& operator=(const UntrackedViews&) = delete;

 private:
  bool before_;
};

}  // namespace core::detail
