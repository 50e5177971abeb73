#include "tools/train/commands.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "libckpt/bridge/module_state.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/io/json.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/threads.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/tensor/generator.h"
#include "tools/support/interrupt.h"
#include "tools/support/step_progress.h"
#include "tools/train/hub_model.h"
#include "tools/train/plan.h"
#include "tools/train/processes.h"
#include "tools/train/run_folder.h"
#include "tools/train/text_rows.h"
#include "zoo/zoo.h"

namespace train {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string test_text(const Evaluation& test) {
  std::string text = "test loss " + format("%.4f", test.loss);
  if (test.accuracy) text += ", test accuracy " + format("%.2f %%", 100 * *test.accuracy);
  return text;
}

/// Lines on standard output, one an epoch, or a hundred in all where there are many; on a terminal a bar besides.
class Reporter {
 public:
  Reporter(const Trainer& trainer, const RunOptions& o, const Manners& manners)
      : trainer_(trainer), epochs_(*o.epochs), speaks_(!manners.json && !manners.quiet && is_first_process()) {}

  void say(const std::string& line) {
    if (!speaks_) return;
    bar_.reset();
    std::cout.clear();  // what went wrong before goes wrong again, and then says why
    std::cout << line << std::endl;
    if (std::cout) return;
    gone_ =
        errno == EPIPE ? "nobody reads the output any more" : "standard output: " + std::string(std::strerror(errno));
  }
  void after_step() {
    if (!speaks_ || isatty(STDERR_FILENO) != 1) return;
    if (!bar_ || bar_epoch_ != trainer_.epoch()) {
      bar_epoch_ = trainer_.epoch();
      bar_ = std::make_unique<cli::Progress>("epoch " + std::to_string(bar_epoch_ + 1) + "/" + std::to_string(epochs_),
                                             trainer_.task().steps());
      bar_->skip(trainer_.step_in_epoch() - 1);
    }
    bar_->advance("loss " + format("%.4f", static_cast<double>(trainer_.curve().losses.back())));
  }
  void after_epoch() {
    const EpochRow& row = trainer_.curve().epochs.back();
    const std::int64_t stride = std::max<std::int64_t>(1, epochs_ / 100);
    if (row.epoch % stride != 0 && row.epoch != 1 && row.epoch != epochs_) return;
    std::string line = "epoch " + std::to_string(row.epoch) + "/" + std::to_string(epochs_) + ", step " +
                       std::to_string(row.step) + ": lr " + format("%.4g", row.lr) + ", loss " +
                       format("%.4f", row.loss);
    if (row.accuracy) line += ", accuracy " + format("%.2f %%", 100 * *row.accuracy);
    if (row.test) line += "; " + test_text(*row.test);
    if (trainer_.best_epoch() == row.epoch) line += ", best";
    say(line);
  }
  /// Why nothing can be said any more; "" while it can.
  const std::string& gone() const { return gone_; }

