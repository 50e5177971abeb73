#include "libckpt/hdf5/helper/walker.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "libckpt/hdf5/helper/attributes.h"
#include "libckpt/hdf5/helper/dataset.h"
#include "libckpt/hdf5/helper/header_check.h"
#include "libckpt/hdf5/helper/space_count.h"
#include "libckpt/io/packed.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

/// Three times the longest key: each byte of it may be escaped.
constexpr std::size_t kMaxName = 3 * 65'535 + 64;

struct Link {
  std::string name;
  H5L_type_t type = H5L_TYPE_ERROR;
  haddr_t address = HADDR_UNDEF;  ///< of the object, for hard links
};

struct LinkList {
  std::vector<Link> links;
  std::uint64_t room = 0;
  bool too_many = false;
};

herr_t keep_link(hid_t /*group*/, const char* name, const H5L_info_t* info, void* data) {
  auto& list = *static_cast<LinkList*>(data);
  if (list.links.size() == list.room) {
    list.too_many = true;
    return 1;
  }
  try {
    list.links.push_back({name, info->type, info->type == H5L_TYPE_HARD ? info->u.address : HADDR_UNDEF});
    return 0;
  } catch (...) {
    return -1;
  }
}

struct OpenGroup {
  haddr_t address = HADDR_UNDEF;
  std::uint64_t number = 0;
  std::uint64_t depth = 0;
  std::string path;  ///< "/a/b", for messages
};

struct Known {
  std::uint64_t number = 0;
  bool is_group = false;
};

class Walker {
 public:
  Walker(ReadOnlyFile& file, const WalkLimits& limits, Reply& reply) : source_(file), limits_(limits), reply_(reply) {}

  void run() {
    reply_.stage("opening the file");
    file_ = Handle(H5Fopen("file", H5F_ACC_RDONLY, source_.access()), H5Fclose, "libhdf5 cannot open it");
    reply_.stage("reading the root group");
    H5O_info_t info{};
    require_hdf5(H5Oget_info2(file_.get(), &info, H5O_INFO_BASIC), "the root group");
    start_checks();
    require_good(info.addr, "/");
    if (limits_.measure) used_.add_file(file_.get());
    known_[info.addr] = {0, true};
    open_.push_back({info.addr, 0, 0, ""});
    while (!open_.empty()) {
      OpenGroup group = std::move(open_.back());
      open_.pop_back();
      visit(group);
    }
    finish();
  }

 private:
  void start_checks() {
    Handle list(H5Fget_create_plist(file_.get()), H5Pclose);
    require_hdf5(H5Pget_userblock(list.get(), &user_block_), "the user block");
    Hdf5Widths widths;
    require_hdf5(H5Pget_sizes(list.get(), &widths.address, &widths.size), "the width of addresses");
    check_.emplace(source_, user_block_, widths);
  }

  void require_good(haddr_t address, const std::string& path) {
    try {
      check_->require_good(address);
    } catch (Failure& failure) {
      failure.text = core::quote(path) + ": " + failure.text;
      throw;
    }
  }

  void finish() {
    reply_.begin(kFrameEnd);
    put_count(reply_.content(), user_block_);
    put_count(reply_.content(), next_);
    put_count(reply_.content(), source_.end);
    put_count(reply_.content(), unused());
    reply_.end();
    reply_.flush();
  }

  std::uint64_t unused() {
    std::optional<std::uint64_t> elsewhere = check_->elsewhere();
    if (!limits_.measure || !elsewhere || used_.attributes() != check_->attributes()) return 0;
    used_.add(user_block_);
    used_.add(*elsewhere);
    return source_.end > used_.bytes() ? source_.end - used_.bytes() : 0;
  }

  void visit(const OpenGroup& group) {
    if (group.number != 0) reply_.stage("reading the group " + group.path);
    Handle handle(H5Oopen_by_addr(file_.get(), group.address), H5Oclose, "a group");
    Handle made(H5Gget_create_plist(handle.get()), H5Pclose);
    if (limits_.measure) used_.add_object(handle.get());
    bool in_order = keeps_order(made.get());
    reply_.begin(kFrameGroup);
    put_count(reply_.content(), group.number);
    reply_.content().push_back(static_cast<std::byte>(in_order ? kGroupInOrder : 0));
    attributes_.put_all(handle.get(), made.get(), reply_.content());
    reply_.end();
    LinkList list;
    list.room = limits_.max_objects - links_;
    hsize_t at = 0;
    H5_index_t index = in_order ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
    require_hdf5(H5Literate(handle.get(), index, H5_ITER_INC, &at, keep_link, &list), "the links of a group");
    if (list.too_many) {
      throw Failure{kFailureRefused, "it has more than " + std::to_string(limits_.max_objects) + " links"};
    }
    links_ += list.links.size();
    for (const Link& link : list.links) follow(group, handle.get(), link);
  }

