#include "tools/run/sound_run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "libckpt/io/json.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/threads.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/ops/index.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tools/ckpt/exit_code.h"
#include "tools/run/folder_settings.h"
#include "tools/run/next_tokens.h"
#include "tools/run/run_model.h"
#include "tools/run/whisper_languages.h"
#include "tools/support/sound_file.h"
#include "zoo/decoder.h"
#include "zoo/from_folder.h"
#include "zoo/generate.h"
#include "zoo/log_mel.h"
#include "zoo/text/tokenizer.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;
using core::Tensor;
using zoo::Config;
using Ids = std::vector<std::int64_t>;
namespace fs = std::filesystem;

constexpr std::string_view kWriter = "WhisperForConditionalGeneration";

/// Tokens by the words that generation_config.json has for them: "<|en|>", "transcribe".
using WordTokens = std::vector<std::pair<std::string, std::int64_t>>;

WordTokens words_in(const Config& config, std::string_view name) {
  const std::string* json = config.json_of(name);
  if (json == nullptr) return {};
  const auto document = ckpt::JsonDocument::parse(std::string_view(*json));
  WordTokens out;
  if (document.root().is(ckpt::JsonView::Kind::object)) {
    for (const auto& [word, id] : document.root().members()) {
      if (id.is_count()) out.emplace_back(std::string(word), id.as_integer());
    }
  }
  if (out.empty()) {
    throw Error(ErrorCode::corrupt, "the field " + core::quote(name) + " names no tokens")
        .add_context("generation_config.json");
  }
  return out;
}

std::optional<std::int64_t> token_of(const WordTokens& words, std::string_view word) {
  for (const auto& [known, id] : words) {
    if (known == word) return id;
  }
  return std::nullopt;
}

std::string words_of(const WordTokens& words) {
  std::vector<std::string> out;
  for (const auto& [word, id] : words) {
    const bool marked = word.starts_with("<|") && word.ends_with("|>");
    out.push_back(marked ? word.substr(2, word.size() - 4) : word);
  }
  return core::join(out, ", ");
}

/// What a folder of Whisper writes with.
struct SoundRun {
  fs::path folder;
  zoo::FolderModel model;
  std::optional<zoo::text::Tokenizer> tokenizer;
  zoo::LogMelOptions hearing;
  zoo::GenerateOptions how;
  Ids begin;  ///< before the language is known
  WordTokens languages;
  bool finds_language = false;
  std::int64_t no_times = -1;
};

/// What was heard, half a minute each.
struct Heard {
  std::string name;
  std::string what;
  std::vector<Tensor> pieces;  ///< (1, bands, frames)
};

struct Written {
  Ids tokens;
  std::string text;
  std::string language;
};

void check_sound_options(const RunOptions& o) {
  const std::pair<bool, std::string_view> kNotHere[] = {{!o.labels.empty(), "--labels"},
                                                        {o.resize >= 0, "--resize"},
                                                        {o.crop >= 0, "--crop"},
                                                        {o.random, "--random"},
                                                        {o.guess, "--guess"},
                                                        {o.num_classes != 0, "--num-classes"},
                                                        {o.heads != 0, "--heads"},
                                                        {!o.vocabulary.empty(), "--vocabulary"},
                                                        {!o.texts.empty(), "--text"},
                                                        {!o.output.empty(), "--output"}};
  for (const auto& [given, name] : kNotHere) {
    if (given) throw Error(ErrorCode::usage, std::string(name) + " is not for a folder of a model that takes sounds");
  }
  if (o.inputs.empty() && o.weights.empty()) {
    throw Error(ErrorCode::usage, "nothing to listen to; --input names a sound (WAV, FLAC, Ogg, MP3)");
  }
}