 private:
  const Trainer& trainer_;
  std::int64_t epochs_;
  bool speaks_;
  std::string gone_;
  std::unique_ptr<cli::Progress> bar_;
  std::int64_t bar_epoch_ = -1;
};

void write_evaluation(ckpt::JsonWriter& out, const Evaluation& test) {
  out.key("test_loss").value(test.loss);
  if (!test.accuracy) return;
  out.key("test_accuracy").value(*test.accuracy).key("test_right").value(test.right);
}

const char* name(Stop stop) {
  return stop == Stop::done ? "done" : stop == Stop::early ? "early" : "interrupted";
}

std::string summary_json(const Trainer& trainer, const RunOptions& o, Stop stop, double seconds) {
  ckpt::JsonWriter out;
  out.begin_object().key("schema").value(1).key("run").value(o.out).key("model").value(o.model);
  out.key("data").value(o.is_text ? o.text : o.data).key("stopped").value(name(stop));
  out.key("epochs").value(trainer.epoch()).key("steps").value(trainer.step());
  if (!trainer.curve().epochs.empty()) {
    const EpochRow& last = trainer.curve().epochs.back();
    out.key("train_loss").value(last.loss);
    if (last.accuracy) out.key("train_accuracy").value(*last.accuracy);
    if (last.test) write_evaluation(out, *last.test);
    const EpochRow& best = trainer.curve().epochs.at(static_cast<std::size_t>(trainer.best_epoch() - 1));
    out.key("best").begin_object().key("epoch").value(best.epoch);
    if (best.test) write_evaluation(out, *best.test);
    out.end_object();
  }
  out.key("seconds").value(std::round(1000 * seconds) / 1000);
  out.key("processor_seconds").value(std::round(1000 * trainer.seconds()) / 1000);
  return out.end_object().text();
}

std::string summary_line(const Trainer& trainer, const RunOptions& o, Stop stop, double seconds) {
  std::string line =
      stop == Stop::early ? "no better epoch for " + std::to_string(*o.early_stop) + ", so it ends" : "done";
  line += " in " + format("%.1f s", seconds);
  if (trainer.best_epoch() > 0) {
    const EpochRow& best = trainer.curve().epochs.at(static_cast<std::size_t>(trainer.best_epoch() - 1));
    line += "; best epoch " + std::to_string(best.epoch);
    if (best.test) line += " (" + test_text(*best.test) + ")";
  }
  return line + "; files in " + o.out;
}

/// Everything a run needs, made in the order that makes it repeatable: devices, seed, model.
struct Setting {
  std::optional<DataSet> data;
  std::optional<TextData> text;
  std::unique_ptr<Task> task;
  std::string about() const { return data ? data_line(*data) : data_line(*text); }
  /// What becomes of the head of a folder's model; "" for nothing.
  std::string about_head(const RunOptions& o) const {
    const bool classifies = data && data->classes > 0 && is_model_folder(o.model);
    return classifies ? train::about_head(o.model, *data) : "";
  }
};

DataRequest request_of(const std::string& data, const RunOptions& o) {
  return {.name = data,
          .kind = o.kind,
          .target = o.target,
          .split = o.split,
          .scale = o.scale,
          .rows = o.rows.value_or(0),
          .test_rows = o.test_rows.value_or(0),
          .model = o.model,
          .resize = o.resize.value_or(0),
          .text_column = o.text_column,
          .length = o.length.value_or(0)};
}

void load(RunOptions& o, Setting& setting) {
  core::cuda::device_count();  // what is wrong with the devices is said before data are read
  if (o.model.find('/') != std::string::npos && !is_model_folder(o.model)) {
    throw Error(ErrorCode::io, o.model + ": no such folder; --model is one with config.json and weights, or a name");
  }
  if (o.is_text && is_model_folder(o.model)) {
    if (o.text.empty()) throw Error(ErrorCode::usage, "--text FILE: which text is to be learnt");
    decoder_family(o.model);
    setting.data = load_token_blocks(o.text, request_of(o.text, o));
    fill_in_language(o);
  } else if (o.is_text) {
    if (o.in_order)
      throw Error(ErrorCode::usage, "--in-order is for --model FOLDER; other models read at random places");
    fill_in_text(o);
    setting.text = load_text(o.text, *o.length);
  } else {
    check_learns_rows(o.model);
    setting.data = load_data(request_of(o.data, o));
    fill_in(o, *setting.data);
  }
}

/// Other data for the model of a run: with its symbols, or its classes and scale.
void load_other(const std::string& name, const RunOptions& o, Setting& setting) {
  if (setting.text) {
    setting.text = load_text(name, *o.length, &setting.text->symbols);
  } else {
    DataRequest request = request_of(name, o);
    request.like = &*setting.data;
    setting.data = o.is_text ? load_token_blocks(name, request) : load_data(request);
  }
}

void make(const RunOptions& o, Setting& setting) {
  if (o.threads) core::set_num_threads(static_cast<int>(*o.threads));
  choose_devices(o.devices);
  core::manual_seed(static_cast<std::uint64_t>(*o.seed));
  if (setting.text) {
    setting.task = make_text_task(o, *setting.text);
  } else {
    setting.task = o.is_text ? make_language_task(o, *setting.data) : make_task(o, *setting.data);
  }
}

/// A state to go on from is there, whatever ended the run.
std::string how_to_resume(const RunOptions& o) {
  return "go on with: train resume " + o.out;
}

/// A reader of the output that went away must not cost the run.
void outlive_readers() {
  std::signal(SIGPIPE, SIG_IGN);
}

/// Of a model that came from a folder; none for others.
RunFolder::WriteFolder folder_writer(const RunOptions& o, const Setting& setting) {
  if (!is_model_folder(o.model)) return {};
  return [&](const core::StateDict& state, const fs::path& folder) {
    if (const Lora* lora = setting.task->lora()) {
      const char* task = o.is_text ? "CAUSAL_LM" : setting.data->is_text ? "SEQ_CLS" : nullptr;
      return write_adapter_folder(*lora, o.model, task, state, folder);
    }
    write_model_folder(o.model, *setting.data, state, folder);
  };
}

int run(Trainer& trainer, const RunOptions& o, const Setting& setting, const Manners& manners) {
  const auto begin = Clock::now();
  Reporter reporter(trainer, o, manners);
  std::optional<RunFolder> folder;
  if (is_first_process()) folder.emplace(o, trainer, folder_writer(o, setting));
  cli::InterruptGuard guard;
  Stop stop = Stop::done;
  try {
    stop = trainer.run({.after_step =
                            [&] {
                              if (folder) folder->after_step();
                              reporter.after_step();
                            },
                        .after_epoch =
                            [&] {
                              if (folder) folder->after_epoch();
                              reporter.after_epoch();
                            },
                        .stop = [&] { return cli::pending_interrupt() != 0 || !reporter.gone().empty(); }});
    if (folder) folder->finish();
    wait_for_processes();  // nobody leaves before all of it is saved
  } catch (...) {
    if (is_first_process() && !states_in(o.out).empty()) std::cerr << "train: " << how_to_resume(o) << '\n';
    throw;
  }
  const bool is_first = is_first_process();
  leave_processes();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (manners.json && is_first) std::cout << summary_json(trainer, o, stop, seconds) << std::endl;
  if (stop == Stop::asked) {
    constexpr int kAskedByAnother = 128 + SIGTERM;
    if (!is_first) return cli::finish_interrupt(), kAskedByAnother;
    std::cerr << "train: " << (reporter.gone().empty() ? "interrupted" : reporter.gone()) << " at step "
              << trainer.step() << ", all of it saved; " << how_to_resume(o) << '\n';
    if (!reporter.gone().empty()) return 4;
    cli::finish_interrupt();
    return kAskedByAnother;
  }
  reporter.say(summary_line(trainer, o, stop, seconds));
  return 0;
}

std::string processes_line(const RunOptions& o) {
  return std::to_string(process_count()) + " processes: a step takes " + std::to_string(*o.batch * process_count()) +
         " rows, " + std::to_string(*o.batch) + " in each";
}

RunNames names_in(const Setting& setting) {
  if (setting.text) return {.symbols = setting.text->symbols.text(), .classes = {}};
  RunNames names;
  for (const std::string& name : setting.data->class_names) names.classes += name + "\n";
  return names;
}

int dry_run(const RunOptions& o, Setting& setting) {
  RunOptions shown = o, measured = o;
  if (choose_devices(o.devices).empty()) {
    shown.devices = "cpu";
    measured.devices = "1";  // tensors are counted there
  }
  make(measured, setting);
  std::cout << setting.about() << '\n' << run_line(shown, *setting.task) << '\n';
  if (const std::string head = setting.about_head(o); !head.empty()) std::cout << head << '\n';
  if (setting.task->lora() != nullptr) std::cout << about_lora(*setting.task->lora()) << '\n';
  const Memory memory = measure_step(*setting.task, o);
  std::cout << describe(*setting.task, o, memory);
  if (setting.data) std::cout << "data           " << core::format_size(setting.data->bytes()) << " in memory\n";
  std::cout << "nothing was written\n";
  return 0;
}

/// The folder of the run that a file of it lies in.
std::string folder_of(const std::string& file) {
  if (file.empty()) throw Error(ErrorCode::usage, "CHECKPOINT is empty: weights or state of a run, or its folder");
  if (!fs::exists(file)) throw Error(ErrorCode::io, file + ": no such file or folder");
  const fs::path named = fs::path(file) / "";  // so that a folder is its own parent
  fs::path parent = fs::is_directory(file) ? named.parent_path() : fs::path(file).parent_path();
  const bool is_best = parent.filename() == "best" && !fs::exists(parent / "config.toml");
  if (is_best && fs::exists(fs::absolute(parent).parent_path() / "config.toml"))
    return fs::absolute(parent).parent_path();
  if (fs::is_directory(file)) return file;
  return parent.empty() ? "." : parent.string();
}

/// "" where there are none.
std::string best_weights_in(const std::string& folder) {
  for (const char* end : {"ckpt", "pth", "safetensors"}) {
    const fs::path best = fs::path(folder) / ("best." + std::string(end));
    if (fs::exists(best)) return best.string();
  }
  for (const char* inside :
       {"best/model.safetensors", "best/adapter_model.safetensors", "model.safetensors", "adapter_model.safetensors"}) {
    if (fs::exists(fs::path(folder) / inside)) return (fs::path(folder) / inside).string();
  }
  return "";
}

/// Weights or a state; a folder stands for its best weights.
std::string weights_file(const std::string& file) {
  if (!fs::is_directory(file)) return file;
  const std::string best = best_weights_in(file);
  if (best.empty()) throw Error(ErrorCode::io, file + ": holds no best.ckpt, best.pth or best.safetensors");
  return best;
}

void load_weights(core::Module& model, const std::string& file, const RunOptions& o) {
  const ckpt::Checkpoint checkpoint = ckpt::open(file);
  const bool is_state = checkpoint.root.find("model") != nullptr;
  if (auto* lora = dynamic_cast<Lora*>(&model); lora != nullptr && !is_state) {
    lora->load_peft(ckpt::load(file));
    return;
  }
  if (!is_state && is_model_folder(o.model)) {  // which may leave out what is one tensor with another
    zoo::load_into(model, fs::path(o.model).filename().string(), file);
    return;
  }
  try {
    ckpt::load_into(model, checkpoint, {.map_location = "cpu", .path = is_state ? "model" : ""});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::runtime) throw;
    throw Error(ErrorCode::unsupported, file + ": is not of the model of this run: " + error.message());
  }
}

