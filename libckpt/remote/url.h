#pragma once
// Url: the address of a file on a web server, taken apart and checked before anybody is asked. Thread safety: plain
// values. Use: Url url = parse_url("https://host/net.safetensors");

#include <string>
#include <string_view>

namespace ckpt::detail {

struct Url {
  std::string scheme;  ///< "https" or "http"
  std::string host;    ///< in lower case; [::1] with its brackets
  std::string port;    ///< "443" also where it was not written
  std::string target;  ///< path and query, from the '/' on, with everything odd as %XX

  std::string text() const { return origin() + target; }
  /// "https://host:443": two addresses of one origin are answered by the same server.
  std::string origin() const { return scheme + "://" + host + ":" + port; }
};

/// Errors: Error(usage) for text that is no address, one with a user or password (which is not repeated), control
/// characters, a bad port; Error(unsupported) for schemes other than https and http.
Url parse_url(std::string_view text);

/// True for an address of this machine: localhost, 127.x.x.x, [::1].
bool is_loopback(const Url& url);

}  // namespace ckpt::detail
