#include "tools/run/zoo_activations.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "libckpt/io/json.h"
#include "libcore/autograd/autocast.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/module/members.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "tools/ckpt/exit_code.h"
#include "tools/run/folder_settings.h"
#include "zoo/decoder.h"
#include "zoo/from_folder.h"
#include "zoo/made_as.h"
#include "zoo/preprocessing.h"

namespace cli {
namespace {

namespace fs = std::filesystem;
using core::Error;
using core::ErrorCode;
using core::Tensor;

constexpr const char* kDevice = "cuda:0";

/// Bytes.
struct Memory {
  double kept = 0;     ///< when forward is done: what backward needs, and the input
  double between = 0;  ///< what comes to it at most, in forward and backward
};

struct Batch {
  std::int64_t samples = 0;
  std::int64_t extent = 0;  ///< length of texts, height and width of images
};

/// Zeros that are read and never written: the system gives them no memory, however many there are.
class SharedZeros {
 public:
  explicit SharedZeros(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
    data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) throw Error(ErrorCode::device, "no room for the addresses of the largest weight");
  }
  ~SharedZeros() { ::munmap(data_, bytes_); }
  SharedZeros(const SharedZeros&) = delete;
  SharedZeros& operator=(const SharedZeros&) = delete;
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

class Subject {
 public:
  explicit Subject(const ActivationOptions& options) : options_(options) {
    choose_model();
    {
      const zoo::MadeAs laid_out{core::Device("meta")};
      const zoo::MadeAs of_type{dtype_};
      model_ = zoo::build(*family_, config_);
    }
    give_values();
    options.train ? model_->train() : model_->eval();
    choose_input();
  }

  bool is_text() const { return family_->input == zoo::Input::tokens; }
  bool continues_texts() const {
    return family_->answer == zoo::Answer::next_token && dynamic_cast<zoo::EncoderDecoder*>(model_.get()) == nullptr;
  }
  Batch batch() const { return {options_.batch, is_text() ? length_ : size_}; }
  /// Whether --size asks for others than the model's own: one that takes them takes smaller ones too.
  bool takes_other_sizes() const { return !is_text() && size_ != own_size_; }
  core::DType dtype() const { return dtype_; }
  /// "images of 3 x 224 x 224".
  std::string input() const {
    if (is_text()) return "texts of " + std::to_string(length_) + " tokens";
    return "images of " + std::to_string(channels_) + " x " + std::to_string(size_) + " x " + std::to_string(size_);
  }
  std::uint64_t parameters() const {
    std::uint64_t count = 0;
    for (const Tensor& parameter : model_->parameters()) count += static_cast<std::uint64_t>(parameter.numel());
    return count;
  }

  /// One sample of the whole length, which a model without positions for it refuses.
  void try_length() const {
    const core::GradModeGuard mode(false);
    forward(input_of({1, length_}));
  }

  /// What a pass takes, but for the gradients of matrices on their way to where they are kept.
  Memory measure(const Batch& batch) const {
    if (!options_.train) return {0, pass(batch, Learning::nothing).between};
    return {kept_by(batch), pass(batch, Learning::vectors).between};
  }

  /// What those come to at most, whatever the batch.
  double gradients_on_their_way(const Batch& small) const {
    if (!options_.train) return 0;
    return std::max(0.0, pass(small, Learning::all).between - pass(small, Learning::vectors).between);
  }

 private:
  /// Whose gradients are computed. Those of vectors alone need all that goes back through the model, and little more.
  enum class Learning : std::uint8_t { nothing, vectors, all };

  double kept_by(const Batch& batch) const {
    const core::GradModeGuard mode(true);
    learn(Learning::all);
    const std::int64_t before = requested("current");
    const Tensor x = input_of(batch);
    const Outcome made = forward(x);
    return static_cast<double>(requested("current") - before);
  }

