#pragma once
// Identifiers of libhdf5 that close themselves, and its errors as exceptions of this program.
// Thread safety: one owner. Use: Handle group(H5Oopen_by_addr(file, address), H5Oclose);

#include <hdf5.h>

#include <string>
#include <utility>

#include "libckpt/hdf5/wire.h"

namespace ckpt::detail {

/// Ends the job: the parent gets kind and text.
struct Failure {
  FailureKind kind;
  std::string text;
};

/// Innermost reason of the library's error stack.
std::string hdf5_reason();

/// Throws Failure(corrupt) "what: reason" when a call failed.
inline void require_hdf5(herr_t result, const char* what) {
  if (result < 0) throw Failure{kFailureCorrupt, std::string(what) + ": " + hdf5_reason()};
}

class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  /// Failure(corrupt) for a negative identifier.
  Handle(hid_t id, Close close, const char* what = "libhdf5 cannot read the file") : id_(id), close_(close) {
    if (id < 0) require_hdf5(-1, what);
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  hid_t get() const { return id_; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

}  // namespace ckpt::detail
