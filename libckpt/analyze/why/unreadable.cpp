#include "libckpt/analyze/why/unreadable.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/analyze/why/packed_file.h"
#include "libckpt/hint.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/io/header_values.h"
#include "libckpt/io/json.h"
#include "libckpt/io/zip_salvage.h"
#include "libckpt/limits.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kHead = 4096;
constexpr std::uint64_t kMaxHeader = Limits().max_safetensors_header;

/// The file as far as it was looked at.
struct FileStart {
  SourcePtr file;
  std::string head;
  std::uint64_t size = 0;
};

FileStart read_head(const std::filesystem::path& path) {
  FileStart bytes;
  bytes.file = open_file(path);
  bytes.size = bytes.file->size();
  bytes.head.resize(std::min(kHead, bytes.size));
  bytes.file->read(0, {reinterpret_cast<std::byte*>(bytes.head.data()), bytes.head.size()});
  return bytes;
}

std::string_view line_of(std::string_view text, std::string_view start) {
  std::size_t at = text.starts_with(start) ? 0 : text.find("\n" + std::string(start));
  if (at == std::string_view::npos) return {};
  std::string_view rest = text.substr(at + start.size() + (at == 0 ? 0 : 1));
  return rest.substr(0, rest.find_first_of("\r\n"));
}

std::optional<Cause> lfs_pointer(const FileStart& bytes, const std::filesystem::path& path) {
  if (!bytes.head.starts_with("version https://git-lfs")) return std::nullopt;
  std::string_view digits = line_of(bytes.head, "size ");
  std::uint64_t size = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), size);
  Cause cause{CauseKind::lfs_pointer,
              "this is a git-LFS pointer of " + core::format_size(bytes.size) + ", not the weights"};
  if (size > 0) cause.text += "; the weights are " + core::format_size(size) + ", 0 B of them are here";
  std::string_view oid = line_of(bytes.head, "oid ");
  if (!oid.empty()) cause.evidence.push_back("it stands for " + core::printable(oid.substr(0, 80)));
  cause.advice =
      ShellCommand("git").word("lfs").word("pull").word("--include=" + lfs_pattern(path.filename().string())).text();
  return cause;
}

