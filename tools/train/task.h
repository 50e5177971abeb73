#pragma once
// Task: what is learnt. It hands out batches, computes the loss of one and evaluates the model; the Trainer does the
// rest. Two of them: rows with a target (a class or a value), and characters of a text.
// Thread safety: none. Use: auto task = train::make_task(options, data); task->begin_epoch(); task->next();
//   task->forward().loss.backward();

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/device.h"
#include "libcore/module/module.h"
#include "tools/train/data_sets.h"
#include "tools/train/lora.h"
#include "tools/train/options.h"
#include "tools/train/text_data.h"
#include "zoo/zoo.h"

namespace train {

struct Evaluation {
  double loss = 0;                 ///< mean
  std::optional<double> accuracy;  ///< 0 .. 1, where the target is a class
  std::int64_t right = 0, rows = 0;
};

/// One batch.
struct Outcome {
  core::Tensor loss;   ///< 0-dim, with history
  core::Tensor right;  ///< 0-dim, how many were right; undefined where the target is no class
  std::int64_t rows = 0;
};

class Task {
 public:
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// What is trained: the model, or DataParallel around it.
  virtual core::Module& module() = 0;
  /// The model itself.
  virtual core::Module& model() = 0;
  /// What learns beside a model that stays as it is; none where the model itself learns.
  virtual const Lora* lora() const { return nullptr; }
  /// Batches an epoch has.
  virtual std::int64_t steps() const = 0;
  /// Draws the order of an epoch from the default generator of the CPU.
  virtual void begin_epoch() = 0;
  /// Goes to the next batch; false at the end of the epoch.
  virtual bool next() = 0;
  /// The loss of the batch.
  virtual Outcome forward() = 0;
  /// The model on the rows it does not learn from; none where there are none.
  virtual std::optional<Evaluation> evaluate() = 0;

 protected:
  Task() = default;
};

/// The loss of the batch, in mixed precision where the options ask for it: on the CPU by the lists of operations that
/// PyTorch has for the CPU, elsewhere by those for CUDA. Errors: those of Task::forward().
Outcome forward(Task& task, const RunOptions& o);

/// Where the model goes: none for the CPU without DataParallel. "cpu"; "all"; "2"; "cuda:1,cuda:0"; "": all there are.
/// A number of devices that are not there makes logical devices on host memory. Errors: Error(usage) for anything else;
/// Error(device) for one that is not there. REQUIRES: no tensor is on a logical device.
std::vector<core::Device> choose_devices(const std::string& text);

/// A model for rows like those of `data`, freshly drawn, on the CPU. Errors: those of zoo::make(); Error(usage) for a
/// model that does not take such rows, with what helps.
std::shared_ptr<core::Module> make_model(const RunOptions& options, const DataSet& data);
/// False for models of the zoo that are asked for something else than an image.
bool classifies_images(const zoo::Model& model);
/// Before any data are read. "" is a model yet to be chosen. Errors: those of zoo::make(); Error(usage) for a model of
/// the zoo that learns nothing from rows.
void check_learns_rows(const std::string& model);
/// A model that continues texts of `symbols` different characters.
std::shared_ptr<core::Module> make_text_model(const RunOptions& options, std::int64_t symbols);

/// REQUIRES: options that fill_in() completed; `data` outlives the task.
std::unique_ptr<Task> make_task(const RunOptions& options, const DataSet& data);
/// Blocks of tokens, of which the folder's model is to say each by those before it.
std::unique_ptr<Task> make_language_task(const RunOptions& options, const DataSet& data);
/// Gives the beginnings of the rows of a batch of the `step`-th call (from 1), below `limit`.
using Offsets = std::function<std::vector<std::int64_t>(std::int64_t step, std::int64_t limit)>;
/// Without `offsets` they are drawn from the default generator.
std::unique_ptr<Task> make_text_task(const RunOptions& options, const TextData& text, Offsets offsets = {});

}  // namespace train