  static bool keeps_order(hid_t list) {
    unsigned flags = 0;
    require_hdf5(H5Pget_link_creation_order(list, &flags), "the order of links");
    return (flags & H5P_CRT_ORDER_TRACKED) != 0 && (flags & H5P_CRT_ORDER_INDEXED) != 0;
  }

  void follow(const OpenGroup& group, hid_t handle, const Link& link) {
    require_name(group, link.name);
    if (link.type == H5L_TYPE_HARD) return follow_hard(group, link);
    LinkKind kind = link.type == H5L_TYPE_SOFT ? kLinkSoft : kLinkOutside;
    begin_link(group, kind, 0, link.name);
    put_text(reply_.content(), kind == kLinkSoft ? soft_value(handle, link.name) : "");
    reply_.end();
  }

  static std::string soft_value(hid_t group, const std::string& name) {
    H5L_info_t info{};
    require_hdf5(H5Lget_info(group, name.c_str(), &info, H5P_DEFAULT), "a soft link");
    if (info.u.val_size > kMaxName) return "a long path";
    std::string value(info.u.val_size + 1, '\0');
    require_hdf5(H5Lget_val(group, name.c_str(), value.data(), value.size(), H5P_DEFAULT), "a soft link");
    return value.substr(0, value.find('\0'));
  }

  static void require_name(const OpenGroup& group, const std::string& name) {
    bool good = !name.empty() && name.size() <= kMaxName && core::is_utf8(name) && name.find('/') == std::string::npos;
    if (good && name != ".") return;
    throw Failure{kFailureRefused, "the group " + core::quote(group.path.empty() ? "/" : group.path) +
                                       " has a link with an impossible name: " + core::quote(name)};
  }

  void begin_link(const OpenGroup& group, LinkKind kind, std::uint64_t target, const std::string& name) {
    reply_.begin(kFrameLink);
    put_count(reply_.content(), group.number);
    reply_.content().push_back(static_cast<std::byte>(kind));
    put_count(reply_.content(), target);
    put_text(reply_.content(), name);
  }
  void put_link(const OpenGroup& group, LinkKind kind, std::uint64_t target, const std::string& name) {
    begin_link(group, kind, target, name);
    reply_.end();
  }

  void follow_hard(const OpenGroup& group, const Link& link) {
    std::string path = group.path + "/" + link.name;
    auto known = known_.find(link.address);
    if (known != known_.end()) {
      if (known->second.is_group) {
        throw Failure{kFailureRefused, "the group " + core::quote(path) +
                                           " was met before under another name: groups that contain themselves or have "
                                           "two parents are not followed"};
      }
      return put_link(group, kLinkKnown, known->second.number, link.name);
    }
    reply_.stage("opening " + path);
    require_good(link.address, path);
    Handle object(H5Oopen_by_addr(file_.get(), link.address), H5Oclose, "an object");
    H5I_type_t kind = H5Iget_type(object.get());
    if (kind == H5I_GROUP) return add_group(group, link, std::move(path));
    if (limits_.measure) used_.add_object(object.get());
    if (kind == H5I_DATASET) return add_dataset(group, link, object.get());
    put_link(group, kLinkOther, 0, link.name);
  }

  std::uint64_t take_number(haddr_t address, bool is_group) {
    known_[address] = {next_, is_group};
    return next_++;
  }

  void add_group(const OpenGroup& group, const Link& link, std::string path) {
    if (group.depth + 1 > limits_.max_depth) {
      throw Failure{kFailureRefused, "groups are nested deeper than " + std::to_string(limits_.max_depth) + " levels"};
    }
    std::uint64_t number = take_number(link.address, true);
    put_link(group, kLinkGroup, number, link.name);
    open_.push_back({link.address, number, group.depth + 1, std::move(path)});
  }

  void add_dataset(const OpenGroup& group, const Link& link, hid_t dataset) {
    std::uint64_t number = take_number(link.address, false);
    put_link(group, kLinkDataset, number, link.name);
    reply_.begin(kFrameDataset);
    put_count(reply_.content(), number);
    try {
      put_dataset(dataset, source_, reply_.content());
      Handle made(H5Dget_create_plist(dataset), H5Pclose);
      attributes_.put_all(dataset, made.get(), reply_.content());
      if (limits_.measure) used_.add_values(dataset, made.get());
    } catch (Failure& failure) {
      failure.text = core::quote(group.path + "/" + link.name) + ": " + failure.text;
      throw;
    }
    reply_.end();
  }

  ReadOnlyFile& source_;
  const WalkLimits& limits_;
  Reply& reply_;
  Handle file_;
  std::optional<HeaderCheck> check_;
  SpaceCount used_;
  AttributeWriter attributes_;
  std::vector<OpenGroup> open_;
  std::unordered_map<haddr_t, Known> known_;
  hsize_t user_block_ = 0;
  std::uint64_t next_ = 1;
  std::uint64_t links_ = 0;
};

}  // namespace

void walk(ReadOnlyFile& file, const WalkLimits& limits, Reply& reply) {
  Walker(file, limits, reply).run();
}

}  // namespace ckpt::detail
