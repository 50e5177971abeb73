#include "libckpt/remote/http_client.h"

#include <csignal>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <thread>

#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr int kMostRedirects = 5;
constexpr long kLeastSpeed = 1024;  // bytes a second, on average

/// OpenSSL may raise SIGPIPE where a connection broke. The thread holds it back; the process keeps what it has set.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    timespec now{};
    if (::sigismember(&before_, SIGPIPE) == 0) {
      while (::sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) continue;
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

std::size_t on_header(const char* data, std::size_t size, std::size_t count, void* reply) {
  std::string_view line(data, size * count);
  return static_cast<HttpReply*>(reply)->header(line) ? line.size() : 0;
}

std::size_t on_body(const char* data, std::size_t size, std::size_t count, void* reply) {
  std::string_view bytes(data, size * count);
  return static_cast<HttpReply*>(reply)->body(core::as_bytes(bytes)) ? bytes.size() : 0;
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/// Worth asking again in a moment.
bool is_passing(int status) {
  constexpr std::array<int, 6> kPassing = {408, 429, 500, 502, 503, 504};
  return std::ranges::find(kPassing, status) != kPassing.end();
}

bool is_passing(CURLcode code) {
  constexpr std::array<CURLcode, 7> kPassing = {CURLE_OPERATION_TIMEDOUT, CURLE_PARTIAL_FILE, CURLE_RECV_ERROR,
                                                CURLE_SEND_ERROR,         CURLE_GOT_NOTHING,  CURLE_HTTP2,
                                                CURLE_HTTP2_STREAM};
  return std::ranges::find(kPassing, code) != kPassing.end();
}

std::string place_of(const Url& url) {
  bool usual = url.port == (url.scheme == "https" ? "443" : "80");
  return url.host + (usual ? "" : ":" + url.port);
}

}  // namespace

/// A handle of libcurl while it is in use.
class HttpClient::Handle {
 public:
  explicit Handle(HttpClient& client) : client_(client), easy_(client.take_handle()) {}
  ~Handle() { client_.give_back(easy_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  CURL* get() const { return easy_; }

 private:
  HttpClient& client_;
  CURL* easy_;
};

/// One request and what came of it.
struct HttpClient::Exchange {
  Exchange(const HttpRequest& request, MutableBytes room) : reply(request, room) {}

  HttpReply reply;
  CURLcode code = CURLE_OK;
  std::array<char, CURL_ERROR_SIZE> detail = {};
  std::string redirect;
  std::uint64_t wait_seconds = 0;  ///< that the server asks for

  /// Whether the answer can be used: all of it came, or its status says all there is to know.
  bool is_whole() const {
    bool says_all = reply.status() != 200 && reply.status() != 206;
    bool cut_by_us = code == CURLE_WRITE_ERROR && says_all && reply.fault().empty();
    return cut_by_us || (code == CURLE_OK && reply.fault().empty() && !reply.changed());
  }
  bool is_passing() const {
    if (!reply.fault().empty() || reply.changed()) return false;
    return is_whole() ? detail::is_passing(reply.status()) : detail::is_passing(code);
  }
};

HttpClient::HttpClient(RemoteOptions options, Url hub, std::string token)
    : options_(std::move(options)),
      hub_(std::move(hub)),
      token_(std::move(token)),
      curl_(curl_library(options_.libraries)) {
  // A line break in it would be a header of its own.
  bool plain = std::ranges::all_of(token_, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (!plain) throw Error(ErrorCode::usage, "the token for the hub (HF_TOKEN) holds characters that no token has");
}

HttpClient::~HttpClient() {
  for (CURL* easy : idle_) curl_.cleanup(easy);
}

CURL* HttpClient::take_handle() {
  std::unique_lock lock(mutex_);
  free_.wait(lock, [&] { return running_ < std::max(1U, options_.in_flight); });
  ++running_;
  if (!idle_.empty()) {
    CURL* easy = idle_.back();
    idle_.pop_back();
    return easy;
  }
  CURL* easy = curl_.init();
  if (easy != nullptr) return easy;
  --running_;
  throw Error(ErrorCode::io, "libcurl has no memory for another request");
}

void HttpClient::give_back(CURL* easy) {
  {
    std::lock_guard lock(mutex_);
    --running_;
    idle_.push_back(easy);
  }
  free_.notify_one();
}

void HttpClient::require_allowed(const Url& url) const {
  if (url.scheme == "https" || is_loopback(url) || options_.insecure_http) return;
  throw Error(ErrorCode::usage,
              "http:// is read from this machine alone, since anybody on the way could change the "
              "bytes; use https://, or " +
                  options_.insecure_http_name + " in a network that you trust");
}

void HttpClient::set_up(CURL* easy, const Url& url, Exchange& exchange) const {
  curl_.reset(easy);
  auto set = [&](CURLoption option, auto value) {
    if (curl_.setopt(easy, option, value) == CURLE_OK) return;
    throw Error(ErrorCode::unsupported, "this libcurl cannot be held to safe connections; install Debian's libcurl4");
  };
  const std::string text = url.text();
  set(CURLOPT_URL, text.c_str());
  set(CURLOPT_PROTOCOLS_STR, url.scheme.c_str());
  set(CURLOPT_REDIR_PROTOCOLS_STR, "https");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  if (!options_.ca_file.empty()) set(CURLOPT_CAINFO, options_.ca_file.c_str());
  set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  set(CURLOPT_HTTP09_ALLOWED, 0L);
  if (is_loopback(url)) set(CURLOPT_NOPROXY, "*");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_USERAGENT, "ckpt");
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(options_.connect_seconds));
  set(CURLOPT_LOW_SPEED_LIMIT, kLeastSpeed);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.stall_seconds));
  set(CURLOPT_ERRORBUFFER, exchange.detail.data());
  set(CURLOPT_HEADERFUNCTION, &on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&exchange.reply));
  set(CURLOPT_WRITEFUNCTION, &on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&exchange.reply));
}

