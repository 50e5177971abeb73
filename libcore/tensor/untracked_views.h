#pragma once
// Views whose base autograd need not know, because nobody keeps them: the samples that a DataLoader copies into a batch
// as soon as the dataset has given them. Such a view counts as one made without history: changing it in place in a way
// that would have to be recorded is PyTorch's error for these. SpareViews lets the sample in the same place of the
// batch before become the new one: neither to end a view nor to make one must anybody count owners or find memory.
// Thread safety: each thread has its own scope; a SpareViews belongs to one thread at a time. Use:
// core::detail::SpareViews spare; const core::detail::UntrackedViews scope(&spare); spare.offer(old); old =
// data.get(i);

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core::detail {

/// Samples made of tensors and numbers alone, of which nothing else must be kept to keep the views.
template <class Sample>
constexpr bool kIsMadeOfViews = std::is_arithmetic_v<Sample> || std::is_same_v<Sample, Tensor>;
template <class A, class B>
constexpr bool kIsMadeOfViews<std::pair<A, B>> = kIsMadeOfViews<A>&& kIsMadeOfViews<B>;
template <class... T>
constexpr bool kIsMadeOfViews<std::tuple<T...>> = (kIsMadeOfViews<T> && ...);
/// Whether it is worth keeping them: a vector of numbers has no views.
template <class Sample>
constexpr bool kHasViews = kIsMadeOfViews<Sample> && !std::is_arithmetic_v<Sample>;

class SpareViews {
 public:
  /// Until the next call the tensors of `sample`, which stays where it is, may become views that are asked for.
  template <class Sample>
  void offer(Sample& sample) {
    count_ = 0;
    each_tensor(sample, [this](Tensor& tensor) {
      if (count_ < kParts) offered_[count_++] = &tensor;
    });
  }
  void offer_nothing() { count_ = 0; }

  /// An offered tensor on that storage which nobody else holds, to be described anew; undefined where there is none.
  Tensor take(const Storage& storage) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (is_free(*offered_[i], storage)) return std::move(*offered_[i]);
    }
    return {};
  }

  /// Ends the samples whose storage none of those just before them shared: what a dataset loads for one sample goes
  /// with it.
  template <class Sample>
  static void let_go(std::vector<Sample>& samples) {
    std::array<const void*, kParts> seen{};  // only compared
    std::size_t turn = 0;
    for (Sample& sample : samples) {
      each_tensor(sample, [&](Tensor& tensor) {
        const void* storage = tensor.defined() ? tensor.storage().id() : nullptr;
        for (const void* other : seen) {
          if (other == storage) return;
        }
        seen[turn++ % kParts] = storage;
        tensor = Tensor();
      });
    }
  }

 private:
  static constexpr std::size_t kParts = 4;  // of one sample that are looked at

  static bool is_free(const Tensor& tensor, const Storage& storage) {
    if (!tensor.defined() || tensor.storage().id() != storage.id()) return false;
    const TensorImpl& impl = *tensor.impl();
    return impl.use_count() == 1 && impl.autograd.load(std::memory_order_relaxed) == nullptr;
  }

  template <class F>
  static void each_tensor(Tensor& sample, F visit) {
    visit(sample);
  }
  template <class A, class B, class F>
  static void each_tensor(std::pair<A, B>& sample, F visit) {
    each_tensor(sample.first, visit);
    each_tensor(sample.second, visit);
  }
  template <class... T, class F>
  static void each_tensor(std::tuple<T...>& sample, F visit) {
    std::apply([&](T&... part) { (each_tensor(part, visit), ...); }, sample);
  }
  template <class T, class F>
  requires std::is_arithmetic_v<T>
  static void each_tensor(T&, F) {}

  std::array<Tensor*, kParts> offered_{};
  std::size_t count_ = 0;
};

extern thread_local constinit bool views_are_untracked;
extern thread_local constinit SpareViews* spare_views;  ///< for the views of this scope; may be null

/// Views of tensors without history, for the rest of the scope.
class UntrackedViews {
 public:
  explicit UntrackedViews(SpareViews* spare = nullptr)
      : before_(views_are_untracked), spare_before_(std::exchange(spare_views, spare)) {
    views_are_untracked = true;
  }
  ~UntrackedViews() {
    views_are_untracked = before_;
    spare_views = spare_before_;
  }
  UntrackedViews(const UntrackedViews&) = delete;
  UntrackedViews& operator=(const UntrackedViews&) = delete;

 private:
  bool before_;
  SpareViews* spare_before_;
};

}  // namespace core::detail