/// As the config has them.
RunOptions config_of_run(const std::string& folder) {
  if (folder.empty()) throw Error(ErrorCode::usage, "RUN is empty: the folder of a run");
  const std::string file = (fs::path(folder) / "config.toml").string();
  if (!fs::exists(file)) throw Error(ErrorCode::io, folder + ": holds no config.toml, so it is not a folder of a run");
  const Config config = read_config(file, 0);
  RunOptions o;
  o.is_text = config.is_text;
  core::with_context(file, [&] { apply(config.arguments, o); });
  if ((o.is_text ? o.text : o.data).empty()) throw Error(ErrorCode::corrupt, file + ": names no data, so no run's");
  return o;
}

/// What a resumed run has to say about its epochs, "" for nothing.
std::string plan_from_here(const Trainer& trainer, const RunOptions& o) {
  if (trainer.epoch() >= *o.epochs) return "that is all of it; --epochs N makes it longer";
  if (trainer.step() == 0 || trainer.planned_before() == *o.epochs || !Schedule::spans_epochs(o)) return "";
  return "schedule " + o.schedule + " over " + std::to_string(*o.epochs) + " epochs in place of " +
         std::to_string(trainer.planned_before()) + ": goes on at lr " +
         format("%.4g", trainer.optimizer().param_groups().front().lr());
}

