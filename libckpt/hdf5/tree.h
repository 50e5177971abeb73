#pragma once
// The structure of an HDF5 file as the helper program tells it, checked: groups, links, datasets with the place of
// every byte. Nothing of it is trusted: ranges lie inside the file, products fit, numbers refer to what is there.
// Thread safety: plain values once built. Use: Hdf5Tree tree = walk_hdf5(file, {.limits = options.limits});

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/hdf5/wire.h"
#include "libckpt/hint.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/limits.h"
#include "libcore/base/dtype.h"
#include "libcore/base/error.h"

namespace ckpt {

struct Hdf5Attribute {
  std::string name;
  detail::AttributeKind kind = detail::kAttributeOther;
  bool is_list = false;                 ///< an array, whatever its length
  std::vector<std::string> texts;       ///< of texts; for kAttributeOther one that says what it is
  std::vector<std::int64_t> integers;   ///< of integers and booleans
  std::vector<std::uint64_t> naturals;  ///< of unsigned integers
  std::vector<double> reals;
};

struct Hdf5Filter {
  std::uint32_t id = 0;  ///< 1 deflate, 2 shuffle, 3 fletcher32, 32000 lzf, 32015 zstd, ...
  std::vector<std::uint32_t> values;
};

struct Hdf5Chunk {
  std::uint64_t number = 0;   ///< place in the grid of chunks, in row-major order
  std::uint64_t offset = 0;   ///< in the file
  std::uint64_t stored = 0;   ///< bytes in the file
  std::uint32_t skipped = 0;  ///< bit i: filter i was not applied
};

struct Hdf5Dataset {
  std::string path;                  ///< the first that leads to it, for messages: "net/w"; its end where it is long
  std::optional<core::DType> dtype;  ///< none when the elements are no numbers of ours
  std::string type;                  ///< for a person: "a compound of 3 members"
  bool opaque16 = false;             ///< two opaque bytes: Keras' bfloat16, when an attribute says so
  bool is_enum = false;
  bool big_endian = false;
  std::uint64_t width = 0;  ///< bytes of an element
  bool has_space = true;    ///< false: no elements and no shape
  std::vector<std::uint64_t> dims;
  std::uint64_t size = 0;  ///< logical bytes
  core::ByteVector fill;   ///< one element as it stands in the file; empty means zeros
  detail::LayoutKind layout = detail::kLayoutNone;
  std::string outside;               ///< what of it lies in other files
  core::ByteVector compact;          ///< bytes of a compact dataset
  std::uint64_t offset = 0;          ///< of a contiguous one, in the file
  std::vector<std::uint64_t> chunk;  ///< sizes of a chunk in elements
  std::vector<Hdf5Filter> filters;   ///< in the order of writing
  std::vector<Hdf5Chunk> chunks;     ///< those that are stored, by number
  std::vector<Hdf5Attribute> attributes;

  bool is_tensor() const { return has_space && (dtype || opaque16); }
  std::uint64_t chunk_bytes() const;
  std::uint64_t stored_bytes() const;
};

struct Hdf5Link {
  std::string name;
  detail::LinkKind kind = detail::kLinkOther;
  std::uint32_t object = 0;  ///< of hard links: index into objects
  std::string value;         ///< of soft links: the path they hold
};

/// A group or a dataset.
struct Hdf5Object {
  std::optional<Hdf5Dataset> dataset;     ///< none for a group
  bool in_order = false;                  ///< links come in the order in which they were made
  std::vector<Hdf5Link> links;            ///< of a group
  std::vector<Hdf5Attribute> attributes;  ///< of a group
};

struct Hdf5Tree {
  std::vector<Hdf5Object> objects;  ///< the root group is number 0; parents stand before their children
  std::uint64_t user_block = 0;     ///< bytes before the HDF5 part
  std::uint64_t end = 0;            ///< of the HDF5 part, as its superblock says
  std::uint64_t unused = 0;         ///< bytes before the end that belong to nothing; 0 where it was not asked for
  std::uint8_t layers = 0;          ///< of the sandbox that held while it was read (detail::SandboxLayer)
};

/// Null when there is none of this name.
const Hdf5Attribute* find_attribute(const std::vector<Hdf5Attribute>& attributes, std::string_view name);

struct WalkOptions {
  Limits limits = {};
  bool unsandboxed = false;  ///< read it also where the system does not let the helper be confined
  bool measure = false;      ///< also count the bytes that belong to nothing (Hdf5Tree::unused)
};

/// The Error(refused) of walk_hdf5() where the system does not let the helper be confined; names the missing layers.
class UnconfinedHelper : public HintedError {
 public:
  explicit UnconfinedHelper(std::uint8_t layers);
};

/// One sentence for every layer of the sandbox that did not hold.
std::vector<std::string> unconfined_warnings(std::uint8_t layers);

/// Lets the helper program walk through `file`. Errors: those of run_hdf5_helper; Error(corrupt) with libhdf5's reason
/// for a file that it cannot read; Error(refused) for groups in circles, bombs and other limits; UnconfinedHelper.
Hdf5Tree walk_hdf5(const ByteSource& file, const WalkOptions& options);

namespace detail {
/// Checks an answer. `file_size` bounds every range.
Hdf5Tree parse_walk(core::Bytes answer, std::uint64_t file_size, const Limits& limits);
}  // namespace detail

}  // namespace ckpt
