#include "libcore/backend/cuda/shared_library.h"

#include <dlfcn.h>

#include <string>

namespace core::gpu {

SharedLibrary* SharedLibrary::open(std::initializer_list<const char*> names) {
  for (const char* folder : {"", "/usr/local/cuda/lib64/"}) {
    for (const char* name : names) {
      void* handle = dlopen((std::string(folder) + name).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle != nullptr) return new SharedLibrary(handle);
    }
  }
  return nullptr;
}

void* SharedLibrary::address(const char* symbol) const {
  return dlsym(handle_, symbol);
}

}  // namespace core::gpu
