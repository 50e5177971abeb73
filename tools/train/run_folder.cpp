#include "tools/train/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "libckpt/bridge/module_state.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/atomic_folder.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/support/line_chart.h"

namespace train {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

constexpr const char* kStepsHead = "step,epoch,lr,loss\n";
constexpr const char* kEpochsHead = "epoch,step,lr,train_loss,train_accuracy,test_loss,test_accuracy\n";

/// Of a folder's model the folder's name.
std::string model_name(const RunOptions& o) {
  return fs::path(o.model).filename().string();
}

std::string optional_text(std::optional<double> value) {
  return value ? core::python_float(*value) : "";
}

/// The shortest text that reads back as the same float.
std::string float_text(float value) {
  char text[32];
  for (int digits = 6; digits <= 9; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, static_cast<double>(value));
    if (std::strtof(text, nullptr) == value) break;
  }
  return text;
}

std::string step_line(const Curve& curve, std::size_t step, std::int64_t epoch) {
  return std::to_string(step + 1) + "," + std::to_string(epoch) + "," + core::python_float(curve.rates[step]) + "," +
         float_text(curve.losses[step]) + "\n";
}

std::string epoch_line(const EpochRow& row) {
  return std::to_string(row.epoch) + "," + std::to_string(row.step) + "," + core::python_float(row.lr) + "," +
         core::python_float(row.loss) + "," + optional_text(row.accuracy) + "," +
         (row.test ? core::python_float(row.test->loss) + "," + optional_text(row.test->accuracy) : ",") + "\n";
}

std::string all_steps(const Trainer& trainer) {
  const Curve& curve = trainer.curve();
  std::string text = kStepsHead;
  std::size_t epoch = 0;
  for (std::size_t step = 0; step < curve.losses.size(); ++step) {
    while (epoch < curve.epochs.size() && static_cast<std::int64_t>(step) >= curve.epochs[epoch].step) ++epoch;
    text += step_line(curve, step, static_cast<std::int64_t>(epoch) + 1);
  }
  return text;
}

std::string all_epochs(const Trainer& trainer) {
  std::string text = kEpochsHead;
  for (const EpochRow& row : trainer.curve().epochs) text += epoch_line(row);
  return text;
}

bool is_state(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with("state_") && (path.extension() == ".ckpt" || path.extension() == ".pth");
}

/// What is replaced as a whole: a folder, or nothing yet, without folders in it, which no AtomicFolder removes.
bool is_replaced_whole(const fs::path& path) {
  std::error_code error;
  if (fs::is_symlink(path, error)) return false;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (entry.is_directory(error)) return false;
  }
  return true;
}

/// What somebody put beside the files of a run stays there.
void keep_others(const fs::path& old, const fs::path& made) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(old, error)) {
    const fs::path copy = made / entry.path().filename();
    if (!fs::exists(copy)) fs::copy(entry.path(), copy, fs::copy_options::copy_symlinks);
  }
}

/// Whoever looks, and a kill at any point, finds the old folder or the new one. Where somebody put a folder in it, or a
/// link in its place, the files are written one by one.
void write_whole(const fs::path& path, const std::function<void(const fs::path&)>& write) {
  if (!is_replaced_whole(path)) return write(path);
  ckpt::AtomicFolder folder(
      path, {.overwrite = true, .durable = false, .may_replace = [](std::string_view) { return true; }});
  write(folder.hidden());
  keep_others(path, folder.hidden());
  folder.commit();
}

}  // namespace

void write_text(const fs::path& path, const std::string& text) {
  ckpt::AtomicFile file(path, {.durable = false});
  file.write(core::as_bytes(text));
  file.commit();
}

/// A file that grows line by line.
class RunFolder::Csv {
 public:
  Csv(const fs::path& path, const std::string& so_far) : path_(path.string()) {
    write_text(path, so_far);
    fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd_ < 0) fail();
  }
  ~Csv() { ::close(fd_); }
  Csv(const Csv&) = delete;
  Csv& operator=(const Csv&) = delete;

  void add(const std::string& line) { waiting_ += line; }
  void flush() {
    const char* at = waiting_.data();
    for (std::size_t left = waiting_.size(); left > 0;) {
      const ssize_t written = ::write(fd_, at, left);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail();
      at += written;
      left -= static_cast<std::size_t>(written);
    }
    waiting_.clear();
  }

 private:
  [[noreturn]] void fail() const { throw Error(ErrorCode::io, path_ + ": " + std::strerror(errno)); }
  std::string path_, waiting_;
  int fd_ = -1;
};

void begin_run(const RunOptions& o, const RunNames& names, bool overwrite) {
  const fs::path folder = o.out;
  std::error_code error;  // a folder that cannot be looked into is refused where it is written to
  if (fs::equivalent(o.model, folder / "best", error)) {
    throw Error(ErrorCode::usage, "--out " + o.out + ": its best/ is the model that learns on; choose another --out");
  }
  if (fs::exists(folder / "config.toml", error) || !states_in(folder).empty()) {
    if (!overwrite) {
      throw Error(ErrorCode::usage, o.out + ": holds a run already; go on with it by `train resume " + o.out +
                                        "`, choose another --out, or replace it with --overwrite");
    }
    for (const fs::path& state : states_in(folder)) fs::remove(state);
    for (const char* format : {"ckpt", "pth", "safetensors"}) fs::remove(folder / ("best." + std::string(format)));
    fs::remove_all(folder / "best", error);
  }
  fs::create_directories(folder, error);
  if (error) throw Error(ErrorCode::io, o.out + ": " + error.message());
  write_config(folder, o);
  for (const auto& [file, text] : {std::pair("symbols.txt", names.symbols), std::pair("classes.txt", names.classes)}) {
    fs::remove(folder / file, error);
    if (!text.empty()) write_text(folder / file, text);
  }
}