std::string lower_start(std::string_view head) {
  std::size_t first = head.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  std::string text(head.substr(std::min(first, head.size()), 64));
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::optional<Cause> web_page(const FileStart& bytes) {
  std::string start = lower_start(bytes.head);
  bool html = start.starts_with("<!doctype") || start.starts_with("<html") || start.starts_with("<head");
  bool xml = start.starts_with("<?xml");
  bool json = start.starts_with("{\"") &&
              (bytes.head.find("error") != std::string::npos || bytes.head.find("message") != std::string::npos);
  if (!html && !xml && !json) return std::nullopt;
  std::string what = html ? "an HTML page" : xml ? "an XML document" : "a JSON answer";
  Cause cause{CauseKind::web_page, "this is " + what + " of " + core::format_size(bytes.size) +
                                       ", not weights; the download got an answer of the server instead of the file"};
  std::size_t title = bytes.head.find("<title>");
  if (title != std::string::npos) {
    std::string_view text = std::string_view(bytes.head).substr(title + 7);
    cause.evidence.push_back("its title is " + core::quote(text.substr(0, std::min(text.find('<'), text.size())), 80));
  } else {
    cause.evidence.push_back("it begins with " + core::quote(std::string_view(bytes.head).substr(0, 60), 60));
  }
  cause.advice = "download the file again, logged in where that is needed, with the address of the raw file";
  return cause;
}

/// How far a safetensors file goes: its header tells where the last tensor ends.
struct SafetensorsExtent {
  std::uint64_t needed = 0;
  std::uint64_t tensors = 0;
  std::uint64_t whole = 0;
  std::string first_lost;
  std::uint64_t first_lost_begin = UINT64_MAX;
};

std::optional<std::pair<std::uint64_t, std::uint64_t>> offsets_of(const JsonView& tensor) {
  if (!tensor.has("data_offsets") || !tensor.at("data_offsets").is(JsonView::Kind::array)) return std::nullopt;
  std::vector<JsonView> pair = tensor.at("data_offsets").items();
  if (pair.size() != 2 || !pair[0].is_count() || !pair[1].is_count()) return std::nullopt;
  return std::pair(pair[0].as_unsigned(), pair[1].as_unsigned());
}

std::optional<SafetensorsExtent> safetensors_extent(const FileStart& bytes) {
  if (bytes.head.size() < 9 || bytes.head[8] != '{') return std::nullopt;
  auto header = core::load_le<std::uint64_t>(core::as_bytes(bytes.head).data());
  if (header > kMaxHeader || header + 8 > bytes.size) return std::nullopt;
  std::string text(header, '\0');
  bytes.file->read(8, {reinterpret_cast<std::byte*>(text.data()), text.size()});
  try {
    check_header_values(text, {});
    JsonDocument json = JsonDocument::parse(std::string_view(text));
    SafetensorsExtent extent;
    std::uint64_t there = bytes.size - 8 - header;
    for (const auto& [name, tensor] : json.root().members()) {
      auto offsets = offsets_of(tensor);
      if (name == "__metadata__" || !offsets) continue;
      ++extent.tensors;
      extent.needed = std::max(extent.needed, offsets->second);
      if (offsets->second <= there) {
        ++extent.whole;
      } else if (offsets->first < extent.first_lost_begin) {
        extent.first_lost_begin = offsets->first;
        extent.first_lost = name;
      }
    }
    extent.needed += 8 + header;
    return extent;
  } catch (const core::Error&) {
    return std::nullopt;  // the reader says what is wrong with the header
  }
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  double share = whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  std::string text = std::to_string(share);
  return text.substr(0, text.find('.') + 2) + " %";
}

std::string again(std::uint64_t missing) {
  return missing == 0
             ? "download or copy the file again"
             : "continue the download or copy the file again (curl -C - resumes): " + core::format_size(missing) +
                   " are missing";
}

std::optional<Cause> cut_safetensors(const FileStart& bytes) {
  std::optional<SafetensorsExtent> extent = safetensors_extent(bytes);
  if (!extent || extent->needed <= bytes.size) return std::nullopt;
  Cause cause{CauseKind::truncated, "the file is cut at " + percent(bytes.size, extent->needed) + ": " +
                                        core::format_size(bytes.size) + " of " + core::format_size(extent->needed) +
                                        " are here"};
  cause.evidence.push_back(core::format_count(extent->whole) + " of " + core::format_count(extent->tensors) +
                           " tensors are whole; the next would be " + core::quote(extent->first_lost));
  cause.advice = again(extent->needed - bytes.size);
  return cause;
}

/// A header length that reaches past the end of the file, with the beginning of a header behind it.
std::optional<Cause> cut_in_header(const FileStart& bytes) {
  if (bytes.head.size() < 10 || bytes.head[8] != '{' || bytes.head[9] != '"') return std::nullopt;
  auto header = core::load_le<std::uint64_t>(core::as_bytes(bytes.head).data());
  if (header > kMaxHeader || header + 8 <= bytes.size) return std::nullopt;
  Cause cause{CauseKind::truncated, "the file is cut inside its header: " + core::format_size(bytes.size) +
                                        " are here where the header alone takes " + core::format_size(header + 8)};
  cause.advice = again(0);
  return cause;
}

/// What is whole of a zip that lost its directory. Where the reader knows which tensors there were, it says so itself.
std::string what_is_left(const FileStart& bytes, const core::Error& error) {
  constexpr std::string_view kReaderKnows = "the file is cut off after ";
  if (error.message().starts_with(kReaderKnows)) return error.message();
  std::uint64_t whole = 0;
  std::uint64_t size = 0;
  std::string cut;
  for (const FoundRecord& record : find_zip_records(*bytes.file, {})) {
    whole += record.complete() ? 1 : 0;
    size += record.complete() ? record.stored_size : 0;
    if (!record.complete()) cut = "; it ends inside " + core::quote(record.name);
  }
  return core::format_count(whole) + (whole == 1 ? " member (" : " members (") + core::format_size(size) +
         ") of the archive are whole" + cut;
}

std::optional<Cause> cut_zip(const FileStart& bytes, const core::Error& error) {
  if (!bytes.head.starts_with("PK\x03\x04") || error.code() != core::ErrorCode::corrupt) return std::nullopt;
  constexpr std::uint64_t kTail = 65'557;  // the longest comment and the end record
  std::uint64_t tail = std::min(kTail, bytes.size);
  std::string end(tail, '\0');
  bytes.file->read(bytes.size - tail, {reinterpret_cast<std::byte*>(end.data()), end.size()});
  if (end.find("PK\x05\x06") != std::string::npos) return std::nullopt;  // the directory is there: damaged, not cut
  Cause cause{CauseKind::truncated, "the zip archive has no central directory at its end, so it was cut: " +
                                        core::format_size(bytes.size) + " are here"};
  cause.evidence.push_back(what_is_left(bytes, error));
  cause.evidence.push_back("PytorchStreamReader failed reading zip archive: failed finding central directory");
  cause.advice = again(0);
  return cause;
}

bool says(const core::Error& error, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return error.message().find(word) != std::string::npos; });
}

