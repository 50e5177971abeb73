#pragma once
// SummaryWriter: what a training tells TensorBoard, in PyTorch's names. Values are in event files that `tensorboard
// --logdir runs` shows. Thread safety: one thread at a time; several writers, each in a thread of its own, are fine.
// Use: core::tensorboard::SummaryWriter writer("runs/first"); writer.add_scalar("loss", loss, i);

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {
class Module;
}

namespace core::tensorboard {

struct SummaryWriterOptions {
  /// Behind the name that a writer without a folder takes.
  std::string comment = {};
  /// What was written with this step or a later one, in earlier files of the folder, is hidden.
  std::optional<std::int64_t> purge_step = {};
  /// So many events are kept before they are written.
  std::int64_t max_queue = 10;
  /// An event that comes later than this after the last writing is written at once, with those before it.
  double flush_secs = 120;
  /// Behind the name of each file.
  std::string filename_suffix = {};
};

struct HistogramOptions {
  /// Seconds since 1970; the present where it is not given. So everywhere below.
  std::optional<double> walltime = {};
  /// Limits of the bins, ascending; none: PyTorch's 1,549, which grow by a tenth each.
  std::vector<double> bins = {};
  /// Neighbours are joined until there are about so many.
  std::optional<std::int64_t> max_bins = {};
};

struct ImageOptions {
  std::optional<double> walltime = {};
  /// What each dimension is: "CHW", "HWC", "HW"; with N several images, eight in a row. "" is the function's own.
  std::string dataformats = {};
};

struct HparamsOptions {
  /// Values that a parameter may have, by its name.
  std::map<std::string, std::vector<std::variant<bool, std::int64_t, double, std::string>>> domain_discrete = {};
  /// The folder below the writer's; the time where it is empty.
  std::string run_name = {};
  std::optional<std::int64_t> global_step = {};
};

using Step = std::optional<std::int64_t>;
using Seconds = std::optional<double>;
using HparamValue = std::variant<bool, std::int64_t, double, std::string>;
using Hparams = std::vector<std::pair<std::string, HparamValue>>;
using Metrics = std::vector<std::pair<std::string, double>>;

class EventFile;  // event_file.h

class SummaryWriter {
 public:
  /// In the folder runs/Nov28_10-20-30_HOST, which is made. Error(io) when a folder or file cannot be made.
  SummaryWriter();
  /// In a folder that is named; "" is that by time and host, as for SummaryWriter("", {.comment = "_large"}).
  explicit SummaryWriter(std::string log_dir, SummaryWriterOptions options = {});
  /// close(), with a warning in place of an error.
  ~SummaryWriter();
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  /// Error(io) "FILE: cannot be written: REASON" from each that follows, when the disk is full.
  void add_scalar(const std::string& tag, double value, Step global_step = {}, Seconds walltime = {});
  /// Error(assertion) unless it has one element.
  void add_scalar(const std::string& tag, const Tensor& value, Step global_step = {}, Seconds walltime = {});
  /// Several lines in one picture: each in a folder of its own, LOG_DIR/MAIN_TAG_NAME.
  void add_scalars(const std::string& main_tag, const Metrics& values, Step global_step = {}, Seconds walltime = {});
  /// Error(value) "The input has no element."; "The histogram is empty, ..." when no value is in a bin.
  void add_histogram(const std::string& tag, const Tensor& values, Step global_step = {},
                     const HistogramOptions& options = {});
  /// Values of 0 to 255 (uint8) or 0 to 1 (others), one, three or four channels, in the order "CHW".
  void add_image(const std::string& tag, const Tensor& image, Step global_step = {}, const ImageOptions& options = {});
  /// The same in the order "NCHW": all in one picture.
  void add_images(const std::string& tag, const Tensor& images, Step global_step = {},
                  const ImageOptions& options = {});
  /// Markdown.
  void add_text(const std::string& tag, const std::string& text, Step global_step = {}, Seconds walltime = {});
  /// The operations of one forward pass, within the modules that call them; the pass is run, without history, in the
  /// mode that the model has. Shown under "Graphs". Errors: those of the pass; Error(usage) while this thread traces.
  void add_graph(Module& model, const Tensor& input, Seconds walltime = {});
  /// The same for other calls: `forward` is given the inputs, which have names, and gives the outputs.
  void add_graph(Module& model, const std::vector<std::pair<std::string, Tensor>>& inputs,
                 const std::function<std::vector<Tensor>(Module& model, const std::vector<Tensor>& inputs)>& forward,
                 Seconds walltime = {});
  /// A run of its own below the folder, for TensorBoard's table of hyperparameters.
  void add_hparams(const Hparams& hparams, const Metrics& metrics, const HparamsOptions& options = {});

  /// What was added is in the files when it returns.
  void flush();
  /// flush(), and no file is open. What is added later goes to new files.
  void close();
  const std::string& get_logdir() const { return log_dir_; }
  /// The file that events go to; empty after close().
  std::string file_path() const;

 private:
  EventFile& file();
  EventFile& file_in(const std::string& folder);
  void add(const std::string& summary, Step step, Seconds walltime);

  std::string log_dir_;
  SummaryWriterOptions options_;
  std::map<std::string, std::unique_ptr<EventFile>> files_;
};

}  // namespace core::tensorboard
