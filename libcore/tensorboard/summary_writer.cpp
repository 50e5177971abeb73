#include "libcore/tensorboard/summary_writer.h"

#include <algorithm>
#include <ctime>

#include "libcore/base/error.h"
#include "libcore/module/forward_trace.h"
#include "libcore/tensorboard/event_file.h"
#include "libcore/tensorboard/graph.h"
#include "libcore/tensorboard/summaries.h"
#include "libcore/tensorboard/wire.h"

namespace core::tensorboard {
namespace {

constexpr std::int64_t kStart = 1;  // SessionLog.START

/// runs/Nov28_10-20-30_HOST. Names of months do not follow the locale.
std::string folder_by_time(const std::string& comment) {
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t seconds = std::time(nullptr);
  std::tm local = {};
  ::localtime_r(&seconds, &local);
  char rest[32];
  std::strftime(rest, sizeof rest, "%d_%H-%M-%S", &local);
  return std::string("runs/") + kMonths[local.tm_mon] + rest + "_" + host_name() + comment;
}

std::string as_event(const std::string& summary) {
  std::string fields;
  wire::bytes(fields, 5, summary);
  return fields;
}

double number_in(const Tensor& value) {
  if (value.numel() == 1) return value.detach().to_vector<double>().front();
  throw Error(ErrorCode::assertion,
              "Tensor should contain one element (0 dimensions). Was given size: " + std::to_string(value.numel()) +
                  " and " + std::to_string(value.dim()) + " dimensions.");
}

}  // namespace

SummaryWriter::SummaryWriter() : SummaryWriter(std::string()) {}

SummaryWriter::SummaryWriter(std::string log_dir, SummaryWriterOptions options)
    : log_dir_(log_dir.empty() ? folder_by_time(options.comment) : std::move(log_dir)), options_(std::move(options)) {
  file();
}

SummaryWriter::~SummaryWriter() = default;  // each file closes itself, with a warning

EventFile& SummaryWriter::file_in(const std::string& folder) {
  std::unique_ptr<EventFile>& file = files_[folder];
  if (!file) {
    file = std::make_unique<EventFile>(folder, options_.max_queue, options_.flush_secs, options_.filename_suffix);
  }
  return *file;
}

EventFile& SummaryWriter::file() {
  EventFile& own = file_in(log_dir_);
  if (!options_.purge_step) return own;
  const std::int64_t step = *std::exchange(options_.purge_step, std::nullopt);
  std::string version, log, session;
  wire::bytes(version, 3, "brain.Event:2");
  wire::integer(log, 1, kStart);
  wire::bytes(session, 7, log);
  own.add(version, step, {});
  own.add(session, step, {});
  return own;
}

void SummaryWriter::add(const std::string& summary, Step step, Seconds walltime) {
  file().add(as_event(summary), step, walltime);
}

void SummaryWriter::add_scalar(const std::string& tag, double value, Step global_step, Seconds walltime) {
  add(scalar_summary(tag, value), global_step, walltime);
}

void SummaryWriter::add_scalar(const std::string& tag, const Tensor& value, Step global_step, Seconds walltime) {
  add_scalar(tag, number_in(value), global_step, walltime);
}

void SummaryWriter::add_scalars(const std::string& main_tag, const Metrics& values, Step global_step,
                                Seconds walltime) {
  const double time = walltime.value_or(now());
  std::string folder = main_tag;
  std::replace(folder.begin(), folder.end(), '/', '_');
  file();
  for (const auto& [tag, value] : values) {
    file_in(log_dir_ + "/" + folder + "_" + tag).add(as_event(scalar_summary(main_tag, value)), global_step, time);
  }
}

void SummaryWriter::add_histogram(const std::string& tag, const Tensor& values, Step global_step,
                                  const HistogramOptions& options) {
  add(histogram_summary(tag, values, options), global_step, options.walltime);
}

void SummaryWriter::add_image(const std::string& tag, const Tensor& image, Step global_step,
                              const ImageOptions& options) {
  const std::string formats = options.dataformats.empty() ? "CHW" : options.dataformats;
  add(image_summary(tag, image, formats), global_step, options.walltime);
}

void SummaryWriter::add_images(const std::string& tag, const Tensor& images, Step global_step,
                               const ImageOptions& options) {
  const std::string formats = options.dataformats.empty() ? "NCHW" : options.dataformats;
  add(image_summary(tag, images, formats), global_step, options.walltime);
}

void SummaryWriter::add_text(const std::string& tag, const std::string& text, Step global_step, Seconds walltime) {
  add(text_summary(tag, text), global_step, walltime);
}

void SummaryWriter::add_graph(Module& model, const Tensor& input, Seconds walltime) {
  add_graph(model, {{"input", input}}, {}, walltime);
}

void SummaryWriter::add_graph(Module& model, const std::vector<std::pair<std::string, Tensor>>& inputs,
                              const std::function<std::vector<Tensor>(Module&, const std::vector<Tensor>&)>& forward,
                              Seconds walltime) {
  std::string fields;
  wire::bytes(fields, 4, graph_of(model, trace_forward(model, inputs, forward)));
  file().add(fields, {}, walltime);
}

void SummaryWriter::add_hparams(const Hparams& hparams, const Metrics& metrics, const HparamsOptions& options) {
  const std::string experiment = experiment_summary(hparams, metrics, options);
  file();
  const std::string name = options.run_name.empty() ? std::to_string(now()) : options.run_name;
  SummaryWriter run(log_dir_ + "/" + name);
  run.add(experiment, options.global_step, {});
  run.add(session_start_summary(hparams), options.global_step, {});
  run.add(session_end_summary(), options.global_step, {});
  for (const auto& [tag, value] : metrics) run.add_scalar(tag, value, options.global_step);
  run.close();
}

void SummaryWriter::flush() {
  for (auto& [folder, file] : files_) file->flush();
}

void SummaryWriter::close() {
  for (auto& [folder, file] : files_) file->close();
  files_.clear();
}

std::string SummaryWriter::file_path() const {
  const auto own = files_.find(log_dir_);
  return own == files_.end() ? std::string() : own->second->path();
}

}  // namespace core::tensorboard
