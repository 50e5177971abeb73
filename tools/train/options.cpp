#include "tools/train/options.h"

#include <algorithm>

#include "libckpt/io/byte_source.h"
#include "libckpt/io/json.h"
#include "libckpt/transform/toml_node.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/support/suggest.h"

namespace train {
namespace {

using ckpt::detail::TextNode;
using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kMaxConfig = 1 << 20;

/// A quoted text as JSON and TOML both read it: control characters are escaped, the rest stays.
std::string text_value(const std::string& text) {
  return ckpt::json_quote(text);
}

std::string value_text(const Field& field) {
  if (const auto* text = std::get_if<std::string*>(&field.value)) return (*text)->empty() ? "" : text_value(**text);
  if (const auto* integer = std::get_if<std::optional<std::int64_t>*>(&field.value)) {
    return **integer ? std::to_string(***integer) : "";
  }
  if (const auto* real = std::get_if<std::optional<double>*>(&field.value)) {
    return **real ? core::python_float(***real) : "";
  }
  return *std::get<bool*>(field.value) ? "true" : "";
}

std::string argument(const std::string& key, const TextNode& node) {
  const std::string name = "--" + key;
  switch (node.kind) {
    case TextNode::Kind::text:
      return name + "=" + node.text;
    case TextNode::Kind::integer:
      return name + "=" + std::to_string(node.integer);
    case TextNode::Kind::real:
      return name + "=" + core::python_float(node.real);
    case TextNode::Kind::boolean:
      return name + "=" + (node.integer != 0 ? "true" : "false");
    default:
      throw Error(ErrorCode::usage, "the value of " + core::quote(key) + " is not text, number or boolean");
  }
}

std::vector<std::string> names_of(unsigned where) {
  RunOptions unused;
  std::vector<std::string> names;
  for (const Field& field : fields(unused)) {
    if ((field.where & where) != 0) names.emplace_back(field.name);
  }
  return names;
}

unsigned command_of(const TextNode& root, unsigned where) {
  const TextNode* command = root.find("command");
  if (command == nullptr) return where == 0 ? Field::fit : where;
  if (command->text != "fit" && command->text != "text") {
    throw Error(ErrorCode::usage, "'command' is \"fit\" or \"text\"");
  }
  const unsigned named = command->text == "text" ? Field::text : Field::fit;
  if (where != 0 && where != named) throw Error(ErrorCode::usage, "is a config of `train " + command->text + "`");
  return named;
}

}  // namespace

std::vector<Field> fields(RunOptions& o) {
  const char *data = "Data", *model = "Model", *steps = "Training", *rate = "Learning rate", *files = "Files",
             *machine = "Machine";
  return {
      {"data", Field::fit, data, "a data set (see `train list`), or a folder or file of your own", &o.data},
      {"kind", Field::fit, data, "what the target is: classes or values; guessed from it", &o.kind},
      {"target", Field::fit, data, "column of a CSV file, by name or number from 0; the last", &o.target},
      {"text-column", Field::fit, data,
       "column of a CSV file with the texts, for the model of a folder that reads texts", &o.text_column},
      {"split", Field::fit, data, "rows to test on: none, every:N or last:N", &o.split},
      {"scale", Field::fit, data, "columns of a table: standard (mean 0, deviation 1) or none", &o.scale},
      {"rows", Field::fit, data, "train on the first N rows alone", &o.rows},
      {"test-rows", Field::fit, data, "test on the first N rows alone", &o.test_rows},
      {"resize", Field::fit, data,
       "images to N x N: bilinear; of folders of images the middle, as zoo run --resize N --crop N", &o.resize},
      {"in-order", Field::both, data, "no shuffling", &o.in_order},
      {"text", Field::text, data, "the text to learn, a file in UTF-8; its last tenth is held back", &o.text},
      {"length", Field::both, data, "characters that the model sees at once; of the model of a folder tokens",
       &o.length},
      {"epoch-steps", Field::text, data, "steps that count as an epoch", &o.epoch_steps},

      {"model", Field::both, model,
       "a model of the zoo, mlp or linear; for a text char_lstm or nanogpt; or a folder from a hub, whose model learns "
       "on",
       &o.model},
      {"lora", Field::both, model,
       "of a folder's model: factors of this rank learn beside its layers, saved as PEFT does", &o.lora},
      {"lora-alpha", Field::both, model, "changes of --lora count alpha / rank; 8", &o.lora_alpha},
      {"lora-targets", Field::both, model, "layers that --lora changes, by the ends of their names: q_proj,v_proj",
       &o.lora_targets},
      {"freeze", Field::fit, model, "of a folder's model: only the head learns", &o.freeze},
      {"hidden", Field::both, model, "width of the hidden layer of mlp and char_lstm", &o.hidden},
      {"channels", Field::fit, model, "of the convolutions of capsnet", &o.channels},
      {"types", Field::fit, model, "of primary capsules of capsnet", &o.types},
      {"layers", Field::text, model, "of char_lstm and nanogpt", &o.layers},
      {"heads", Field::text, model, "of nanogpt", &o.heads},
      {"width", Field::text, model, "of the embeddings", &o.width},
      {"dropout", Field::text, model, "of nanogpt", &o.dropout},

      {"epochs", Field::all, steps, "when to stop; a run made longer has the rates of one that was planned so",
       &o.epochs},
      {"batch", Field::both, steps, "rows a step; 0: all", &o.batch},
      {"optimizer", Field::both, steps, "sgd, adam, adamw, rmsprop, adagrad, adadelta, adamax, nadam, radam",
       &o.optimizer},
      {"momentum", Field::both, steps, "of sgd and rmsprop", &o.momentum},
      {"nesterov", Field::both, steps, "Nesterov's form of sgd's momentum", &o.nesterov},
      {"beta1", Field::both, steps, "of adam and its kin", &o.beta1},
      {"beta2", Field::both, steps, "of adam and its kin", &o.beta2},
      {"weight-decay", Field::both, steps, "on every parameter", &o.weight_decay},
      {"clip", Field::both, steps, "largest norm of all gradients together", &o.clip},
      {"early-stop", Field::all, steps, "stop when N epochs brought nothing better", &o.early_stop},
      {"amp", Field::both, steps, "mixed precision: products and convolutions in bf16 or f16, weights stay f32", &o.amp,
       "bf16"},
      {"min-delta", Field::all, steps, "how much lower a loss must be to be better", &o.min_delta},
      {"seed", Field::both, steps, "of all random numbers", &o.seed},

      {"lr", Field::both, rate, "learning rate; the highest one of onecycle", &o.lr},
      {"schedule", Field::both, rate, "none, step, multistep, exponential, cosine, restarts, poly, plateau, onecycle",
       &o.schedule},
      {"warmup", Field::both, rate, "steps in which the rate rises to --lr; not with onecycle, restarts", &o.warmup},
      {"step-size", Field::both, rate, "epochs between drops of step; epochs of the first cycle of restarts",
       &o.step_size},
      {"milestones", Field::both, rate, "epochs at which multistep drops: 3,5", &o.milestones},
      {"gamma", Field::both, rate, "factor of a drop (step, multistep, exponential, plateau)", &o.gamma},
      {"patience", Field::both, rate, "epochs without a better loss before plateau drops", &o.patience},
      {"min-lr", Field::both, rate, "where cosine, restarts and plateau end", &o.min_lr},

      {"threads", Field::all, machine, "cores to use", &o.threads},
      {"devices", Field::all, machine, "cpu, all, a number or a list: DataParallel over that many or those",
       &o.devices},

      {"out", Field::both, files, "folder of the run", &o.out},
      {"format", Field::both, files, "of the best weights: ckpt, pth, safetensors, several with commas", &o.format},
      {"state-format", Field::both, files, "of the states to resume from: ckpt or pth", &o.state_format},
      {"keep", Field::all, files, "how many states to keep", &o.keep},
      {"save-every", Field::all, files, "seconds between states; 0: one behind every epoch", &o.save_every},
  };
}

void merge(RunOptions from, RunOptions& to) {
  const std::vector<Field> given = fields(from), into = fields(to);
  for (std::size_t i = 0; i < given.size(); ++i) {
    std::visit(
        [&](auto* value) {
          const bool is_set = *value != std::remove_pointer_t<decltype(value)>();
          if (is_set) *std::get<decltype(value)>(into[i].value) = *value;
        },
        given[i].value);
  }
}

std::string to_toml(const RunOptions& options) {
  RunOptions copy = options;
  std::string out = std::string("command = ") + (options.is_text ? "\"text\"" : "\"fit\"") + "\n";
  for (const Field& field : fields(copy)) {
    const std::string value = value_text(field);
    if (!value.empty()) out += std::string(field.name) + " = " + value + "\n";
  }
  return out;
}

Config read_config(const std::string& file, unsigned where) {
  ckpt::SourcePtr source = ckpt::open_file(file);
  return core::with_context(file, [&] {
    if (source->size() > kMaxConfig) throw Error(ErrorCode::refused, "larger than 1 MiB, so no file of options");
    const core::ByteVector bytes = ckpt::read_all(*source);
    const TextNode root = ckpt::detail::parse_toml_node({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    Config config;
    config.is_text = command_of(root, where) == Field::text;
    const std::vector<std::string> names = names_of(config.is_text ? Field::text : Field::fit);
    for (const auto& [key, node] : root.members) {
      if (key == "command") continue;
      if (std::find(names.begin(), names.end(), key) == names.end()) {
        throw Error(ErrorCode::usage, core::quote(key) + " is not an option" + cli::did_you_mean(key, names));
      }
      config.arguments.push_back(argument(key, node));
    }
    return config;
  });
}

}  // namespace train
