#include "tools/run/folder_model.h"

#include "libcore/backend/threads.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "zoo/clip.h"
#include "zoo/from_folder.h"
#include "zoo/image_processor.h"
#include "zoo/text/tokenizer.h"
#include "zoo/timm_images.h"

namespace cli {

void refuse_texts(const RunOptions& o) {
  if (!o.texts.empty())
    throw core::Error(core::ErrorCode::usage, "--text is for a folder of CLIP, which compares images with texts");
}

namespace {

using core::Error;
using core::ErrorCode;

void check_folder_options(const RunOptions& o) {
  const std::pair<bool, std::string_view> kNotHere[] = {{o.random, "--random"},
                                                        {o.guess, "--guess"},
                                                        {o.num_classes != 0, "--num-classes"},
                                                        {o.heads != 0, "--heads"},
                                                        {o.generate != 0, "--generate"},
                                                        {!o.vocabulary.empty(), "--vocabulary"}};
  for (const auto& [given, name] : kNotHere) {
    if (given) throw Error(ErrorCode::usage, std::string(name) + " is not for a folder of a model that takes images");
  }
  if (o.inputs.empty() && o.weights.empty()) {
    throw Error(ErrorCode::usage, "nothing to run on; --input names an image or a tensor");
  }
}

zoo::ImageProcessor processor_of(const RunOptions& o) {
  zoo::ImageProcessor steps = zoo::folder_image_processor(o.model);
  if (o.resize >= 0) {
    steps.shorter = o.resize;
    steps.height = steps.width = 0;
  }
  if (o.crop >= 0) steps.crop_height = steps.crop_width = o.crop;
  return steps;
}

bool compares_with_texts(const zoo::Family& family) {
  return family.name == "CLIPModel";
}

/// CLIP beside the texts that images are compared with. (n, channels, size, size) -> (n, texts).
struct ImagesByTexts : core::ModuleOf<ImagesByTexts> {
  std::shared_ptr<core::Module> both;
  core::Tensor tokens;  ///< (texts, t)
  ImagesByTexts(std::shared_ptr<core::Module> model, core::Tensor numbers)
      : both(std::move(model)), tokens(std::move(numbers)) {}
  void members(core::Members& m) override { m.child("both", *both).buffer("tokens", tokens); }
  core::Tensor forward(const core::Tensor& images) {
    return dynamic_cast<zoo::TwoInputs&>(*both).with_second(tokens, images);
  }
};

/// Folders of timm say in config.json what others say in a file of its own.
bool says_how_to_prepare(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "preprocessor_config.json") ||
         std::filesystem::exists(folder / "processor_config.json") ||
         zoo::Config::read(folder / "config.json").has("architecture");
}

/// (texts, longest): the last token of shorter ones again, behind which the model does not look.
core::Tensor tokens_of(const RunOptions& o, std::int64_t positions) {
  const zoo::text::Tokenizer tokenizer = zoo::text::Tokenizer::open(o.model);
  std::vector<std::vector<std::int64_t>> texts;
  std::size_t longest = 0;
  for (const std::string& text : o.texts) {
    texts.push_back(tokenizer.encode(text));
    if (texts.back().empty())
      throw Error(ErrorCode::usage, "the text " + core::quote(text) + " has no token").add_context("--text");
    longest = std::max(longest, texts.back().size());
  }
  if (static_cast<std::int64_t>(longest) > positions) {
    throw Error(ErrorCode::usage, "a text has " + std::to_string(longest) + " tokens, and the model positions for " +
                                      std::to_string(positions))
        .add_context("--text");
  }
  std::vector<std::int64_t> all;
  for (std::vector<std::int64_t>& text : texts) {
    text.resize(longest, text.back());
    all.insert(all.end(), text.begin(), text.end());
  }
  return core::from_values(all).view({std::ssize(texts), static_cast<std::int64_t>(longest)});
}

/// Its classes become the texts.
void compare_with_texts(RunModel& model, const RunOptions& options) {
  const auto clip = std::dynamic_pointer_cast<zoo::CLIPModel>(model.module);
  const std::int64_t positions = clip->text_model.embeddings.position_embedding.weight.size(0);
  const core::Tensor tokens = tokens_of(options, positions);
  const std::int64_t rows = clip->text_model.embeddings.token_embedding.weight.size(0);
  if (tokens.max().item<std::int64_t>() >= rows) {
    throw Error(ErrorCode::unsupported, "the tokenizer has numbers past the " + std::to_string(rows) +
                                            " of the model's embedding: they are not of one model")
        .add_context(options.model);
  }
  model.module = std::make_shared<ImagesByTexts>(clip, tokens);
  model.module->eval();
  model.answer = zoo::Answer::classes;
  model.labels = options.texts;
}

}  // namespace

bool takes_images(const RunOptions& options) {
  if (!options.prompt.empty()) return false;
  const zoo::Family& family = *zoo::folder_config(options.model).family;
  return family.input == zoo::Input::images || compares_with_texts(family);
}

RunModel prepare_folder_model(const RunOptions& options) {
  check_folder_options(options);
  const bool wants_texts = compares_with_texts(*zoo::folder_config(options.model).family);
  if (wants_texts && options.texts.empty()) {
    throw Error(ErrorCode::usage, "--text TEXT: CLIP compares an image with texts, two or more of them");
  }
  if (!wants_texts) refuse_texts(options);
  if (options.threads != 0) core::set_num_threads(static_cast<int>(options.threads));
  RunModel model;
  model.device = device_of(options.device);
  model.expected.kind = zoo::Input::images;
  model.expected.processor = processor_of(options);
  zoo::FolderOptions how;
  how.load.open.lenient = options.lenient;
  how.load.open.foreign_objects = options.foreign_objects;
  const zoo::FolderModel made = zoo::from_folder(options.model, how);
  const zoo::Family& family = *made.family;
  model.own = std::make_shared<zoo::Model>(zoo::Model{.name = family.name,
                                                      .about = "",
                                                      .family = &family,
                                                      .config = "",
                                                      .input = family.input,
                                                      .answer = family.answer});
  model.model = model.own.get();
  model.source = options.model;
  model.module = made.model;
  model.answer = zoo::answer_of(*model.model, *made.model);
  model.labels = zoo::class_names(made.config);
  if (model.labels.empty()) {
    const auto file = std::filesystem::path(options.model) / "config.json";
    model.labels = core::with_context(file.string(), [&] { return zoo::timm_class_names(zoo::Config::read(file)); });
  }
  model.dtype = made.dtype;
  model.steps = made.notes.steps;
  model.steps.insert(model.steps.end(), made.notes.warnings.begin(), made.notes.warnings.end());
  if (!says_how_to_prepare(options.model)) {
    model.steps.push_back(
        "the folder has no preprocessor_config.json, which says how images are prepared: they are as for " +
        std::string(family.name) + " where nothing else is said");
  }
  if (compares_with_texts(family)) compare_with_texts(model, options);
  model.module->to(model.device);
  return model;
}

}  // namespace cli
