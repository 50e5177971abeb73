#pragma once
// A training run of any number of parts: networks, optimizers, schedules, averages of the weights, numbers of the
// program. Each has the name that it gets in the file, as PyTorch programs save it:
//   {'epoch': 3, 'step': 2814, 'generator': OrderedDict, 'optimizer_g': {'state': ..., 'param_groups': ...},
//    'scheduler': {...}, 'best': 0.93, 'rng_state': uint8 tensor, 'cuda_rng_state': [...], 'extra': {...}}
// Thread safety: none. The parts are referred to, not copied, and must outlive it.
// Use: ckpt::TrainingParts parts; parts.add("model", model).add("optimizer", optimizer).add("best", best);

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "libckpt/value.h"
#include "libcore/module/module.h"
#include "libcore/optim/optimizer.h"
#include "libcore/optim/options.h"

namespace ckpt {

/// Schedules, and whatever else keeps its state as options.
template <class S>
concept HasOptionState = requires(S& part, const S& same, const core::OptionMap& state) {
  { same.state_dict() } -> std::same_as<core::OptionMap>;
  part.load_state_dict(state);
};

class TrainingParts {
 public:
  // Each: Error(usage) for a name that another part has, or the run itself: epoch, step, rng_state, cuda_rng_state,
  // extra.
  TrainingParts& add(const std::string& name, core::Module& module);
  /// Its state goes to its parameters by name where one of the modules has them (see resume_training()).
  TrainingParts& add(const std::string& name, core::Optimizer& optimizer);
  template <HasOptionState S>
  TrainingParts& add(const std::string& name, S& schedule) {
    return add_options(
        name, [&schedule] { return schedule.state_dict(); },
        [&schedule](const core::OptionMap& state) { schedule.load_state_dict(state); });
  }
  // Variables of the program: saved as they are at the time, set when the run is resumed. Error(type) then, with the
  // name, where the file has another kind of value; a float takes an int.
  TrainingParts& add(const std::string& name, bool& variable);
  TrainingParts& add(const std::string& name, std::int64_t& variable);
  TrainingParts& add(const std::string& name, double& variable);
  TrainingParts& add(const std::string& name, std::string& variable);
  TrainingParts& add(const std::string& name, Value& variable);
  /// Anything else: what `save` gives is what `load` gets.
  TrainingParts& add(const std::string& name, std::function<Value()> save, std::function<void(const Value&)> load);

  struct Plain {
    std::function<Value()> save;
    std::function<void(const Value&)> load;
  };
  struct Part {
    std::string name;
    std::variant<core::Module*, core::Optimizer*, Plain> what;
  };
  /// In the order in which they were added, which is that of the file.
  const std::vector<Part>& parts() const { return parts_; }
  std::vector<const core::Module*> modules() const;

 private:
  TrainingParts& add_options(const std::string& name, std::function<core::OptionMap()> save,
                             std::function<void(const core::OptionMap&)> load);
  TrainingParts& add_part(const std::string& name, std::variant<core::Module*, core::Optimizer*, Plain> what);
  std::vector<Part> parts_;
};

}  // namespace ckpt