  /// The graph stays until the end: what is freed on the way makes no room that a larger batch would not fill.
  Memory pass(const Batch& batch, Learning learning) const {
    const core::GradModeGuard mode(learning != Learning::nothing);
    learn(learning);
    const std::int64_t before = requested("current");
    core::cuda::reset_peak_memory_stats(kDevice);
    Memory memory;
    {
      const Tensor x = input_of(batch);
      const Outcome made = forward(x);
      if (learning != Learning::nothing) memory.kept = static_cast<double>(requested("current") - before);
      if (learning != Learning::nothing) made.loss.backward({}, true);
    }
    memory.between = static_cast<double>(requested("peak") - before) - memory.kept;
    return memory;
  }

  void learn(Learning learning) const {
    for (const Tensor& parameter : model_->parameters()) {
      if (!core::is_floating(parameter.dtype())) continue;
      const bool vector = parameter.dim() <= 1;
      parameter.requires_grad_(learning == Learning::all || (learning == Learning::vectors && vector));
    }
  }

  static std::int64_t requested(const char* which) {
    return core::cuda::memory_stats(kDevice).at(std::string("requested_bytes.all.") + which);
  }

  void choose_model() {
    if (fs::is_directory(options_.name)) {
      zoo::FolderConfig said = zoo::folder_config(options_.name);
      family_ = said.family;
      config_ = std::move(said.config);
      dtype_ = zoo::folder_dtype(options_.name);
    } else {
      if (zoo::find(options_.name) == nullptr && zoo::find_family(options_.name) == nullptr) {
        throw Error(ErrorCode::usage, core::quote(options_.name) +
                                          " is neither a known model (ckpt zoo ls) nor a folder with config.json, so "
                                          "its activations cannot be counted; --for names one, no --batch leaves "
                                          "them out");
      }
      std::tie(family_, config_) = zoo::resolve(options_.name, zoo::Config());
    }
    if (!options_.dtype.empty()) dtype_ = core::parse_dtype(options_.dtype);
    if (family_->input == zoo::Input::numbers) {
      throw Error(
          ErrorCode::unsupported,
          std::string(family_->name) + " takes something else than one image or text: its activations are not counted");
    }
  }

  void give_values() {
    std::size_t largest = 0;
    for (const Tensor& p : model_->parameters()) largest = std::max(largest, static_cast<std::size_t>(p.nbytes()));
    zeros_ = std::make_unique<SharedZeros>(largest);
    for (Tensor& parameter : model_->parameters()) {
      parameter.set_data(core::from_blob(zeros_->data(), parameter.sizes(), parameter.dtype(), core::Device(kDevice)));
      // A gradient of each pass goes as soon as it would have been added to the one that the plan counts.
      if (options_.train && core::is_floating(parameter.dtype())) {
        parameter.register_post_accumulate_grad_hook([](const Tensor& p) { p.set_grad({}); });
      }
    }
    for (const auto& [name, module] : model_->named_modules()) {
      for (const core::TensorMember& member : core::Members(*module).buffers()) {
        if (!member.tensor->defined()) continue;
        *member.tensor = core::zeros(member.tensor->sizes(), {.dtype = member.tensor->dtype(), .device = kDevice});
      }
    }
  }

  void choose_input() {
    if (is_text() && options_.size != 0) throw Error(ErrorCode::usage, "--size is for models of images");
    if (!is_text() && options_.length != 0) throw Error(ErrorCode::usage, "--length is for models of texts");
    if (is_text()) return choose_length();
    channels_ = family_->channels.empty() ? 3 : count_in(config_, family_->channels).value_or(3);
    size_ = count_in(config_, "image_size").value_or(224);
    if (const auto steps = zoo::preprocessing(options_.name)) {
      size_ = steps->crop > 0 ? steps->crop : steps->resize;
      channels_ = steps->channels;
    }
    own_size_ = size_;
    if (options_.size != 0) size_ = options_.size;
  }

