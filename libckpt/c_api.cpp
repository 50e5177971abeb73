#include "libckpt/c_api.h"

#include <cstdlib>

#include "libckpt/analyze/diff.h"
#include "libckpt/analyze/plain_values.h"
#include "libckpt/c_api_internal.h"
#include "libckpt/io/json.h"
#include "libckpt/open_save.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

/// For when there is no memory even for an error object; ckpt_error_free() knows it.
ckpt_error& no_memory_error() {
  static ckpt_error error{CKPT_NO_MEMORY, "out of memory"};
  return error;
}

}  // namespace

void release_error(ckpt_error* error) {
  if (error != &no_memory_error()) delete error;
}

ckpt_status status_of(core::ErrorCode code) {
  using core::ErrorCode;
  switch (code) {
    case core::ErrorCode::usage:
    case core::ErrorCode::type:
    case core::ErrorCode::index:
      return CKPT_USAGE;
    case core::ErrorCode::corrupt:
      return CKPT_CORRUPT;
    case core::ErrorCode::refused:
      return CKPT_REFUSED;
    case core::ErrorCode::unsupported:
    case core::ErrorCode::not_implemented:
      return CKPT_UNSUPPORTED;
    case core::ErrorCode::collision:
      return CKPT_COLLISION;
    case core::ErrorCode::key:
      return CKPT_KEY;
    case core::ErrorCode::value:
      return CKPT_VALUE;
    case core::ErrorCode::io:
    case core::ErrorCode::device:
      return CKPT_IO;
    default:
      return CKPT_INTERNAL;
  }
}

ckpt_status fail(ckpt_error** error, ckpt_status status, const char* message) noexcept {
  if (error == nullptr) return status;
  try {
    *error = new ckpt_error{status, message};
  } catch (...) {
    *error = &no_memory_error();
  }
  return status;
}

char* copy_text(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

ckpt_checkpoint* make_handle(ckpt::Checkpoint checkpoint, ckpt::Report report) {
  auto handle = std::make_unique<ckpt_checkpoint>();
  handle->checkpoint = std::move(checkpoint);
  handle->report = std::move(report);
  handle->tensors = ckpt::list_entries(handle->checkpoint.root);
  std::unordered_map<const void*, std::size_t> first;
  for (std::size_t i = 0; i < handle->tensors.size(); ++i) {
    const void* memory = ckpt::storage_identity(*handle->tensors[i].entry);
    handle->tied_to.push_back(memory == nullptr ? i : first.try_emplace(memory, i).first->second);
    handle->by_name.try_emplace(handle->tensors[i].name, i);
  }
  return handle.release();
}

ckpt::OpenOptions open_options(const ckpt_open_options* given, ckpt::Report& report) {
  ckpt_open_options options = read_options(given, CKPT_OPEN_OPTIONS_INIT);
  ckpt::OpenOptions open;
  open.lenient = options.lenient != 0;
  open.foreign_objects = options.foreign_objects != 0;
  open.check_hashes = options.check_hashes != 0;
  open.threads = options.threads;
  open.unsandboxed = options.unsandboxed != 0;
  open.report = &report;
  return open;
}

using core::Error;
using core::ErrorCode;

void write_findings(JsonWriter& json, const char* key, const std::vector<Finding>& findings) {
  json.key(key).begin_array();
  for (const Finding& finding : findings) {
    json.begin_object();
    json.key("subject").value(finding.subject);
    json.key("text").value(finding.text);
    json.end_object();
  }
  json.end_array();
}

}  // namespace ckpt::detail

