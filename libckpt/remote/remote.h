#pragma once
// Checkpoints on other machines: once remote files are enabled, ckpt::open() takes "https://host/net.safetensors" and
// "hf://org/repo[@revision][/file]", a folder, or the index of a model of several files there. Only what is asked for
// is fetched, by range requests; nothing is ever written. libcurl is opened at the first request, so programs need not
// link it. Thread safety: enable before other threads open files; the files may then be read by many threads. Use:
// ckpt::enable_remote_files(); ckpt::Checkpoint c = ckpt::open("hf://org/repo");

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ckpt {

struct RemoteOptions {
  bool insecure_http = false;            ///< also http:// to other machines; to this machine it is always allowed
  std::filesystem::path ca_file = {};    ///< certificates (PEM) to trust in place of the system's
  unsigned in_flight = 8;                ///< requests at the same time, of all files together
  std::uint64_t max_memory = 128 << 20;  ///< bytes: half for what is kept, half for what is on its way
  unsigned connect_seconds = 20;         ///< until a connection must stand
  unsigned stall_seconds = 30;           ///< without 1 KiB a second on average
  unsigned retries = 3;                  ///< after an answer such as 503, or a connection that broke
  unsigned backoff_ms = 500;             ///< before the first retry; doubled each time
  unsigned longest_wait_seconds = 60;    ///< that a server may ask for (Retry-After)
  std::string hub = {};                  ///< where hf:// leads; "" is $HF_ENDPOINT, else https://huggingface.co
  /// What the program calls insecure_http and ca_file, for errors.
  std::string insecure_http_name = "RemoteOptions::insecure_http";
  std::string ca_file_name = "RemoteOptions::ca_file";
  std::vector<std::string> libraries = {"libcurl.so.4", "libcurl-gnutls.so.4"};  ///< the first that opens is used
};

/// From here on open() and open_file() take addresses. A second call replaces the options. The token for the hub is
/// that of $HF_TOKEN, else of the file token in $HF_HOME (~/.cache/huggingface); it is sent to the hub's host alone.
/// Errors: none here. Reading: Error(usage) for an address that is none, or has a password in it; Error(unsupported)
/// for other schemes, a server that cannot send parts of a file, and when there is no libcurl; Error(io) from the
/// network, also for a file that changed since it was opened.
void enable_remote_files(RemoteOptions options = {});

/// What was asked for since remote files were enabled, redirects and repetitions included.
struct RemoteTraffic {
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;  ///< of bodies
};
RemoteTraffic remote_traffic();

}  // namespace ckpt