std::string list_row(std::string_view name, std::string_view about) {
  std::string row = "  " + std::string(name);
  row.resize(std::max<std::size_t>(row.size() + 2, 28), ' ');
  return row + std::string(about) + "\n";
}

}  // namespace

int learn(const LearnRequest& request) {
  RunOptions o = request.options;
  Setting setting;
  if (!request.dry_run) join_processes();
  load(o, setting);
  if (request.dry_run) return dry_run(o, setting);
  make(o, setting);
  Trainer trainer(*setting.task, o);
  outlive_readers();
  if (is_first_process()) begin_run(o, names_in(setting), request.overwrite);
  Reporter reporter(trainer, o, request.manners);
  reporter.say(setting.about());
  reporter.say(run_line(o, *setting.task));
  if (const std::string head = setting.about_head(o); !head.empty()) reporter.say(head);
  if (setting.task->lora() != nullptr) reporter.say(about_lora(*setting.task->lora()));
  if (has_several_processes()) reporter.say(processes_line(o));
  return run(trainer, o, setting, request.manners);
}

int resume(const std::string& folder, const RunOptions& given, const Manners& manners) {
  outlive_readers();
  join_processes();
  RunOptions kept = config_of_run(folder);
  const std::string config = to_toml(kept);
  merge(given, kept);
  RunOptions o = kept;
  o.out = folder;
  Setting setting;
  load(o, setting);
  make(o, setting);
  Trainer trainer(*setting.task, o);
  Reporter reporter(trainer, o, manners);
  std::string from = folder + " holds no state yet: begins at the beginning";
  const bool is_empty = states_in(folder).empty() && best_weights_in(folder).empty();
  wait_for_processes();  // all look before the first one writes
  if (is_empty) {        // it ended before the first was written
    if (is_first_process()) begin_run(o, names_in(setting), true);
  } else {
    const fs::path state =
        resume_newest(trainer, folder, [](const std::string& line) { std::cerr << "train: " << line << '\n'; });
    from = "goes on from " + state.string() + ", behind epoch " + std::to_string(trainer.epoch()) + ", step " +
           std::to_string(trainer.step());
  }
  reporter.say(setting.about());
  reporter.say(run_line(o, *setting.task));
  if (has_several_processes()) reporter.say(processes_line(o));
  reporter.say(from);
  if (const std::string plan = plan_from_here(trainer, o); !plan.empty()) reporter.say(plan);
  wait_for_processes();  // all have read before the first one takes old states away
  if (is_first_process() && trainer.epoch() < *o.epochs && to_toml(kept) != config) write_config(folder, kept);
  return run(trainer, o, setting, manners);
}

