#include "tools/run/folder_run.h"

#include <algorithm>
#include <limits>

#include "libckpt/io/byte_source.h"
#include "libckpt/io/json.h"
#include "libcore/backend/threads.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/tensor/random.h"
#include "tools/ckpt/exit_code.h"
#include "tools/run/folder_settings.h"
#include "tools/run/next_tokens.h"
#include "tools/run/run_model.h"
#include "zoo/decoder.h"
#include "zoo/from_folder.h"
#include "zoo/generate.h"
#include "zoo/text/tokenizer.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;
using zoo::Config;
using zoo::text::Tokenizer;
using Ids = std::vector<std::int64_t>;
namespace fs = std::filesystem;

/// What a folder's texts are made with.
struct FolderRun {
  std::string name;  ///< what the user wrote
  fs::path folder;
  std::optional<Tokenizer> tokenizer;  ///< none where the prompt is token ids
  zoo::FolderModel model;
  zoo::GenerateOptions how;
  Ids prompt;
  bool about = false;  ///< the model writes about the prompt and does not continue it
  std::vector<std::string> notes;
};

void check_options(const RunOptions& o) {
  const std::pair<bool, std::string_view> kNotHere[] = {{!o.weights.empty(), "a second FILE"},
                                                        {!o.inputs.empty(), "--input"},
                                                        {!o.labels.empty(), "--labels"},
                                                        {o.resize >= 0, "--resize"},
                                                        {o.crop >= 0, "--crop"},
                                                        {o.random, "--random"},
                                                        {o.guess, "--guess"},
                                                        {o.num_classes != 0, "--num-classes"},
                                                        {o.heads != 0, "--heads"},
                                                        {!o.vocabulary.empty(), "--vocabulary"},
                                                        {!o.output.empty(), "--output"}};
  for (const auto& [given, name] : kNotHere) {
    if (given)
      throw Error(ErrorCode::usage,
                  std::string(name) + " is not for a folder or a GGUF file, whose model goes on from --prompt");
  }
  if (o.prompt.empty()) throw Error(ErrorCode::usage, "nothing to go on from; --prompt gives the text");
}

void read_tokens(FolderRun& run, const RunOptions& options, const zoo::FolderConfig& said) {
  if (!Tokenizer::is_in(run.folder)) run.prompt = ids_in(options.prompt);
  if (run.prompt.empty()) {
    run.tokenizer = Tokenizer::open(run.folder);
    run.prompt = run.tokenizer->encode(options.prompt);
  }
  const auto rows = count_in(said.config, "vocab_size");
  if (rows && run.tokenizer && run.tokenizer->rows() > *rows) {
    throw Error(ErrorCode::unsupported, "the tokenizer has numbers up to " + std::to_string(run.tokenizer->rows() - 1) +
                                            ", and the model's embedding " + std::to_string(*rows) +
                                            " rows: they are not of one model")
        .add_context(run.name);
  }
  for (std::int64_t id : run.prompt) {
    if (!rows || id < *rows) continue;
    throw Error(ErrorCode::usage,
                "token " + std::to_string(id) + " is past the last of the model's " + std::to_string(*rows) + " tokens")
        .add_context("--prompt");
  }
  // T5's n_positions is what it was trained with: its positions are distances.
  if (said.family->name == "T5ForConditionalGeneration") return;
  const std::int64_t context = context_of(said.config);
  if (static_cast<std::int64_t>(run.prompt.size()) > context) {
    throw Error(ErrorCode::usage, "the prompt has " + core::format_count(run.prompt.size()) +
                                      " tokens, and the model positions for " +
                                      core::format_count(static_cast<std::uint64_t>(context)))
        .add_context("--prompt");
  }
}

bool has_chat_template(const fs::path& folder) {
  if (fs::exists(folder / "chat_template.jinja") || fs::exists(folder / "chat_template.json")) return true;
  return fs::exists(folder / "tokenizer_config.json") &&
         Config::read(folder / "tokenizer_config.json").has("chat_template");
}

/// From memory; where the model here has names of another release than the file gives, as GPT-NeoX has, from a file in
/// the folder, whose names are looked into.
zoo::FolderModel unpacked_model(GgufFolder& unpacked, const zoo::FolderOptions& options) {
  zoo::FolderOptions given = options;
  given.weights = unpacked.weights();
  try {
    return zoo::from_folder(unpacked.path(), given);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::runtime) throw;
  }
  unpacked.store_weights();
  return zoo::from_folder(unpacked.path(), options);
}

FolderRun prepare(const RunOptions& options, GgufFolder* unpacked) {
  FolderRun run;
  run.name = options.model;
  run.folder = unpacked == nullptr ? fs::path(options.model) : unpacked->path();
  if (unpacked != nullptr) run.notes = unpacked->notes();
  const zoo::FolderConfig said = zoo::folder_config(run.folder);
  if (said.family->answer != zoo::Answer::next_token) {
    throw Error(ErrorCode::unsupported,
                core::quote(said.family->name) + " gives no next token, which --prompt asks for")
        .add_context(options.model);
  }
  read_tokens(run, options, said);
  core::with_context(options.model, [&] {
    run.how = generate_options(options, folder_settings(run.folder, said.config, Suppressed::refused));
  });
  zoo::check_options(run.how);
  if (run.tokenizer && has_chat_template(run.folder)) {
    run.notes.emplace_back("the folder's chat template is not rendered: the prompt goes in as it is");
  }
  if (!options.stop.empty() && !run.tokenizer) throw Error(ErrorCode::usage, "--stop is for folders with a tokenizer");
  if (options.threads != 0) core::set_num_threads(static_cast<int>(options.threads));
  run.how.device = device_of(options.device);
  zoo::FolderOptions how;
  how.load.open.lenient = options.lenient;
  how.load.open.foreign_objects = options.foreign_objects;
  run.model = unpacked == nullptr ? zoo::from_folder(run.folder, how) : unpacked_model(*unpacked, how);
  run.model.model->to(run.how.device);
  run.about = dynamic_cast<zoo::EncoderDecoder*>(run.model.model.get()) != nullptr;
  return run;
}

