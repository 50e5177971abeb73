#pragma once
// The functions of libcurl that are used, from the library that is opened at the first request: a start of the program
// pays nothing for them. Thread safety: any thread. Use: const CurlLibrary& curl = curl_library(names);

#include <curl/curl.h>

#include <string>
#include <vector>

namespace ckpt::detail {

struct CurlLibrary {
  decltype(&::curl_easy_init) init = nullptr;
  decltype(&::curl_easy_cleanup) cleanup = nullptr;
  decltype(&::curl_easy_reset) reset = nullptr;
  decltype(&::curl_easy_perform) perform = nullptr;
  decltype(&::curl_slist_append) append = nullptr;
  decltype(&::curl_slist_free_all) free_list = nullptr;
  // With fixed arguments the compiler checks what the library takes as it comes.
  CURLcode (*setopt)(CURL*, CURLoption, ...) = nullptr;
  CURLcode (*getinfo)(CURL*, CURLINFO, ...) = nullptr;
};

/// The first of `names` that opens, once for the process. Error(unsupported) naming Debian's package when none does, or
/// when it is too old to be held to https.
const CurlLibrary& curl_library(const std::vector<std::string>& names);

}  // namespace ckpt::detail
