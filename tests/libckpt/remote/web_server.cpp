#include "tests/libckpt/remote/web_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "tests/support/free_port.h"

namespace test {
namespace {

namespace fs = std::filesystem;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int listen_on(int port) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(port);
  bool listens =
      fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && ::listen(fd, 64) == 0;
  if (!listens) throw std::runtime_error("cannot listen on loopback");
  return fd;
}

int port_of(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

bool answers(int port) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(port);
  bool there = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return there;
}

void make_certificate(const fs::path& folder) {
  std::string command = "cd '" + folder.string() +
                        "' && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
                        "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout key.pem -out "
                        "cert.pem >/dev/null 2>&1";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("openssl makes no certificate; is it installed?");
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

}  // namespace

std::string Nginx::configuration() const {
  std::string text = R"(
daemon off; master_process off; pid DIR/nginx.pid; error_log DIR/error.log;
events { worker_connections 256; }
http {
  client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
  log_format seen '$request|$status|$body_bytes_sent|$http_authorization|$http_range';
  access_log DIR/access.log seen;
  server {
    listen 127.0.0.1:PORT; root ROOT;
    location /norange/ { alias ROOT/; max_ranges 0; }
    location /moved/ { return 302 http://127.0.0.2:OTHER$uri; }
    location /private/ { if ($http_authorization != "Bearer hf_test") { return 401; } alias ROOT/; }
    location /slow/ { alias ROOT/; limit_rate 100; }
    location /loop { return 302 /loop; }
    location /gone/ { return 404; }
    location /broken/ { return 500; }
    location /denied/ { return 403; }
    location /plain/ { return 302 file:///etc/passwd; }
    location /org/repo/resolve/ {
      add_header X-Repo-Commit 0123456789012345678901234567890123456789 always;
      return 302 http://127.0.0.2:OTHER$uri?Signature=hidden;
    }
    location /api/models/org/repo/tree/ { rewrite ^ /list.json break; }
  }
  server {
    listen 127.0.0.2:OTHER;
    location ~ ^/moved/(.*)$ { alias ROOT/$1; }
    location ~ ^/org/repo/resolve/[^/]*/(.*)$ { alias ROOT/$1; }
  }
  server {
    listen 127.0.0.1:TLS ssl; root ROOT;
    ssl_certificate DIR/cert.pem; ssl_certificate_key DIR/key.pem;
    location /down/ { return 302 http://127.0.0.1:PORT$uri; }
  }
}
)";
  text = replaced(text, "PORT", std::to_string(port_));
  text = replaced(text, "OTHER", std::to_string(other_port_));
  text = replaced(text, "TLS", std::to_string(tls_port_));
  text = replaced(text, "DIR", dir_.path().string());
  return replaced(text, "ROOT", root_.string());
}

Nginx::Nginx() : root_(dir_.path() / "root"), port_(free_port()), other_port_(free_port()), tls_port_(free_port()) {
  fs::create_directory(root_);
  make_certificate(dir_.path());
  std::string file = (dir_.path() / "nginx.conf").string();
  write_file(file, configuration());
  std::string path = std::string("/usr/sbin:") + (std::getenv("PATH") == nullptr ? "" : std::getenv("PATH"));
  std::string errors = (dir_.path() / "start.log").string();
  process_ = ::fork();
  if (process_ == 0) {
    ::setenv("PATH", path.c_str(), 1);
    int fd = ::open(errors.c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(fd, 2);
    ::execlp("nginx", "nginx", "-e", errors.c_str(), "-c", file.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  for (int i = 0; i < 500; ++i) {
    if (answers(port_) && answers(tls_port_)) return;
    if (::waitpid(process_, nullptr, WNOHANG) == process_) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  throw std::runtime_error("nginx does not start (Debian's package nginx-light): " + read_file(errors));
}

Nginx::~Nginx() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

std::string Nginx::url(const std::string& path) const {
  return "http://127.0.0.1:" + std::to_string(port_) + "/" + path;
}

std::string Nginx::elsewhere(const std::string& path) const {
  return "http://127.0.0.2:" + std::to_string(other_port_) + "/" + path;
}

std::string Nginx::https(const std::string& path) const {
  return "https://127.0.0.1:" + std::to_string(tls_port_) + "/" + path;
}

std::string Nginx::hub() const {
  return "http://127.0.0.1:" + std::to_string(port_);
}

std::vector<LoggedRequest> Nginx::requests(std::size_t least) const {
  std::vector<LoggedRequest> all;
  for (int i = 0; i < 100; ++i) {
    all.clear();
    std::istringstream log(read_file(dir_.path() / "access.log"));
    for (std::string line; std::getline(log, line);) {
      std::vector<std::string> fields;
      std::istringstream parts(line);
      for (std::string field; std::getline(parts, field, '|');) fields.push_back(field);
      fields.resize(5);
      if (fields[0].empty()) continue;  // a look whether somebody listens
      all.push_back({fields[0], fields[1], std::stoull(fields[2]), fields[3], fields[4]});
    }
    if (all.size() >= least) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return all;
}

void Nginx::forget_requests() {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (::truncate((dir_.path() / "access.log").c_str(), 0) != 0) throw std::runtime_error("cannot empty the log");
}

OddServer::OddServer(Answer answer) : answer_(std::move(answer)), listener_(listen_on(0)), port_(port_of(listener_)) {
  thread_ = std::thread([this] { serve(); });
}

OddServer::~OddServer() {
  over_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
}

std::string OddServer::url(const std::string& path) const {
  return "http://127.0.0.1:" + std::to_string(port_) + "/" + path;
}

void OddServer::serve() {
  while (!over_) {
    int connection = ::accept(listener_, nullptr, nullptr);
    if (connection >= 0) answer_one(connection);
  }
}

void OddServer::answer_one(int connection) {
  timeval briefly{.tv_sec = 0, .tv_usec = 50'000};  // a client may keep the connection for its next request
  ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &briefly, sizeof briefly);
  std::string request;
  char piece[4096];
  while (request.find("\r\n\r\n") == std::string::npos) {
    ssize_t n = ::recv(connection, piece, sizeof piece, 0);
    if (n <= 0) break;
    request.append(piece, static_cast<std::size_t>(n));
  }
  if (!request.empty()) {
    std::string text = answer_(request, asked_++);
    std::string_view rest = text;
    while (!rest.empty()) {
      ssize_t n = ::send(connection, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (n <= 0) break;
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
    ::shutdown(connection, SHUT_WR);
    while (::recv(connection, piece, sizeof piece, 0) > 0) continue;
  }
  ::close(connection);
}

std::string part(const std::string& body, std::uint64_t first, std::uint64_t size, const std::string& more) {
  return "HTTP/1.1 206 Partial Content\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nContent-Range: bytes " + std::to_string(first) + "-" + std::to_string(first + body.size() - 1) + "/" +
         std::to_string(size) + "\r\n" + more + "\r\n" + body;
}

}  // namespace test