  void choose_length() {
    std::int64_t most = context_of(config_);
    if (continues_texts()) {
      const std::int64_t positions = zoo::Decoder(*model_).positions();
      if (positions > 0) most = std::min(most, positions);
    }
    length_ = options_.length != 0 ? options_.length : std::min<std::int64_t>(512, most);
    if (length_ <= most) return;
    throw Error(ErrorCode::usage, "--length " + std::to_string(length_) + " is more than the " + std::to_string(most) +
                                      " positions of " + core::quote(options_.name));
  }

  Tensor input_of(const Batch& batch) const {
    if (is_text()) return core::zeros({batch.samples, batch.extent}, {.dtype = core::DType::i64, .device = kDevice});
    return core::zeros({batch.samples, channels_, batch.extent, batch.extent}, {.dtype = dtype_, .device = kDevice});
  }

  /// What a program holds until backward is done.
  struct Outcome {
    Tensor output;
    Tensor loss;  ///< undefined for a model that is only run
  };

  Outcome forward(const Tensor& x) const {
    const core::autocast guard(
        "cuda", {.dtype = options_.amp.empty() ? std::nullopt : std::optional(core::parse_dtype(options_.amp)),
                 .enabled = !options_.amp.empty()});
    const Tensor y = family_->main_output != nullptr ? family_->main_output(*model_, x) : model_->call(x);
    if (!options_.train) return {y, {}};
    const bool by_class = family_->answer == zoo::Answer::classes || family_->answer == zoo::Answer::pixels;
    const bool by_token = family_->answer == zoo::Answer::next_token || family_->answer == zoo::Answer::hidden_tokens;
    if (!by_class && !by_token) return {y, core::sum(y)};
    const Tensor logits = by_token ? y.flatten(0, 1) : y;
    core::Shape rows = logits.sizes();
    rows.erase(1);
    return {y, core::cross_entropy(logits, core::zeros(rows, {.dtype = core::DType::i64, .device = kDevice}))};
  }

  const ActivationOptions& options_;
  const zoo::Family* family_ = nullptr;
  zoo::Config config_;
  core::DType dtype_ = core::DType::f32;
  std::unique_ptr<SharedZeros> zeros_;
  std::shared_ptr<core::Module> model_;
  std::int64_t size_ = 0, own_size_ = 0, channels_ = 0, length_ = 0;
};

/// The polynomial through (at[i], of[i]) at `wanted`.
double extrapolated(const std::vector<double>& at, const std::vector<double>& of, double wanted) {
  double sum = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    double weight = 1;
    for (std::size_t j = 0; j < at.size(); ++j) {
      if (j != i) weight *= (wanted - at[j]) / (at[i] - at[j]);
    }
    sum += weight * of[i];
  }
  return sum;
}

/// `of(a)` for each of `tried`, carried on to `wanted` by the `power` of them that it grows with.
template <class F>
Memory carried_on(const std::vector<std::int64_t>& tried, std::int64_t wanted, int power, F of) {
  std::vector<double> at, kept, between;
  for (std::int64_t a : tried) {
    const Memory memory = of(a);
    at.push_back(std::pow(static_cast<double>(a), power));
    kept.push_back(memory.kept);
    between.push_back(memory.between);
  }
  const double last = std::pow(static_cast<double>(wanted), power);
  return {extrapolated(at, kept, last), std::max(0.0, extrapolated(at, between, last))};
}

/// What is kept grows with the length as a + b t + c t^2: of texts that are long for a large model shorter ones tell
/// it.
std::vector<std::int64_t> lengths_for(const Subject& subject, std::int64_t wanted) {
  constexpr double kMostOperations = 2e11;
  constexpr double kForEach = 6 * 3 * 6;  // of a parameter and a token of the shortest text: all runs together
  const double shortest = kMostOperations / (kForEach * static_cast<double>(subject.parameters() + 1));
  const std::int64_t step = std::clamp<std::int64_t>(std::llround(shortest), 2, 128);
  if (wanted <= 3 * step) return {wanted};
  return {step, 2 * step, 3 * step};
}

/// And with the side of an image as a + b s^2, of attention between its parts + c s^4; exactly so at sides that are
/// halved without a rest.
std::vector<std::int64_t> sides_for(const Subject& subject, std::int64_t wanted) {
  constexpr std::int64_t kLargest = 512, kStep = 128;
  if (wanted <= kLargest || !subject.takes_other_sizes()) return {wanted};
  return {kStep, 2 * kStep, 3 * kStep};
}

/// And with the batch as a + b n.
std::vector<std::int64_t> samples_for(const Subject& subject, std::int64_t wanted) {
  if (wanted <= 3) return {wanted};
  if (subject.is_text()) return {1, 2};
  return {2, 3};  // norms over a batch need two
}

/// What was carried on may be less than nothing, or more than a number of bytes can be.
std::uint64_t bytes_of(double memory, const Subject& subject) {
  constexpr double kMost = 4e18;
  if (memory <= kMost) return static_cast<std::uint64_t>(std::llround(std::max(0.0, memory)));
  throw Error(ErrorCode::usage, core::format_count(static_cast<std::uint64_t>(subject.batch().samples)) + " " +
                                    subject.input() + " at once take more memory than can be counted");
}

Memory memory_of(const Subject& subject, std::vector<Batch>& tried) {
  const Batch wanted = subject.batch();
  const bool text = subject.is_text();
  const std::vector<std::int64_t> extents =
      text ? lengths_for(subject, wanted.extent) : sides_for(subject, wanted.extent);
  if (text && extents.size() > 1 && !subject.continues_texts()) subject.try_length();
  const std::vector<std::int64_t> samples = samples_for(subject, wanted.samples);
  Memory memory = carried_on(samples, wanted.samples, 1, [&](std::int64_t n) {
    return carried_on(extents, wanted.extent, text ? 1 : 2, [&](std::int64_t t) {
      tried.push_back({n, t});
      return subject.measure(tried.back());
    });
  });
  memory.between += subject.gradients_on_their_way(tried.front());
  return memory;
}

}  // namespace

