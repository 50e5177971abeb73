#pragma once
// Work: a collective that is under way. Thread safety: as std::shared_ptr; several threads may wait.
// Use: core::distributed::Work work = core::distributed::all_reduce(t, {.async_op = true}); compute(); work.wait();

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

namespace core::distributed {

namespace detail {

/// What the thread of a collective and those that wait for it share. It ends once: with a result, or an error.
class WorkState {
 public:
  /// False when it had ended already.
  bool end(std::exception_ptr error);
  bool has_ended() const;
  void wait();
  /// Run once, by the first that waits, after a good end: brings results to where they belong.
  void set_finish(std::function<void()> finish) { finish_ = std::move(finish); }

 private:
  void conclude();
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::exception_ptr error_;
  std::function<void()> finish_;
};

}  // namespace detail

class Work {
 public:
  /// Of a rank that has no part in it.
  Work() = default;
  explicit Work(std::shared_ptr<detail::WorkState> state) : state_(std::move(state)) {}
  /// Until the results are there. Errors: those of the collective, as a sentence that names it and who is to blame.
  void wait() const {
    if (state_) state_->wait();
  }
  bool done() const { return !state_ || state_->has_ended(); }

 private:
  std::shared_ptr<detail::WorkState> state_;
};

}  // namespace core::distributed
