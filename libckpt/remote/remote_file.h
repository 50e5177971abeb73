#pragma once
// RemoteFile: the bytes of one file on a web server as a ByteSource. The first 256 KiB and the size come with one
// request; after that the bytes that are read are fetched, and more behind them the longer somebody reads on, so that a
// header costs few round trips and a tensor few bytes beside its own. Each answer must be of the file that was opened.
// Thread safety: any thread may read. Use: auto file = std::make_shared<RemoteFile>(client, shared, url);

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "libckpt/io/remote_name.h"
#include "libckpt/remote/block_cache.h"
#include "libckpt/remote/http_client.h"

namespace ckpt::detail {

/// What all remote files share.
struct RemoteShared {
  explicit RemoteShared(const RemoteOptions& options)
      : cache(options.max_memory / 2), on_the_way(options.max_memory / 2) {}
  BlockCache cache;
  RoomLimit on_the_way;
};

class RemoteFile final : public FarSource {
 public:
  /// Asks for the front of the file. Errors: those of HttpClient::get_part().
  RemoteFile(std::shared_ptr<HttpClient> client, std::shared_ptr<RemoteShared> shared, Url url);
  ~RemoteFile() override;

  std::uint64_t size() const override { return version_.size; }
  void read(std::uint64_t offset, MutableBytes out) const override;
  /// Nothing is left to ask: each read has compared the version.
  void require_unchanged() const override {}
  /// The revision of the hub from which the file came, "" for none.
  const std::string& commit() const { return commit_; }

 private:
  void open_front();
  bool open_whole();

  struct Part {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint64_t end() const { return offset + length; }
  };
  /// Somebody who reads on and on.
  struct Reader {
    std::uint64_t end = 0;    ///< of what was fetched for him
    std::uint64_t bytes = 0;  ///< that were
  };
  class OnTheWay;

  Part plan(std::uint64_t offset, std::uint64_t wanted) const;
  bool comes_already(std::uint64_t offset) const;
  void fetch_into_cache(std::uint64_t offset, std::uint64_t wanted) const;
  void fetch(std::uint64_t offset, MutableBytes out) const;
  void fetch_piece(std::uint64_t offset, MutableBytes out) const;

  std::shared_ptr<HttpClient> client_;
  std::shared_ptr<RemoteShared> shared_;
  Url url_;
  FileVersion version_;
  std::string commit_;
  core::ByteVector whole_;  ///< of a small text from a server that sends no parts
  mutable std::mutex mutex_;
  mutable std::condition_variable arrived_;
  mutable Url located_;                  ///< where the bytes were found last
  mutable std::vector<Reader> readers_;  ///< the last one first
  mutable std::vector<Part> on_the_way_;
};

}  // namespace ckpt::detail
