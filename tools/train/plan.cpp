#include "tools/train/plan.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/train/hub_model.h"
#include "tools/train/learning.h"

namespace train {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

template <class T>
void otherwise(std::optional<T>& option, T value) {
  if (!option) option = value;
}
void otherwise(std::string& option, const std::string& value) {
  if (option.empty()) option = value;
}

double usual_rate(const std::string& optimizer) {
  static const std::map<std::string, double> kRates = {{"sgd", 0.05},      {"adam", 0.001},   {"adamw", 0.001},
                                                       {"rmsprop", 0.001}, {"adagrad", 0.01}, {"adadelta", 1.0},
                                                       {"adamax", 0.002},  {"nadam", 0.002},  {"radam", 0.001}};
  const auto found = kRates.find(optimizer);
  return found == kRates.end() ? 0.001 : found->second;
}

struct Bound {
  const char* name;
  std::optional<std::int64_t> value;
  std::int64_t least;
};

void check_numbers(const RunOptions& o) {
  const Bound bounds[] = {{"rows", o.rows, 1},
                          {"test-rows", o.test_rows, 1},
                          {"resize", o.resize, 1},
                          {"length", o.length, 1},
                          {"epoch-steps", o.epoch_steps, 1},
                          {"hidden", o.hidden, 1},
                          {"channels", o.channels, 1},
                          {"types", o.types, 1},
                          {"layers", o.layers, 1},
                          {"heads", o.heads, 1},
                          {"width", o.width, 1},
                          {"epochs", o.epochs, 1},
                          {"batch", o.batch, o.is_text ? 1 : 0},
                          {"warmup", o.warmup, 0},
                          {"step-size", o.step_size, 1},
                          {"patience", o.patience, 0},
                          {"early-stop", o.early_stop, 0},
                          {"threads", o.threads, 1},
                          {"lora", o.lora, 1},
                          {"keep", o.keep, 1}};
  for (const Bound& bound : bounds) {
    if (bound.value && *bound.value < bound.least) {
      throw Error(ErrorCode::usage, std::string("--") + bound.name + " is at least " + std::to_string(bound.least) +
                                        ", not " + std::to_string(*bound.value));
    }
  }
  if (o.clip && !(*o.clip >= 0)) throw Error(ErrorCode::usage, "--clip is not negative");
  if (o.save_every && !(*o.save_every >= 0)) throw Error(ErrorCode::usage, "--save-every is not negative");
  if (o.dropout && !(*o.dropout >= 0 && *o.dropout < 1))
    throw Error(ErrorCode::usage, "--dropout is from 0 to below 1");
}

void check_formats(const RunOptions& o) {
  constexpr std::array kWeights = {"ckpt", "pth", "safetensors"};
  const bool has_folder = is_model_folder(o.model);
  for (std::string_view format : core::split(o.format, ',')) {
    if (has_folder && format == "folder") continue;
    if (std::find(kWeights.begin(), kWeights.end(), format) == kWeights.end()) {
      throw Error(ErrorCode::usage, std::string("--format is ") + (has_folder ? "folder, " : "") +
                                        "ckpt, pth or safetensors (several with commas), not " + core::quote(format));
    }
  }
  if (o.state_format != "ckpt" && o.state_format != "pth") {
    throw Error(ErrorCode::usage, "--state-format is ckpt or pth, not " + core::quote(o.state_format));
  }
}

void check_amp(const RunOptions& o) {
  if (o.amp.empty() || o.amp == "bf16" || o.amp == "f16") return;
  throw Error(ErrorCode::usage, "--amp is bf16 or f16, not " + core::quote(o.amp));
}

void check_lora(const RunOptions& o) {
  if (!o.lora && !o.lora_alpha && o.lora_targets.empty()) return;
  if (!is_model_folder(o.model)) throw Error(ErrorCode::usage, "--lora is for --model FOLDER, whose model learns on");
  if (!o.lora) throw Error(ErrorCode::usage, "--lora-alpha, --lora-targets: these are of --lora RANK");
  if (o.freeze) throw Error(ErrorCode::usage, "--freeze: with --lora the model stays as it is");
  if (o.format != "folder") throw Error(ErrorCode::usage, "--format: what --lora learns is saved as a folder alone");
}

/// Absolute, and ending in the folder's name: "net/" and "." do not.
std::string whole_path(const std::string& folder) {
  fs::path path = fs::absolute(folder);
  while (path.has_relative_path() && (path.filename().empty() || path.filename() == ".")) path = path.parent_path();
  return path.string();
}

/// What does not depend on what is learnt.
void fill_in_rest(RunOptions& o, const std::string& subject) {
  otherwise(o.lr, usual_rate(o.optimizer));
  otherwise(o.schedule, "none");
  otherwise(o.seed, std::int64_t{0});
  otherwise(o.keep, std::int64_t{3});
  otherwise(o.save_every, 10.0);
  otherwise(o.format, is_model_folder(o.model) ? "folder" : "ckpt");
  otherwise(o.state_format, "ckpt");
  const std::string model = is_model_folder(o.model) ? fs::path(o.model).filename().string() : o.model;
  otherwise(o.out, "runs/" + subject + "_" + model);
  check_numbers(o);
  check_formats(o);
  check_amp(o);
  check_lora(o);
  const auto& names = optimizer_names();
  if (std::find(names.begin(), names.end(), o.optimizer) == names.end()) make_optimizer({}, o);  // says which there are
}

std::uint64_t count_parameters(const core::Module& module, bool that_learn = false) {
  std::uint64_t count = 0;
  for (const core::Tensor& p : module.parameters()) {
    if (!that_learn || p.requires_grad()) count += static_cast<std::uint64_t>(p.numel());
  }
  return count;
}

std::string place(const std::string& devices) {
  const std::vector<core::Device> list = choose_devices(devices);
  if (list.empty()) return "the CPU";
  std::vector<std::string> names;
  for (core::Device device : list) names.push_back(device.str());
  const core::DeviceInfo info = core::cuda::device_info(list.front().index());
  return core::join(names, ", ") + (info.is_logical ? " (" + info.name + ")" : "");
}

/// "1 epoch", "2 epochs".
std::string counted(std::int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// "0.001 from epoch 1, 0.0005 from epoch 3": where it changes, at most six.
/// Those of a model that stays as it is, too.
std::uint64_t count_all(Task& task) {
  return count_parameters(task.model()) + (task.lora() != nullptr ? task.lora()->kept() : 0);
}

std::string rates(const RunOptions& o, Task& task) {
  auto optimizer = make_optimizer(task.module().parameters(), o);
  Schedule schedule(*optimizer, o, task.steps());
  std::string text;
  int shown = 0;
  double before = -1;
  const std::int64_t stride = std::max<std::int64_t>(1, (*o.epochs + 5) / 6);
  optimizer->step();  // without gradients: so that the schedule does not warn
  for (std::int64_t epoch = 1; epoch <= *o.epochs; ++epoch) {
    const double now = optimizer->param_groups().front().lr();
    if (now != before && ((epoch - 1) % stride == 0 || o.schedule == "multistep") && shown < 6) {
      char rate[32];
      std::snprintf(rate, sizeof rate, "%.3g", now);
      text += (text.empty() ? "" : ", ") + std::string(rate) + " from epoch " + std::to_string(epoch);
      before = now;
      ++shown;
    }
    for (std::int64_t step = 0; step < task.steps(); ++step) schedule.after_step();
    schedule.after_epoch(1);
  }
  return text;
}

}  // namespace

void fill_in(RunOptions& o, const DataSet& data) {
  const Preset& preset = data.preset;
  if (fs::exists(o.data) && o.data != data.name) o.data = fs::absolute(o.data).string();
  otherwise(o.model, preset.model);
  const bool is_folder = is_model_folder(o.model);
  if (is_folder) o.model = whole_path(o.model);
  if (o.freeze && !is_folder)
    throw Error(ErrorCode::usage, "--freeze is for --model FOLDER, whose head alone learns then");
  if ((!o.text_column.empty() || o.length) && !data.is_text) {
    throw Error(ErrorCode::usage,
                "--text-column, --length: these are for texts and --model FOLDER of a model that reads them");
  }
  if (o.model == "mlp") otherwise(o.hidden, std::max<std::int64_t>(preset.hidden, 1));
  if (o.hidden && o.model != "mlp") throw Error(ErrorCode::usage, "--hidden: " + o.model + " has no such layer");
  if ((o.channels || o.types) && o.model != "capsnet") {
    throw Error(ErrorCode::usage, "--channels, --types: these are capsnet's");
  }
  if (o.resize && !data.is_image()) throw Error(ErrorCode::usage, "--resize: " + data.name + " holds no images");
  otherwise(o.epochs, preset.epochs);
  otherwise(o.batch, preset.batch);
  otherwise(o.optimizer, preset.optimizer);
  if (o.optimizer == preset.optimizer) otherwise(o.lr, preset.lr);
  fill_in_rest(o, data.name);
}

void fill_in_text(RunOptions& o) {
  if (o.text.empty()) throw Error(ErrorCode::usage, "--text FILE: which text is to be learnt");
  const bool existed = fs::exists(o.text);
  if (existed) o.text = fs::absolute(o.text).string();
  otherwise(o.model, "char_lstm");
  const bool lstm = o.model == "char_lstm";
  if (lstm && (o.heads || o.dropout)) throw Error(ErrorCode::usage, "--heads, --dropout: these are nanogpt's");
  if (!lstm && o.hidden) throw Error(ErrorCode::usage, "--hidden is char_lstm's; nanogpt has --width");
  if (lstm) otherwise(o.hidden, std::int64_t{128});
  otherwise(o.width, std::int64_t{lstm ? 32 : 128});
  otherwise(o.layers, std::int64_t{lstm ? 1 : 4});
  if (!lstm) otherwise(o.heads, std::int64_t{4});
  if (!lstm) otherwise(o.dropout, 0.0);
  otherwise(o.length, std::int64_t{64});
  otherwise(o.batch, std::int64_t{lstm ? 32 : 12});
  otherwise(o.epochs, std::int64_t{20});
  otherwise(o.epoch_steps, std::int64_t{50});
  otherwise(o.optimizer, lstm ? "adam" : "adamw");
  if (o.optimizer == "adam" && lstm) otherwise(o.lr, 0.005);
  if (o.optimizer == "adamw") otherwise(o.beta2, 0.99);
  if (o.optimizer == "adamw") otherwise(o.weight_decay, 0.1);
  otherwise(o.clip, 1.0);
  fill_in_rest(o, fs::path(o.text).stem().string());
}

void fill_in_language(RunOptions& o) {
  o.model = whole_path(o.model);
  if (fs::exists(o.text)) o.text = fs::absolute(o.text).string();
  if (o.hidden || o.width || o.layers || o.heads || o.dropout) {
    throw Error(ErrorCode::usage, "--hidden, --width, --layers, --heads, --dropout: the model of a folder has its own");
  }
  if (o.epoch_steps)
    throw Error(ErrorCode::usage, "--epoch-steps: with the model of a folder an epoch is the whole text");
  otherwise(o.epochs, std::int64_t{3});
  otherwise(o.batch, std::int64_t{8});
  otherwise(o.optimizer, "adamw");
  otherwise(o.lr, 5e-5);
  otherwise(o.clip, 1.0);
  fill_in_rest(o, fs::path(o.text).stem().string());
}

std::string data_line(const DataSet& data) {
  std::string line = data.name + ": " + core::format_count(static_cast<std::uint64_t>(data.train.size())) +
                     " rows to learn from, " + core::format_count(static_cast<std::uint64_t>(data.test.size())) +
                     " to test on, " + core::to_list(data.row()) + " each, ";
  if (data.is_text && data.classes == 0) return line + "in tokens";
  return line + (data.classes > 0 ? std::to_string(data.classes) + " classes" : "a value");
}

std::string data_line(const TextData& text) {
  return text.source + ": " + core::format_count(text.train.size()) + " characters to learn from, " +
         core::format_count(text.held.size()) + " to test on, " + std::to_string(text.symbols.count()) + " different";
}

std::string run_line(const RunOptions& o, Task& task) {
  std::string line = o.model + ", " + core::format_count(count_all(task)) + " parameters";
  const std::uint64_t learn = count_parameters(task.model(), true);
  if (learn < count_all(task)) line += ", of which " + core::format_count(learn) + " learn";
  line += "; " + o.optimizer + ", lr " + core::python_float(*o.lr);
  if (o.schedule != "none") line += ", " + o.schedule;
  line += "; " + counted(*o.epochs, "epoch") + " of " + counted(task.steps(), "step") + ", ";
  line += *o.batch == 0 ? "all rows at once" : "batches of " + std::to_string(*o.batch);
  if (!o.amp.empty()) line += "; mixed precision, " + o.amp + " and f32";
  return line + "; on " + place(o.devices);
}

Memory measure_step(Task& task, const RunOptions& o) {
  Memory memory{.parameters = 4 * count_all(task), .step = 0};
  auto optimizer = make_optimizer(task.module().parameters(), o);
  task.begin_epoch();
  for (int i = 0; i < 2 && task.next(); ++i) {  // gradients and the optimizer's state are there from the second on
    forward(task, o).loss.backward();
    optimizer->step();
    if (i == 0) optimizer->zero_grad();
  }
  for (int i = 0; i < core::cuda::device_count(); ++i) {
    memory.step += core::cuda::max_memory_allocated(core::Device(core::DeviceType::cuda, i));
  }
  return memory;
}

std::string describe(Task& task, const RunOptions& o, const Memory& memory) {
  const Lora* lora = task.lora();
  std::string text = "model\n" + (lora != nullptr ? lora->base() : task.model()).str() + "\n";
  text += "learning rate  " + rates(o, task) + "\n";
  text += "memory         parameters " + core::format_size(memory.parameters) + ", tensors of a step " +
          core::format_size(memory.step) + " at most (measured)\n";
  text += "files          " + o.out + "/: config.toml, steps.csv, epochs.csv, loss.svg, epochs.svg, state_*." +
          o.state_format;
  for (std::string_view format : core::split(o.format, ',')) {
    text += format == "folder" ? ", best/" : ", best." + std::string(format);
  }
  return text + "\n";
}

}  // namespace train
