// The C interface: questions about files that end in JSON.

#include <mutex>

#include "libckpt/analyze/digest.h"
#include "libckpt/analyze/why.h"
#include "libckpt/c_api_internal.h"
#include "libckpt/io/json.h"
#include "libckpt/scan.h"

namespace {

using namespace ckpt::detail;

std::string scan_json(const ckpt::ScanResult& result) {
  ckpt::JsonWriter json;
  json.begin_object();
  json.key("verdict").value(result.verdict());
  json.key("clean").value(result.clean());
  json.key("complete").value(result.complete());
  json.key("content").value(result.content);
  json.key("symbols").begin_array();
  for (const ckpt::ScannedPickle& pickle : result.pickles) {
    for (const ckpt::ScannedSymbol& symbol : pickle.symbols) {
      json.begin_object();
      json.key("where").value(pickle.where);
      json.key("name").value(symbol.name);
      json.key("verdict").value(ckpt::verdict_text(symbol.verdict));
      json.key("calls").value(symbol.calls);
      json.end_object();
    }
  }
  json.end_array();
  write_findings(json, "findings", result.findings);
  write_findings(json, "unread", result.unread);
  json.end_object();
  return json.take();
}

std::string why_json(const ckpt::Diagnosis& diagnosis) {
  ckpt::JsonWriter json;
  json.begin_object();
  json.key("loads").value(diagnosis.loads());
  json.key("fixable").value(diagnosis.fixable());
  json.key("description").value(diagnosis.description);
  json.key("causes").begin_array();
  for (const ckpt::Cause& cause : diagnosis.causes) {
    json.begin_object();
    json.key("kind").value(ckpt::name(cause.kind));
    json.key("text").value(cause.text);
    json.key("advice").value(cause.advice);
    json.end_object();
  }
  json.end_array();
  json.key("fix").begin_array();
  for (const ckpt::FixStep& step : diagnosis.plan.steps) json.value(step.text);
  json.end_array();
  json.key("keys").value(diagnosis.before.keys);
  json.key("keys_after").value(diagnosis.after.keys);
  json.key("wanted").value(diagnosis.before.wanted);
  json.end_object();
  return json.take();
}

/// Rule packs of this process. A reader keeps the list that it got, whatever is added meanwhile.
class RulePacks {
 public:
  using List = std::shared_ptr<const std::vector<ckpt::RulePack>>;
  List list() {
    const std::lock_guard lock(mutex_);
    return packs_;
  }
  void add(ckpt::RulePack pack) {
    const std::lock_guard lock(mutex_);
    auto packs = std::make_shared<std::vector<ckpt::RulePack>>(*packs_);
    std::erase_if(*packs, [&](const ckpt::RulePack& other) { return other.name == pack.name; });
    packs->push_back(std::move(pack));
    packs_ = std::move(packs);
  }

 private:
  std::mutex mutex_;
  List packs_ = std::make_shared<std::vector<ckpt::RulePack>>();
};

RulePacks& rule_packs() {
  static RulePacks packs;
  return packs;
}

}  // namespace

ckpt_status ckpt_add_rule_pack(const char* name, const char* toml, ckpt_error** error) {
  return guarded(error, [&] {
    require(name, "name");
    rule_packs().add(ckpt::parse_rule_pack(&require(toml, "toml"), name));
  });
}

ckpt_status ckpt_digest(const ckpt_checkpoint* checkpoint, char** hex, ckpt_error** error) {
  return guarded(error, [&] {
    const ckpt_checkpoint& c = require(checkpoint, "checkpoint");
    require(hex, "hex") = copy_text(ckpt::to_hex(ckpt::digest(c.checkpoint.root).model));
  });
}

ckpt_status ckpt_scan(const char* path, const ckpt_open_options* options, int* clean, char** json, ckpt_error** error) {
  return guarded(error, [&] {
    require(path, "path");
    ckpt::Report report;
    ckpt::ScanResult result = ckpt::scan(path, open_options(options, report));
    if (json != nullptr) *json = copy_text(scan_json(result));
    if (clean != nullptr) *clean = result.clean() ? 1 : 0;
  });
}

ckpt_status ckpt_why(const char* path, const ckpt_checkpoint* wanted, const char* error_text, int* loads, char** json,
                     ckpt_error** error) {
  return guarded(error, [&] {
    require(path, "path");
    ckpt::WhyOptions options;
    if (wanted != nullptr) options.wanted.push_back(ckpt::key_list_of(wanted->checkpoint, "the wanted model"));
    if (error_text != nullptr) options.error = error_text;
    const RulePacks::List packs = rule_packs().list();
    options.packs = [&]() -> const std::vector<ckpt::RulePack>& { return *packs; };
    ckpt::Diagnosis diagnosis = ckpt::why(std::filesystem::path(path), options);
    if (json != nullptr) *json = copy_text(why_json(diagnosis));
    if (loads != nullptr) *loads = diagnosis.loads() ? 1 : 0;
  });
}