/// [[1, 50259], [2, 50359]]: tokens by their places behind the first one; null stands for a language to be found.
void begin_with_forced(SoundRun& run, const Config& config) {
  const std::string* json = config.json_of("forced_decoder_ids");
  if (json == nullptr) return;
  const auto document = ckpt::JsonDocument::parse(std::string_view(*json));
  const auto refuse = [] {
    throw Error(ErrorCode::corrupt, "the field 'forced_decoder_ids' is no list of places and tokens from place 1 on")
        .add_context("generation_config.json");
  };
  if (!document.root().is(ckpt::JsonView::Kind::array)) refuse();
  std::int64_t place = 1;
  for (const ckpt::JsonView& pair : document.root().items()) {
    const std::vector<ckpt::JsonView> parts =
        pair.is(ckpt::JsonView::Kind::array) ? pair.items() : std::vector<ckpt::JsonView>();
    const bool empty = parts.size() == 2 && place == 1 && parts[1].is(ckpt::JsonView::Kind::null);
    if (parts.size() != 2 || !parts[0].is_count() || parts[0].as_integer() != place++) refuse();
    if (!empty && !parts[1].is_count()) refuse();
    run.begin.push_back(empty ? -1 : parts[1].as_integer());
  }
}

/// By its code, its token or its English name, in any letter case.
std::int64_t known_language(const SoundRun& run, const std::string& language) {
  std::string small = language;
  for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const std::string& word : {small, "<|" + small + "|>", "<|" + std::string(language_code(small)) + "|>"}) {
    if (const auto id = token_of(run.languages, word)) return *id;
  }
  throw Error(ErrorCode::usage, "the model has no language " + core::quote(language) + "; it has " +
                                    (run.languages.empty() ? "one alone" : words_of(run.languages)));
}

/// The language and the task, as transformers puts them before a text: options before fields, "forced_decoder_ids" only
/// without either.
void begin_text(SoundRun& run, const RunOptions& options, const Config& config) {
  run.languages = config.has("lang_to_id") ? words_in(config, "lang_to_id") : WordTokens();
  const WordTokens tasks = config.has("task_to_id") ? words_in(config, "task_to_id") : WordTokens();
  const std::string language = options.language.empty() ? config.text_of("language").value_or("") : options.language;
  const std::string task = options.task.empty() ? config.text_of("task").value_or("") : options.task;
  if (language.empty() && task.empty()) begin_with_forced(run, config);
  const bool open = run.begin.size() < 2 || run.begin[1] < 0;
  if (!language.empty()) {
    const std::int64_t id = known_language(run, language);
    run.begin.size() > 1 ? run.begin[1] = id : (run.begin.push_back(id), id);
  } else if (!run.languages.empty() && open) {
    run.finds_language = true;
    if (run.begin.size() < 2) run.begin.push_back(-1);
  }
  if (!task.empty() || (!language.empty() && !tasks.empty())) {
    const std::string wanted = task.empty() ? "transcribe" : task;
    const auto id = token_of(tasks, wanted);
    if (!id) {
      throw Error(ErrorCode::usage, "the model has no task " + core::quote(wanted) +
                                        (tasks.empty() ? "" : "; it has " + words_of(tasks)));
    }
    run.begin.push_back(*id);
  }
  run.no_times = count_in(config, "no_timestamps_token_id").value_or(-1);
  if (run.no_times >= 0 && run.begin.back() != run.no_times) run.begin.push_back(run.no_times);
  if (!run.finds_language) std::erase(run.begin, -1);
}

void read_settings(SoundRun& run, const RunOptions& options, const Config& said) {
  const fs::path file = run.folder / "generation_config.json";
  const Config config = fs::exists(file) ? said.with(Config::read(file)) : said;
  if (config.json_of("return_timestamps") != nullptr && *config.json_of("return_timestamps") == "true") {
    throw Error(ErrorCode::unsupported, "the field 'return_timestamps' is true, and times are not written here")
        .add_context("generation_config.json");
  }
  run.how = generate_options(options, folder_settings(run.folder, said, Suppressed::here));
  run.begin = run.how.begin;
  begin_text(run, options, config);
  const std::int64_t positions = count_in(said, "max_target_positions").value_or(448);
  const std::int64_t room = positions - static_cast<std::int64_t>(run.begin.size());
  const std::int64_t most = count_in(config, "max_new_tokens").value_or(count_in(config, "max_length").value_or(room));
  run.how.max_new_tokens = options.generate > 0 ? options.generate : std::min(most, room);
  if (room < 1 || run.how.max_new_tokens > room) {
    throw Error(ErrorCode::usage, core::format_count(static_cast<std::uint64_t>(run.how.max_new_tokens)) +
                                      " new tokens are too many: the model has positions for " +
                                      std::to_string(positions) + ", of which " + std::to_string(run.begin.size()) +
                                      " are taken");
  }
  const std::int64_t rows = count_in(said, "vocab_size").value_or(std::numeric_limits<std::int64_t>::max());
  for (const Ids* ids : {&run.begin, &run.how.suppressed, &run.how.suppressed_first}) {
    for (std::int64_t id : *ids) {
      if (id < rows) continue;
      throw Error(ErrorCode::corrupt,
                  "names token " + std::to_string(id) + ", past the last of the model's " + std::to_string(rows))
          .add_context("generation_config.json");
    }
  }
}