namespace {

using namespace ckpt::detail;
using core::Error;
using core::ErrorCode;

void write_texts(ckpt::JsonWriter& json, const char* key, const std::vector<std::string>& texts) {
  json.key(key).begin_array();
  for (const std::string& text : texts) json.value(text);
  json.end_array();
}

std::string verify_json(const ckpt::VerifyResult& result) {
  ckpt::JsonWriter json;
  json.begin_object();
  json.key("good").value(result.damage.empty());
  json.key("method").value(result.method);
  json.key("checksums").value(ckpt::name(result.checksums));
  json.key("tensors_checked").value(result.tensors_checked);
  json.key("bytes_checked").value(result.bytes_checked);
  write_findings(json, "damage", result.damage);
  write_findings(json, "notes", result.notes);
  json.end_object();
  return json.take();
}

void write_differences(ckpt::JsonWriter& json, const char* key, const std::vector<ckpt::Difference>& differences) {
  json.key(key).begin_array();
  for (const ckpt::Difference& difference : differences) {
    json.begin_object();
    json.key("kind").value(ckpt::name(difference.kind));
    json.key("name").value(difference.name);
    json.key("a").value(difference.a);
    json.key("b").value(difference.b);
    json.key("elements").value(difference.elements);
    json.key("differing").value(difference.differing);
    json.end_object();
  }
  json.end_array();
}

std::string diff_json(const ckpt::DiffResult& result) {
  ckpt::JsonWriter json;
  json.begin_object();
  json.key("equal").value(result.equal());
  json.key("tensors_compared").value(result.tensors_compared);
  json.key("tensors_equal").value(result.tensors_equal);
  json.key("bytes_compared").value(result.bytes_compared);
  write_differences(json, "differences", result.differences);
  write_differences(json, "notes", result.notes);
  json.end_object();
  return json.take();
}

ckpt::Codec parse_codec(const char* name) {
  if (name == nullptr) return ckpt::Codec::automatic;
  if (std::optional<ckpt::Codec> codec = ckpt::codec_named(name)) return *codec;
  throw Error(ErrorCode::usage, core::quote(name) + " is not a codec; use none, zstd, fast or gzip");
}

ckpt::SaveOptions save_options(const ckpt_save_options* given, ckpt::Report& report) {
  ckpt_save_options options = read_options(given, CKPT_SAVE_OPTIONS_INIT);
  ckpt::SaveOptions save;
  save.format = text_or(options.format, "");
  save.overwrite = options.keep_existing == 0;
  save.durable = options.not_durable == 0;
  save.drop_inexpressible = options.drop_inexpressible != 0;
  save.codec = parse_codec(options.codec);
  save.max_shard_size = options.max_shard_size;
  if (options.max_memory > 0) save.max_memory = options.max_memory;
  save.threads = options.threads;
  save.report = &report;
  if (options.progress != nullptr) {
    save.progress = [progress = options.progress, user = options.user](std::uint64_t done, std::uint64_t total) {
      if (progress(user, done, total) != 0) throw Cancelled();
    };
  }
  return save;
}

}  // namespace

uint32_t ckpt_abi_version(void) {
  return CKPT_ABI_VERSION;
}

const char* ckpt_version(void) {
  return CKPT_VERSION;
}

ckpt_status ckpt_error_status(const ckpt_error* error) {
  return error == nullptr ? CKPT_OK : error->status;
}

const char* ckpt_error_message(const ckpt_error* error) {
  return error == nullptr ? "" : error->message.c_str();
}

void ckpt_error_free(ckpt_error* error) {
  release_error(error);
}

void ckpt_text_free(char* text) {
  std::free(text);
}

ckpt_status ckpt_open(const char* path, const ckpt_open_options* options, ckpt_checkpoint** out, ckpt_error** error) {
  return guarded(error, [&] {
    require(out, "out") = nullptr;
    require(path, "path");
    ckpt::Report report;
    ckpt::Checkpoint checkpoint = ckpt::open(path, open_options(options, report));
    *out = make_handle(std::move(checkpoint), std::move(report));
  });
}

void ckpt_close(ckpt_checkpoint* checkpoint) {
  delete checkpoint;
}

const char* ckpt_format_name(const ckpt_checkpoint* checkpoint) {
  return checkpoint == nullptr ? "" : checkpoint->checkpoint.format.c_str();
}

size_t ckpt_tensor_count(const ckpt_checkpoint* checkpoint) {
  return checkpoint == nullptr ? 0 : checkpoint->tensors.size();
}

ckpt_status ckpt_tensor_at(const ckpt_checkpoint* checkpoint, size_t index, ckpt_tensor_info* info,
                           ckpt_error** error) {
  return guarded(error, [&] {
    const ckpt_checkpoint& c = require(checkpoint, "checkpoint");
    std::size_t room = require(info, "info").struct_size;
    if (room < sizeof(std::size_t)) throw Error(ErrorCode::usage, "info has no size; begin with CKPT_TENSOR_INFO_INIT");
    if (index >= c.tensors.size()) {
      throw Error(ErrorCode::usage, "tensor " + std::to_string(index) + " of " + std::to_string(c.tensors.size()));
    }
    const ckpt::NamedEntry& tensor = c.tensors[index];
    const ckpt::Entry& entry = *tensor.entry;
    ckpt_tensor_info full = CKPT_TENSOR_INFO_INIT;
    full.struct_size = room;
    full.name = tensor.name.c_str();
    full.name_size = tensor.name.size();
    full.dtype = core::name(entry.dtype).data();  // a literal
    full.location = entry.location.c_str();
    full.rank = entry.shape.span().size();
    full.shape = entry.shape.span().data();
    full.numel = entry.numel();
    full.bytes = entry.byte_size();
    full.tied_to = c.tied_to[index];
    full.is_parameter = entry.parameter ? 1 : 0;
    std::memcpy(info, &full, std::min(room, sizeof full));
  });
}

