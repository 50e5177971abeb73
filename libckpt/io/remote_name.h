#pragma once
// Names of files on other machines ("https://host/net.safetensors", "hf://org/repo") beside those of the file system,
// and who opens them: nobody, until ckpt::enable_remote_files() (libckpt/remote) installs an opener. This seam keeps
// formats free of networks. Thread safety: any thread; install an opener before others open files.
// Use: SourcePtr file = is_remote_name(path) ? detail::remote_opener().open(path) : open_file(path);

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libckpt/io/byte_source.h"

namespace ckpt {

/// True for "scheme://...", whatever the scheme. Looks at the name only: neither at the disk nor at a network.
bool is_remote_name(const std::filesystem::path& name);
/// True for "scheme://user:password@host/..."; such a name is refused, and better not repeated in a message.
bool has_password(const std::filesystem::path& name);
/// The name for messages: as it is, but for user and password.
std::string shown_name(const std::filesystem::path& name);

namespace detail {

class RemoteOpener {
 public:
  virtual ~RemoteOpener() = default;
  /// Errors: Error(usage) for a name that is no address; Error(unsupported) for a scheme or a server that cannot be
  /// read in parts; Error(io) from the network.
  virtual SourcePtr open(const std::string& name) = 0;
  /// These will be opened one after the other: the first open() asks for many of them at once.
  virtual void expect(const std::vector<std::string>& names) = 0;
  /// The name itself for one file; of a folder that of the file in it that is or describes a model.
  virtual std::string file_of_folder(const std::string& name) = 0;
  /// Sizes, in bytes, of all files opened so far whose names are `name` or begin with it and a '/'.
  virtual std::uint64_t size_opened(const std::string& name) = 0;
};

void install_remote_opener(std::shared_ptr<RemoteOpener> opener);
/// Error(unsupported) when none is installed.
RemoteOpener& remote_opener();

/// The name of the file `name` beside the others of `folder`, as an index names it. Errors: Error(refused) for one that
/// leads elsewhere.
std::string remote_sibling(const std::filesystem::path& folder, const std::string& name);

/// A source each read of which may cost a round trip: what reads many headers for a check asks for none of them.
class FarSource : public ByteSource {};
/// The far source that `source` is, or is a part of; null for others.
const ByteSource* far_file(const ByteSource& source);
inline bool is_far(const ByteSource& source) {
  return far_file(source) != nullptr;
}
/// `size` bytes that `open` gives when the first of them is read. Errors: those of `open`, from read(); Error(corrupt)
/// when it gives another number of bytes.
SourcePtr opened_when_read(std::uint64_t size, std::function<SourcePtr()> open);

}  // namespace detail
}  // namespace ckpt
