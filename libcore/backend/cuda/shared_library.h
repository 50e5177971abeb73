#pragma once
// A library that is loaded while the program runs, so that a machine without it runs the program too: cuBLAS, cuDNN,
// NCCL. Never unloaded. Thread safety: all functions.
// Use: auto* dnn = core::gpu::SharedLibrary::open({"libcudnn.so.9", "libcudnn.so"}); dnn->find("cudnnCreate", create);

#include <initializer_list>

namespace core::gpu {

class SharedLibrary {
 public:
  /// The first of `names` that can be loaded, by the system's search path or from /usr/local/cuda/lib64; null when
  /// none.
  static SharedLibrary* open(std::initializer_list<const char*> names);
  /// Sets `function` to the symbol; false, and null, when the library has none.
  template <class Function>
  bool find(const char* symbol, Function*& function) const {
    function = reinterpret_cast<Function*>(address(symbol));
    return function != nullptr;
  }

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* address(const char* symbol) const;
  void* handle_;
};

}  // namespace core::gpu