std::optional<Cause> empty_file(const FileStart& bytes) {
  bool zeros = bytes.head.find_first_not_of('\0') == std::string::npos;
  if (bytes.size > 0 && !zeros) return std::nullopt;
  Cause cause{CauseKind::truncated, bytes.size == 0
                                        ? "the file is empty: 0 B are here"
                                        : "the file begins with zeros only: the space was reserved and never filled"};
  cause.advice = again(0);
  return cause;
}

/// A number in the names of the tensors or bytes that could not be found says nothing here; the reader's words do.
Cause cause_said_by(const FileStart& bytes, const core::Error& error) {
  using core::ErrorCode;
  std::string words = error.message();
  if (error.code() == ErrorCode::refused && says(error, {"the pickle names", "never accepted", "the pickle calls"})) {
    Cause cause{CauseKind::unsafe_pickle, words};
    cause.advice = "do not load this file with weights_only=False; ask its author for a state_dict";
    return cause;
  }
  if (error.code() == ErrorCode::unsupported) {
    Cause cause{CauseKind::not_a_checkpoint, words};
    cause.advice = says(error, {"(gunzip)"}) ? "gunzip it first" : "find the file with the weights, and look at that";
    return cause;
  }
  if (says(error, {"is missing, although the index names it"})) {
    Cause cause{CauseKind::missing_keys, words};
    cause.advice = "download or copy the missing file again, into the same folder";
    return cause;
  }
  bool cut = says(error, {"past the end", "cut", "truncated", "ends inside", "ends before", "shorter", "too short"});
  Cause cause{cut ? CauseKind::truncated : CauseKind::corrupt, words};
  cause.evidence.push_back(core::format_size(bytes.size) + " are here");
  cause.confidence = cut ? 0.8 : 0.9;
  cause.advice = again(0);
  return cause;
}

/// What `ckpt delta make` writes.
std::optional<Cause> difference(const std::filesystem::path& path, const core::Error& error) {
  if (error.code() != core::ErrorCode::refused || !says(error, {"this is the difference to a checkpoint"})) {
    return std::nullopt;
  }
  Cause cause{CauseKind::not_a_checkpoint, error.message().substr(0, error.message().find(';'))};
  cause.evidence.push_back("'ckpt hash' says which checkpoint has that digest");
  ShellCommand line("ckpt");
  line.word("delta").word("apply").word("BASE").file(path.string()).word("-o").word("OUT");
  cause.advice = cause.command = line.text();
  return cause;
}

Cause from_error(const FileStart& bytes, const core::Error& error) {
  Cause cause = cause_said_by(bytes, error);
  cause.hint = hint_of(error);
  return cause;
}

}  // namespace

void diagnose_unreadable(Diagnosis& diagnosis, const std::filesystem::path& path, const core::Error& error) {
  diagnosis.readable = false;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    // The sentence about a folder says what to do; nothing is downloaded over it.
    Cause cause = from_error({}, error);
    cause.evidence.clear();
    if (cause.kind == CauseKind::not_a_checkpoint) cause.advice = "name the file or folder that holds the weights";
    diagnosis.causes.push_back(std::move(cause));
    return;
  }
  FileStart bytes = read_head(path);
  diagnosis.description = core::format_size(bytes.size);
  std::optional<Cause> cause = lfs_pointer(bytes, path);
  if (!cause) cause = web_page(bytes);
  if (!cause) cause = empty_file(bytes);
  if (!cause) cause = cut_safetensors(bytes);
  if (!cause) cause = cut_in_header(bytes);
  if (!cause) cause = cut_zip(bytes, error);
  if (!cause) cause = difference(path, error);
  if (!cause) cause = from_error(bytes, error);
  if (cause->kind == CauseKind::not_a_checkpoint && cause->command.empty()) {
    cause->command = unpack_command(path, bytes.file, bytes.head).value_or("");
    if (!cause->command.empty()) cause->advice = cause->command;
  }
  diagnosis.causes.push_back(std::move(*cause));
}

}  // namespace ckpt::detail
