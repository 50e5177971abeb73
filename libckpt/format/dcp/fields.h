#pragma once
// Attributes of the objects in a `.metadata`, checked as they are taken. All errors are Error(corrupt) and name the
// class, the attribute and what stands there. Thread safety: immutable. Use: DcpFields(graph, id,
// "_StorageInfo").count("offset")

#include <cstdint>
#include <string>
#include <string_view>

#include "libckpt/format/torch/pickle_graph.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

/// The last part of a class's name: modules were moved about between versions. "" for what is none of DCP's.
std::string_view dcp_class(const PickleGraph& graph, NodeId id);

class DcpFields {
 public:
  DcpFields(const PickleGraph& graph, NodeId object, std::string_view wanted);

  /// kNoNode when it is not there: attributes that are None may be left out.
  NodeId find(std::string_view name) const;
  NodeId at(std::string_view name, NodeKind kind) const;
  /// A torch.Size, none of them negative.
  core::Shape sizes(std::string_view name) const;
  std::uint64_t count(std::string_view name) const;

 private:
  [[noreturn]] void wrong(std::string_view name, NodeId id) const;

  const PickleGraph& graph_;
  std::string_view class_;
  NodeId state_ = kNoNode;
};

}  // namespace ckpt::detail
