#include "libckpt/remote/hub.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kScheme = "hf://";
constexpr std::size_t kLongestToken = 4096;

bool is_plain(std::string_view text) {
  return !text.empty() && text != "." && text != ".." && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

bool is_revision(std::string_view text) {
  return !text.empty() && text.find("..") == std::string_view::npos && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '%' || c == '+';
  });
}

/// Names of files may hold what would mean something else in an address.
std::string as_path(std::string_view file) {
  std::string out;
  for (char c : file) {
    if (c == '?') {
      out += "%3F";
    } else if (c == '#') {
      out += "%23";
    } else {
      out += c;
    }
  }
  return out;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string trimmed(const std::string& text) {
  std::size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string listed(std::vector<std::string> names) {
  constexpr std::size_t kMost = 4;
  std::size_t more = names.size() - std::min(names.size(), kMost);
  names.resize(names.size() - more);
  for (std::string& name : names) name = core::quote(name);
  return core::join(names, ", ") + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

bool is_weights(std::string_view name) {
  constexpr std::array<std::string_view, 7> kEnds = {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".npz", ".gguf"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace

bool is_hub_name(std::string_view name) {
  return name.starts_with(kScheme);
}

HubName parse_hub_name(std::string_view name) {
  auto refuse = [&] {
    throw Error(ErrorCode::usage, "a file of the hub is named hf://org/repo/file or hf://org/repo@revision/file");
  };
  std::string_view rest = name.substr(kScheme.size());
  std::size_t first = std::min(rest.find('/'), rest.size());
  if (first == rest.size()) refuse();
  std::size_t second = std::min(rest.find('/', first + 1), rest.size());
  std::string_view repo = rest.substr(first + 1, second - first - 1);
  HubName out;
  std::size_t at = repo.find('@');
  out.names_revision = at != std::string_view::npos;
  if (out.names_revision) out.revision = repo.substr(at + 1);
  repo = repo.substr(0, at);
  bool control = std::ranges::any_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (control || !is_plain(rest.substr(0, first)) || !is_plain(repo) || !is_revision(out.revision)) refuse();
  out.repository = std::string(rest.substr(0, first)) + "/" + std::string(repo);
  if (second < rest.size()) out.file = rest.substr(second + 1);
  for (std::string_view part : core::split(out.file, '/')) {
    if (part == "." || part == "..") refuse();
  }
  return out;
}

bool HubName::is_folder() const {
  std::string_view last = std::string_view(file).substr(file.rfind('/') + 1);
  return last.find('.') == std::string_view::npos;
}

std::string HubName::name_of(std::string_view name) const {
  std::string folder = file.empty() || file.ends_with('/') ? file : file + "/";
  return std::string(kScheme) + repository + (names_revision ? "@" + revision : "") + "/" + folder + std::string(name);
}

Url hub_of(const std::string& asked) {
  std::string text = asked.empty() ? variable("HF_ENDPOINT") : asked;
  if (text.empty()) text = "https://huggingface.co";
  while (text.ends_with('/')) text.pop_back();
  return core::with_context("HF_ENDPOINT", [&] { return parse_url(text); });
}

std::string hub_token() {
  if (std::string token = trimmed(variable("HF_TOKEN")); !token.empty()) return token;
  std::filesystem::path home = variable("HF_HOME");
  if (home.empty() && !variable("HOME").empty()) home = std::filesystem::path(variable("HOME")) / ".cache/huggingface";
  if (home.empty()) return "";
  std::ifstream file(home / "token");
  std::string token(kLongestToken, '\0');
  file.read(token.data(), static_cast<std::streamsize>(token.size()));
  token.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return trimmed(token);
}

Url file_url(const Url& hub, const HubName& name, const std::string& revision) {
  std::string base = hub.text();
  while (base.ends_with('/')) base.pop_back();
  return parse_url(base + "/" + name.repository + "/resolve/" + revision + "/" + as_path(name.file));
}

Url list_url(const Url& hub, const HubName& name, const std::string& revision) {
  std::string base = hub.text();
  while (base.ends_with('/')) base.pop_back();
  std::string folder = as_path(name.file);
  while (folder.ends_with('/')) folder.pop_back();
  return parse_url(base + "/api/models/" + name.repository + "/tree/" + revision +
                   (folder.empty() ? "" : "/" + folder));
}

std::vector<std::string> files_in_list(const std::string& json) {
  JsonDocument document = JsonDocument::parse(json, {.max_depth = 16, .what = "the hub's list of files"});
  auto corrupt = [] { throw Error(ErrorCode::corrupt, "the hub's list of files is not in the form that is known"); };
  if (!document.root().is(JsonView::Kind::array)) corrupt();
  std::vector<std::string> files;
  for (const JsonView& item : document.root().items()) {
    bool known = item.is(JsonView::Kind::object) && item.has("path") && item.at("path").is(JsonView::Kind::text);
    if (!known) corrupt();
    bool is_file = item.has("type") && item.at("type").is(JsonView::Kind::text) && item.at("type").as_text() == "file";
    std::string path(item.at("path").as_text());
    if (is_file) files.push_back(path.substr(path.rfind('/') + 1));
  }
  return files;
}

std::string model_among(const std::vector<std::string>& files) {
  for (const std::string& usual : usual_models()) {
    if (std::ranges::find(files, usual) != files.end()) return usual;
  }
  std::vector<std::string> found;
  std::ranges::copy_if(files, std::back_inserter(found),
                       [](const std::string& name) { return name.ends_with(".index.json"); });
  if (found.empty()) std::ranges::copy_if(files, std::back_inserter(found), is_weights);
  if (found.size() == 1) return found[0];
  if (found.empty()) throw Error(ErrorCode::unsupported, "no file there is a model by its name");
  throw Error(ErrorCode::usage, "several files there are models: " + listed(found) + "; name one of them");
}

const std::vector<std::string>& usual_models() {
  static const std::vector<std::string> kUsual = {"model.safetensors.index.json",
                                                  "model.safetensors",
                                                  "pytorch_model.bin.index.json",
                                                  "pytorch_model.bin",
                                                  "adapter_model.safetensors",
                                                  "adapter_model.bin",
                                                  "diffusion_pytorch_model.safetensors",
                                                  "diffusion_pytorch_model.bin",
                                                  ".metadata"};
  return kUsual;
}

}  // namespace ckpt::detail