void write_config(const fs::path& folder, const RunOptions& o) {
  write_text(folder / "config.toml", to_toml(o));
}

std::vector<fs::path> states_in(const fs::path& folder) {
  std::vector<fs::path> states;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (is_state(entry.path())) states.push_back(entry.path());
  }
  // By step: the number has at least eight digits, more where it needs them.
  const auto later = [](const fs::path& a, const fs::path& b) {
    const std::string x = a.stem().string(), y = b.stem().string();
    return x.size() != y.size() ? x.size() > y.size() : x > y;
  };
  std::sort(states.begin(), states.end(), later);
  return states;
}

fs::path resume_newest(Trainer& trainer, const fs::path& folder, const std::function<void(const std::string&)>& say) {
  const std::vector<fs::path> states = states_in(folder);
  if (states.empty())
    throw Error(ErrorCode::io, folder.string() + ": holds no state to go on from; `train fit --config " +
                                   (folder / "config.toml").string() + " --overwrite` begins the run again");
  for (const fs::path& state : states) {
    try {
      trainer.resume(state);
      return state;
    } catch (const Error& error) {
      const bool damaged = error.code() == ErrorCode::corrupt || error.code() == ErrorCode::io;
      if (!damaged || state == states.back()) throw;
      say(std::string(error.what()) + "; trying the state before it");
    }
  }
  return {};
}

RunFolder::RunFolder(const RunOptions& o, const Trainer& trainer, WriteFolder write_folder)
    : trainer_(trainer),
      folder_(o.out),
      write_folder_(std::move(write_folder)),
      state_format_(o.state_format),
      keep_(*o.keep),
      save_every_(*o.save_every),
      title_(model_name(o) + " on " + fs::path(o.is_text ? o.text : o.data).filename().string()),
      steps_(std::make_unique<Csv>(folder_ / "steps.csv", all_steps(trainer))),
      epochs_(std::make_unique<Csv>(folder_ / "epochs.csv", all_epochs(trainer))),
      saved_best_(trainer.best_epoch()) {
  for (std::string_view format : core::split(o.format, ',')) formats_.emplace_back(format);
  if (trainer.step() > 0) {
    saved_step_ = trainer.step();
    saved_epoch_ = trainer.epoch();
  }
}

RunFolder::~RunFolder() = default;

void RunFolder::after_step() {
  const Curve& curve = trainer_.curve();
  steps_->add(step_line(curve, curve.losses.size() - 1, trainer_.epoch() + 1));
  const auto now = Clock::now();
  if (now - flushed_ > std::chrono::seconds(1)) {
    steps_->flush();
    flushed_ = now;
  }
  // At the end of an epoch the state is saved behind the evaluation.
  if (save_every_ > 0 && is_time() && trainer_.step_in_epoch() < trainer_.task().steps()) save();
}

void RunFolder::after_epoch() {
  epochs_->add(epoch_line(trainer_.curve().epochs.back()));
  if (is_time()) {
    save();
    draw();
  }
}

void RunFolder::finish() {
  if (saved_step_ != trainer_.step() || saved_epoch_ != trainer_.epoch()) save();
  draw();
}

bool RunFolder::is_time() const {
  return std::chrono::duration<double>(Clock::now() - saved_).count() >= save_every_;
}

/// The curve and the best weights first: what a state tells of is there when the state is.
void RunFolder::save() {
  steps_->flush();
  epochs_->flush();
  if (trainer_.best_epoch() != saved_best_) {
    for (const std::string& format : formats_) {
      if (format == "folder") {
        write_whole(folder_ / "best", [&](const fs::path& hidden) { write_folder_(trainer_.best_state(), hidden); });
      } else {
        ckpt::save(trainer_.best_state(), folder_ / ("best." + format));
      }
    }
    saved_best_ = trainer_.best_epoch();
  }
  char name[64];
  std::snprintf(name, sizeof name, "state_%08lld.%s", static_cast<long long>(trainer_.step()), state_format_.c_str());
  trainer_.save(folder_ / name);
  newest_ = (folder_ / name).string();
  saved_step_ = trainer_.step();
  saved_epoch_ = trainer_.epoch();
  saved_ = Clock::now();
  const std::vector<fs::path> states = states_in(folder_);
  for (std::size_t i = static_cast<std::size_t>(keep_); i < states.size(); ++i) fs::remove(states[i]);
}

void RunFolder::draw() const {
  const Curve& curve = trainer_.curve();
  cli::ChartOptions loss{.title = title_, .x_label = "step", .y_label = "loss", .marks = {}};
  cli::ChartOptions epochs{.title = title_, .x_label = "epoch", .y_label = "", .marks = {}};
  cli::Series train{"loss", {}}, test{"test loss", {}}, right{"accuracy", {}}, test_right{"test accuracy", {}};
  for (const EpochRow& row : curve.epochs) {
    if (curve.epochs.size() <= 20) loss.marks.push_back(static_cast<std::size_t>(row.step));
    train.values.push_back(static_cast<float>(row.loss));
    if (row.test) test.values.push_back(static_cast<float>(row.test->loss));
    if (row.accuracy) right.values.push_back(static_cast<float>(*row.accuracy));
    if (row.test && row.test->accuracy) test_right.values.push_back(static_cast<float>(*row.test->accuracy));
  }
  write_text(folder_ / "loss.svg", cli::loss_curve_svg(loss, curve.losses));
  write_text(folder_ / "epochs.svg", cli::lines_svg(epochs, {train, test, right, test_right}));
}

}  // namespace train