CommandSpec define_zoo_activations(CommandSpec zoo, ActivationOptions& options) {
  CommandSpec command = add_command(zoo, "activations", "ckpt-run zoo activations resnet50 --batch 32 --train",
                                    "Measure what a pass takes beside the weights; for ckpt plan.");
  command.add_option("NAME", options.name, "model, or a folder with config.json").required().type_name("");
  command.add_option("--batch", options.batch, "samples at once").type_name("N").from(1);
  command.add_option("--size", options.size, "height and width of images").type_name("N").range(1, 1000000);
  command.add_option("--length", options.length, "tokens of a text").type_name("N").from(1);
  command.add_option("--dtype", options.dtype, "type of the weights").type_name("DT");
  command.add_option("--amp", options.amp, "type that autocast computes in").type_name("DT");
  command.add_flag("--train", options.train, "with backward");
  return command;
}

int run_zoo_activations(Context& context, const ActivationOptions& options) {
  // Nobody has asked for devices yet: a device whose allocator counts, on host memory, whatever the machine has.
  ::setenv("CORE_LOGICAL_DEVICES", "host:1", 1);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  const Subject subject(options);
  std::vector<Batch> tried;
  Memory memory;
  try {
    memory = memory_of(subject, tried);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device || error.code() == ErrorCode::unsupported) throw;
    throw Error(ErrorCode::usage,
                core::quote(options.name) + " does not take " + subject.input() + ": " + error.what());
  }
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("input").value(subject.input());
  json.key("dtype").value(core::name(subject.dtype()));
  json.key("kept").value(bytes_of(memory.kept, subject));
  json.key("between").value(bytes_of(memory.between, subject));
  json.key("tried").begin_array();
  for (const Batch& batch : tried) {
    json.begin_object().key("samples").value(batch.samples);
    json.key(subject.is_text() ? "length" : "size").value(batch.extent).end_object();
  }
  json.end_array().end_object();
  context.out.print(json.take() + "\n");
  return kDone;
}

}  // namespace cli