int evaluate(const std::string& file, const std::string& data, const Manners& manners) {
  RunOptions o = options_of_run(folder_of(file));
  const std::string weights = weights_file(file);
  Setting setting;
  load(o, setting);
  if (!data.empty()) load_other(data, o, setting);
  make(o, setting);
  load_weights(setting.task->model(), weights, o);
  const std::optional<Evaluation> result = setting.task->evaluate();
  if (!result) throw Error(ErrorCode::usage, "there are no rows to test on");
  if (manners.json) {
    ckpt::JsonWriter out;
    out.begin_object().key("schema").value(1).key("file").value(weights);
    write_evaluation(out, *result);
    std::cout << out.key("rows").value(result->rows).end_object().text() << '\n';
  } else {
    std::cout << weights << ": " << test_text(*result);
    if (result->accuracy) std::cout << " (" << result->right << " of " << result->rows << ')';
    std::cout << '\n';
  }
  return 0;
}

int generate_text(const std::string& file, const GenerateOptions& options, std::uint64_t seed) {
  const std::string folder = folder_of(file), weights = weights_file(file);
  RunOptions o = options_of_run(folder);
  if (!o.is_text)
    throw Error(ErrorCode::usage, file + ": this model classifies; only those of `train text` continue a text");
  if (is_model_folder(o.model)) {
    const std::string best = (fs::path(folder) / "best").string();
    throw Error(
        ErrorCode::usage,
        file + ": its model is one of tokens; " +
            (o.lora ? "`ckpt lora merge " + o.model + " " + best + " -o model.safetensors` gives weights with " +
                          "which, in a copy of that folder, `ckpt zoo run COPY --prompt TEXT` goes on from a text"
                    : "`ckpt zoo run " + best + " --prompt TEXT` goes on from a text"));
  }
  const core::ByteVector bytes = ckpt::read_all(*ckpt::open_file(fs::path(folder) / "symbols.txt"));
  const Symbols symbols(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const auto model = make_text_model(o, symbols.count());
  load_weights(*model, weights, o);
  core::manual_seed(seed);
  std::cout << generate(*model, symbols, options) << '\n';
  return 0;
}

int list(const Manners& manners) {
  ckpt::JsonWriter out;
  out.begin_object().key("schema").value(1).key("data").begin_array();
  std::cout << (manners.json ? "" : "DATA\n");
  for (const KnownData& data : known_data()) {
    out.begin_object().key("name").value(data.name).key("about").value(data.about);
    out.key("package").value(data.package).end_object();
    if (!manners.json) std::cout << list_row(data.name, std::string(data.about) + " (" + data.package + ")");
  }
  out.end_array().key("models").begin_array();
  if (!manners.json) {
    std::cout << list_row("FOLDER", "train-images-idx3-ubyte ..., or train_x.npy, train_y.npy, or x.npy, y.npy")
              << list_row("FOLDER",
                          "of folders of PNG, JPEG, PPM and PGM images, one per class; or train/ and test/ of such")
              << list_row("FILE.csv", "numbers; the target is the last column or --target") << "\nMODELS\n"
              << list_row("linear", "one layer, for classes and values")
              << list_row("mlp", "a hidden layer, for classes and values")
              << list_row("char_lstm, nanogpt", "for texts");
  }
  for (const zoo::Model& model : zoo::list()) {
    if (!classifies_images(model) || model.name == "mlp") continue;
    out.begin_object().key("name").value(model.name).key("about").value(model.about).end_object();
    if (!manners.json) std::cout << list_row(model.name, model.about);
  }
  out.end_array().end_object();
  if (manners.json) std::cout << out.text() << '\n';
  return 0;
}

RunOptions options_of_run(const std::string& folder) {
  RunOptions o = config_of_run(folder);
  o.out = folder;
  return o;
}

}  // namespace train
