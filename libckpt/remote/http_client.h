#pragma once
// HttpClient: asks web servers for parts of files. Redirects are followed by hand, so that each address is checked and
// the token of the hub goes to the hub alone; what fails for a moment is asked for again. Thread safety: any number of
// threads; at most RemoteOptions::in_flight requests run at once. Use: client.get_part(url, 0, room, {});

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/remote/curl_library.h"
#include "libckpt/remote/http_reply.h"
#include "libckpt/remote/remote.h"
#include "libckpt/remote/url.h"
#include "libcore/base/error.h"

namespace ckpt::detail {

/// An answer that is of no use; a status of 200: the server sends whole files alone.
class HttpError : public core::Error {
 public:
  HttpError(core::ErrorCode code, std::string message, int status) : Error(code, std::move(message)), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

struct HttpAnswer {
  FileVersion version;
  std::uint64_t received = 0;
  Url located;         ///< where the bytes came from, after redirects
  std::string commit;  ///< the revision that the hub names, "" for none
  std::string next;    ///< where a list goes on, "" where it ends
};

struct HttpText {
  std::string text;
  std::string next;  ///< as HttpAnswer has it
};

class HttpClient {
 public:
  /// `token` is sent to the origin of `hub` alone. Errors: those of curl_library(), and of a token that is none.
  HttpClient(RemoteOptions options, Url hub, std::string token);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Fills `room` with the bytes at `offset`, less where the file ends. With `version` the file must still be that one.
  /// Errors: Error(usage) for an address that may not be asked; HttpError(io); HttpError(unsupported) from a server
  /// that sends no parts; Error(io) "the file was changed on the server".
  HttpAnswer get_part(const Url& url, std::uint64_t offset, MutableBytes room,
                      const std::optional<FileVersion>& version);
  /// A whole answer of at most `limit` bytes.
  HttpText get_text(const Url& url, std::uint64_t limit);

  const RemoteOptions& options() const { return options_; }
  const Url& hub() const { return hub_; }
  RemoteTraffic traffic() const { return {requests_, bytes_}; }

 private:
  class Handle;
  struct Exchange;

  HttpAnswer get(Url url, const HttpRequest& request, MutableBytes room);
  Exchange ask_until_it_answers(const Url& url, const HttpRequest& request, MutableBytes room);
  void ask(const Url& url, const HttpRequest& request, Exchange& exchange);
  void set_up(CURL* easy, const Url& url, Exchange& exchange) const;
  Url redirected(const Url& from, const Exchange& exchange) const;
  void require_allowed(const Url& url) const;
  [[noreturn]] void fail(const Url& url, const Exchange& exchange) const;
  [[noreturn]] void fail_to_reach(const Url& url, const Exchange& exchange) const;
  [[noreturn]] void fail_by_status(const Url& url, int status) const;
  CURL* take_handle();
  void give_back(CURL* easy);

  RemoteOptions options_;
  Url hub_;
  std::string token_;
  const CurlLibrary& curl_;
  std::mutex mutex_;
  std::condition_variable free_;
  std::vector<CURL*> idle_;  ///< each with the connections that it made
  unsigned running_ = 0;
  std::atomic<std::uint64_t> requests_ = 0;
  std::atomic<std::uint64_t> bytes_ = 0;
};

}  // namespace ckpt::detail