SoundRun prepare(const RunOptions& options) {
  SoundRun run;
  run.folder = options.model;
  const zoo::FolderConfig said = zoo::folder_config(run.folder);
  if (said.family->name != kWriter) {
    throw Error(ErrorCode::unsupported, core::quote(said.family->name) + " listens and writes nothing")
        .add_context(options.model);
  }
  run.hearing = zoo::read_log_mel(run.folder / "preprocessor_config.json");
  run.tokenizer = zoo::text::Tokenizer::open(run.folder);
  core::with_context(options.model, [&] { read_settings(run, options, said.config); });
  zoo::check_options(run.how);
  if (options.threads != 0) core::set_num_threads(static_cast<int>(options.threads));
  run.how.device = device_of(options.device);
  zoo::FolderOptions how;
  how.load.open.lenient = options.lenient;
  how.load.open.foreign_objects = options.foreign_objects;
  run.model = zoo::from_folder(run.folder, how);
  run.model.model->to(run.how.device);
  return run;
}

Heard hear(const SoundRun& run, const std::string& file) {
  const Sound sound = read_sound(file, run.hearing.sampling_rate);
  Heard heard{.name = file, .what = {}, .pieces = {}};
  const auto piece = static_cast<std::size_t>(run.hearing.chunk_length * run.hearing.sampling_rate);
  const std::span<const float> samples(sound.samples);
  for (std::size_t at = 0; at < std::max<std::size_t>(samples.size(), 1); at += piece) {
    const std::span<const float> part = samples.subspan(at, std::min(piece, samples.size() - at));
    Tensor x = core::zeros({static_cast<std::int64_t>(piece)});
    std::ranges::copy(part, x.mutable_data<float>());
    heard.pieces.push_back(zoo::log_mel(x, run.hearing).to(run.how.device).to(run.model.dtype));
  }
  const double seconds = static_cast<double>(samples.size()) / static_cast<double>(run.hearing.sampling_rate);
  heard.what = core::python_float(std::round(seconds * 10) / 10) + " s, " +
               count_of(static_cast<std::uint64_t>(sound.channels), "channel") + " at " + std::to_string(sound.rate) +
               " samples a second";
  return heard;
}

/// The likeliest of the languages as the first token of a text about the sound.
std::int64_t language_of(const SoundRun& run, const Tensor& features) {
  core::NoGradGuard no_grad;
  auto& writer = dynamic_cast<zoo::EncoderDecoder&>(*run.model.model);
  const Tensor first = core::from_values(Ids{run.begin[0]}).unsqueeze(0).to(run.how.device);
  const Tensor logits = writer.with_second(features, first).select(1, 0).select(0, 0).cpu().to(core::DType::f32);
  const std::vector<float> scores = logits.to_vector<float>();
  Ids ids;
  for (const auto& [word, id] : run.languages) ids.push_back(id);
  std::ranges::sort(ids);  // among equals the first one
  return *std::ranges::max_element(ids, {}, [&](std::int64_t id) { return scores.at(static_cast<std::size_t>(id)); });
}

/// Tokens of times come behind the one that says that there are none.
bool is_time(const SoundRun& run, std::int64_t id) {
  return run.no_times >= 0 && id > run.no_times;
}

