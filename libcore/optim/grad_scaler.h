#pragma once
// Scaling of losses for f16, whose small gradients would be lost: as torch.amp.GradScaler. The loss is multiplied
// before backward(), the gradients are divided before the step, which is left out where one is infinite or NaN;
// update() then halves the scale, and doubles it after `growth_interval` good steps. bf16 needs none of this. Thread
// safety: none; one thread trains. An optimizer is known by its address: it must not be moved between scale() and
// update(). Use: core::GradScaler scaler("cuda"); scaler.scale(loss).backward(); scaler.step(optimizer);
// scaler.update();

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "libcore/optim/optimizer.h"
#include "libcore/tensor/tensor.h"

namespace core {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  ///< good steps in a row after which the scale grows
  bool enabled = true;  ///< false: scale() gives what it gets, step() is the optimizer's, nothing else happens
};

class GradScaler {
 public:
  using Options = GradScalerOptions;
  /// `device_type`: "cuda", where it is disabled with PyTorch's warning without a device, or "cpu". Errors(assertion):
  /// "The growth factor must be > 1.0.", "The backoff factor must be < 1.0."
  explicit GradScaler(std::string_view device_type = "cuda", const Options& options = {});

  /// The loss times the scale, with history, on its own device. A loss of f16 becomes f32 by it.
  Tensor scale(const Tensor& output);
  std::vector<Tensor> scale(const std::vector<Tensor>& outputs);

  /// Divides the gradients of the optimizer by the scale, for who looks at them or clips them before step(). Errors: "
  /// unscale_() has already been called on this optimizer since the last update()." (runtime), "Attempting to unscale
  /// FP16 gradients." (value), "Attempted unscale_ but _scale is None. ..." (assertion).
  void unscale_(Optimizer& optimizer);
  /// unscale_(), where it was not called, and the optimizer's step unless a gradient is infinite or NaN. True where the
  /// step was made. Errors: "step() has already been called since the last update()." (runtime), "No inf checks were
  /// recorded for this optimizer." (assertion) where no parameter has a gradient. On a GPU it waits for the gradients.
  bool step(Optimizer& optimizer);
  /// The next scale, after step() of every optimizer. Errors(assertion): "No inf checks were recorded prior to update."
  void update();
  /// The same with a scale of one's own.
  void update(double new_scale);
  /// Error(assertion) "new_scale should be a float or a 1-element ...", Error(runtime) where it has dimensions: "output
  /// with shape [] doesn't match the broadcast shape [1]".
  void update(const Tensor& new_scale);

  /// 1 where it is disabled.
  double get_scale() const { return enabled_ ? scale_ : 1; }
  bool is_enabled() const { return enabled_; }
  double get_growth_factor() const { return options_.growth_factor; }
  void set_growth_factor(double factor) { options_.growth_factor = factor; }
  double get_backoff_factor() const { return options_.backoff_factor; }
  void set_backoff_factor(double factor) { options_.backoff_factor = factor; }
  std::int64_t get_growth_interval() const { return options_.growth_interval; }
  void set_growth_interval(std::int64_t steps) { options_.growth_interval = steps; }

  /// scale, growth_factor, backoff_factor, growth_interval, _growth_tracker: PyTorch's names. Empty where it is
  /// disabled.
  OptionMap state_dict() const;
  /// Error(runtime) "The source state dict is empty, possibly because it was saved from a disabled instance of
  /// GradScaler."; Error(key) with the name of what is missing. Disabled, it does nothing.
  void load_state_dict(const OptionMap& state);

 private:
  enum class Stage : std::uint8_t { ready, unscaled, stepped };
  struct PerOptimizer {
    Stage stage = Stage::ready;
    std::vector<Tensor> found_inf;  ///< for each device, 1 where a gradient is infinite or NaN
    std::optional<bool> is_bad;     ///< of all devices, once asked
  };

  void check_was_used(const char* function) const;
  bool is_bad(PerOptimizer& state) const;
  void grow(bool found_inf);

  Options options_;
  bool enabled_;
  bool was_used_ = false;  // scale() was called
  float scale_;
  std::int64_t growth_tracker_ = 0;
  std::map<const Optimizer*, PerOptimizer> optimizers_;
};

}  // namespace core
