#pragma once
// What the files of the C interface share: handles, errors, options. Internal.
// Thread safety: pure. Use: return guarded(error, [&] { ... });

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libckpt/c_api.h"
#include "libckpt/checkpoint.h"
#include "libckpt/options.h"
#include "libckpt/report.h"
#include "libcore/base/error.h"

struct ckpt_error {
  ckpt_status status = CKPT_INTERNAL;
  std::string message;
};

struct ckpt_checkpoint {
  ckpt::Checkpoint checkpoint;
  ckpt::Report report;
  std::vector<ckpt::NamedEntry> tensors;
  std::vector<std::size_t> tied_to;
  std::unordered_map<std::string, std::size_t> by_name;
};

namespace ckpt {
class JsonWriter;
struct Finding;
}  // namespace ckpt

namespace ckpt::detail {

/// Thrown by a progress callback's wish; not an Error, so that nothing on the way takes it for one.
struct Cancelled {};

ckpt_status status_of(core::ErrorCode code);
/// Fills `*error` where there is a place for it. Never throws: without memory it takes a constant object.
ckpt_status fail(ckpt_error** error, ckpt_status status, const char* message) noexcept;
void release_error(ckpt_error* error);

template <class Body>
ckpt_status guarded(ckpt_error** error, Body&& body) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    body();
    return CKPT_OK;
  } catch (const core::Error& e) {
    return fail(error, status_of(e.code()), e.what());
  } catch (const Cancelled&) {
    return fail(error, CKPT_CANCELLED, "cancelled by the progress callback");
  } catch (const std::bad_alloc&) {
    return fail(error, CKPT_NO_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return fail(error, CKPT_INTERNAL, e.what());
  } catch (...) {
    return fail(error, CKPT_INTERNAL, "an unknown exception");
  }
}

template <class T>
T& require(T* pointer, const char* name) {
  if (pointer == nullptr) throw core::Error(core::ErrorCode::usage, std::string(name) + " is null");
  return *pointer;
}

inline std::string text_or(const char* text, const char* otherwise) {
  return text == nullptr ? otherwise : text;
}

/// The caller's options in the form of this library: what an older program does not know has its default.
template <class Options>
Options read_options(const Options* given, const Options& defaults) {
  Options options = defaults;
  if (given == nullptr) return options;
  if (given->struct_size < sizeof(std::size_t) || given->struct_size > 4096) {
    throw core::Error(core::ErrorCode::usage, "the options have no size; begin with the _INIT macro");
  }
  const char* bytes = reinterpret_cast<const char*>(given);
  for (std::size_t i = sizeof(Options); i < given->struct_size; ++i) {
    if (bytes[i] != 0)
      throw core::Error(core::ErrorCode::usage, "the options ask for something that only a newer library knows");
  }
  std::memcpy(&options, given, std::min(sizeof(Options), given->struct_size));
  return options;
}

/// A copy for the caller to release.
char* copy_text(const std::string& text);

ckpt_checkpoint* make_handle(Checkpoint checkpoint, Report report);

/// A list of objects with "subject" and "text".
void write_findings(JsonWriter& json, const char* key, const std::vector<Finding>& findings);

OpenOptions open_options(const ckpt_open_options* given, Report& report);

/// What all changes have in common.
template <class Change>
ckpt_status change(const ckpt_checkpoint* checkpoint, ckpt_checkpoint** out, ckpt_error** error, Change&& make) {
  return guarded(error, [&] {
    require(out, "out") = nullptr;
    const ckpt_checkpoint& from = require(checkpoint, "checkpoint");
    *out = make_handle(make(from.checkpoint), {});
  });
}

}  // namespace ckpt::detail
