#pragma once
// HttpReply: one answer of a web server while it comes in. Its headers are judged before the first byte of its body is
// taken, so a server that sends the whole file, another one, or more than it was asked for is cut off at once.
// Thread safety: one owner. Use: HttpReply reply(request, out); reply.header(line); reply.body(bytes);

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

/// What tells one state of a file on a server from the next.
struct FileVersion {
  std::uint64_t size = 0;
  std::string etag;
  std::string modified;  ///< the date as the server writes it

  /// What If-Range may carry; "" when the server gives nothing that is certain.
  std::string condition() const { return !etag.empty() && !etag.starts_with("W/") ? etag : modified; }
};

struct HttpRequest {
  std::uint64_t offset = 0;            ///< of the range that is wanted; its length is that of the room for it
  bool whole = false;                  ///< a whole answer of any length up to the room is wanted, no range
  std::optional<FileVersion> version;  ///< of the file as it was found at first
};

class HttpReply {
 public:
  HttpReply(const HttpRequest& request, MutableBytes room) : request_(request), room_(room) {}

  /// One line, or the empty one behind the last. False: the answer is of no use, see fault().
  bool header(std::string_view line);
  /// False: enough of it, or more than was announced.
  bool body(Bytes bytes);

  int status() const { return status_; }
  /// Bytes that were asked for.
  std::uint64_t room() const { return room_.size(); }
  /// "" or what is wrong with the answer, as a sentence about "the server".
  const std::string& fault() const { return fault_; }
  bool changed() const { return changed_; }
  /// Wanted bytes that came, and that were announced.
  std::uint64_t received() const { return received_; }
  std::uint64_t expected() const { return expected_; }
  const FileVersion& version() const { return version_; }
  /// The revision that a model hub names for the file, "" for none.
  const std::string& commit() const { return commit_; }
  /// Where a list goes on, by its Link header; "" where it ends.
  const std::string& next() const { return next_; }

 private:
  void begin(std::string_view status_line);
  void keep(std::string_view name, std::string_view value);
  bool judge();
  bool judge_part();
  bool judge_whole();
  bool fail(std::string why) {
    fault_ = std::move(why);
    return false;
  }

  const HttpRequest& request_;
  MutableBytes room_;
  int status_ = 0;
  std::uint64_t header_bytes_ = 0;
  std::string range_;
  std::string encoding_;
  std::optional<std::uint64_t> length_;
  FileVersion version_;
  std::string commit_;
  std::string next_;
  std::string fault_;
  bool changed_ = false;
  bool taking_ = false;  ///< the body is wanted
  std::uint64_t expected_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace ckpt::detail
