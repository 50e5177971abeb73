#include "tools/run/zoo_info.h"

#include <algorithm>
#include <filesystem>

#include "libckpt/io/json.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/exit_code.h"
#include "tools/support/suggest.h"
#include "zoo/from_folder.h"
#include "zoo/made_as.h"
#include "zoo/recognize.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

struct Facts {
  zoo::FolderConfig said;
  std::uint64_t parameters = 0;
  core::DType dtype = core::DType::f32;
  std::string weights = {};  ///< how the folder's weights fit; "" for a known model
};

zoo::FolderConfig config_of(const ZooInfoOptions& options) {
  if (fs::is_directory(options.name)) return zoo::folder_config(options.name);
  std::vector<std::string> names;
  for (const zoo::Model& model : zoo::list()) names.emplace_back(model.name);
  for (const zoo::Family& family : zoo::families()) names.emplace_back(family.name);
  if (std::find(names.begin(), names.end(), options.name) == names.end()) {
    throw core::Error(core::ErrorCode::usage, core::quote(options.name) +
                                                  " is neither a folder nor a known model (see 'ckpt zoo ls')" +
                                                  did_you_mean(options.name, names));
  }
  auto [family, config] = zoo::resolve(options.name, zoo::Config());
  return {family, std::move(config)};
}

/// The model without memory: shapes alone.
std::shared_ptr<core::Module> laid_out(const zoo::FolderConfig& said) {
  const zoo::MadeAs scope(core::Device("meta"));
  return zoo::build(*said.family, said.config);
}

Facts facts_of(const ZooInfoOptions& options) {
  Facts facts{.said = config_of(options)};
  const auto module = core::with_context(options.name, [&] { return laid_out(facts.said); });
  for (const core::Tensor& parameter : module->parameters()) {
    facts.parameters += static_cast<std::uint64_t>(parameter.numel());
  }
  if (!fs::is_directory(options.name)) return facts;
  facts.dtype = zoo::folder_dtype(options.name);
  facts.weights = zoo::fit_of(*module, options.name);
  constexpr const char* kNot = "do not fit";
  if (!facts.weights.starts_with(kNot)) return facts;
  const std::string other = zoo::other_family(*facts.said.family, ckpt::open(options.name, {.foreign_objects = true}));
  if (!other.empty()) facts.weights = kNot + (": " + other);
  return facts;
}

/// JSON without its line breaks, which stand between values alone.
std::string on_one_line(const std::string& json) {
  std::string line;
  bool skips = false;
  for (char c : json) {
    skips = c == '\n' || (skips && c == ' ');
    if (!skips) line += c;
  }
  return line;
}

void print_facts(Output& out, const Facts& facts, const ZooInfoOptions& options) {
  const std::uint64_t bytes = facts.parameters * static_cast<std::uint64_t>(core::bit_width(facts.dtype)) / 8;
  out.print(core::printable(options.name) + ": " + std::string(facts.said.family->name) + ", " +
            core::format_count(facts.parameters) + " parameters, " + core::format_size(bytes) + " in " +
            std::string(core::name(facts.dtype)) + "\n");
  if (!facts.weights.empty()) out.print("weights: " + core::printable(facts.weights) + "\n");
  for (const auto& [field, value] : facts.said.config.fields()) {
    if (value != "null") out.print("  " + core::printable(field) + " " + core::printable(on_one_line(value)) + "\n");
  }
}

void write_facts(Output& out, const Facts& facts, const ZooInfoOptions& options) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("name").value(options.name);
  json.key("family").value(facts.said.family->name);
  json.key("parameters").value(facts.parameters);
  json.key("dtype").value(core::name(facts.dtype));
  if (!facts.weights.empty()) json.key("weights").value(facts.weights);
  json.key("config").raw(facts.said.config.json());
  json.end_object();
  out.print(json.text() + "\n");
}

}  // namespace

int run_zoo_info(Context& context, const ZooInfoOptions& options) {
  const Facts facts = facts_of(options);
  if (options.json) {
    write_facts(context.out, facts, options);
  } else if (options.quiet) {
    context.out.print(std::string(facts.said.family->name) + "\n");
  } else {
    print_facts(context.out, facts, options);
  }
  return kDone;
}

}  // namespace cli
