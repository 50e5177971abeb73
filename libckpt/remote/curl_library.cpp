#include "libckpt/remote/curl_library.h"

#include <dlfcn.h>

#include <mutex>
#include <optional>

#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr unsigned kOldest = 0x075500;  // 7.85.0: from here on it can be held to some protocols by name

template <class Function>
void take(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function != nullptr) return;
  throw Error(ErrorCode::unsupported, std::string("libcurl has no ") + name + "; install Debian's package libcurl4");
}

void* open_first(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  throw Error(ErrorCode::unsupported,
              "reading files of other machines needs libcurl, which is not installed; install Debian's package "
              "libcurl4, or download the file first");
}

CurlLibrary load(const std::vector<std::string>& names) {
  void* library = open_first(names);
  CurlLibrary curl;
  decltype(&::curl_global_init) start = nullptr;
  decltype(&::curl_version_info) version = nullptr;
  take(library, "curl_global_init", start);
  take(library, "curl_version_info", version);
  take(library, "curl_easy_init", curl.init);
  take(library, "curl_easy_cleanup", curl.cleanup);
  take(library, "curl_easy_reset", curl.reset);
  take(library, "curl_easy_perform", curl.perform);
  take(library, "curl_slist_append", curl.append);
  take(library, "curl_slist_free_all", curl.free_list);
  take(library, "curl_easy_setopt", curl.setopt);
  take(library, "curl_easy_getinfo", curl.getinfo);
  const curl_version_info_data* info = version(CURLVERSION_NOW);
  if (info->version_num < kOldest) {
    throw Error(ErrorCode::unsupported,
                std::string("libcurl ") + info->version + " is too old; 7.85 or later is needed");
  }
  if (start(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw Error(ErrorCode::io, "libcurl cannot be started");
  return curl;
}

}  // namespace

const CurlLibrary& curl_library(const std::vector<std::string>& names) {
  static std::mutex mutex;
  static std::optional<CurlLibrary> loaded;
  std::lock_guard lock(mutex);
  if (!loaded) loaded = load(names);
  return *loaded;
}

}  // namespace ckpt::detail
