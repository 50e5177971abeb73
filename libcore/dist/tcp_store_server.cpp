#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/dist/detail/blocked_signal.h"
#include "libcore/dist/tcp_store.h"

namespace core::distributed {

/// The thread's part: sockets, and the service behind them.
struct TcpStoreServer::Loop {
  static constexpr std::size_t kOwedByOne = std::size_t{64} << 10;
  static constexpr std::size_t kOwedByAll = std::size_t{24} << 20;

  struct Client {
    Socket socket;
    std::string output;  // taken from the service, not sent yet
    StoreService::Id id = 0;
  };

  Socket listener;
  Socket end_here;   // the thread's end of a pipe
  Socket end_there;  // closing it ends the thread, a byte tells it to listen no more
  std::atomic<bool> listens = true;
  StoreService service;
  std::map<StoreService::Id, Client> clients;
  std::size_t owed = 0;  // bytes of all outputs

  Loop(const Options& options)
      : listener(Socket::listen(options.port, options.loopback_alone)), service(options.limits) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(ErrorCode::io, "the store's server cannot make a pipe");
    end_here = Socket(ends[0]);
    end_there = Socket(ends[1]);
  }

  std::vector<pollfd> all_waited_for() const {
    std::vector<pollfd> all{{end_here.fd(), POLLIN, 0}, {listener.fd(), POLLIN, 0}};
    for (const auto& [id, client] : clients) {
      // Whoever does not take answers is not read from, so that answers do not pile up.
      const bool owes = client.output.size() > kOwedByOne || owed > kOwedByAll;
      const int events = (owes ? 0 : POLLIN) | (client.output.empty() ? 0 : POLLOUT);
      all.push_back({client.socket.fd(), static_cast<short>(events), 0});
    }
    return all;
  }

  void run() {
    while (true) {
      std::vector<pollfd> all = all_waited_for();
      std::vector<StoreService::Id> ids;
      for (const auto& [id, client] : clients) ids.push_back(id);
      if (::poll(all.data(), all.size(), -1) < 0) continue;
      if (all[0].revents != 0 && !obey()) return;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const short events = all[i + 2].revents;
        if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && !read(ids[i])) hang_up(ids[i]);
        if ((events & POLLOUT) != 0) send(ids[i]);
        for (const StoreService::Id id : service.take_clients_with_output()) send(id);
      }
      if (listens && all[1].revents != 0) accept();
    }
  }

  /// False: the thread ends.
  bool obey() {
    char byte = 0;
    if (::read(end_here.fd(), &byte, 1) != 1) return false;
    listener.close();
    listens = false;
    listens.notify_all();
    return true;
  }

  void accept() {
    Socket socket = listener.accept();
    if (!socket.is_open()) {
      // No descriptor is left: the client waits until one is, this thread does not spin.
      ::poll(nullptr, 0, 10);
      return;
    }
    const StoreService::Id id = service.open();
    clients.emplace(id, Client{std::move(socket), {}, id});
  }

  bool read(StoreService::Id id) {
    const auto found = clients.find(id);
    if (found == clients.end()) return true;
    char bytes[65536];
    const std::ptrdiff_t n = found->second.socket.receive_some(bytes, sizeof bytes);
    if (n <= 0) return n == 0;
    return service.receive(id, std::string_view(bytes, static_cast<std::size_t>(n)));
  }

  void send(StoreService::Id id) {
    const auto found = clients.find(id);
    if (found == clients.end()) return;
    Client& client = found->second;
    const std::string fresh = service.take_output(id);
    client.output += fresh;
    owed += fresh.size();
    const std::ptrdiff_t n = client.output.empty() ? 0 : client.socket.send_some(client.output);
    if (n < 0) return hang_up(id);
    client.output.erase(0, static_cast<std::size_t>(n));
    owed -= static_cast<std::size_t>(n);
  }

  void hang_up(StoreService::Id id) {
    service.close(id);
    const auto found = clients.find(id);
    if (found == clients.end()) return;
    owed -= found->second.output.size();
    clients.erase(found);
  }
};

TcpStoreServer::TcpStoreServer(const Options& options)
    : loop_(std::make_unique<Loop>(options)), port_(loop_->listener.local_port()) {
  const detail::BlockedSignal none;  // they are for the program's own threads
  thread_ = std::thread([loop = loop_.get()] { loop->run(); });
}

void TcpStoreServer::stop_listening() {
  const char byte = 0;
  if (!loop_->listens || ::write(loop_->end_there.fd(), &byte, 1) != 1) return;
  loop_->listens.wait(true);
}

TcpStoreServer::~TcpStoreServer() {
  loop_->end_there.close();
  thread_.join();
}

}  // namespace core::distributed
