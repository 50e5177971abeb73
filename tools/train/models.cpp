#include <algorithm>
#include <filesystem>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/module/linear.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "tools/train/hub_model.h"
#include "tools/train/task.h"
#include "zoo/capsnet.h"
#include "zoo/mlp.h"
#include "zoo/nanogpt.h"
#include "zoo/recurrent.h"
#include "zoo/zoo.h"

namespace train {
namespace {

using core::Error;
using core::ErrorCode;
using core::Tensor;
using Made = std::shared_ptr<core::Module>;

/// A single layer: logistic regression, or linear regression.
struct LinearModel : core::ModuleOf<LinearModel> {
  core::Linear fc;
  LinearModel(std::int64_t inputs, std::int64_t outputs) : fc(inputs, outputs) {}
  void members(core::Members& m) override { m.child("fc", fc); }
  Tensor forward(const Tensor& x) { return fc(x.flatten(1)); }  // (n, ...) -> (n, outputs)
};

std::int64_t size_of_row(const DataSet& data) {
  return data.train.inputs.numel() / data.train.size();
}

Made make_capsnet(const RunOptions& o, const DataSet& data, const core::Shape& row) {
  if (!data.is_image() || row[1] != row[2] || data.classes == 0) {
    throw Error(ErrorCode::usage, "capsnet learns classes of square images");
  }
  zoo::CapsNet::Options own{.channels = o.channels.value_or(256), .types = o.types.value_or(32)};
  own.num_classes = data.classes;
  own.image = o.resize.value_or(row[1]);
  own.in_channels = row[0];
  return std::make_shared<zoo::CapsNet>(own);
}

Made make_zoo_model(const RunOptions& o, const DataSet& data, const core::Shape& row) {
  check_learns_rows(o.model);
  if (!data.is_image() && zoo::find(o.model) != nullptr) {
    throw Error(ErrorCode::usage, o.model + " takes images; for rows of " + std::to_string(size_of_row(data)) +
                                      " numbers there are mlp and linear");
  }
  if (data.classes == 0 && zoo::find(o.model) != nullptr) {
    throw Error(ErrorCode::usage, o.model + " tells classes apart; for values there are mlp and linear");
  }
  return zoo::make(o.model, {.num_classes = data.classes, .in_channels = data.is_image() ? row[0] : 0});
}

/// One row through the model; nothing is learnt and no random number drawn.
void check_fits(core::Module& model, const RunOptions& o, const DataSet& data) {
  const core::Shape row = data.row();  // (channels, height, width)
  const core::Shape shape = {1, row[0], o.resize.value_or(row[1]), o.resize.value_or(row[2])};
  core::NoGradGuard no_grad;
  model.eval();
  std::string why;
  try {
    const Tensor y = model.call(core::zeros(shape));
    if (y.dim() != 2 || y.size(1) != data.classes) why = "it gives " + core::to_list(y.sizes());
  } catch (const Error& error) {
    why = error.message();
  }
  model.train();
  if (why.empty()) return;
  throw Error(ErrorCode::usage, o.model + " does not take images of " + core::to_list(data.row()) + " (" + why +
                                    "); another size may do: --resize 32, 64, 224 or 299");
}

/// The classifier of a folder, whose head alone learns where that was asked for.
Made make_folder_model(const RunOptions& o, const DataSet& data) {
  const bool reads_texts = classifier_family(o.model).input == zoo::Input::tokens;
  if (data.is_text != reads_texts || (!data.is_text && !data.is_image())) {
    throw Error(ErrorCode::usage, o.model + " takes " + (reads_texts ? "texts" : "images") + ", and " + data.name +
                                      " holds " + (data.is_image() ? "images" : "numbers"));
  }
  if (data.classes == 0)
    throw Error(ErrorCode::usage, o.model + " tells classes apart; for values there are mlp and linear");
  Made made = load_classifier(o.model, data);
  if (!data.is_text) check_fits(*made, o, data);
  made->train();
  if (o.freeze) freeze_all_but(*made, learning_parts(o.model, data, *made));
  return made;
}

/// A folder may be called as a model of the zoo is: "gpt2".
std::string or_the_folder(const std::string& model) {
  std::error_code error;  // what cannot be looked into is no folder
  return std::filesystem::is_directory(model, error) ? "; the folder of that name is ./" + model : "";
}

core::Device named_device(std::string_view name) {
  std::optional<core::Device> device;
  try {
    device = core::Device(name);
  } catch (const Error&) {
  }
  if (!device || !device->is_cuda()) {
    throw Error(ErrorCode::usage,
                "--devices is cpu, all, a number, or a list such as cuda:1,cuda:0; not " + core::quote(name));
  }
  const int count = core::cuda::device_count(), last = std::max(0, static_cast<int>(device->index()));
  if (last < count) return core::resolve(*device);
  throw Error(ErrorCode::device, "--devices " + std::string(name) + ": there are " + std::to_string(count) +
                                     " devices; CORE_LOGICAL_DEVICES=" + std::to_string(last + 1) +
                                     " gives as many as it needs on host memory");
}

}  // namespace

bool classifies_images(const zoo::Model& model) {
  using zoo::Answer;
  return model.input == zoo::Input::images &&
         (model.answer == Answer::classes || model.answer == Answer::lengths || model.answer == Answer::features);
}

void check_learns_rows(const std::string& model) {
  if (is_model_folder(model)) {
    classifier_family(model);
    return;
  }
  if (model.empty() || model == "linear") return;
  if (model == "char_lstm" || model == "nanogpt") {
    throw Error(ErrorCode::usage, model + " continues texts: train text --text FILE --model " + model);
  }
  const zoo::Model* known = zoo::find(model);
  if (known == nullptr) zoo::make(model);  // says that there is none, and which names are near
  if (classifies_images(*known)) return;
  throw Error(ErrorCode::usage,
              model + " classifies no images; `train list` names those that do" + or_the_folder(model));
}

std::shared_ptr<core::Module> make_model(const RunOptions& o, const DataSet& data) {
  if (is_model_folder(o.model)) return make_folder_model(o, data);
  const core::Shape row = data.row();
  const std::int64_t outputs = data.classes > 0 ? data.classes : 1;
  std::int64_t inputs = size_of_row(data);
  if (o.resize && data.is_image()) inputs = row[0] * *o.resize * *o.resize;
  if (o.model == "linear") return std::make_shared<LinearModel>(inputs, outputs);
  if (o.model == "mlp") {
    return std::make_shared<zoo::MLP>(
        zoo::MLP::Options{.inputs = inputs, .hidden = o.hidden.value_or(64), .classes = outputs});
  }
  if (o.model == "capsnet") return make_capsnet(o, data, row);
  Made made = make_zoo_model(o, data, row);
  check_fits(*made, o, data);
  return made;
}

std::shared_ptr<core::Module> make_text_model(const RunOptions& o, std::int64_t symbols) {
  if (o.model == "char_lstm") {
    return std::make_shared<zoo::CharLSTM>(zoo::CharOptions{
        .vocabulary = symbols, .embedding = o.width.value(), .hidden = o.hidden.value(), .layers = o.layers.value()});
  }
  if (o.model == "nanogpt") {
    if (*o.width % *o.heads != 0) throw Error(ErrorCode::usage, "--width is a multiple of --heads");
    return std::make_shared<zoo::NanoGPT>(zoo::NanoGPTOptions{.block_size = o.length.value(),
                                                              .vocab_size = symbols,
                                                              .n_layer = o.layers.value(),
                                                              .n_head = o.heads.value(),
                                                              .n_embd = o.width.value(),
                                                              .dropout = o.dropout.value()});
  }
  throw Error(ErrorCode::usage,
              core::quote(o.model) + " continues no texts; there are char_lstm and nanogpt" + or_the_folder(o.model));
}

std::vector<core::Device> choose_devices(const std::string& text) {
  std::vector<core::Device> devices;
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  constexpr int kMost = 128;  // of logical devices
  const int wanted = !is_number ? 0 : text.size() > 3 ? kMost + 1 : std::stoi(text);
  if (wanted > kMost) throw Error(ErrorCode::usage, "--devices " + text + ": there are at most 128");
  if (wanted > core::cuda::device_count()) core::set_logical_devices(wanted);
  if (text == "cpu" || text == "0") return devices;
  if (is_number || text.empty() || text == "all") {
    const int count = is_number ? wanted : core::cuda::device_count();
    for (int i = 0; i < count; ++i) devices.emplace_back(core::DeviceType::cuda, i);
    return devices;
  }
  for (std::string_view name : core::split(text, ',')) devices.push_back(named_device(name));
  return devices;
}

}  // namespace train