/// The text in whole characters as it grows, up to the end of the first of `stops`.
class StoppedText {
 public:
  StoppedText(const Tokenizer& tokenizer, const Ids& prompt, const std::vector<std::string>& stops)
      : stream_(tokenizer, prompt), stops_(stops) {}

  std::string push(std::int64_t id) { return cut(stream_.push(id)); }
  std::string finish() { return cut(stream_.finish()); }
  const std::string& text() const { return text_; }

 private:
  std::string cut(std::string more) {
    if (stopped_) return "";
    const std::size_t given = text_.size();
    text_ += more;
    std::size_t end = std::string::npos;
    for (const std::string& stop : stops_) {
      const std::size_t at = text_.find(stop);
      if (at != std::string::npos) end = std::min(end, at + stop.size());
    }
    if (end == std::string::npos) return more;
    stopped_ = true;
    text_.resize(end);
    return text_.substr(std::min(given, end));
  }

  zoo::text::TextStream stream_;
  const std::vector<std::string>& stops_;
  std::string text_;
  bool stopped_ = false;
};

/// The tokens that the text begins with, which is not given out.
const Ids& before(const FolderRun& run) {
  return run.about ? run.how.begin : run.prompt;
}

Ids go_on(FolderRun& run, const RunOptions& options, const zoo::OnToken& on_token) {
  core::manual_seed(options.seed);
  zoo::text::Tokenizer* tokenizer = run.tokenizer ? &*run.tokenizer : nullptr;
  const auto text_of = [&run, tokenizer](const Ids& added) {
    zoo::text::TextStream stream(*tokenizer, before(run));
    for (std::int64_t id : added) stream.push(id);
    stream.finish();
    return stream.text();
  };
  const zoo::StopAfter stop = stop_after(options.stop, text_of);
  return zoo::generate(*run.model.model, run.prompt, run.how, stop, on_token);
}

void say_notes(const FolderRun& run) {
  const auto say = [&](const std::string& note) {
    print_error_line("ckpt: " + core::printable(run.name) + ": " + core::printable(note));
  };
  for (const std::string& warning : run.model.notes.warnings) say(warning);
  for (const std::string& note : run.notes) say(note);
}

void print_stream(Context& context, FolderRun& run, const RunOptions& options) {
  Output& out = context.out;
  if (!options.quiet) {
    out.print(std::string(run.model.family->name) + " (" + core::printable(run.name) + ") on " + run.how.device.str() +
              "\n");
  }
  if (!run.tokenizer) {
    std::string ids;
    for (std::int64_t id : go_on(run, options, {})) ids += (ids.empty() ? "" : ",") + std::to_string(id);
    out.print(ids + "\n");
    return;
  }
  StoppedText text(*run.tokenizer, before(run), options.stop);
  const auto show = [&](const std::string& more) {
    if (more.empty()) return;
    out.print(more);
    out.flush();
  };
  if (!run.about) show(zoo::text::whole_characters(options.prompt));
  go_on(run, options, [&](std::int64_t id) { show(text.push(id)); });
  show(text.finish());
  out.print("\n");
}

void print_json(Context& context, FolderRun& run, const RunOptions& options) {
  const Ids added = go_on(run, options, {});
  ckpt::JsonWriter json(2);
  json.begin_object().key("model").value(run.model.family->name).key("weights").value(run.name);
  json.key("device").value(run.how.device.str()).key("steps").begin_array();
  for (const std::string& step : run.model.notes.steps) json.value(step);
  for (const std::string& note : run.notes) json.value(note);
  json.end_array().key("seed").value(options.seed).key("prompt").begin_array();
  for (std::int64_t id : run.prompt) json.value(id);
  json.end_array().key("tokens").begin_array();
  for (std::int64_t id : added) json.value(id);
  json.end_array();
  if (run.tokenizer) {
    StoppedText text(*run.tokenizer, before(run), options.stop);
    for (std::int64_t id : added) text.push(id);
    text.finish();
    json.key("text").value((run.about ? "" : options.prompt) + text.text()).key("added_text").value(text.text());
  }
  json.end_object();
  context.out.print(json.text() + "\n");
}

}  // namespace

int run_folder(Context& context, const RunOptions& options, GgufFolder* unpacked) {
  check_options(options);
  FolderRun run = prepare(options, unpacked);
  if (!options.quiet && !options.json) say_notes(run);
  if (options.json) {
    print_json(context, run, options);
  } else {
    print_stream(context, run, options);
  }
  return kDone;
}

int run_gguf(Context& context, const RunOptions& options) {
  check_options(options);
  GgufFolder unpacked(options);
  try {
    return run_folder(context, options, &unpacked);
  } catch (const Error& error) {
    throw unpacked.by_file(error);
  }
}

}  // namespace cli