void HttpClient::ask(const Url& url, const HttpRequest& request, Exchange& exchange) {
  Handle handle(*this);
  CURL* easy = handle.get();
  set_up(easy, url, exchange);
  std::unique_ptr<curl_slist, decltype(curl_.free_list)> headers(nullptr, curl_.free_list);
  auto add = [&](const std::string& line) {
    curl_slist* longer = curl_.append(headers.get(), line.c_str());
    if (longer == nullptr) throw Error(ErrorCode::io, "libcurl has no memory for another request");
    static_cast<void>(headers.release());
    headers.reset(longer);
  };
  add("Accept-Encoding: identity");
  if (!token_.empty() && url.origin() == hub_.origin()) add("Authorization: Bearer " + token_);
  if (request.version && !request.version->condition().empty()) add("If-Range: " + request.version->condition());
  curl_.setopt(easy, CURLOPT_HTTPHEADER, headers.get());
  std::string range = std::to_string(request.offset) + "-" + std::to_string(request.offset + exchange.reply.room() - 1);
  if (!request.whole) curl_.setopt(easy, CURLOPT_RANGE, range.c_str());
  ++requests_;
  {
    NoPipeSignal quiet;
    exchange.code = curl_.perform(easy);
  }
  bytes_ += exchange.reply.received();
  const char* redirect = nullptr;
  curl_off_t wait = 0;
  if (curl_.getinfo(easy, CURLINFO_REDIRECT_URL, &redirect) == CURLE_OK && redirect != nullptr) {
    exchange.redirect = redirect;
  }
  if (curl_.getinfo(easy, CURLINFO_RETRY_AFTER, &wait) == CURLE_OK && wait > 0) {
    exchange.wait_seconds = static_cast<std::uint64_t>(wait);
  }
}

HttpClient::Exchange HttpClient::ask_until_it_answers(const Url& url, const HttpRequest& request, MutableBytes room) {
  for (unsigned attempt = 0;; ++attempt) {
    Exchange exchange(request, room);
    ask(url, request, exchange);
    if (!exchange.is_passing() || attempt == options_.retries) return exchange;
    if (exchange.wait_seconds > options_.longest_wait_seconds) {
      throw HttpError(ErrorCode::io,
                      place_of(url) + " asks to come back in " + std::to_string(exchange.wait_seconds) +
                          " seconds (status " + std::to_string(exchange.reply.status()) + ")",
                      exchange.reply.status());
    }
    auto wait = std::chrono::milliseconds(options_.backoff_ms << std::min(attempt, 10U));
    std::this_thread::sleep_for(std::max<std::chrono::milliseconds>(wait, std::chrono::seconds(exchange.wait_seconds)));
  }
}

Url HttpClient::redirected(const Url& from, const Exchange& exchange) const {
  if (exchange.redirect.empty()) {
    throw HttpError(ErrorCode::io, place_of(from) + " leads elsewhere and does not say where", exchange.reply.status());
  }
  try {
    Url to = parse_url(exchange.redirect);
    if (from.scheme == "https" && to.scheme != "https") {
      throw Error(ErrorCode::io, "from https:// to http://, where anybody could change the bytes");
    }
    require_allowed(to);
    return to;
  } catch (const Error& error) {
    // Not the address itself: what hubs lead to may be signed.
    throw Error(ErrorCode::io, place_of(from) + " leads to an address that is not followed: " + error.message());
  }
}

