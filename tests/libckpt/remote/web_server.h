#pragma once
// A real nginx on loopback with its own configuration in a temporary folder, for as long as the object lives; and a
// server of our own that gives whatever answer a test has in mind, true or not.
// Use: Nginx web; write_file(web.root() / "a.ckpt", ...); ckpt::open(web.url("a.ckpt"));

#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_dir.h"

namespace test {

/// What a server noted of one request.
struct LoggedRequest {
  std::string line;    ///< "GET /a.ckpt HTTP/1.1"
  std::string status;  ///< "206"
  std::uint64_t bytes = 0;
  std::string authorization;
  std::string range;
};

class Nginx {
 public:
  /// Throws std::runtime_error when nginx is not installed or does not start.
  Nginx();
  ~Nginx();
  Nginx(const Nginx&) = delete;
  Nginx& operator=(const Nginx&) = delete;

  /// The folder whose files it gives.
  const std::filesystem::path& root() const { return root_; }
  /// "http://127.0.0.1:PORT/" + path. Folders that behave in their own way, each with the files of root(): norange/,
  /// moved/ (to elsewhere()), private/ (token hf_test), slow/, gone/, broken/, denied/; loop leads to itself.
  std::string url(const std::string& path) const;
  /// The other address to which moved/ and the hub lead.
  std::string elsewhere(const std::string& path) const;
  std::string https(const std::string& path) const;
  /// The certificate of https(), which nobody else trusts.
  std::filesystem::path certificate() const { return dir_.path() / "cert.pem"; }
  /// A hub: org/repo/resolve/REVISION/FILE and api/models/org/repo/tree/REVISION (the file root()/list.json).
  std::string hub() const;

  /// All requests so far; `least` of them are waited for, as a log is written behind the answer.
  std::vector<LoggedRequest> requests(std::size_t least) const;
  void forget_requests();

 private:
  std::string configuration() const;

  TempDir dir_;
  std::filesystem::path root_;
  int port_ = 0;
  int other_port_ = 0;
  int tls_port_ = 0;
  pid_t process_ = -1;
};

/// Answers each connection with what `answer` makes of the request and its number, then closes it.
class OddServer {
 public:
  using Answer = std::function<std::string(const std::string& request, int number)>;
  explicit OddServer(Answer answer);
  ~OddServer();
  OddServer(const OddServer&) = delete;
  OddServer& operator=(const OddServer&) = delete;

  std::string url(const std::string& path) const;
  int asked() const { return asked_; }

 private:
  void serve();
  void answer_one(int connection);

  Answer answer_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> asked_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

/// A true answer with bytes `first` to `last` of a file of `size` bytes, and the headers `more` ("ETag: \"a\"\r\n").
std::string part(const std::string& body, std::uint64_t first, std::uint64_t size, const std::string& more = "");

}  // namespace test
