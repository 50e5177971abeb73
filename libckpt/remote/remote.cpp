#include "libckpt/remote/remote.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "libckpt/io/parallel_io.h"
#include "libckpt/io/remote_name.h"
#include "libckpt/remote/hub.h"
#include "libckpt/remote/remote_file.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::ptrdiff_t kMostAtOnce = 64;      ///< files whose fronts are asked for together
constexpr std::uint64_t kMostListed = 4 << 20;  ///< bytes of a page of the hub's list of a folder
constexpr int kMostPages = 100;

/// The folder of an address: one of them is asked for each usual name of a model.
bool is_web_folder(const std::string& name) {
  return name.ends_with('/');
}

class Opener final : public RemoteOpener {
 public:
  explicit Opener(RemoteOptions options)
      : options_(std::move(options)), shared_(std::make_shared<RemoteShared>(options_)) {}

  SourcePtr open(const std::string& name) override {
    if (std::shared_ptr<const RemoteFile> file = take_prepared(name)) return file;
    std::vector<std::string> batch = expected_from(name);
    if (batch.size() < 2) return fetch(name);
    parallel_for(batch.size(), std::max(1U, options_.in_flight), [&](std::size_t i) {
      std::shared_ptr<const RemoteFile> file =
          core::with_context(shown_name(batch[i]), [&] { return fetch(batch[i]); });
      std::lock_guard lock(mutex_);
      prepared_[batch[i]] = std::move(file);
    });
    return take_prepared(name);
  }

  void expect(const std::vector<std::string>& names) override {
    std::lock_guard lock(mutex_);
    expected_ = names;
  }

  std::string file_of_folder(const std::string& name) override {
    if (is_hub_name(name)) {
      HubName hub = parse_hub_name(name);
      return hub.is_folder() ? hub.name_of(model_of(hub)) : name;
    }
    if (!is_web_folder(name)) return name;
    require_no_password(name);
    return name + model_at(name);
  }

  std::uint64_t size_opened(const std::string& name) override {
    std::lock_guard lock(mutex_);
    std::uint64_t sum = 0;
    for (const auto& [file, size] : sizes_) {
      bool below = file.starts_with(name) && (name.ends_with('/') || file[name.size()] == '/');
      if (file == name || below) sum += size;
    }
    return sum;
  }

  RemoteTraffic traffic() {
    std::lock_guard lock(mutex_);
    return client_ == nullptr ? RemoteTraffic() : client_->traffic();
  }

 private:
  static void require_no_password(const std::string& name) { parse_url(name); }

  std::shared_ptr<HttpClient> client() {
    std::lock_guard lock(mutex_);
    if (client_ == nullptr) client_ = std::make_shared<HttpClient>(options_, hub_of(options_.hub), hub_token());
    return client_;
  }

  /// Of a branch that moves, all files are read as of the commit at which the first was found.
  std::string revision_of(const HubName& name) {
    std::lock_guard lock(mutex_);
    auto known = commits_.find(name.repository + "@" + name.revision);
    return known == commits_.end() ? name.revision : known->second;
  }

  std::shared_ptr<const RemoteFile> fetch(const std::string& name) {
    std::shared_ptr<const RemoteFile> file;
    if (is_hub_name(name)) {
      HubName hub = parse_hub_name(name);
      auto web = client();
      file = std::make_shared<RemoteFile>(web, shared_, file_url(web->hub(), hub, revision_of(hub)));
      std::lock_guard lock(mutex_);
      if (!file->commit().empty()) commits_.emplace(hub.repository + "@" + hub.revision, file->commit());
    } else {
      Url url = parse_url(name);
      file = std::make_shared<RemoteFile>(client(), shared_, url);
    }
    std::lock_guard lock(mutex_);
    sizes_[name] = file->size();
    return file;
  }

  /// The file and those that will be opened next, no more than what is kept of them all has room for.
  std::vector<std::string> expected_from(const std::string& name) {
    std::lock_guard lock(mutex_);
    auto at = std::ranges::find(expected_, name);
    auto count = std::min<std::ptrdiff_t>(kMostAtOnce, expected_.end() - at);
    return {at, at + count};
  }

  std::shared_ptr<const RemoteFile> take_prepared(const std::string& name) {
    std::lock_guard lock(mutex_);
    auto found = prepared_.find(name);
    if (found == prepared_.end()) return nullptr;
    std::shared_ptr<const RemoteFile> file = std::move(found->second);
    prepared_.erase(found);
    return file;
  }

  std::string model_of(const HubName& hub) {
    auto web = client();
    std::vector<std::string> files;
    Url page = list_url(web->hub(), hub, revision_of(hub));
    for (int count = 0; count < kMostPages; ++count) {
      HttpText answer = web->get_text(page, kMostListed);
      for (std::string& file : files_in_list(answer.text)) files.push_back(std::move(file));
      if (answer.next.empty()) return model_among(files);
      page = next_page(page, answer.next);
    }
    throw Error(ErrorCode::refused,
                "the hub's list of files has more than " + std::to_string(kMostPages) + " pages; name the file");
  }

  /// A hub sends a thousand files at a time. The token goes with the next request, so it stays at that server.
  static Url next_page(const Url& page, const std::string& address) {
    Url next = address.starts_with('/') ? parse_url(page.origin() + address) : parse_url(address);
    if (next.origin() == page.origin()) return next;
    throw Error(ErrorCode::corrupt, "the hub's list of files goes on at another server");
  }

  /// A web server lists no folder in a form that could be relied on, so each usual name is asked for.
  std::string model_at(const std::string& folder) {
    for (const std::string& name : usual_models()) {
      try {
        std::shared_ptr<const RemoteFile> file = fetch(folder + name);
        std::lock_guard lock(mutex_);
        prepared_[folder + name] = std::move(file);
        return name;
      } catch (const HttpError& error) {
        // 403: stores that do not say what is there
        if (error.status() != 403 && error.status() != 404 && error.status() != 410) throw;
      }
    }
    throw Error(ErrorCode::unsupported,
                "no file there has a usual name of a model (model.safetensors, "
                "model.safetensors.index.json, pytorch_model.bin, .metadata, ...); name the file");
  }

  RemoteOptions options_;
  std::shared_ptr<RemoteShared> shared_;
  std::mutex mutex_;
  std::shared_ptr<HttpClient> client_;
  std::vector<std::string> expected_;
  std::map<std::string, std::shared_ptr<const RemoteFile>> prepared_;
  std::map<std::string, std::string> commits_;
  std::map<std::string, std::uint64_t> sizes_;
};

std::shared_ptr<Opener>& current() {
  static std::shared_ptr<Opener> opener;
  return opener;
}

}  // namespace
}  // namespace detail

void enable_remote_files(RemoteOptions options) {
  detail::current() = std::make_shared<detail::Opener>(std::move(options));
  detail::install_remote_opener(detail::current());
}

RemoteTraffic remote_traffic() {
  return detail::current() == nullptr ? RemoteTraffic() : detail::current()->traffic();
}

}  // namespace ckpt