HttpAnswer HttpClient::get(Url url, const HttpRequest& request, MutableBytes room) {
  require_allowed(url);
  HttpAnswer answer;
  for (int hops = 0; hops <= kMostRedirects; ++hops) {
    Exchange exchange = ask_until_it_answers(url, request, room);
    const HttpReply& reply = exchange.reply;
    if (url.origin() == hub_.origin() && !reply.commit().empty()) answer.commit = reply.commit();
    if (exchange.is_whole() && is_redirect(reply.status())) {
      url = redirected(url, exchange);
      continue;
    }
    bool good = exchange.is_whole() && (reply.status() == 200 || reply.status() == 206) &&
                (request.whole || reply.received() == reply.expected());
    if (!good) fail(url, exchange);
    answer.version = reply.version();
    answer.received = reply.received();
    answer.next = reply.next();
    answer.located = std::move(url);
    return answer;
  }
  throw Error(ErrorCode::io,
              "the server leads from address to address, more than " + std::to_string(kMostRedirects) + " times");
}

HttpAnswer HttpClient::get_part(const Url& url, std::uint64_t offset, MutableBytes room,
                                const std::optional<FileVersion>& version) {
  return get(url, {.offset = offset, .whole = false, .version = version}, room);
}

HttpText HttpClient::get_text(const Url& url, std::uint64_t limit) {
  core::ByteVector room(limit);
  HttpAnswer answer = get(url, {.offset = 0, .whole = true, .version = {}}, room);
  return {std::string(core::as_text(Bytes(room).first(answer.received))), std::move(answer.next)};
}

void HttpClient::fail(const Url& url, const Exchange& exchange) const {
  const HttpReply& reply = exchange.reply;
  if (reply.changed()) throw Error(ErrorCode::io, "the file was changed on the server while it was being read");
  if (!reply.fault().empty()) {
    bool no_parts = reply.status() == 200;
    throw HttpError(no_parts ? ErrorCode::unsupported : ErrorCode::io, place_of(url) + " " + reply.fault(),
                    reply.status());
  }
  if (!exchange.is_whole()) fail_to_reach(url, exchange);
  if (reply.status() == 200 || reply.status() == 206) {
    throw Error(ErrorCode::io, place_of(url) + " sent " + core::format_count(reply.received()) + " of the " +
                                   core::format_count(reply.expected()) + " bytes that it announced");
  }
  fail_by_status(url, reply.status());
}

void HttpClient::fail_to_reach(const Url& url, const Exchange& exchange) const {
  std::string place = place_of(url);
  auto say = [&](const std::string& text) { throw Error(ErrorCode::io, text); };
  switch (exchange.code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      say("the host " + core::quote(url.host, 80) + " is not known; is the name right, and this machine online?");
      break;
    case CURLE_COULDNT_RESOLVE_PROXY:
      say("the proxy that the environment names (https_proxy) is not known");
      break;
    case CURLE_COULDNT_CONNECT:
      say("no server answers at " + place);
      break;
    case CURLE_OPERATION_TIMEDOUT:
      say(place + " is too slow: " + core::format_count(exchange.reply.received()) +
          " bytes came, then less than 1 KiB "
          "a second for " +
          std::to_string(options_.stall_seconds) + " seconds");
      break;
    case CURLE_PEER_FAILED_VERIFICATION:
      say("the certificate of " + place + " is not trusted (" + core::printable(exchange.detail.data()) +
          "); of a server of your own, name the certificate with " + options_.ca_file_name);
      break;
    case CURLE_SSL_CACERT_BADFILE:
      say("the certificates in " + core::quote(options_.ca_file.string()) + " cannot be read");
      break;
    case CURLE_SSL_CONNECT_ERROR:
      say(place + " makes no safe connection; TLS 1.2 or later is needed");
      break;
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      say("the connection to " + place + " broke after " + core::format_count(exchange.reply.received()) + " of " +
          core::format_count(exchange.reply.expected()) + " bytes, each of " + std::to_string(options_.retries + 1) +
          " times");
      break;
    default:
      say(place + " cannot be read (libcurl's error " + std::to_string(static_cast<int>(exchange.code)) + ")");
  }
  throw Error(ErrorCode::internal, "unreachable");
}

void HttpClient::fail_by_status(const Url& url, int status) const {
  std::string place = place_of(url);
  std::string number = " (status " + std::to_string(status) + ")";
  bool at_hub = url.origin() == hub_.origin();
  std::string text = place + " answers with an error" + number;
  if (status == 401 || status == 403) {
    text = place + " does not give this file to everybody" + number;
    if (at_hub && token_.empty()) text += "; set HF_TOKEN to a token that may read it";
    if (at_hub && !token_.empty()) text += ", nor for the token that was sent (HF_TOKEN)";
  }
  if (status == 404 || status == 410) text = place + " has no such file" + number;
  if (status == 416) text = "the file has fewer bytes on the server than it had" + number;
  if (is_passing(status))
    text = place + " is out of order or busy" + number + ", each of " + std::to_string(options_.retries + 1) + " times";
  throw HttpError(ErrorCode::io, text, status);
}

}  // namespace ckpt::detail
