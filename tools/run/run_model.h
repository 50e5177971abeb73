#pragma once
// A model of the zoo ready to run: made to the measure of a file, loaded, on its device, in evaluation mode.
// Thread safety: one thread. Use: RunModel model = prepare_model(options); core::Tensor y = call_model(model, x);

#include <memory>
#include <string>
#include <vector>

#include "libcore/module/module.h"
#include "tools/run/inputs.h"
#include "tools/run/labels.h"
#include "tools/run/run_options.h"
#include "zoo/zoo.h"

namespace cli {

struct RunModel {
  const zoo::Model* model = nullptr;  ///< its row in the zoo
  std::shared_ptr<zoo::Model> own;    ///< that row, of a model that comes from a folder
  std::string source;                 ///< "net.pth", or "drawn with seed 0"
  std::shared_ptr<core::Module> module;
  core::Device device;
  Expected expected;
  zoo::Answer answer = zoo::Answer::values;
  std::vector<std::string> labels;       ///< names of the classes, where a folder has them
  core::DType dtype = core::DType::f32;  ///< of what it takes, where that has a point
  std::vector<std::string> steps;        ///< what was done to the file's tensors; "made for 10 classes"
  Vocabulary vocabulary{{}};             ///< of a text model, where the file has one
};

/// Errors: Error(usage) for options that contradict each other and for unknown names, with what is near; Error(device)
/// for a device that is not there; those of zoo::fit() and zoo::load_into(), which say what does not fit.
RunModel prepare_model(const RunOptions& options);

/// The same where nothing is to be run on yet.
RunModel prepare_model_alone(const RunOptions& options);

/// "cpu", "cuda", "cuda:1". Error(usage) for other words, Error(device) for one that is not there.
core::Device device_of(const std::string& name);

/// The main output for `x`, on the CPU. Error(unsupported) when the model cannot take a tensor of this shape.
core::Tensor call_model(RunModel& model, const core::Tensor& x);

}  // namespace cli
