// ckpt rename: new keys by a table in a JSON file.

#include "libckpt/io/byte_source.h"
#include "libckpt/limits.h"
#include "libckpt/transform/rename.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands.h"
#include "tools/ckpt/key_report.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

struct Options : EditOptions {
  std::string map;
  bool allow_unknown = false;
};

std::vector<std::pair<std::string, std::string>> parse_table(const std::string& path) {
  ckpt::SourcePtr file = ckpt::open_file(path);
  if (file->size() > ckpt::Limits().max_json_bytes) throw Error(ErrorCode::refused, "too large for a table of names");
  ckpt::JsonDocument json = ckpt::JsonDocument::parse(ckpt::read_all(*file), {.what = "the table"});
  if (!json.root().is(ckpt::JsonView::Kind::object)) {
    throw Error(ErrorCode::corrupt, "the table is no JSON object {\"old key\": \"new key\", ...}");
  }
  std::vector<std::pair<std::string, std::string>> table;
  for (const auto& [from, to] : json.root().members()) {
    if (!to.is(ckpt::JsonView::Kind::text)) {
      throw Error(ErrorCode::corrupt, "the new name of " + core::quote(from) + " is no text");
    }
    table.emplace_back(from, to.as_text());
  }
  return table;
}

int run(Context& context, const Options& options) {
  ckpt::RenameOptions rename;
  rename.table = core::with_context(options.map, [&] { return parse_table(options.map); });
  rename.allow_unknown = options.allow_unknown;
  return run_edits(context, options, {"rename", "renamed"},
                   [&](const ckpt::Checkpoint& checkpoint, const std::string& at) {
                     rename.at = at;
                     ckpt::KeyChanges changes;
                     ckpt::Checkpoint renamed = ckpt::rename_keys(checkpoint, rename, &changes);
                     return key_edit(std::move(renamed), changes);
                   });
}

}  // namespace

void add_rename(CLI::App& app, Command& chosen) {
  CLI::App& command =
      add_command(app, "rename", "ckpt rename --map names.json net.pth      # {\"fc.weight\": \"head.weight\"}",
                  "Rename keys by a table, all at once; a swap works, two keys of one name are refused.");
  auto options = std::make_shared<Options>();
  command.add_option("--map", options->map, "JSON object: old key -> new key")->required()->type_name("JSON");
  command.add_flag("--allow-unknown", options->allow_unknown, "let old keys pass that the file does not have");
  add_edit_options(command, *options, "NAME.renamed.EXT beside the input");
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