ckpt_status ckpt_find_tensor(const ckpt_checkpoint* checkpoint, const char* name, size_t* index, ckpt_error** error) {
  return guarded(error, [&] {
    const ckpt_checkpoint& c = require(checkpoint, "checkpoint");
    auto found = c.by_name.find(&require(name, "name"));
    if (found == c.by_name.end()) throw Error(ErrorCode::key, "no tensor is named " + core::quote(name));
    require(index, "index") = found->second;
  });
}

ckpt_status ckpt_read(const ckpt_checkpoint* checkpoint, size_t index, uint64_t offset, void* buffer, size_t size,
                      ckpt_error** error) {
  return guarded(error, [&] {
    const ckpt_checkpoint& c = require(checkpoint, "checkpoint");
    if (index >= c.tensors.size()) throw Error(ErrorCode::usage, "there is no tensor " + std::to_string(index));
    const ckpt::NamedEntry& tensor = c.tensors[index];
    std::uint64_t there = tensor.entry->byte_size();
    core::with_context(tensor.name, [&] {
      if (offset > there || size > there - offset) {
        throw Error(ErrorCode::usage,
                    std::to_string(size) + " bytes at " + std::to_string(offset) + " of " + std::to_string(there));
      }
      if (size == 0) return;
      if (buffer == nullptr) throw Error(ErrorCode::usage, "buffer is null");
      tensor.entry->bytes->read(offset, {static_cast<std::byte*>(buffer), size});
      tensor.entry->bytes->require_unchanged();
    });
  });
}

ckpt_status ckpt_values_json(const ckpt_checkpoint* checkpoint, char** json, ckpt_error** error) {
  return guarded(error, [&] {
    const ckpt_checkpoint& c = require(checkpoint, "checkpoint");
    ckpt::JsonWriter out;
    out.begin_array();
    for (const ckpt::NamedValue& value : ckpt::list_plain_values(c.checkpoint.root)) ckpt::write_json(out, value);
    out.end_array();
    require(json, "json") = copy_text(out.text());
  });
}

ckpt_status ckpt_metadata_json(const ckpt_checkpoint* checkpoint, char** json, ckpt_error** error) {
  return guarded(error, [&] {
    const ckpt_checkpoint& c = require(checkpoint, "checkpoint");
    ckpt::JsonWriter out;
    out.begin_object();
    for (const auto& [key, text] : c.checkpoint.metadata) out.key(key).value(text);
    out.end_object();
    require(json, "json") = copy_text(out.text());
  });
}

ckpt_status ckpt_report_json(const ckpt_checkpoint* checkpoint, char** json, ckpt_error** error) {
  return guarded(error, [&] {
    const ckpt_checkpoint& c = require(checkpoint, "checkpoint");
    ckpt::JsonWriter out;
    out.begin_object();
    write_texts(out, "warnings", c.report.warnings);
    write_texts(out, "relaxations", c.report.relaxations);
    write_texts(out, "dropped", c.report.dropped);
    out.end_object();
    require(json, "json") = copy_text(out.text());
  });
}

ckpt_status ckpt_save(const ckpt_checkpoint* checkpoint, const char* path, const ckpt_save_options* options,
                      ckpt_error** error) {
  return guarded(error, [&] {
    const ckpt_checkpoint& c = require(checkpoint, "checkpoint");
    require(path, "path");
    ckpt::Report report;
    ckpt::save(c.checkpoint, path, save_options(options, report));
  });
}

ckpt_status ckpt_verify(const char* path, const ckpt_open_options* options, int* good, char** json,
                        ckpt_error** error) {
  return guarded(error, [&] {
    require(path, "path");
    ckpt::Report report;
    ckpt::VerifyResult result = ckpt::verify(path, open_options(options, report));
    if (json != nullptr) *json = copy_text(verify_json(result));
    if (good != nullptr) *good = result.damage.empty() ? 1 : 0;
  });
}

ckpt_status ckpt_diff(const ckpt_checkpoint* a, const ckpt_checkpoint* b, const ckpt_diff_options* options, int* equal,
                      char** json, ckpt_error** error) {
  return guarded(error, [&] {
    ckpt_diff_options given = read_options(options, CKPT_DIFF_OPTIONS_INIT);
    ckpt::DiffOptions diff;
    diff.order = given.order != 0;
    diff.metadata = given.metadata != 0;
    diff.locations = given.locations != 0;
    ckpt::DiffResult result = ckpt::diff(require(a, "a").checkpoint, require(b, "b").checkpoint, diff);
    if (json != nullptr) *json = copy_text(diff_json(result));
    if (equal != nullptr) *equal = result.equal() ? 1 : 0;
  });
}