std::string text_of(const SoundRun& run, const Ids& tokens) {
  Ids words;
  std::ranges::copy_if(tokens, std::back_inserter(words), [&](std::int64_t id) { return !is_time(run, id); });
  return run.tokenizer->decode(words);
}

Written write_about(SoundRun& run, const RunOptions& options, const Tensor& features) {
  Written out;
  run.how.begin = run.begin;
  if (run.finds_language) run.how.begin[1] = language_of(run, features);
  for (const auto& [word, id] : run.languages) {
    if (run.how.begin.size() > 1 && run.how.begin[1] == id) out.language = word;
  }
  const auto text = [&run](const Ids& added) { return text_of(run, added); };
  out.tokens = zoo::generate_about(*run.model.model, features, run.how, stop_after(options.stop, text));
  out.text = text_of(run, out.tokens);
  return out;
}

void say_notes(const SoundRun& run, const std::vector<Heard>& sounds) {
  for (const std::string& warning : run.model.notes.warnings) {
    print_error_line("ckpt: " + core::printable(run.folder.string()) + ": " + core::printable(warning));
  }
  for (const Heard& heard : sounds) {
    if (heard.pieces.size() == 1) continue;
    print_error_line("ckpt: " + core::printable(heard.name) + ": is heard in " + std::to_string(heard.pieces.size()) +
                     " pieces of " + std::to_string(run.hearing.chunk_length) +
                     " s, each for itself: words that lie across a seam may be lost");
  }
}

void write_piece(ckpt::JsonWriter& json, const Written& piece) {
  json.begin_object().key("language").value(piece.language).key("tokens").begin_array();
  for (std::int64_t id : piece.tokens) json.value(id);
  json.end_array().key("text").value(piece.text).end_object();
}

/// The texts of all pieces, which go out as they are written.
void print_text(Context& context, SoundRun& run, const RunOptions& options, const Heard& heard) {
  if (!options.quiet) context.out.print(core::printable(heard.name) + ": " + heard.what + "\n");
  for (const Tensor& features : heard.pieces) {
    context.out.print(zoo::text::whole_characters(write_about(run, options, features).text));
    context.out.flush();
  }
  context.out.print("\n");
}

void write_sound(ckpt::JsonWriter& json, SoundRun& run, const RunOptions& options, const Heard& heard) {
  json.begin_object().key("input").value(heard.name).key("about").value(heard.what).key("pieces").begin_array();
  std::string text;
  for (const Tensor& features : heard.pieces) {
    const Written piece = write_about(run, options, features);
    write_piece(json, piece);
    text += piece.text;
  }
  json.end_array().key("text").value(text).end_object();
}

}  // namespace

bool takes_sounds(const RunOptions& options) {
  if (!options.prompt.empty()) return false;
  const std::string_view family = zoo::folder_config(options.model).family->name;
  return family == kWriter || family == "WhisperModel";
}

int run_sounds(Context& context, const RunOptions& options) {
  check_sound_options(options);
  SoundRun run = prepare(options);
  std::vector<std::string> files = options.inputs;
  if (!options.weights.empty()) files.insert(files.begin(), options.weights);
  std::vector<Heard> sounds;
  for (const std::string& file : files) sounds.push_back(hear(run, file));
  core::manual_seed(options.seed);
  if (!options.json) {
    if (!options.quiet) {
      say_notes(run, sounds);
      context.out.print(std::string(kWriter) + " (" + core::printable(options.model) + ") on " + run.how.device.str() +
                        "\n");
    }
    for (const Heard& heard : sounds) print_text(context, run, options, heard);
    return kDone;
  }
  ckpt::JsonWriter json(2);
  json.begin_object().key("model").value(kWriter).key("weights").value(options.model);
  json.key("device").value(run.how.device.str()).key("seed").value(options.seed).key("inputs").begin_array();
  for (const Heard& heard : sounds) write_sound(json, run, options, heard);
  json.end_array().end_object();
  context.out.print(json.text() + "\n");
  return kDone;
}

}  // namespace cli
