#pragma once
// Whether operations record history: torch.no_grad, set_grad_enabled, inference_mode.
// Thread safety: the mode is per thread; worker threads start enabled. Use: { core::NoGradGuard guard; w.add_(1); }

namespace core {

bool is_grad_enabled();
bool is_inference_mode();

/// Sets the mode for a scope.
class GradModeGuard {
 public:
  explicit GradModeGuard(bool enabled);
  ~GradModeGuard();
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  bool previous_;
};

class NoGradGuard : public GradModeGuard {
 public:
  NoGradGuard() : GradModeGuard(false) {}
};

class EnableGradGuard : public GradModeGuard {
 public:
  EnableGradGuard() : GradModeGuard(true) {}
};

/// No history, and results say is_inference(). With false: the ordinary mode again, for a scope inside such a scope.
class InferenceModeGuard {
 public:
  explicit InferenceModeGuard(bool enabled = true);
  ~InferenceModeGuard();
  InferenceModeGuard(const InferenceModeGuard&) = delete;
  InferenceModeGuard& operator=(const InferenceModeGuard&) = delete;

 private:
  GradModeGuard grad_;
  bool previous_;
};

}  // namespace core
